"""Which providers must the law do well with? One row each, with the goal it is held to.

A row is measured over the whole run, cold start included, and shows the worst seed beside the mean.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import cos, pi
from random import Random

from bench.controllers.hard_providers import (
    BadItems,
    BanOnRefusals,
    Deploying,
    LoadedQueue,
    Misleading,
    QuotaWindow,
    Shared,
    SlowWhenNearlyEmpty,
    TwoLimits,
    Varying,
)
from bench.controllers.providers import (
    DoublingPenalty,
    Flawed,
    Latency,
    NoLimit,
    Provider,
    SlidingWindow,
    TokenBucket,
)
from remora.core.rate.law import Answer
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

DAY_NS = 24 * HOUR_NS
CEILING_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Row:
    """One provider, how long it is met and under which ceiling, and what is expected there."""

    name: str
    limit_per_s: float
    until_ns: int
    build: Callable[["Row", Latency, Random], Provider]
    goal: float = 0.0  # share of the oracle's goodput
    refused: float = 1.0  # share of requests refused at most
    ceiling_per_s: float = 0.0  # 0 = four times the limit
    in_flight: tuple[int, ...] = (1, 8)
    latency_s: float = 0.0  # 0 = half of a request's time, or three requests' time with more in flight
    refusal_limit: RefusalLimit | None = None  # what the owner wrote
    late_s: float = 0.0  # by how much our own machine is late on average
    late_each_ns: int = 0  # it is late for so long, then exact for so long; 0 = it is always late

    @property
    def ceiling_interval_ns(self) -> int:
        return int(SECOND_NS / (self.ceiling_per_s or CEILING_FACTOR * self.limit_per_s))

    def latency(self, in_flight: int, chance: Random) -> Latency:
        requests = 0.5 if in_flight == 1 else 3.0
        return Latency((self.latency_s or min(0.3, requests / self.limit_per_s)) * SECOND_NS, chance)

    def late_ns(self, in_flight: int, seed: int) -> Callable[[int], int]:
        chance = Random(f"late/{self.name}/{in_flight}/{seed}")

        def late_ns(now_ns: int) -> int:
            if not self.late_s or (self.late_each_ns and now_ns // self.late_each_ns % 2):
                return 0
            return int(chance.expovariate(1 / self.late_s) * SECOND_NS)

        return late_ns

    def provider(self, in_flight: int, seed: int) -> Provider:
        chance = Random(f"{self.name}/{in_flight}/{seed}")
        return self.build(self, self.latency(in_flight, chance), chance)


def bucket(burst: int, *, retry_after: bool = False) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        return TokenBucket(row.limit_per_s, burst, latency, says_retry_after=retry_after)

    return build


def fixed(window_ns: int, *, tells: bool = False) -> Callable[[Row, Latency, Random], QuotaWindow]:
    def build(row: Row, latency: Latency, chance: Random) -> QuotaWindow:
        count = round(row.limit_per_s * window_ns / SECOND_NS)
        return QuotaWindow(count, window_ns, latency, phase_ns=chance.randrange(window_ns), tells=tells)

    return build


def sliding(window_ns: int, *, retry_after: bool = False) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        count = round(row.limit_per_s * window_ns / SECOND_NS)
        return SlidingWindow(count, window_ns, latency, says_retry_after=retry_after)

    return build


def two_limits(second: Callable[[Row, Latency, Random], Provider]) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        return TwoLimits(TokenBucket(2 * row.limit_per_s, 20, latency), second(row, latency, chance))

    return build


def misleading(
    inner: Callable[[Row, Latency, Random], Provider], says_ns: int
) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        return Misleading(inner(row, latency, chance), says_ns)

    return build


def shared(on_ns: int, *, from_the_start: bool = False) -> Callable[[Row, Latency, Random], Provider]:
    """Another client wants half of the limit, on and off; on_ns = 0 is always."""

    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        half = row.limit_per_s / 2

        def other_per_s(at_ns: int) -> float:
            return half if not on_ns or (at_ns // on_ns + from_the_start) % 2 else 0.0

        return Shared(TokenBucket(row.limit_per_s, 10, latency), other_per_s, half, chance)

    return build


def slow_when_nearly_empty(row: Row, latency: Latency, chance: Random) -> Provider:
    return SlowWhenNearlyEmpty(TokenBucket(row.limit_per_s, 10, latency))


def loaded(row: Row, latency: Latency, chance: Random) -> Provider:
    return LoadedQueue(row.limit_per_s, 0.3, latency, chance)


def deploying(row: Row, latency: Latency, chance: Random) -> Provider:
    return Deploying(TokenBucket(row.limit_per_s, 10, latency), 20 * MINUTE_NS, 30 * SECOND_NS, latency)


def bad_items(row: Row, latency: Latency, chance: Random) -> Provider:
    """Of the first twelfth of the run the second half is a spell in which 43 % of the items are refused."""
    inner = TokenBucket(row.limit_per_s, 10, latency)
    return BadItems(inner, 0.43, row.until_ns // 24, row.until_ns // 12, chance)


def diurnal(row: Row, latency: Latency, chance: Random) -> Provider:
    """The limit falls to a third and rises again within an hour."""
    minutes = range(row.until_ns // MINUTE_NS + 1)
    levels = tuple((at * MINUTE_NS, row.limit_per_s * (2 + cos(2 * pi * at / 60)) / 3) for at in minutes)
    return Varying(levels, 10, latency)


def stepping(factor: float, every_ns: int) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        count = row.until_ns // every_ns + 1
        levels = tuple((step * every_ns, row.limit_per_s / (factor if step % 2 else 1.0)) for step in range(count))
        return Varying(levels, 10, latency)

    return build


def falling(row: Row, latency: Latency, chance: Random) -> Provider:
    """Half an hour at the limit, then half of it."""
    return Varying(((0, row.limit_per_s), (30 * MINUTE_NS, row.limit_per_s / 2)), 10, latency)


def strays(row: Row, latency: Latency, chance: Random) -> Provider:
    held = max(10, int(row.limit_per_s * 0.02))
    return Flawed(TokenBucket(row.limit_per_s, held, latency), 0.01, Answer.REFUSED, chance)


def penalty(row: Row, latency: Latency, chance: Random) -> Provider:
    inner = TokenBucket(row.limit_per_s, 10, latency)
    return DoublingPenalty(inner, int(10 * SECOND_NS / row.limit_per_s), int(600 * SECOND_NS / row.limit_per_s))


def unlimited(row: Row, latency: Latency, chance: Random) -> Provider:
    return NoLimit(row.limit_per_s, latency)


def banning(inner: Callable[[Row, Latency, Random], Provider]) -> Callable[[Row, Latency, Random], Provider]:
    def build(row: Row, latency: Latency, chance: Random) -> Provider:
        return BanOnRefusals(inner(row, latency, chance))

    return build


def _for_requests(count: int, limit_per_s: float) -> int:
    return int(count / limit_per_s * SECOND_NS)


PER_HOUR = 5_000 / 3_600
PER_DAY = 1_000 / 86_400

QUOTAS = [
    Row("fixed 600/min", 10, HOUR_NS, fixed(MINUTE_NS), 0.93, 0.003),
    Row("fixed 60/min", 1, 2 * HOUR_NS, fixed(MINUTE_NS), 0.93, 0.003),
    Row("sliding 600/min", 10, HOUR_NS, sliding(MINUTE_NS), 0.94, 0.004),
    Row("sliding 60/min", 1, 2 * HOUR_NS, sliding(MINUTE_NS), 0.94, 0.004),
    Row("5,000/h told", PER_HOUR, 6 * HOUR_NS, fixed(HOUR_NS, tells=True), 0.99, 0.0),
    Row("5,000/h told, ceiling 1.5/s", PER_HOUR, 6 * HOUR_NS, fixed(HOUR_NS, tells=True), 0.99, 0.0, 1.5),
    Row("1,000/day told", PER_DAY, 10 * DAY_NS, fixed(DAY_NS, tells=True), 0.98, 0.0, 1.0),
    Row("5,000/h", PER_HOUR, 12 * HOUR_NS, fixed(HOUR_NS), 0.95, 0.003),
    Row("10/s b=20 and 300/min fixed", 5, HOUR_NS, two_limits(fixed(MINUTE_NS)), 0.97, 0.004, 40),
    Row("10/s b=20 and 300/min sliding", 5, HOUR_NS, two_limits(sliding(MINUTE_NS)), 0.97, 0.004, 40),
    Row("Retry-After 1 s on 600/min", 10, HOUR_NS, misleading(fixed(MINUTE_NS), SECOND_NS), 0.95),
    Row("Retry-After 60 s, b=10", 10, HOUR_NS, misleading(bucket(10), MINUTE_NS), 0.90),
]
SHARED = [
    Row("shared, half an hour on and off", 10, 2 * HOUR_NS, shared(30 * MINUTE_NS), 0.92),
    Row("shared, 5 min on and off", 10, HOUR_NS, shared(5 * MINUTE_NS), 0.85),
    Row("shared, always", 10, HOUR_NS, shared(0)),
]
SLOW = [
    Row("latency x10 before a refusal", 10, HOUR_NS, slow_when_nearly_empty, 0.95, in_flight=(8,), latency_s=0.02),
    Row("latency collapse, 30 % background", 10, HOUR_NS, loaded, 0.90, in_flight=(64,)),
]
BANS = [
    Row("ban, b=1", 10, HOUR_NS, banning(bucket(1)), 0.85),
    Row("ban, b=10", 10, HOUR_NS, banning(bucket(10)), 0.85),
    Row("ban, sliding 600/min", 10, HOUR_NS, banning(sliding(MINUTE_NS)), 0.85),
    Row("ban, fixed 600/min", 10, HOUR_NS, banning(fixed(MINUTE_NS)), 0.85),
    Row("ban, falling limit", 10, HOUR_NS, banning(falling), 0.85),
    Row("ban, b=10, 0.2/s", 0.2, 12 * HOUR_NS, banning(bucket(10)), 0.85),
    Row("ban, b=100, 100/s", 100, 20 * MINUTE_NS, banning(bucket(100)), 0.85),
    Row("ban, b=10, 64 in flight at 2 s", 10, HOUR_NS, banning(bucket(10)), 0.85, in_flight=(64,), latency_s=2.0),
]
# What an owner writes who knows that the fifth refusal within a minute bans.
BANS_LIMITED = [
    replace(row, name=row.name.replace("ban,", "ban, limit written,"), refusal_limit=RefusalLimit(4, MINUTE_NS))
    for row in BANS
]
# Nothing is written, and there is time to be banned again and again.
BANS_FOR_HOURS = [
    replace(
        row,
        name=row.name.replace("ban,", "bans in hours,"),
        until_ns=(3 if row.limit_per_s > 10 else 6) * HOUR_NS,
        goal=0.0,
    )
    for row in BANS[:-1]
]
EASY = [
    Row("b=1", 10, HOUR_NS, bucket(1)),
    Row("b=10", 10, HOUR_NS, bucket(10)),
    Row("b=10, Retry-After", 10, HOUR_NS, bucket(10, retry_after=True)),
    Row("b=100", 10, HOUR_NS, bucket(100)),
    Row("b=10, 0.02/s", 0.02, _for_requests(12_000, 0.02), bucket(10)),
    Row("b=10, 0.2/s", 0.2, _for_requests(12_000, 0.2), bucket(10)),
    Row("b=100, 100/s", 100, _for_requests(40_000, 100), bucket(100)),
    Row("b=100, 100/s, 0.8 ms late", 100, _for_requests(40_000, 100), bucket(100), late_s=0.000_8),
    Row("b=10, 60/s, at times 4 ms late", 60, 10 * MINUTE_NS, bucket(10), late_s=0.004, late_each_ns=20 * SECOND_NS),
    Row("b=100, 2,000/s", 2_000, _for_requests(200_000, 2_000), bucket(100)),
    Row("b=10, 64 in flight at 2 s", 10, HOUR_NS, bucket(10), in_flight=(64,), latency_s=2.0),
    Row("steps x2", 10, HOUR_NS, stepping(2, 10 * MINUTE_NS)),
    Row("steps x5", 10, HOUR_NS, stepping(5, 10 * MINUTE_NS)),
    Row("stray 429 1 %", 10, HOUR_NS, strays, 0.95),
    Row("penalty doubles", 10, HOUR_NS, penalty, in_flight=(1,)),
    Row("503 for 30 s each 20 min", 10, 2 * HOUR_NS, deploying),
    Row("bad items", 10, 8 * HOUR_NS, bad_items, 0.90),
    Row("bad items, 0.2/s", 0.2, 48 * HOUR_NS, bad_items, 0.90),
    Row("diurnal x3", 10, 2 * HOUR_NS, diurnal),
    Row("no limit", 10, HOUR_NS, unlimited, ceiling_per_s=10),
]
ROWS = {row.name: row for row in [*QUOTAS, *SHARED, *SLOW, *BANS, *BANS_LIMITED, *BANS_FOR_HOURS, *EASY]}
