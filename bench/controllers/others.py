"""How do the usual ways of pacing behave in the same worlds?

Each is written from its documented rule, or uses the other project's own classes with our clock.
"""

from botocore.retries.adaptive import ClientRateLimiter, RateClocker
from botocore.retries.bucket import Clock, TokenBucket
from botocore.retries.throttling import CubicCalculator

from bench.controllers.providers import Reply
from remora.core.rate.law import Answer
from remora.core.units import SECOND_NS

BACKOFF_FIRST_NS = SECOND_NS
BACKOFF_MOST_NS = 60 * SECOND_NS


class FixedDelay:
    """The ceiling's interval between requests; a refusal waits 1 s, twice as long each time in a row, up to 60 s."""

    def __init__(self, ceiling_interval_ns: int) -> None:
        self.interval_ns = ceiling_interval_ns
        self.next_ns = 0
        self.in_a_row = 0

    def earliest_ns(self, now_ns: int) -> int:
        return self.next_ns

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        self.next_ns = max(self.next_ns, at_ns + self.interval_ns)
        return True

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        if reply.answer is Answer.GOOD:
            self.in_a_row = 0
            return
        wait_ns = min(BACKOFF_MOST_NS, BACKOFF_FIRST_NS << min(self.in_a_row, 10))
        self.in_a_row += 1
        self.next_ns = max(self.next_ns, now_ns + max(wait_ns, reply.retry_after_ns or 0))


class AutoThrottle:
    """Scrapy's documented rule: the delay moves half way to latency / target concurrency.

    An error's latency never shortens the delay; the delay stays between the ceiling's interval and 60 s; it starts at
    5 s. The documented randomisation of each delay is left out, which favours it.
    """

    START_NS = 5 * SECOND_NS
    MOST_NS = 60 * SECOND_NS
    TARGET_CONCURRENCY = 1.0

    def __init__(self, ceiling_interval_ns: int) -> None:
        self.least_ns = ceiling_interval_ns
        self.delay_ns = float(max(ceiling_interval_ns, self.START_NS))
        self.last_ns: int | None = None

    def earliest_ns(self, now_ns: int) -> int:
        return 0 if self.last_ns is None else self.last_ns + int(self.delay_ns)

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        self.last_ns = at_ns
        return True

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        target_ns = (now_ns - departed_at_ns) / self.TARGET_CONCURRENCY
        delay_ns = max(target_ns, (self.delay_ns + target_ns) / 2)
        delay_ns = min(max(delay_ns, self.least_ns), self.MOST_NS)
        if reply.answer is Answer.GOOD or delay_ns > self.delay_ns:
            self.delay_ns = delay_ns


class RateController:
    """A rate between the ceiling and nearly nothing, and Retry-After as a not-before; subclasses move the rate."""

    def __init__(self, ceiling_interval_ns: int) -> None:
        self.ceiling_per_s = SECOND_NS / ceiling_interval_ns
        self.rate_per_s = min(1.0, self.ceiling_per_s)
        self.last_ns: int | None = None
        self.not_before_ns = 0
        self.cut_at_ns = -1

    def earliest_ns(self, now_ns: int) -> int:
        if self.last_ns is None:
            return self.not_before_ns
        return max(self.not_before_ns, self.last_ns - int(-SECOND_NS // self.rate_per_s))

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        self.last_ns = at_ns
        return True

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        if reply.retry_after_ns is not None:
            self.not_before_ns = max(self.not_before_ns, now_ns + reply.retry_after_ns)
        # Once per round trip: what left before the last cut says nothing about the rate of now.
        if departed_at_ns > self.cut_at_ns:
            self.move(reply.answer, now_ns)

    def move(self, answer: Answer, now_ns: int) -> None:
        raise NotImplementedError

    def cut(self, factor: float, now_ns: int) -> None:
        self.rate_per_s = max(self.rate_per_s * factor, self.ceiling_per_s / 10_000)
        self.cut_at_ns = now_ns


class AimdRate(RateController):
    """Plain AIMD on the rate: a thousandth of the ceiling more per success, half after a refusal, once per round trip."""

    def move(self, answer: Answer, now_ns: int) -> None:
        if answer is Answer.GOOD:
            self.rate_per_s = min(self.ceiling_per_s, self.rate_per_s + self.ceiling_per_s / 1000)
        elif answer is Answer.REFUSED:
            self.cut(1 / 2, now_ns)


class _VirtualClock(Clock):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def current_time(self) -> float:
        return self.now_s


class _Detector:
    """Stands where botocore looks at a response to see whether it was throttled."""

    def is_throttling_error(self, *, throttled: bool) -> bool:
        return throttled


class AwsAdaptive:
    """The adaptive retry mode of the AWS SDK: botocore's own limiter, bucket and CUBIC, on our clock.

    It knows no ceiling and limits nothing before the first refusal.
    """

    def __init__(self, ceiling_interval_ns: int) -> None:
        self.clock = _VirtualClock()
        self.bucket = TokenBucket(max_rate=1, clock=self.clock)
        self.limiter = ClientRateLimiter(
            rate_adjustor=CubicCalculator(starting_max_rate=0, start_time=0.0),
            rate_clocker=RateClocker(self.clock),
            token_bucket=self.bucket,
            throttling_detector=_Detector(),
            clock=self.clock,
        )
        self.refilled_at_ns = 0
        self.enabled = False

    def earliest_ns(self, now_ns: int) -> int:
        if not self.enabled:
            return now_ns
        missing = 1.0 - self.bucket.available_capacity
        if missing <= 0:
            return now_ns
        return self.refilled_at_ns + int(missing / self.bucket.max_rate * SECOND_NS) + 1_000

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        self._at(at_ns)
        self.limiter.on_sending_request(request=None)
        return True

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        self._at(now_ns)
        throttled = reply.answer is Answer.REFUSED
        self.enabled = self.enabled or throttled
        self.limiter.on_receiving_response(throttled=throttled)

    def _at(self, now_ns: int) -> None:
        self.clock.now_s = now_ns / SECOND_NS
        self.refilled_at_ns = now_ns
