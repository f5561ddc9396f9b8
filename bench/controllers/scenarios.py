"""Which worlds are the controllers tried in? Providers, limits, bounds on in-flight, and how long each run lasts."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.controllers.providers import (
    Banning,
    DoublingPenalty,
    FixedWindow,
    Flawed,
    Latency,
    LatencyCollapse,
    NoLimit,
    Provider,
    SlidingWindow,
    TokenBucket,
)
from remora.core.rate.law import Answer
from remora.core.units import SECOND_NS

CEILING_FACTOR = 4.0
COLD_S = 40.0
SETTLING_REQUESTS = 2_000
MEASURED_REQUESTS = 10_000
LEVEL_REQUESTS = 6_000
TWO_BUNCHES_S = 0.02


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world: a model of a provider, its hidden limit, and how many requests may be unanswered."""

    name: str
    limit_per_s: float
    in_flight: int
    build: Callable[["Scenario", Random], Provider]
    ceiling_factor: float = CEILING_FACTOR
    requests: int = MEASURED_REQUESTS

    @property
    def ceiling_interval_ns(self) -> int:
        return int(SECOND_NS / (self.limit_per_s * self.ceiling_factor))

    @property
    def settled_ns(self) -> int:
        return int((COLD_S + SETTLING_REQUESTS / self.limit_per_s) * SECOND_NS)

    @property
    def until_ns(self) -> int:
        return self.settled_ns + int(self.requests / self.limit_per_s * SECOND_NS)

    def latency(self, chance: Random) -> Latency:
        """Half of one request's time when serial, three requests' time with more in flight; at most 300 ms."""
        requests = 0.5 if self.in_flight == 1 else 0.375 * self.in_flight
        return Latency(min(0.3, requests / self.limit_per_s) * SECOND_NS, chance)

    def provider(self, seed: int) -> Provider:
        return self.build(self, Random(f"{self.name}/{self.limit_per_s}/{seed}"))

    def request_times(self, count: float) -> int:
        """The time `count` requests take at the limit."""
        return int(count / self.limit_per_s * SECOND_NS)


def token_bucket(burst: int, *, retry_after: bool = False) -> Callable[[Scenario, Random], Provider]:
    def build(scenario: Scenario, chance: Random) -> Provider:
        return TokenBucket(scenario.limit_per_s, burst, scenario.latency(chance), says_retry_after=retry_after)

    return build


def window(
    kind: type[FixedWindow] | type[SlidingWindow], *, retry_after: bool = False, count: int = 100
) -> Callable[[Scenario, Random], Provider]:
    def build(scenario: Scenario, chance: Random) -> Provider:
        width_ns = scenario.request_times(count)
        return kind(count, width_ns, scenario.latency(chance), says_retry_after=retry_after)

    return build


def stepping(factor: float, *, every: int = LEVEL_REQUESTS) -> Callable[[Scenario, Random], Provider]:
    """Capacity falls by the factor and rises again, each level lasting `every` requests at the limit."""

    def build(scenario: Scenario, chance: Random) -> Provider:
        width_ns = scenario.request_times(every)
        count = scenario.until_ns // width_ns
        steps = tuple((step * width_ns, 1 / factor if step % 2 else 1.0) for step in range(1, count + 1))
        return TokenBucket(scenario.limit_per_s, 10, scenario.latency(chance), steps=steps)

    return build


def flawed(share: float, spoilt: Answer, burst: int = 10) -> Callable[[Scenario, Random], Provider]:
    def build(scenario: Scenario, chance: Random) -> Provider:
        # Departures leave in bursts of up to 10 ms worth: the burst must hold two of them.
        held = max(burst, int(scenario.limit_per_s * TWO_BUNCHES_S))
        return Flawed(TokenBucket(scenario.limit_per_s, held, scenario.latency(chance)), share, spoilt, chance)

    return build


def collapsing(scenario: Scenario, chance: Random) -> Provider:
    return LatencyCollapse(scenario.limit_per_s, scenario.latency(chance))


def doubling(*, forgives: float) -> Callable[[Scenario, Random], Provider]:
    def build(scenario: Scenario, chance: Random) -> Provider:
        inner = TokenBucket(scenario.limit_per_s, 10, scenario.latency(chance))
        return DoublingPenalty(inner, scenario.request_times(10), scenario.request_times(forgives))

    return build


def unlimited(scenario: Scenario, chance: Random) -> Provider:
    return NoLimit(scenario.limit_per_s, scenario.latency(chance))


def banning(flagging_factor: float) -> Callable[[Scenario, Random], Provider]:
    def build(scenario: Scenario, chance: Random) -> Provider:
        inner = TokenBucket(scenario.limit_per_s, 10, scenario.latency(chance))
        return Banning(inner, scenario.limit_per_s * flagging_factor, scenario.request_times(200))

    return build


LIMITS = (0.2, 2.0, 10.0, 100.0, 2_000.0)

MODELS: dict[str, Callable[[Scenario, Random], Provider]] = {
    "token bucket b=1": token_bucket(1),
    "token bucket b=10": token_bucket(10),
    "token bucket b=100": token_bucket(100),
    "token bucket b=1, Retry-After": token_bucket(1, retry_after=True),
    "token bucket b=10, Retry-After": token_bucket(10, retry_after=True),
    "token bucket b=100, Retry-After": token_bucket(100, retry_after=True),
    "fixed window 100": window(FixedWindow),
    "fixed window 100, Retry-After": window(FixedWindow, retry_after=True),
    "sliding window 100": window(SlidingWindow),
    "sliding window 100, Retry-After": window(SlidingWindow, retry_after=True),
    "capacity steps x2": stepping(2),
    "capacity steps x5": stepping(5),
    "stray 429s 1 %": flawed(0.01, Answer.REFUSED),
    "flaky 5xx 1 %": flawed(0.01, Answer.TROUBLED),
    "flaky 5xx 5 %": flawed(0.05, Answer.TROUBLED),
    "latency collapse": collapsing,
    "penalty doubles, forgiven": doubling(forgives=600),
    "penalty doubles, never forgiven": doubling(forgives=1e9),
    "ban above 5x": banning(5),
    "no limit": unlimited,
}
