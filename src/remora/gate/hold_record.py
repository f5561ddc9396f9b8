"""What holds requests back, and since when? A turn or a departure that waits, or whatever else is missing."""

from collections.abc import Mapping

from remora.contracts import Clock
from remora.core.rate.gate_types import STOPS, Hold, LimitedBy
from remora.core.rate.held_time import HeldTime, cause_without_hold


class HoldRecord:
    """What holds the requests of one gate back."""

    def __init__(self, clock: Clock, *, in_flight_max: int) -> None:
        self._clock = clock
        self._in_flight_max = in_flight_max
        self._time = HeldTime(now_ns=clock.monotonic_ns())
        self.turn: Hold | None = None  # what the dispatcher waits for
        self.departure: Hold | None = None  # what the next departure waits for
        self.storing = 0  # answers that wait for the store

    def note(self, in_flight: int) -> None:
        """Record what holds requests back from this moment on."""
        hold = self.turn or self.departure
        if hold is not None:
            self._time.switch(hold.limited_by, until_ns=hold.until_ns, now_ns=self._clock.monotonic_ns())
            return
        cause = cause_without_hold(in_flight, bound=self._in_flight_max, storing=self.storing)
        if not self._time.is_open_ended(cause):
            self._time.switch(cause, now_ns=self._clock.monotonic_ns())

    def note_unless_turn(self, in_flight: int) -> None:
        """The same, skipped while the dispatcher waits: its hold counts first."""
        if self.turn is None:
            self.note(in_flight)

    def note_departure(self, hold: Hold | None, in_flight: int) -> None:
        """The next departure waits for this; None: it waits no longer."""
        self.departure = hold
        self.note_unless_turn(in_flight)

    def shares(self, *, now_ns: int) -> Mapping[LimitedBy, float]:
        """How much of the time each cause held requests back."""
        return self._time.shares(now_ns=now_ns)

    def stopped_by(self) -> LimitedBy | None:
        """What stops all requests now, if anything does."""
        hold = self.turn or self.departure
        return hold.limited_by if hold is not None and hold.limited_by in STOPS else None
