"""How is a listed archive collected? In bounded runs: what is owed, then the list, then the details, under one budget.

Nothing is held only in memory: a page's entries are owed from the moment the page is recorded, and a run that stops
leaves one backlog gap that says why. A transient stop of the provider is waited out; only the run's own budget, or a
provider that keeps asking for less, ends a run early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from remora.collect import Asked, Collector
from remora.contracts import Clock, Outcome, RunRecord, Store
from remora.core.lanes import Lane
from remora.core.ledger.budget import Budget
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import Gap
from remora.core.ledger.run import PRESSURE, Phase, RunCounts, RunSummary, Stop, StoppedBy, in_words
from remora.core.reasons import GapReason
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred, Refused
from remora.gate.governor import Governor
from remora.loops.listed.asking import Asker
from remora.loops.listed.backlog import Backlog
from remora.loops.listed.walk import ListWalk

log = structlog.get_logger()

WALKS_PER_RUN_MAX: Final = 2
DETAILS_AT_ONCE: Final = 100
GAP_LEASE_NS: Final = 30 * MINUTE_NS


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the owner allows this run."""

    max_wall_ns: int | None = None
    max_fetches: int | None = None
    recover_only: bool = False
    force: bool = False  # the one bypass: walk although an earlier run's pressure is still cooling down


class ListedRun:
    """One bounded run over one listed source. Its collector must not repeat requests by itself."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        governor: Governor,
        *,
        clock: Clock,
        owner: str,
        options: RunOptions,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._owner = owner
        self._options = options
        self.counts = RunCounts()
        self.phase = Phase.RECOVERY
        budget = Budget(clock.monotonic_ns(), options.max_wall_ns, options.max_fetches)
        self._asker = Asker(collector, governor, clock=clock, budget=budget, counts=self.counts)
        self._backlog = Backlog(source, collector, store, clock=clock)

    async def run_once(self) -> RunSummary:
        """The whole run. One that is cut off leaves a record without an end, and nothing else is lost."""
        started_ns = self._clock.wall_ns()
        run_id = await self._store.start_run(self._source, now_ns=started_ns)
        stop = await self._phases()
        stopped_by = StoppedBy.COMPLETE if stop is None else stop.by
        because = in_words(stop, self._asker.budget, self.counts, now_ns=self._clock.monotonic_ns())
        left = await self._backlog.keep(stop)
        counts = self.counts.as_mapping()
        await self._store.end_run(
            self._source, RunRecord(run_id, started_ns, self._clock.wall_ns(), stopped_by, counts)
        )
        wait_ns = 0 if left.not_before_ns is None else max(0, left.not_before_ns - self._clock.wall_ns())
        log.info(
            "run_ended",
            source=self._source,
            stopped_by=str(stopped_by),
            because=because,
            owed=left.owed,
            dead=left.dead,
            walk_waits_s=round(wait_ns / SECOND_NS, 3),
            counts=counts,
        )
        return RunSummary(stopped_by, self.counts, left.owed, left.not_before_ns, because, left.dead)

    async def _phases(self) -> Stop | None:
        cooling = None if self._options.force else await self._backlog.cooling()
        if (stop := await self._recover(without=PRESSURE if cooling else ())) is not None:
            return stop
        if cooling is not None and (wait_ns := cooling.until_ns - self._clock.wall_ns()) > 0:
            return Stop(StoppedBy.COOL_DOWN, cooling.reason, wait_ns)
        if self._options.recover_only:
            return await self._details() or Stop(StoppedBy.RECOVER_ONLY)
        walk_stop = await self._walk()
        # A list that cannot be read ends the walk, not the run: what is owed already can still be collected.
        if walk_stop is not None and (walk_stop.is_ours or walk_stop.reason is GapReason.UNAUTHORIZED):
            return walk_stop
        return await self._details() or walk_stop

    async def _walk(self) -> Stop | None:
        """The rest of an interrupted walk, if there is one, and then what has come above it since."""
        self.phase = Phase.WALK
        for _ in range(WALKS_PER_RUN_MAX):
            walk = ListWalk(self._source, self._store, self._asker, clock=self._clock, counts=self.counts)
            if (stop := await walk.run()) is not None:
                return stop
            if not walk.was_resumed:
                break
        return None

    # ── recovery ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _recover(self, *, without: Sequence[GapReason]) -> Stop | None:
        """Ask once more for what is owed and due. Pressure ends the recovery, not the run; only our own budget does."""
        served: set[str] = set()
        try:
            while True:
                # Before the lease: a gap that is leased and then not asked for would lose its place in the line.
                if (stop := self._asker.cap()) is not None:
                    return stop
                if (gap := await self._lease_one(without)) is None:
                    return None
                if gap.kind is not Kind.DOCUMENT:
                    continue  # the backlog: the walk and the details are what serves it
                if gap.key in served:
                    return None  # the longest not served comes first, so everything had its turn
                served.add(gap.key)
                if (stop := await self._serve(gap)) is not None:
                    return stop
                if self._asker.is_pressed or self._asker.is_refused:
                    log.info("recovery_stopped", source=self._source, reason=str(gap.reason))
                    return None
        finally:
            await self._store.release_gaps(self._source, owner=self._owner)

    async def _lease_one(self, without: Sequence[GapReason]) -> Gap | None:
        """One at a time, for the same reason."""
        leased = await self._store.lease_gaps(
            self._source,
            owner=self._owner,
            limit=1,
            lease_ns=GAP_LEASE_NS,
            now_ns=self._clock.wall_ns(),
            without=without,
        )
        return leased[0] if leased else None

    async def _serve(self, gap: Gap) -> Stop | None:
        key = await self._store.key_of(self._source, gap.key)
        assert key is not None, "a gap names a document that was never listed"
        discovery = Discovery(Kind.DOCUMENT, key, Lane.RECOVER, FromGap(self._owner))
        asked = await self._asker.ask_once(discovery)
        if isinstance(asked, Stop):
            return asked
        await self._record(discovery, asked)
        return None

    # ── the details ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _details(self) -> Stop | None:
        """Fetch every owed detail, newest first. One that is refused, gone or wrong is a gap; the rest goes on."""
        self.phase = Phase.DETAILS
        owed: list[str] = []
        stuck: set[str] = set()
        while owed := await self._owed(owed, stuck):
            for key in owed:
                discovery = Discovery(Kind.DOCUMENT, key, Lane.DETAIL)
                asked = await self._asker.ask(discovery)
                if isinstance(asked, Stop):
                    await self._set_aside(discovery, asked)
                    return asked
                await self._record(discovery, asked)
                if self._asker.is_refused and isinstance(asked.verdict, Refused):
                    return Stop(StoppedBy.REFUSED, asked.verdict.reason)
        return None

    async def _set_aside(self, discovery: Discovery, stop: Stop) -> None:
        """A detail that was refused until the run stopped is owed on its own: the next run begins with its neighbours."""
        if self._asker.is_pressed and stop.reason is not None:
            await self._record(discovery, Asked(Deferred(stop.reason), self._clock.wall_ns(), 0))

    async def _owed(self, asked: Sequence[str], stuck: set[str]) -> list[str]:
        """What to ask for next. What was asked for a moment ago and is owed all the same is stuck.

        It was listed by a clock that has since stepped back. It stays owed, and this run has done what it can.
        """
        while True:
            details = await self._store.owed_details(self._source, limit=DETAILS_AT_ONCE + len(stuck))
            owed = [detail.key for detail in details if detail.key not in stuck]
            if not (again := set(asked).intersection(owed)):
                return owed
            stuck |= again

    async def _record(self, discovery: Discovery, asked: Asked) -> Outcome:
        outcome = await self._collector.record(discovery, asked)
        self.counts.outcomes[outcome] += 1
        return outcome
