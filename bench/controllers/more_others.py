"""How do CUBIC and a client that only reads quota headers behave in the same worlds?"""

from bench.controllers.others import BACKOFF_FIRST_NS, BACKOFF_MOST_NS, RateController
from bench.controllers.providers import Reply
from remora.core.rate.law import Answer
from remora.core.units import SECOND_NS


class CubicRate(RateController):
    """The window function of RFC 9438 on a rate: 30 % down after a refusal, once per round trip, then a cubic climb.

    Before the first refusal 16 good answers double the rate, as in our own discovery.
    """

    BETA = 0.7
    C = 0.4

    def __init__(self, ceiling_interval_ns: int) -> None:
        super().__init__(ceiling_interval_ns)
        self.most_per_s = 0.0

    def move(self, answer: Answer, now_ns: int) -> None:
        if answer is Answer.REFUSED:
            self.most_per_s = self.rate_per_s
            self.cut(self.BETA, now_ns)
        elif answer is Answer.GOOD and not self.most_per_s:
            self.rate_per_s = min(self.ceiling_per_s, self.rate_per_s * 2 ** (1 / 16))
        elif answer is Answer.GOOD:
            since_s = (now_ns - self.cut_at_ns) / SECOND_NS
            back_s = (self.most_per_s * (1 - self.BETA) / self.C) ** (1 / 3)
            climbed = self.C * (since_s - back_s) ** 3 + self.most_per_s
            self.rate_per_s = min(self.ceiling_per_s, max(self.rate_per_s, climbed))


class HeaderReader:
    """Spreads what the headers say is left over the time until the reset; told nothing, it is fixed delay with back-off."""

    def __init__(self, ceiling_interval_ns: int) -> None:
        self.ceiling_ns = ceiling_interval_ns
        self.interval_ns = float(ceiling_interval_ns)
        self.last_ns: int | None = None
        self.not_before_ns = 0
        self.in_a_row = 0

    def earliest_ns(self, now_ns: int) -> int:
        if self.last_ns is None:
            return self.not_before_ns
        return max(self.not_before_ns, self.last_ns + int(self.interval_ns))

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        self.last_ns = at_ns
        return True

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        quota = reply.quota
        if quota is not None and quota.remaining:
            self.interval_ns = max(self.ceiling_ns, quota.reset_in_ns / quota.remaining)
        elif quota is not None:
            self.interval_ns = self.ceiling_ns
            self.not_before_ns = max(self.not_before_ns, now_ns + quota.reset_in_ns)
        if reply.answer is Answer.GOOD:
            self.in_a_row = 0
            return
        wait_ns = min(BACKOFF_MOST_NS, BACKOFF_FIRST_NS << min(self.in_a_row, 10))
        self.in_a_row += 1
        self.not_before_ns = max(self.not_before_ns, now_ns + max(wait_ns, reply.retry_after_ns or 0))
