"""How high is the actual rate right now? Departures and answers of the last seconds; all counts are passed on."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from remora.contracts import Clock, Meter, Outcome
from remora.core.lanes import Lane
from remora.core.rate.gate_types import Barred, Recent
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Deferred, Pressure, Refused, Trouble, Verdict

WINDOW_S: Final = 10
WINDOW_NS: Final = WINDOW_S * SECOND_NS
BARRING: Final = frozenset({GapReason.UNAUTHORIZED, GapReason.FORBIDDEN})


@dataclass(slots=True)
class _Second:
    at_s: int
    departures: int = 0
    answers: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Watched:
    since_ns: int
    seconds: deque[_Second] = field(default_factory=lambda: deque(maxlen=WINDOW_S + 1))
    wire_sends: int = 0
    barred: Barred | None = None


class RecentMeter:
    """Counts the recent window of every source, and passes everything on."""

    def __init__(self, inner: Meter, *, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._sources: dict[str, _Watched] = {}

    def recent(self, source: str) -> Recent | None:
        """The recent window; None if nothing was ever counted."""
        watched = self._sources.get(source)
        if watched is None:
            return None
        now_ns = self._clock.monotonic_ns()
        # The current second is left out: half a second's departures over a whole second would look slow.
        whole = [
            second for second in watched.seconds if now_ns // SECOND_NS - WINDOW_S <= second.at_s < now_ns // SECOND_NS
        ]
        return Recent(
            departures=sum(second.departures for second in whole),
            answers=sum(second.answers for second in whole),
            refused=sum(second.refused for second in whole),
            failed=sum(second.failed for second in whole),
            window_ns=min(WINDOW_NS, (now_ns // SECOND_NS - watched.since_ns // SECOND_NS) * SECOND_NS),
        )

    def barred(self, source: str) -> Barred | None:
        """Since when every request is refused, whatever the rate."""
        watched = self._sources.get(source)
        return None if watched is None else watched.barred

    def wire_sends(self, source: str) -> int:
        """Requests written to a connection since the start."""
        watched = self._sources.get(source)
        return 0 if watched is None else watched.wire_sends

    def departed(self, source: str, lane: Lane) -> None:
        self._second(source).departures += 1
        self._inner.departed(source, lane)

    def wire_sent(self, source: str) -> None:
        self._watched(source).wire_sends += 1
        self._inner.wire_sent(source)

    def judged(self, source: str, lane: Lane, verdict: Verdict) -> None:
        second = self._second(source)
        second.answers += 1
        second.refused += int(isinstance(verdict, Pressure))
        second.failed += int(isinstance(verdict, Trouble))
        self._judge_bar(self._watched(source), verdict)
        self._inner.judged(source, lane, verdict)

    def recorded(self, source: str, lane: Lane, outcome: Outcome, *, age_s: float | None) -> None:
        self._inner.recorded(source, lane, outcome, age_s=age_s)

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        self._inner.pace_changed(source, interval_ns=interval_ns, backed_off_because=backed_off_because)

    def circuit_changed(self, source: str, state: str) -> None:
        self._inner.circuit_changed(source, state)

    def _judge_bar(self, watched: _Watched, verdict: Verdict) -> None:
        match verdict:
            case Refused(reason) if reason in BARRING:
                before = watched.barred or Barred(self._clock.wall_ns(), reason, 0)
                watched.barred = Barred(before.since_ns, reason, before.answers + 1)
            case Pressure() | Trouble() | Deferred():
                pass  # says nothing about whether we may ask at all
            case _:
                watched.barred = None

    def _watched(self, source: str) -> _Watched:
        watched = self._sources.get(source)
        if watched is None:
            watched = self._sources[source] = _Watched(self._clock.monotonic_ns())
        return watched

    def _second(self, source: str) -> _Second:
        watched = self._watched(source)
        now_s = self._clock.monotonic_ns() // SECOND_NS
        if not watched.seconds or watched.seconds[-1].at_s != now_s:
            watched.seconds.append(_Second(now_s))
        return watched.seconds[-1]
