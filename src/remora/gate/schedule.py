"""When may the next request get its turn, and when may it depart? Two pacers, in the time that the gate home grants.

`departed` is the schedule of what was sent; `granted` is ahead of it by the permits that are not used yet.
"""

from remora.contracts import GateHome
from remora.core.rate.pacing import Pacer, is_kept, lateness
from remora.core.rate.stretches import Stretch


class Schedule:
    """The two schedules of one gate, and the stretch of time that each of them is in."""

    __slots__ = ("_granted", "_home", "_late", "departed", "departing_in", "granting_in", "is_kept")

    def __init__(self, home: GateHome, pacer: Pacer) -> None:
        self._home = home
        self._late = 0.0
        self.is_kept = True  # about as much is sent as the pace allows: a busy machine sends less
        self.departed = pacer
        self._granted = pacer
        self.departing_in: Stretch | None = None
        self.granting_in: Stretch | None = None

    @property
    def granted(self) -> Pacer:
        """The schedule of turns: never behind what was sent."""
        return self._granted.no_earlier_than(self.departed)

    def restart(self, pacer: Pacer) -> None:
        """Go on with this pacer."""
        self.departed = self._granted = pacer

    def at_interval(self, interval_ns: int) -> None:
        """Go on at this pace."""
        self._granted = self.granted.at_interval(interval_ns)
        self.departed = self.departed.at_interval(interval_ns)

    def turn_in(self, *, now_ns: int) -> Stretch | None:
        """The time in which the next turn may be given; None: there is none yet."""
        stretch = self._home.stretch(self.granted, now_ns=now_ns)
        if stretch is not self.granting_in:
            self.granting_in = stretch
            if stretch is not None:
                self._granted = self.granted.starting_at(stretch.starts_ns)
        return stretch

    def departure_in(self, *, now_ns: int) -> Stretch | None:
        """The time in which the next request may depart; None: there is none yet."""
        stretch = self._home.stretch(self.departed, now_ns=now_ns)
        if stretch is not self.departing_in:
            self.departing_in = stretch
            if stretch is not None:
                self.departed = self.departed.starting_at(stretch.starts_ns)
        return stretch

    def turns_due(self, *, now_ns: int) -> int:
        """How many turns may be given at once, all in the same time; at least one, if the next turn is due."""
        assert self.granting_in is not None, "a turn without time"
        return min(
            self.granted.turns_due(now_ns=now_ns),
            self.granting_in.room(self.granted, now_ns=now_ns),
            self.granting_in.sendable(now_ns=now_ns),
        )

    def has_departure(self, *, now_ns: int) -> bool:
        """Whether one more request may depart at once, in the same time as the last."""
        stretch = self.departing_in
        if stretch is None or self.departed.earliest_ns() > now_ns:
            return False
        return self._home.stretch(self.departed, now_ns=now_ns) is stretch

    def took_turns(self, count: int, *, now_ns: int) -> None:
        """So many turns were given."""
        self._granted = self.granted.took_turns(count, now_ns=now_ns)

    def depart(self, stretch: Stretch, *, now_ns: int, was_ready: bool) -> None:
        """A request departs now; `was_ready` before the pace let it. The pacer asserts the ceiling."""
        before = self.departed
        self.departed = before.departed(now_ns=now_ns)
        self._home.departed(stretch, before, now_ns=now_ns)
        if was_ready:
            self._late = lateness(self._late, now_ns - before.pace_next_ns, interval_ns=before.interval_ns)
            self.is_kept = is_kept(self._late)

    def sent_late(self, *, now_ns: int) -> None:
        """The last request is on the wire, long after it departed: the next one counts from now."""
        self.departed = self.departed.sent(now_ns=now_ns)
