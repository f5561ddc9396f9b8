"""How does `remora catchup` work? It plans uncovered ids, walks them, retries due gaps once, and reports."""

from collections import Counter
from typing import Final

import msgspec

from remora.contracts import Clock, Outcome, Store
from remora.core.errors import ConfigurationError
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.gap import GapState
from remora.core.ledger.segment import SegmentKind
from remora.core.units import SECOND_NS
from remora.loops.numbered.backfill import walk_until_done, walkers
from remora.loops.recover import Recover, Recovery
from remora.operate.jobs.progress import Progress, ProgressView, shown, with_rate
from remora.operate.jobs.runtime import Numbered, ask_newest, rate_facts
from remora.operate.observe.recent_meter import RecentMeter

STILL_OWED: Final = frozenset({GapState.OWED, GapState.LEASED, GapState.DEAD})


class Wanted(msgspec.Struct, frozen=True):
    """Which ids the owner asked for."""

    start_id: int | None = None
    end_id: int | None = None
    limit: int | None = None
    replay: bool = False


class BackfillSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a backfill went."""

    source: str
    first_id: int
    last_id: int
    fetched: int
    outcomes: dict[str, int]
    frontier: int
    owed: int
    seconds: float


class BackfillJob:
    """One backfill of one numbered source."""

    def __init__(
        self, runtime: Numbered, store: Store, *, clock: Clock, meter: RecentMeter, view: ProgressView, owner: str
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._clock = clock
        self._meter = meter
        self._view = view
        self._owner = owner
        self._started_ns = clock.monotonic_ns()
        self._total: int | None = None  # until it is planned
        self._outcomes: Counter[Outcome] = Counter()

    async def run(self, wanted: Wanted) -> BackfillSummary:
        """Run until every wanted id is settled or owed. A wait for the very first answer is also shown."""
        async with shown(self._show):
            return await self._run(wanted)

    async def _run(self, wanted: Wanted) -> BackfillSummary:
        name = self._runtime.name
        newest = await ask_newest(self._runtime, self._store, clock=self._clock)
        ids = ids_wanted(wanted, first_id=self._runtime.settings.first_id, newest_id=newest)
        kind = SegmentKind.REPLAY if wanted.replay else SegmentKind.BACKFILL
        await self._store.plan(name, kind, (ids,), now_ns=self._clock.wall_ns())
        self._total = (await self._store.open_segments(name)).get(kind, 0)
        self._view.say(f"{name}: {self._total:,} of the ids {ids.start:,} to {ids.end:,} are still to be fetched")
        await self._walk(kind)
        await self._recover()
        frontier = (await self._store.coverage(name)).frontier(first_id=self._runtime.settings.first_id)
        return BackfillSummary(
            source=name,
            first_id=ids.start,
            last_id=ids.end,
            fetched=self._outcomes.total(),
            outcomes={str(outcome): count for outcome, count in sorted(self._outcomes.items())},
            frontier=frontier,
            owed=await self._owed(),
            seconds=round(self._elapsed_s(), 3),
        )

    async def _walk(self, kind: SegmentKind) -> None:
        walking = walkers(
            self._runtime.name,
            self._runtime.collector,
            self._store,
            clock=self._clock,
            owner=self._owner,
            kinds=(kind,),
            width=self._runtime.settings.in_flight,
            on_outcomes=lambda _kind, outcomes: self._outcomes.update(outcomes),
        )
        await walk_until_done(walking)

    async def _recover(self) -> None:
        """Try each due gap once more, and only once. The rest stays owed, each with its own not-before."""
        if owed := await self._owed():
            owed_in_words = "1 item is owed" if owed == 1 else f"{owed:,} items are owed"
            self._view.say(f"{self._runtime.name}: {owed_in_words}; what is due is asked for once more")
        recover = Recover(
            self._runtime.name,
            self._runtime.collector,
            self._store,
            clock=self._clock,
            owner=f"{self._owner}:recover",
            policy=Recovery(width=self._runtime.settings.in_flight),
        )
        await recover.run_through()

    async def _owed(self) -> int:
        counts = await self._store.gap_counts(self._runtime.name)
        return sum(count.count for count in counts if count.state in STILL_OWED)

    def _elapsed_s(self) -> float:
        return (self._clock.monotonic_ns() - self._started_ns) / SECOND_NS

    def _show(self) -> None:
        progress = Progress(
            source=self._runtime.name,
            done=self._outcomes.total(),
            total=self._total,
            gaps=self._outcomes[Outcome.OWED] + self._outcomes[Outcome.DEAD],
            outcomes={str(name): count for name, count in self._outcomes.items()},
        )
        rate = rate_facts(self._runtime.governor, self._meter, self._runtime.name)
        self._view.show(with_rate(progress, rate, elapsed_s=self._elapsed_s()))


def ids_wanted(wanted: Wanted, *, first_id: int, newest_id: int) -> IdRange:
    """The ids that a backfill should cover. A limit counts from --start-id; without it, it takes the newest ids."""
    end = newest_id if wanted.end_id is None else min(wanted.end_id, newest_id)
    start = first_id if wanted.start_id is None else wanted.start_id
    if wanted.limit is not None and wanted.start_id is None:
        start = max(first_id, end - wanted.limit + 1)
    elif wanted.limit is not None:
        end = min(end, start + wanted.limit - 1)
    if start > end:
        raise ConfigurationError(
            f"there are no ids from {start} on: the newest one is {newest_id}",
            hint=f"write a --start-id of at most {newest_id}",
        )
    return IdRange(start, end)
