"""How does Remora's law behave with the governor's pacing and not-before around it?"""

from bench.controllers.providers import Reply
from bench.controllers.world import BURST_NS
from remora.core.rate.law import Answered, Pace, after


class Remora:
    """The law, a pacer with the arithmetic of `core/rate/pacing.py`, and Retry-After as a not-before for all."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.interval_ns = pace.interval_ns
        self.pace_next_ns = 0
        self.tolerance_ns = 0
        self.last_ns = 0
        self.not_before_ns = 0
        self.ceiling_next_ns = 0
        self.ceiling_ns = pace.ceiling_interval_ns
        self.ceiling_tolerance_ns = _tolerance_ns(self.ceiling_ns)
        self._take(pace)

    def earliest_ns(self, now_ns: int) -> int:
        return max(
            self.pace_next_ns - self.tolerance_ns,
            self.ceiling_next_ns - self.ceiling_tolerance_ns,
            self.not_before_ns,
            self.pace.quiet_until_ns,
        )

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        # Was it the pace that held this request back, or something else?
        paced_ns = self.pace_next_ns - self.tolerance_ns
        bound = paced_ns > ready_since_ns and paced_ns >= self.not_before_ns and paced_ns >= self.pace.quiet_until_ns
        self.ceiling_next_ns = max(self.ceiling_next_ns, at_ns) + self.ceiling_ns
        self.pace_next_ns = max(self.pace_next_ns, at_ns) + self.interval_ns
        self.last_ns = at_ns
        return bound

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        if reply.retry_after_ns is not None:
            self.not_before_ns = max(self.not_before_ns, now_ns + reply.retry_after_ns)
        asked_ns = reply.retry_after_ns or 0
        event = Answered(reply.answer, departed_at_ns, now_ns, pace_bound, asked_ns, reply.quota)
        self._take(after(self.pace, event))

    def _take(self, pace: Pace) -> None:
        self.pace = pace
        interval_ns = pace.interval_ns
        if interval_ns != self.interval_ns:
            lead_ns = self.pace_next_ns - self.last_ns
            self.pace_next_ns = self.last_ns - (-lead_ns * interval_ns // self.interval_ns)
            self.interval_ns = interval_ns
        self.tolerance_ns = _tolerance_ns(interval_ns)


def _tolerance_ns(interval_ns: int) -> int:
    return (max(1, BURST_NS // interval_ns) - 1) * interval_ns
