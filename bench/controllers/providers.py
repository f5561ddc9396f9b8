"""How would a provider with a hidden limit answer a request that arrives at this moment?

Each model is a small machine in virtual time. `reply(at_ns)` answers one request; `capacity_per_s(at_ns)` is what an
oracle that knows the limit would get. Chance comes from the seeded generator that each model is given.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from remora.core.rate.law import Answer, Quota
from remora.core.units import SECOND_NS


@dataclass(frozen=True, slots=True)
class Reply:
    """What the provider answers, how long that takes, and what it tells (none = it does not say)."""

    answer: Answer
    latency_ns: int
    retry_after_ns: int | None = None
    quota: Quota | None = None


class Provider(Protocol):
    def reply(self, at_ns: int) -> Reply: ...

    def capacity_per_s(self, at_ns: int) -> float: ...


@dataclass(slots=True)
class Latency:
    """Answer times: a floor, and a tail of a third of it on top."""

    mean_ns: float
    chance: Random

    def draw(self) -> int:
        return max(1, int(self.mean_ns * (0.75 + 0.25 * self.chance.expovariate(1.0))))


@dataclass(slots=True)
class TokenBucket:
    """Refuses when the bucket is empty. `steps` are (from when, capacity factor)."""

    limit_per_s: float
    burst: int
    latency: Latency
    says_retry_after: bool = False
    steps: tuple[tuple[int, float], ...] = ()
    tokens: float = field(init=False)
    refilled_at_ns: int = 0

    def __post_init__(self) -> None:
        self.tokens = float(self.burst)

    def capacity_per_s(self, at_ns: int) -> float:
        factor = 1.0
        for since_ns, step in self.steps:
            if at_ns >= since_ns:
                factor = step
        return self.limit_per_s * factor

    def reply(self, at_ns: int) -> Reply:
        rate = self.capacity_per_s(at_ns) if self.steps else self.limit_per_s
        # A hair of tolerance: a request exactly on time must not be refused for a rounding error.
        self.tokens = min(self.burst, self.tokens + (at_ns - self.refilled_at_ns) * rate / SECOND_NS + 1e-9)
        self.refilled_at_ns = at_ns
        latency_ns = self.latency.draw()
        if self.tokens >= 1:
            self.tokens -= 1
            return Reply(Answer.GOOD, latency_ns)
        return Reply(Answer.REFUSED, latency_ns, _whole_seconds((1 - self.tokens) / rate, said=self.says_retry_after))


@dataclass(slots=True)
class FixedWindow:
    """At most `count` requests in each window of the clock; refused ones do not count."""

    count: int
    window_ns: int
    latency: Latency
    says_retry_after: bool = False
    window: int = -1
    used: int = 0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.count * SECOND_NS / self.window_ns

    def reply(self, at_ns: int) -> Reply:
        window = at_ns // self.window_ns
        if window != self.window:
            self.window, self.used = window, 0
        latency_ns = self.latency.draw()
        if self.used < self.count:
            self.used += 1
            return Reply(Answer.GOOD, latency_ns)
        left_s = ((window + 1) * self.window_ns - at_ns) / SECOND_NS
        return Reply(Answer.REFUSED, latency_ns, _whole_seconds(left_s, said=self.says_retry_after))


@dataclass(slots=True)
class SlidingWindow:
    """At most `count` accepted requests in any window."""

    count: int
    window_ns: int
    latency: Latency
    says_retry_after: bool = False
    accepted: deque[int] = field(default_factory=deque)

    def capacity_per_s(self, at_ns: int) -> float:
        return self.count * SECOND_NS / self.window_ns

    def reply(self, at_ns: int) -> Reply:
        while self.accepted and self.accepted[0] <= at_ns - self.window_ns:
            self.accepted.popleft()
        latency_ns = self.latency.draw()
        if len(self.accepted) < self.count:
            self.accepted.append(at_ns)
            return Reply(Answer.GOOD, latency_ns)
        left_s = (self.accepted[0] + self.window_ns - at_ns) / SECOND_NS
        return Reply(Answer.REFUSED, latency_ns, _whole_seconds(left_s, said=self.says_retry_after))


@dataclass(slots=True)
class NoLimit:
    """Answers everything; the ceiling is the only bound."""

    ceiling_per_s: float
    latency: Latency

    def capacity_per_s(self, at_ns: int) -> float:
        return self.ceiling_per_s

    def reply(self, at_ns: int) -> Reply:
        return Reply(Answer.GOOD, self.latency.draw())


@dataclass(slots=True)
class Flawed:
    """Another provider, of whose good answers a share is spoilt by chance: stray refusals or faults."""

    inner: Provider
    share: float
    spoilt: Answer
    chance: Random

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns) * (1 - self.share)

    def reply(self, at_ns: int) -> Reply:
        reply = self.inner.reply(at_ns)
        if reply.answer is Answer.GOOD and self.chance.random() < self.share:
            return Reply(self.spoilt, reply.latency_ns)
        return reply


@dataclass(slots=True)
class LatencyCollapse:
    """Never refuses. Requests queue for one server; a long queue makes it slower still, and late answers are lost."""

    limit_per_s: float
    latency: Latency
    queue_before_thrashing: int = 16
    thrashing_factor: float = 3.0
    patience_services: int = 64
    free_at_ns: float = 0.0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.limit_per_s

    def reply(self, at_ns: int) -> Reply:
        service_ns = SECOND_NS / self.limit_per_s
        waiting_ns = max(0.0, self.free_at_ns - at_ns)
        if waiting_ns > self.queue_before_thrashing * service_ns:
            service_ns *= self.thrashing_factor
        self.free_at_ns = at_ns + waiting_ns + service_ns
        total_ns = int(waiting_ns + self.latency.draw())
        limit_ns = int(self.patience_services * SECOND_NS / self.limit_per_s + self.latency.mean_ns)
        if total_ns > limit_ns:
            return Reply(Answer.TROUBLED, limit_ns)
        return Reply(Answer.GOOD, total_ns)


@dataclass(slots=True)
class DoublingPenalty:
    """A token bucket that shuts a caller out for each refusal, twice as long each time, also while shut out."""

    inner: TokenBucket
    first_ns: int
    forgives_after_ns: int
    most_doublings: int = 16
    doublings: int = 0
    shut_until_ns: int = 0
    refused_at_ns: int = 0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        forgiven = max(0, at_ns - max(self.refused_at_ns, self.shut_until_ns)) // self.forgives_after_ns
        if forgiven:
            self.doublings = max(0, self.doublings - forgiven)
            self.refused_at_ns = at_ns
        if at_ns >= self.shut_until_ns:
            reply = self.inner.reply(at_ns)
            if reply.answer is Answer.GOOD:
                return reply
        self.shut_until_ns = at_ns + (self.first_ns << self.doublings)
        self.doublings = min(self.most_doublings, self.doublings + 1)
        self.refused_at_ns = at_ns
        return Reply(Answer.REFUSED, self.inner.latency.draw())


@dataclass(slots=True)
class Banning:
    """Another provider that shuts a caller out for good who exceeds the flagging rate for a whole window."""

    inner: Provider
    flagging_per_s: float
    window_ns: int
    arrivals: deque[int] = field(default_factory=deque)
    banned: bool = False

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        self.arrivals.append(at_ns)
        while self.arrivals[0] <= at_ns - self.window_ns:
            self.arrivals.popleft()
        # One more than the flagging rate fits into a window by its edges alone.
        if len(self.arrivals) > self.flagging_per_s * self.window_ns / SECOND_NS + 1:
            self.banned = True
        reply = self.inner.reply(at_ns)
        return Reply(Answer.REFUSED, reply.latency_ns) if self.banned else reply


def _whole_seconds(left_s: float, *, said: bool) -> int | None:
    return max(1, math.ceil(left_s)) * SECOND_NS if said else None
