"""When may the next request be sent? Two virtual schedules, one for the ceiling, one for the pace; the later one wins.

Each is a generic cell rate algorithm in integer nanoseconds. The ceiling's interval never changes, so its bound holds
whatever the pace does: any window of length T holds at most `burst + T / F` departures, F being the ceiling interval.
Up to 100 requests per second the burst is 1, which is strict spacing; above, it is 10 ms worth of departures, because
no event loop wakes more precisely than that at such rates.

A request gets its turn a little before it may depart, so that it is ready when its slot comes: the time from the turn
to the wire does not lower the rate. Only the departure is exact.

A departure that is late is made up for only within a burst. So a busy machine sends less than the pace, and what is
accepted then says nothing about the pace: see `lateness`.
"""

from functools import lru_cache
from math import ceil
from typing import Final

import msgspec
from msgspec.structs import replace

from remora.core.rate.constants import A_FEW, ELSEWHERE
from remora.core.units import MILLISECOND_NS, SECOND_NS

BURST_NS: Final = 10 * MILLISECOND_NS
# A turn and a ready connection are well under a millisecond apart, and a coarse timer is about one late.
TURN_LEAD_NS: Final = 3 * MILLISECOND_NS
# From the last look at the clock to the wire. If it takes longer, `sent` corrects it, except at the end of a stretch.
SEND_NS: Final = MILLISECOND_NS // 2
# The pace changes far more rarely than requests are sent, so values derived from an interval are cached.
REMEMBERED_INTERVALS: Final = 64


def burst_allowance(interval_ns: int) -> int:
    """How many requests may be sent at once at this interval: 10 ms worth, at least one."""
    return max(1, BURST_NS // interval_ns)


def interval_for(rate_per_s: float) -> int:
    """The interval for a rate, rounded to the slower side."""
    assert rate_per_s > 0, f"a rate of {rate_per_s} per second"
    return max(1, ceil(SECOND_NS / rate_per_s))


class Pacer(msgspec.Struct, frozen=True, gc=False):
    """The two schedules. `*_next_ns` is the theoretical time of the next departure if all were evenly spaced."""

    ceiling_interval_ns: int
    interval_ns: int
    ceiling_next_ns: int
    pace_next_ns: int
    last_departure_ns: int

    # What runs several times for every request compares without calling `max`, which costs more than all the rest.

    def earliest_ns(self) -> int:
        """The first moment at which the next request may depart."""
        ceiling_ns = self.ceiling_next_ns - _tolerance_ns(self.ceiling_interval_ns)
        pace_ns = self.pace_next_ns - _tolerance_ns(self.interval_ns)
        return pace_ns if pace_ns > ceiling_ns else ceiling_ns  # noqa: FURB136

    def turn_ns(self) -> int:
        """The first moment at which the next request may get its turn, to be ready when it may depart."""
        ceiling_ns = self.ceiling_next_ns - _turn_lead_ns(self.ceiling_interval_ns)
        pace_ns = self.pace_next_ns - _turn_lead_ns(self.interval_ns)
        return pace_ns if pace_ns > ceiling_ns else ceiling_ns  # noqa: FURB136

    def turns_due(self, *, now_ns: int) -> int:
        """How many turns may be given at this moment, one after the other."""
        if now_ns < self.turn_ns():
            return 0
        slots = [
            (now_ns + _turn_lead_ns(interval_ns) - max(now_ns, next_ns)) // interval_ns
            for interval_ns, next_ns in self._schedules()
        ]
        return 1 + min(slots)

    def paced_from(self, free_ns: int, *, now_ns: int) -> int:
        """Which of the turns at this moment is the first that the schedule held back, if it could come from `free_ns` on."""
        if self.earliest_ns() > free_ns or self.turn_ns() > free_ns:
            return 0
        slots = [
            (free_ns + min(_tolerance_ns(interval_ns), _turn_lead_ns(interval_ns)) - max(now_ns, next_ns))
            // interval_ns
            for interval_ns, next_ns in self._schedules()
        ]
        return 1 + max(0, min(slots))

    def _schedules(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.ceiling_interval_ns, self.ceiling_next_ns), (self.interval_ns, self.pace_next_ns)

    def at_interval(self, interval_ns: int) -> "Pacer":
        """The same pacer at another pace; what is left of the current wait stretches or shrinks with it.

        A burst that was sent at a fast pace is not paid back one by one at a slow pace: the next departure is at most
        one new interval after the last.
        """
        interval_ns = max(interval_ns, self.ceiling_interval_ns)
        if interval_ns == self.interval_ns:
            return self
        lead_ns = self.pace_next_ns - self.last_departure_ns
        scaled_ns = min(-(-lead_ns * interval_ns // self.interval_ns), burst_allowance(interval_ns) * interval_ns)
        return replace(self, interval_ns=interval_ns, pace_next_ns=self.last_departure_ns + scaled_ns)

    def pace_earliest_ns(self) -> int:
        """The first moment at which the pace alone would let the next request depart."""
        return self.pace_next_ns - _tolerance_ns(self.interval_ns)

    def starting_at(self, starts_ns: int) -> "Pacer":
        """The same pacer for time that begins at `starts_ns`: no unused slots are carried over from before."""
        return replace(
            self,
            ceiling_next_ns=max(self.ceiling_next_ns, starts_ns + _tolerance_ns(self.ceiling_interval_ns)),
            pace_next_ns=max(self.pace_next_ns, starts_ns + _tolerance_ns(self.interval_ns)),
        )

    def sent(self, *, now_ns: int) -> "Pacer":
        """The pacer when the last request is on the wire: if it was late, the next one counts from now."""
        next_ns = now_ns + self.ceiling_interval_ns
        return self if next_ns <= self.ceiling_next_ns else replace(self, ceiling_next_ns=next_ns)

    def no_earlier_than(self, other: "Pacer") -> "Pacer":
        """The later moments of two pacers of the same source."""
        if (
            other.ceiling_next_ns <= self.ceiling_next_ns
            and other.pace_next_ns <= self.pace_next_ns
            and other.last_departure_ns <= self.last_departure_ns
        ):
            return self
        ceiling_ns, pace_ns, last_ns = self.ceiling_next_ns, self.pace_next_ns, self.last_departure_ns
        return Pacer(
            self.ceiling_interval_ns,
            self.interval_ns,
            other.ceiling_next_ns if other.ceiling_next_ns > ceiling_ns else ceiling_ns,  # noqa: FURB136
            other.pace_next_ns if other.pace_next_ns > pace_ns else pace_ns,  # noqa: FURB136
            other.last_departure_ns if other.last_departure_ns > last_ns else last_ns,  # noqa: FURB136
        )

    def departed(self, *, now_ns: int) -> "Pacer":
        """The pacer after a departure at `now_ns`. An early departure is our own bug."""
        assert now_ns >= self.earliest_ns(), f"left {self.earliest_ns() - now_ns} ns too early"
        return self._after(now_ns)

    def took_turns(self, count: int, *, now_ns: int) -> "Pacer":
        """The pacer after so many requests got their turns at `now_ns`; they depart later."""
        assert count <= self.turns_due(now_ns=now_ns), f"{count} turns at once, {self.turns_due(now_ns=now_ns)} are due"
        return self._after(now_ns, count)

    def _after(self, now_ns: int, count: int = 1) -> "Pacer":
        ceiling_interval_ns, interval_ns = self.ceiling_interval_ns, self.interval_ns
        ceiling_ns, pace_ns = self.ceiling_next_ns, self.pace_next_ns
        return Pacer(
            ceiling_interval_ns,
            interval_ns,
            (now_ns if now_ns > ceiling_ns else ceiling_ns) + count * ceiling_interval_ns,  # noqa: FURB136
            (now_ns if now_ns > pace_ns else pace_ns) + count * interval_ns,  # noqa: FURB136
            now_ns,
        )


def new_pacer(*, ceiling_interval_ns: int, interval_ns: int, now_ns: int, idle_ns: int = 0) -> Pacer:
    """A pacer that starts as if a whole burst had just been sent: a restart never adds a departure to a window.

    The pace, which may be as slow as one request in many minutes, counts from `idle_ns` ago, when the last process is
    known to have sent something. So repeated restarts are neither faster than one process nor blocked for ever.
    """
    assert ceiling_interval_ns > 0, f"a ceiling interval of {ceiling_interval_ns} ns"
    assert idle_ns >= 0, f"idle for {idle_ns} ns"
    interval_ns = max(interval_ns, ceiling_interval_ns)
    return Pacer(
        ceiling_interval_ns=ceiling_interval_ns,
        interval_ns=interval_ns,
        ceiling_next_ns=now_ns + ceiling_interval_ns * burst_allowance(ceiling_interval_ns),
        pace_next_ns=now_ns - idle_ns + interval_ns * burst_allowance(interval_ns),
        last_departure_ns=now_ns - idle_ns,
    )


def lateness(before: float, late_ns: int, *, interval_ns: int) -> float:
    """How late our machine is on average, in intervals, after one more request that was ready and left so late."""
    return before + (min(1.0, max(0, late_ns) / interval_ns) - before) / A_FEW


def is_kept(late: float) -> bool:
    """Is about as much sent as the pace allows? If not, a higher pace would be learned that was never sent."""
    return late <= ELSEWHERE


def turns_every_ns(interval_ns: int) -> int:
    """How often turns are given where requests are sent in bursts, which costs less than waking for each; 0 without bursts.

    A turn that comes later than its lead is lost. So most of the lead is left for a late timer, or a batch to be written.
    """
    return _turn_lead_ns(interval_ns) // 3 if _tolerance_ns(interval_ns) else 0


def heard_within_ns(interval_ns: int, *, places: int) -> int:
    """How long answers may wait to be heard together; 0: there are no bursts, or too few free places for another one."""
    return _tolerance_ns(interval_ns) if places > burst_allowance(interval_ns) else 0


@lru_cache(REMEMBERED_INTERVALS)
def _tolerance_ns(interval_ns: int) -> int:
    return (burst_allowance(interval_ns) - 1) * interval_ns


@lru_cache(REMEMBERED_INTERVALS)
def _turn_lead_ns(interval_ns: int) -> int:
    """With bursts, nearly a whole one: a pause of two thirds of it loses no turn. The rest is for late departures."""
    tolerance_ns = _tolerance_ns(interval_ns)
    return tolerance_ns * 15 // 16 if tolerance_ns else min(TURN_LEAD_NS, interval_ns // 2)
