"""How does Remora's law behave with the governor's pacing and not-before around it?"""

from dataclasses import replace

from bench.controllers.providers import Reply
from bench.controllers.world import BURST_NS
from remora.core.rate.ban import BanWatch
from remora.core.rate.law import Answer, Answered, Pace, after
from remora.core.rate.pacing import is_kept, lateness
from remora.core.rate.quota import is_used_up
from remora.core.rate.refusal_limit import RefusalLimit, Refusals

NEVER_NS = 1 << 62  # not before an answer


class Remora:
    """The law, a pacer with the arithmetic of `core/rate/pacing.py`, and Retry-After as a not-before for all.

    `limit` is the owner's limit on refusals, kept as the gate keeps it. Without one, a ban teaches one.
    """

    def __init__(self, pace: Pace, limit: RefusalLimit | None = None) -> None:
        if limit is not None:
            pace = replace(pace, refusal_limit=limit)
        self.refusals = None if limit is None else Refusals(limit)
        self.bans = BanWatch() if limit is None else None
        self.in_flight = 0
        self.unhindered_since_ns = 0  # since when the limit on refusals has not held a request back
        self.pace = pace
        self.interval_ns = pace.interval_ns
        self.pace_next_ns = 0
        self.tolerance_ns = 0
        self.last_ns = 0
        self.late = 0.0
        self.not_before_ns = 0
        self.ceiling_next_ns = 0
        self.ceiling_ns = pace.ceiling_interval_ns
        self.ceiling_tolerance_ns = _tolerance_ns(self.ceiling_ns)
        self._take(pace)

    def earliest_ns(self, now_ns: int) -> int:
        paced_ns = max(
            self.pace_next_ns - self.tolerance_ns,
            self.ceiling_next_ns - self.ceiling_tolerance_ns,
            self.not_before_ns,
            self.pace.quiet_until_ns,
        )
        return paced_ns if self.refusals is None else max(paced_ns, self._free_at_ns(self.refusals, now_ns))

    def departed(self, at_ns: int, ready_since_ns: int) -> bool:
        # Was it the pace that held this request back, or something else?
        paced_ns = self.pace_next_ns - self.tolerance_ns
        ready_since_ns = max(ready_since_ns, self.unhindered_since_ns)
        bound = paced_ns > ready_since_ns and paced_ns >= self.not_before_ns and paced_ns >= self.pace.quiet_until_ns
        if bound:
            self.late = lateness(self.late, at_ns - self.pace_next_ns, interval_ns=self.interval_ns)
            bound = is_kept(self.late) or not self.pace.edges_per_s
        self.ceiling_next_ns = max(self.ceiling_next_ns, at_ns) + self.ceiling_ns
        self.pace_next_ns = max(self.pace_next_ns, at_ns) + self.interval_ns
        self.last_ns = at_ns
        self.in_flight += 1
        # The last request that the limit on refusals allows says nothing about the pace.
        return bound and (self.refusals is None or self.refusals.allows(self.in_flight + 1, now_ns=at_ns))

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None:
        self.in_flight -= 1
        if self.refusals is not None:
            if not self.refusals.allows(self.in_flight + 2, now_ns=now_ns):
                self.unhindered_since_ns = now_ns
            if reply.answer is Answer.REFUSED:
                self.refusals = self.refusals.refused(at_ns=now_ns)
        if reply.retry_after_ns is not None:
            self.not_before_ns = max(self.not_before_ns, now_ns + reply.retry_after_ns)
        asked_ns = reply.retry_after_ns or 0
        event = Answered(reply.answer, departed_at_ns, now_ns, pace_bound, asked_ns, reply.quota)
        if self.bans is not None:
            self._watch(self.bans, event)
        self._take(after(self.pace, event))

    def _watch(self, bans: BanWatch, event: Answered) -> None:
        """Look for a ban, as the gate does, and keep the limit that it teaches."""
        sent_ns, now_ns = event.departed_at_ns, event.answered_at_ns
        if event.answer is Answer.GOOD and bans.outage is not None:
            bans = bans.hear_good(sent_ns=sent_ns)
        elif event.answer is Answer.REFUSED and not is_used_up(event):
            bans = bans.hear_refusal(sent_ns=sent_ns, answered_ns=now_ns)
        self.bans = bans.at(now_ns)
        limit = None if self.bans.learned is None else self.bans.learned.limit
        if limit != self.pace.refusal_limit:
            self.pace = replace(self.pace, refusal_limit=limit, refused_ns=())
            self.refusals = None if limit is None else Refusals(limit).refused(at_ns=now_ns)

    def _free_at_ns(self, refusals: Refusals, now_ns: int) -> int:
        free_at_ns = refusals.free_at_ns(self.in_flight + 1, now_ns=now_ns)
        if free_at_ns is None:
            return NEVER_NS
        if free_at_ns > now_ns:
            self.unhindered_since_ns = free_at_ns
        return free_at_ns

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
