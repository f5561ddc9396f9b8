"""How high is the actual rate right now? Departures and answers of the last seconds; all counts are passed on."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from remora.contracts import Clock, Meter, Observation, Outcome
from remora.core.lanes import Lane
from remora.core.rate.gate_types import Barred, Recent
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Deferred, Found, Pressure, Refused, Trouble, Verdict

WINDOW_S: Final = 10
WINDOW_NS: Final = WINDOW_S * SECOND_NS
BARRING: Final = frozenset({GapReason.UNAUTHORIZED, GapReason.FORBIDDEN})


@dataclass(slots=True)
class _Second:
    at_s: int
    ends_ns: int
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


class Uncounted:
    """A `contracts.Meter` that counts nothing, for a command whose metrics nobody can read."""

    def departed(self, source: str, lane: Lane, count: int = 1) -> None: ...
    def wire_sent(self, source: str) -> None: ...
    def judged(self, source: str, lane: Lane, *verdicts: Verdict) -> None: ...
    def recorded(self, source: str, seen: Sequence[Observation], outcomes: Sequence[Outcome]) -> None: ...
    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None: ...
    def circuit_changed(self, source: str, state: str) -> None: ...


class RecentMeter:
    """Counts the recent window of every source, and passes everything on."""

    def __init__(self, inner: Meter, *, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._sources: dict[str, _Watched] = {}
        self._present: dict[str, _Second] = {}  # the last of each source's seconds
        # What is only passed on goes straight to the inner meter.
        self.recorded, self.pace_changed, self.circuit_changed = (
            inner.recorded,
            inner.pace_changed,
            inner.circuit_changed,
        )

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

    def departed(self, source: str, lane: Lane, count: int = 1) -> None:
        self._second(source).departures += count
        self._inner.departed(source, lane, count)

    def wire_sent(self, source: str) -> None:
        (self._sources.get(source) or self._watch(source)).wire_sends += 1
        self._inner.wire_sent(source)

    def judged(self, source: str, lane: Lane, *verdicts: Verdict) -> None:
        second = self._second(source)
        second.answers += len(verdicts)
        for verdict in verdicts:
            if isinstance(verdict, Found):  # fast path
                self._sources[source].barred = None
            elif isinstance(verdict, Pressure):
                second.refused += 1
            elif isinstance(verdict, Trouble):
                second.failed += 1
            else:
                self._judge_bar(source, verdict)
        self._inner.judged(source, lane, *verdicts)

    def _judge_bar(self, source: str, verdict: Verdict) -> None:
        """Pressure, trouble and what is put off say nothing about whether we may ask at all; other answers do."""
        watched = self._sources[source]
        if isinstance(verdict, Refused) and verdict.reason in BARRING:
            before = watched.barred or Barred(self._clock.wall_ns(), verdict.reason, 0)
            watched.barred = Barred(before.since_ns, verdict.reason, before.answers + 1)
        elif not isinstance(verdict, Deferred):
            watched.barred = None

    def _watch(self, source: str) -> _Watched:
        watched = self._sources[source] = _Watched(self._clock.monotonic_ns())
        return watched

    def _second(self, source: str) -> _Second:
        now_ns = self._clock.monotonic_ns()
        second = self._present.get(source)
        if second is None or now_ns >= second.ends_ns:
            now_s = now_ns // SECOND_NS
            second = self._present[source] = _Second(now_s, ends_ns=(now_s + 1) * SECOND_NS)
            (self._sources.get(source) or self._watch(source)).seconds.append(second)
        return second
