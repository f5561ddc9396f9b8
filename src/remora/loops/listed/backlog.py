"""What does a run leave for the next one? One gap for everything that is left, and how long the walk must wait.

The rest of a list is described by content, never by an offset: everything at or below a mark. Pressure starts a
cool-down that grows from run to run. If our own limits stop a run, there is no cool-down, unless the provider named a
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from remora.collect import Asked, Collector
from remora.contracts import Clock, GapCount, Json, Store
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import SCHEDULE, GapState
from remora.core.ledger.notes import BACKLOG_NOTE as BACKLOG_NOTE
from remora.core.ledger.run import Stop, StoppedBy
from remora.core.reasons import GapFamily, GapReason
from remora.core.verdict import Deferred, Found, Verdict

BACKLOG: Final = Discovery(Kind.PAGE, "backlog", Lane.WALK)
COOL_DOWN_MAX_NS: Final = max(SCHEDULE[GapFamily.PRESSURE])  # 6 h
NOTHING_LEFT: Final = Found(Page(entries=(), next_position=None))


@dataclass(frozen=True, slots=True)
class Cooling:
    """The walk waits because an earlier run met pressure. Wall clock."""

    reason: GapReason
    until_ns: int


@dataclass(frozen=True, slots=True)
class Left:
    """What a run left."""

    owed: int
    dead: int
    not_before_ns: int | None  # when the walk may go on
    unread_pages: int = 0


class Backlog:
    """The one gap for everything a run did not get to."""

    def __init__(self, source: str, collector: Collector, store: Store, *, clock: Clock) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock

    async def cooling(self) -> Cooling | None:
        """Until when the walk waits, if it does. A time beyond the longest cool-down is ignored: the clock stepped."""
        now_ns = self._clock.wall_ns()
        waits: list[Cooling] = []
        gap = await self._gap()
        if gap is not None and gap.reason.family is GapFamily.PRESSURE and gap.next_ns <= now_ns + COOL_DOWN_MAX_NS:
            waits.append(Cooling(gap.reason, gap.next_ns))
        match await self._store.note(self._source, BACKLOG_NOTE):
            case {"wait_ns": int(wait_ns), "not_before_ns": int(until_ns)} if until_ns <= now_ns + wait_ns:
                waits.append(Cooling(GapReason.UPSTREAM_PRESSURE, until_ns))
        latest = max(waits, key=lambda wait: wait.until_ns, default=None)
        return latest if latest is not None and latest.until_ns > now_ns else None

    async def keep(self, stop: Stop | None, *, told: str) -> Left:
        """Record what is left after a run with this stop, as it was `told`, or that nothing is left."""
        cooling = await self.cooling()
        counts = await self._store.gap_counts(self._source)
        owed = await self._store.count_owed_details(self._source) + _documents(counts, GapState.OWED, GapState.LEASED)
        dead = _documents(counts, GapState.DEAD)
        pages = sum(count.count for count in counts if count.kind is Kind.UNREAD_PAGE)
        if stop is None:
            await self._settle()
            return Left(owed, dead, None, pages)
        if stop.by in {StoppedBy.COOL_DOWN, StoppedBy.RECOVER_ONLY}:
            return Left(owed, dead, None if cooling is None else cooling.until_ns, pages)
        # A stop by our own limits says nothing about an earlier cool-down that still runs.
        if stop.reason is not None and (cooling is None or not stop.is_ours):
            await self._record(Deferred(stop.reason))
        await self._note(stop, owed, cooling, told)
        cooling = await self.cooling()
        return Left(owed, dead, None if cooling is None else cooling.until_ns, pages)

    async def _note(self, stop: Stop, owed: int, cooling: Cooling | None, told: str) -> None:
        walk = await self._store.walk_state(self._source)
        now_ns = self._clock.wall_ns()
        until_ns = max(now_ns + stop.held_ns, now_ns if cooling is None else cooling.until_ns)
        left: dict[str, Json] = {
            "reason": None if stop.reason is None else str(stop.reason),
            "seen_down_to": walk.seen_down_to if walk.is_under_way else walk.watermark,
            "is_walk_under_way": walk.is_under_way,
            "owed": owed,
            "wait_ns": until_ns - now_ns,
            "not_before_ns": until_ns,
            "hole": await self._hole(stop),
            "told": told,
        }
        await self._store.keep_note(self._source, BACKLOG_NOTE, left)

    async def _hole(self, stop: Stop) -> str | None:
        """The page that could not be read. A run that did not get that far has not read it either."""
        if stop.by is StoppedBy.LIST_TROUBLE and stop.why:
            return stop.why
        match await self._store.note(self._source, BACKLOG_NOTE):
            case {"hole": str(hole)}:
                return hole
            case _:
                return None

    async def _settle(self) -> None:
        if await self._gap() is not None:
            await self._record(NOTHING_LEFT)
        if await self._store.note(self._source, BACKLOG_NOTE) is not None:
            await self._store.keep_note(self._source, BACKLOG_NOTE, None)

    async def _record(self, verdict: Verdict) -> None:
        await self._collector.record(BACKLOG, Asked(verdict, self._clock.wall_ns(), 0))

    async def _gap(self) -> GapCount | None:
        counts = await self._store.gap_counts(self._source)
        return next((count for count in counts if count.kind is Kind.PAGE), None)


def _documents(counts: Sequence[GapCount], *states: GapState) -> int:
    return sum(count.count for count in counts if count.kind is Kind.DOCUMENT and count.state in states)
