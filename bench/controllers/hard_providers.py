"""How do providers answer that count per minute, hour or day, tell half of the truth, are shared, or ban?

Each wraps or extends a model of `providers.py` and is used by the rows of `rows.py`.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from bench.controllers.providers import Latency, Provider, Reply, TokenBucket
from remora.core.rate.law import Answer, Quota
from remora.core.units import SECOND_NS


@dataclass(slots=True)
class QuotaWindow:
    """At most `count` requests in each window; the windows start at `phase_ns`. It may tell what is left in headers."""

    count: int
    window_ns: int
    latency: Latency
    phase_ns: int = 0
    tells: bool = False
    window: int = -1
    used: int = 0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.count * SECOND_NS / self.window_ns

    def reply(self, at_ns: int) -> Reply:
        window, into_ns = divmod(at_ns + self.phase_ns, self.window_ns)
        if window != self.window:
            self.window, self.used = window, 0
        answer = Answer.GOOD if self.used < self.count else Answer.REFUSED
        self.used += answer is Answer.GOOD
        reset_s = math.ceil((self.window_ns - into_ns) / SECOND_NS)
        told = Quota(self.count - self.used, self.count, reset_s * SECOND_NS) if self.tells else None
        return Reply(answer, self.latency.draw(), quota=told)


@dataclass(slots=True)
class Misleading:
    """Another provider whose Retry-After is always the same, whatever is true."""

    inner: Provider
    says_ns: int

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        reply = self.inner.reply(at_ns)
        return replace(reply, retry_after_ns=self.says_ns) if reply.answer is Answer.REFUSED else reply


@dataclass(slots=True)
class TwoLimits:
    """A token bucket and a second limit behind it; what the second refuses costs no token."""

    first: TokenBucket
    second: Provider

    def capacity_per_s(self, at_ns: int) -> float:
        return min(self.first.capacity_per_s(at_ns), self.second.capacity_per_s(at_ns))

    def reply(self, at_ns: int) -> Reply:
        reply = self.first.reply(at_ns)
        if reply.answer is not Answer.GOOD:
            return reply
        reply = self.second.reply(at_ns)
        if reply.answer is not Answer.GOOD:
            self.first.tokens += 1
        return reply


@dataclass(slots=True)
class Shared:
    """A provider that another client uses too: it sends at random moments, at a rate that depends on the time."""

    inner: Provider
    other_per_s: Callable[[int], float]
    most_per_s: float
    chance: Random
    next_ns: float = 0.0
    other_sent: int = 0
    other_refused: int = 0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns) - self.other_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        while self.next_ns <= at_ns:
            if self.chance.random() * self.most_per_s < self.other_per_s(int(self.next_ns)):
                self.other_sent += 1
                self.other_refused += self.inner.reply(int(self.next_ns)).answer is Answer.REFUSED
            self.next_ns += self.chance.expovariate(self.most_per_s) * SECOND_NS
        return self.inner.reply(at_ns)


@dataclass(slots=True)
class SlowWhenNearlyEmpty:
    """A token bucket that answers ten times slower while less than half of the burst is left."""

    inner: TokenBucket
    factor: int = 10

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        reply = self.inner.reply(at_ns)
        nearly_empty = self.inner.tokens < self.inner.burst / 2
        return replace(reply, latency_ns=reply.latency_ns * self.factor) if nearly_empty else reply


@dataclass(slots=True)
class Deploying:
    """Another provider that answers 503 for a while, again and again."""

    inner: Provider
    every_ns: int
    for_ns: int
    latency: Latency

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns) if self._is_up(at_ns) else 0.0

    def reply(self, at_ns: int) -> Reply:
        return self.inner.reply(at_ns) if self._is_up(at_ns) else Reply(Answer.TROUBLED, self.latency.draw())

    def _is_up(self, at_ns: int) -> bool:
        return at_ns % self.every_ns < self.every_ns - self.for_ns


@dataclass(slots=True)
class BadItems:
    """Another provider that refuses some items for a while, whatever the rate. What it accepts then is not measured."""

    inner: Provider
    share: float
    from_ns: int
    until_ns: int
    chance: Random

    def capacity_per_s(self, at_ns: int) -> float:
        return 0.0 if self._is_bad(at_ns) else self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        reply = self.inner.reply(at_ns)
        if self._is_bad(at_ns) and self.chance.random() < self.share:
            return Reply(Answer.REFUSED, reply.latency_ns)
        return reply

    def _is_bad(self, at_ns: int) -> bool:
        return self.from_ns <= at_ns < self.until_ns


@dataclass(slots=True)
class Varying:
    """A token bucket whose limit follows a table: (from when, requests per second)."""

    levels: tuple[tuple[int, float], ...]
    burst: int
    latency: Latency
    bucket: TokenBucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = TokenBucket(self.levels[0][1], self.burst, self.latency)

    def capacity_per_s(self, at_ns: int) -> float:
        return self.levels[bisect_right(self.levels, (at_ns, math.inf)) - 1][1]

    def reply(self, at_ns: int) -> Reply:
        self.bucket.limit_per_s = self.capacity_per_s(at_ns)
        return self.bucket.reply(at_ns)


@dataclass(slots=True)
class BanOnRefusals:
    """Another provider that shuts a caller out for an hour who is refused five times within a minute."""

    inner: Provider
    refusals: int = 5
    within_ns: int = 60 * SECOND_NS
    ban_ns: int = 3_600 * SECOND_NS
    recent: deque[int] = field(default_factory=deque)
    banned_until_ns: int = 0
    bans: int = 0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.inner.capacity_per_s(at_ns)

    def reply(self, at_ns: int) -> Reply:
        reply = self.inner.reply(at_ns)
        if at_ns < self.banned_until_ns:
            return Reply(Answer.REFUSED, reply.latency_ns)
        if reply.answer is not Answer.REFUSED:
            return reply
        self.recent.append(at_ns)
        while self.recent[0] <= at_ns - self.within_ns:
            self.recent.popleft()
        if len(self.recent) >= self.refusals:
            self.bans += 1
            self.banned_until_ns = at_ns + self.ban_ns
            self.recent.clear()
        return reply


@dataclass(slots=True)
class LoadedQueue:
    """One server with background load. A long queue makes it slower; answers that wait too long are lost."""

    limit_per_s: float
    background: float  # share of the capacity
    latency: Latency
    chance: Random
    queue_before_thrashing: int = 32
    thrashing_factor: float = 2.0
    patience_services: int = 64
    free_at_ns: float = 0.0
    next_ns: float = 0.0

    def capacity_per_s(self, at_ns: int) -> float:
        return self.limit_per_s * (1 - self.background)

    def reply(self, at_ns: int) -> Reply:
        while self.next_ns <= at_ns:
            self._serve(self.next_ns)
            self.next_ns += self.chance.expovariate(self.limit_per_s * self.background) * SECOND_NS
        waiting_ns = self._serve(at_ns)
        total_ns = int(waiting_ns + self.latency.draw())
        limit_ns = int(self.patience_services * SECOND_NS / self.limit_per_s + self.latency.mean_ns)
        return Reply(Answer.TROUBLED, limit_ns) if total_ns > limit_ns else Reply(Answer.GOOD, total_ns)

    def _serve(self, at_ns: float) -> float:
        service_ns = SECOND_NS / self.limit_per_s
        waiting_ns = max(0.0, self.free_at_ns - at_ns)
        if waiting_ns > self.queue_before_thrashing * service_ns:
            service_ns *= self.thrashing_factor
        self.free_at_ns = at_ns + waiting_ns + service_ns
        return waiting_ns
