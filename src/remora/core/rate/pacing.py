"""When may the next request leave? Two virtual schedules, one for the ceiling and one for the pace; the later one wins.

Each is a generic cell rate algorithm in integer nanoseconds. The ceiling's interval never changes, so its bound holds
whatever the pace does: any window of length T holds at most `burst + T / F` departures, F being the ceiling interval.
Up to 100 requests per second the burst is 1, which is strict spacing; above, it is 10 ms worth of departures, because
no event loop wakes more precisely than that at such rates.

A request gets its turn a little before it may leave, so that it stands ready when its slot comes: the time it takes from
the turn to the wire costs no rate. Only the departure is exact.
"""

from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple

from remora.core.units import MILLISECOND_NS, SECOND_NS

BURST_NS: Final = 10 * MILLISECOND_NS
# From a turn to a ready connection takes well under a millisecond, and a coarse timer is about one late.
TURN_LEAD_NS: Final = 3 * MILLISECOND_NS
# From the last look at the clock to the wire. Inside a stretch of time `sent` repairs what takes longer, at its end nothing.
SEND_NS: Final = MILLISECOND_NS // 2
# The pace changes far more rarely than requests leave; what follows from an interval is computed once.
REMEMBERED_INTERVALS: Final = 64


def burst_allowance(interval_ns: int) -> int:
    """How many departures may leave together at this interval: 10 ms worth, at least one."""
    return max(1, BURST_NS // interval_ns)


def interval_for(rate_per_s: float) -> int:
    """The interval that keeps a rate, rounded to the slower side."""
    assert rate_per_s > 0, f"a rate of {rate_per_s} per second"
    return max(1, ceil(SECOND_NS / rate_per_s))


class Pacer(NamedTuple):
    """The two schedules. `*_next_ns` is the theoretical time of the next departure if all were evenly spaced."""

    ceiling_interval_ns: int
    interval_ns: int
    ceiling_next_ns: int
    pace_next_ns: int
    last_departure_ns: int

    def earliest_ns(self) -> int:
        """The first moment at which the next request may leave."""
        return max(
            self.ceiling_next_ns - _tolerance_ns(self.ceiling_interval_ns),
            self.pace_next_ns - _tolerance_ns(self.interval_ns),
        )

    def turn_ns(self) -> int:
        """The first moment at which the next request may get its turn, to stand ready when it may leave."""
        return max(
            self.ceiling_next_ns - _turn_lead_ns(self.ceiling_interval_ns),
            self.pace_next_ns - _turn_lead_ns(self.interval_ns),
        )

    def at_interval(self, interval_ns: int) -> "Pacer":
        """The same pacer at another pace; what is left of the current wait stretches or shrinks with it.

        A burst that left at a fast pace is not paid back one by one at a slow one: the next departure is at most one
        new interval after the last.
        """
        interval_ns = max(interval_ns, self.ceiling_interval_ns)
        if interval_ns == self.interval_ns:
            return self
        lead_ns = self.pace_next_ns - self.last_departure_ns
        scaled_ns = min(-(-lead_ns * interval_ns // self.interval_ns), burst_allowance(interval_ns) * interval_ns)
        return self._replace(interval_ns=interval_ns, pace_next_ns=self.last_departure_ns + scaled_ns)

    def pace_earliest_ns(self) -> int:
        """The first moment at which the pace alone would let the next request leave."""
        return self.pace_next_ns - _tolerance_ns(self.interval_ns)

    def starting_at(self, starts_ns: int) -> "Pacer":
        """The same pacer in time that begins at `starts_ns`: nothing is carried over from before."""
        return self._replace(
            ceiling_next_ns=max(self.ceiling_next_ns, starts_ns + _tolerance_ns(self.ceiling_interval_ns)),
            pace_next_ns=max(self.pace_next_ns, starts_ns + _tolerance_ns(self.interval_ns)),
        )

    def sent(self, *, now_ns: int) -> "Pacer":
        """The pacer once the last request is on the wire: if it got there late, the next one counts from then."""
        next_ns = now_ns + self.ceiling_interval_ns
        return self if next_ns <= self.ceiling_next_ns else self._replace(ceiling_next_ns=next_ns)

    def no_earlier_than(self, other: "Pacer") -> "Pacer":
        """The later of two pacers of the same source in every respect."""
        return Pacer(
            self.ceiling_interval_ns,
            self.interval_ns,
            max(self.ceiling_next_ns, other.ceiling_next_ns),
            max(self.pace_next_ns, other.pace_next_ns),
            max(self.last_departure_ns, other.last_departure_ns),
        )

    def departed(self, *, now_ns: int) -> "Pacer":
        """The pacer after a request left at `now_ns`. Leaving early is our own mistake."""
        assert now_ns >= self.earliest_ns(), f"left {self.earliest_ns() - now_ns} ns too early"
        return self._after(now_ns)

    def took_turn(self, *, now_ns: int) -> "Pacer":
        """The pacer after a request got its turn at `now_ns`, to leave when it may."""
        assert now_ns >= self.turn_ns(), f"a turn {self.turn_ns() - now_ns} ns too early"
        return self._after(now_ns)

    def _after(self, now_ns: int) -> "Pacer":
        return Pacer(
            self.ceiling_interval_ns,
            self.interval_ns,
            max(self.ceiling_next_ns, now_ns) + self.ceiling_interval_ns,
            max(self.pace_next_ns, now_ns) + self.interval_ns,
            now_ns,
        )


def new_pacer(*, ceiling_interval_ns: int, interval_ns: int, now_ns: int, idle_ns: int = 0) -> Pacer:
    """A pacer that starts as if a whole burst had just left: a restart never adds a departure to a window.

    The pace, which may be as slow as one request in many minutes, counts from `idle_ns` ago, when the last process is
    known to have sent something. So restarts over and over are neither faster than one process nor shut out for ever.
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


@lru_cache(REMEMBERED_INTERVALS)
def _tolerance_ns(interval_ns: int) -> int:
    return (burst_allowance(interval_ns) - 1) * interval_ns


@lru_cache(REMEMBERED_INTERVALS)
def _turn_lead_ns(interval_ns: int) -> int:
    """Most of a burst where there are bursts; the rest is for what happens between the turn and the departure."""
    tolerance_ns = _tolerance_ns(interval_ns)
    return tolerance_ns * 3 // 4 if tolerance_ns else min(TURN_LEAD_NS, interval_ns // 2)
