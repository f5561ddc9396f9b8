"""How has the rate been going? The last hours of every source's pace and back-offs, bounded, for the console's chart.

The last half hour has a fine resolution, six hours a coarse one, thirty days one point for each half hour. Unknown times
are a hole in the chart, never a zero. All but the fine part outlives the process as notes in the store.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock, Notes
from remora.core.errors import StoreError
from remora.core.ledger.notes import LONG_HISTORY_NOTE, RATE_HISTORY_NOTE
from remora.core.rate.gate_types import BackOff, RateFacts
from remora.core.status.model import Fresh, FreshList, SourceStatus, Status, Unknown
from remora.core.units import MINUTE_NS, SECOND_NS

log = structlog.get_logger()

NOTE_SCHEMA: Final = 1
FINE_S: Final = 5
FINE_POINTS: Final = 360  # half an hour
COARSE_S: Final = 60
COARSE_POINTS: Final = 360  # six hours
LONG_S: Final = 1_800
LONG_POINTS: Final = 1_440  # thirty days
BACK_OFFS_MAX: Final = 200
KEEP_EVERY_NS: Final = MINUTE_NS


class RatePoint(msgspec.Struct, frozen=True, array_like=True):
    """The rate over one span of time: what was allowed, and what was actually sent."""

    at_s: int
    span_s: int
    allowed_per_s: float
    leaving_per_s: float | None
    refused: float | None = None  # the share of the answers
    items: int | None = None  # held at the end
    age_s: float | None = None  # of the last news from the source


class BackOffMark(msgspec.Struct, frozen=True, array_like=True):
    """One back-off on the chart."""

    at_s: float
    reason: str
    from_per_s: float
    to_per_s: float


class SourceHistory(msgspec.Struct, frozen=True):
    """What the chart of one source shows, oldest first."""

    points: tuple[RatePoint, ...] = ()
    backoffs: tuple[BackOffMark, ...] = ()
    schema: int = NOTE_SCHEMA


@dataclass(slots=True)
class _Span:
    """An unfinished point. It begins with its first reading; the time before is unknown."""

    at_s: int
    ends_s: int
    read_s: int = 0  # its last reading
    allowed: list[float] = field(default_factory=list)
    leaving: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    age_s: list[float] = field(default_factory=list)
    items: int | None = None

    def point(self) -> RatePoint:
        allowed, leaving = _mean(self.allowed), _mean(self.leaving)
        assert allowed is not None, "a point begins with a reading"
        width = self.ends_s - self.at_s
        return RatePoint(self.at_s, width, allowed, leaving, _mean(self.refused), self.items, _mean(self.age_s))


class _Track:
    """Points of one width. The unfinished one is also shown."""

    def __init__(self, span_s: int, length: int) -> None:
        self.span_s = span_s
        self.points: deque[RatePoint] = deque(maxlen=length)
        self._making: _Span | None = None

    def add(self, source: SourceStatus, rate: RateFacts, at_s: int) -> None:
        if self._making is not None and at_s < self._making.at_s:
            self._forget_from(at_s)
        if self._making is None or at_s >= self._making.ends_s:
            if self._making is not None:
                self.points.append(self._making.point())
            self._making = _Span(at_s, at_s - at_s % self.span_s + self.span_s)
        self._making.read_s = at_s
        self._making.allowed.append(rate.per_s)
        if rate.recent_per_s is not None:
            self._making.leaving.append(rate.recent_per_s)
        if rate.recent is not None and rate.recent.answers:
            self._making.refused.append(rate.recent.refused / rate.recent.answers)
        if not isinstance(source.coverage, Unknown):
            self._making.items = source.progress.held if source.progress else source.coverage.settled
        if (news_ns := _last_news_ns(source)) is not None:
            self._making.age_s.append(max(0.0, at_s - news_ns / SECOND_NS))

    def _forget_from(self, at_s: int) -> None:
        """The clock was set back: what was read after this moment seems to come from the future."""
        self._making = None
        while self.points and self.points[-1].at_s >= at_s:
            self.points.pop()
        if self.points:
            self.points[-1] = _until(self.points[-1], at_s)

    def all(self) -> tuple[RatePoint, ...]:
        making = () if self._making is None else (self._making.point(),)
        return (*self.points, *making)

    def known(self) -> tuple[RatePoint, ...]:
        """The same, up to the last reading: the process may end before the next one."""
        if self._making is None:
            return tuple(self.points)
        return (*self.points, _until(self._making.point(), self._making.read_s + 1))


class _Kept:
    def __init__(self) -> None:
        self.fine = _Track(FINE_S, FINE_POINTS)
        self.coarse = _Track(COARSE_S, COARSE_POINTS)
        self.long = _Track(LONG_S, LONG_POINTS)
        self.backoffs: deque[BackOffMark] = deque(maxlen=BACK_OFFS_MAX)
        self.long_kept_s: int | None = None  # when the last long point began that is durable


class RateHistory:
    """The last hours of every source. Gets a reading once a second."""

    def __init__(self) -> None:
        self._sources: dict[str, _Kept] = {}

    def take(self, status: Status) -> None:
        """One reading. An unknown rate adds nothing: the chart shows a hole there."""
        at_s = status.as_of_ns // SECOND_NS
        for name, source in status.sources.items():
            if isinstance(source.rate, RateFacts):
                self._take_rate(self._kept(name), source, source.rate, at_s)

    def _take_rate(self, kept: _Kept, source: SourceStatus, rate: RateFacts, at_s: int) -> None:
        for track in (kept.fine, kept.coarse, kept.long):
            track.add(source, rate, at_s)
        while kept.backoffs and kept.backoffs[-1].at_s >= at_s + 1:  # the clock was set back
            kept.backoffs.pop()
        if rate.last_back_off is not None:
            mark = _mark(rate.last_back_off)
            if mark.at_s < at_s + 1 and (not kept.backoffs or kept.backoffs[-1].at_s < mark.at_s):
                kept.backoffs.append(mark)

    def of(self, source: str) -> SourceHistory:
        """What the chart of this source shows."""
        kept = self._sources.get(source)
        if kept is None:
            return SourceHistory()
        fine = kept.fine.all()
        coarse = kept.coarse.all()
        if fine:
            coarse = tuple(_until(point, fine[0].at_s) for point in coarse if point.at_s < fine[0].at_s)
        return SourceHistory((*coarse, *fine), tuple(kept.backoffs))

    def all(self) -> Mapping[str, SourceHistory]:
        """Every source's chart."""
        return {name: self.of(name) for name in self._sources}

    def long(self) -> Mapping[str, tuple[RatePoint, ...]]:
        """The last 30 days of every source, one point for each half hour."""
        return {name: kept.long.all() for name, kept in self._sources.items()}

    # -- beyond the process --------------------------------------------------------------------------------------------

    async def open(self, store: Notes, sources: Iterable[str], *, now_ns: int) -> None:
        """Load what an earlier process stored. Unreadable data is ignored: a chart is no reason to fail."""
        for name in sources:
            note = await store.note(name, RATE_HISTORY_NOTE)
            if note is None:
                continue
            try:
                found = msgspec.convert(note, SourceHistory)
            except msgspec.ValidationError:
                log.warning("history_not_read", source=name)
                continue
            self._restore(self._kept(name), found, now_s=now_ns // SECOND_NS)
            with suppress(msgspec.ValidationError):
                points = msgspec.convert(await store.note(name, LONG_HISTORY_NOTE) or [], tuple[RatePoint, ...])
                self._kept(name).long.points.extend(point for point in points if point.at_s <= now_ns // SECOND_NS)

    def _restore(self, kept: _Kept, found: SourceHistory, *, now_s: int) -> None:
        since_s = now_s - COARSE_S * COARSE_POINTS
        kept.coarse.points.extend(point for point in found.points if since_s <= point.at_s <= now_s - point.span_s)
        kept.backoffs.extend(mark for mark in found.backoffs if since_s <= mark.at_s <= now_s)

    async def keep(self, store: Notes, *, is_last: bool = False) -> None:
        """Make the coarse part durable."""
        for name, kept in self._sources.items():
            coarse = SourceHistory(kept.coarse.known(), tuple(kept.backoffs))
            await store.keep_note(name, RATE_HISTORY_NOTE, msgspec.to_builtins(coarse))
            known = kept.long.known()
            newest_s = known[-1].at_s if known else None
            if newest_s != kept.long_kept_s or is_last:
                kept.long_kept_s = newest_s
                await store.keep_note(name, LONG_HISTORY_NOTE, msgspec.to_builtins(known))

    async def run(self, store: Notes, *, clock: Clock) -> None:
        """Store it once a minute and at the end. An unreachable store costs a piece of the chart, nothing else."""
        try:
            while True:
                await clock.sleep_until(clock.monotonic_ns() + KEEP_EVERY_NS)
                await self._try_to_keep(store)
        finally:
            await self._try_to_keep(store, is_last=True)

    async def _try_to_keep(self, store: Notes, *, is_last: bool = False) -> None:
        try:
            await self.keep(store, is_last=is_last)
        except StoreError as error:
            log.warning("history_not_kept", why=error.message)

    def _kept(self, source: str) -> _Kept:
        return self._sources.setdefault(source, _Kept())


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def _last_news_ns(source: SourceStatus) -> int | None:
    """When the source last told something new."""
    match source.fresh:
        case Fresh():
            return source.fresh.newest_id_at_ns
        case FreshList():
            return source.fresh.walked_at_ns
        case _:
            return None


def _until(point: RatePoint, end_s: int) -> RatePoint:
    """The same point, ending no later than this."""
    return msgspec.structs.replace(point, span_s=min(point.span_s, end_s - point.at_s))


def _mark(back_off: BackOff) -> BackOffMark:
    at_s = round(back_off.at_ns / SECOND_NS, 3)
    return BackOffMark(at_s, back_off.reason, round(back_off.from_per_s, 3), round(back_off.to_per_s, 3))
