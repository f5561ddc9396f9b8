"""What really held requests back? How much of the last seconds each cause took."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.pace import Pace
from remora.core.rate.quota import is_spread
from remora.core.units import MILLISECOND_NS, SECOND_NS

WINDOW_NS: Final = 10 * SECOND_NS
# A timer is never exact. If one fires later than this, the machine was busy.
LATE_NS: Final = 2 * MILLISECOND_NS


class HeldTime:
    """One cause counts at any moment. Each second has its own sum, so that old seconds can be forgotten."""

    def __init__(self, *, now_ns: int) -> None:
        self._cause = LimitedBy.NO_WORK
        self._until_ns: int | None = None
        self._since_ns = now_ns
        self._this_second: dict[LimitedBy, int] = {}
        self._second_ends_ns = 0
        self._seconds: deque[tuple[int, dict[LimitedBy, int]]] = deque(maxlen=WINDOW_NS // SECOND_NS + 1)

    def switch(self, cause: LimitedBy, *, until_ns: int | None = None, now_ns: int) -> None:
        """This is the cause from now on. If its end is known, time after that end is our own lateness."""
        if cause is self._cause and until_ns == self._until_ns:
            return
        end_ns = self._until_ns
        if now_ns < self._second_ends_ns and (end_ns is None or now_ns - end_ns <= LATE_NS):
            self._this_second[self._cause] = self._this_second.get(self._cause, 0) + now_ns - self._since_ns
        else:
            for counted, from_ns, to_ns in self._open_spans(now_ns):
                self._add(counted, from_ns, to_ns)
        self._cause, self._until_ns, self._since_ns = cause, until_ns, now_ns

    def is_open_ended(self, cause: LimitedBy) -> bool:
        """Whether this is the cause already, with no known end: to switch to it again changes nothing."""
        return cause is self._cause and self._until_ns is None

    def shares(self, *, now_ns: int) -> Mapping[LimitedBy, float]:
        """The share of the last seconds that each cause took; empty before any time has passed."""
        first_second = (now_ns - WINDOW_NS) // SECOND_NS
        held: dict[LimitedBy, int] = {}
        for second, causes in self._seconds:
            if second > first_second:
                for cause, took_ns in causes.items():
                    held[cause] = held.get(cause, 0) + took_ns
        for cause, from_ns, to_ns in self._open_spans(now_ns):
            held[cause] = held.get(cause, 0) + min(to_ns - from_ns, WINDOW_NS)
        whole_ns = sum(held.values())
        return {cause: took_ns / whole_ns for cause, took_ns in held.items() if took_ns} if whole_ns else {}

    def _open_spans(self, now_ns: int) -> list[tuple[LimitedBy, int, int]]:
        """What has not been added up yet."""
        end_ns = self._until_ns
        if end_ns is None or now_ns - end_ns <= LATE_NS:
            return [(self._cause, self._since_ns, now_ns)]
        end_ns = max(end_ns, self._since_ns)
        return [(self._cause, self._since_ns, end_ns), (LimitedBy.CPU, end_ns, now_ns)]

    def _add(self, cause: LimitedBy, from_ns: int, to_ns: int) -> None:
        from_ns = max(from_ns, to_ns - WINDOW_NS)
        while from_ns < to_ns:
            second = from_ns // SECOND_NS
            end_ns = min(to_ns, (second + 1) * SECOND_NS)
            if not self._seconds or self._seconds[-1][0] != second:
                self._this_second, self._second_ends_ns = {}, (second + 1) * SECOND_NS
                self._seconds.append((second, self._this_second))
            self._this_second[cause] = self._this_second.get(cause, 0) + end_ns - from_ns
            from_ns = end_ns


def cause_without_hold(in_flight: int, *, bound: int, storing: int) -> LimitedBy:
    """What keeps requests from being sent faster while nothing holds one back: what those in flight wait for."""
    if in_flight >= bound:
        return LimitedBy.IN_FLIGHT
    if not in_flight and not storing:
        return LimitedBy.NO_WORK
    return LimitedBy.ANSWERS if in_flight >= storing else LimitedBy.STORE


def limiting(shares: Mapping[LimitedBy, float]) -> LimitedBy:
    """The cause that took most of the time; nothing recorded means that there was no work."""
    return max(shares, key=lambda cause: shares[cause], default=LimitedBy.NO_WORK)


def pacing_limit(pace: Pace, *, interval_ns: int) -> LimitedBy:
    """What a request waits for while the pacer spaces it at this interval: the ceiling, a quota, or the pace."""
    if interval_ns <= pace.ceiling_interval_ns:
        return LimitedBy.CEILING
    return LimitedBy.QUOTA if is_spread(pace) else LimitedBy.PACE
