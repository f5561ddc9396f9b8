"""How is a listed source collected? In bounded runs: gaps, then the list, then the details, then refused gaps.

Nothing is only in memory: a page's entries are owed as soon as the page is recorded, and a run that stops leaves one
backlog gap that says why. When the provider asks for less, the run waits and continues. Only the run's own budget, or a
provider that keeps asking for less, ends a run early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Json, RunRecord, Store
from remora.core.ledger.asking import LISTED
from remora.core.ledger.budget import Budget
from remora.core.ledger.discovery import Kind
from remora.core.ledger.notes import DECLARED_NOTE
from remora.core.ledger.run import BUT_PRESSURE, PRESSURE, Phase, RunCounts, RunSummary, Stop, StoppedBy, in_words
from remora.core.reasons import GapReason
from remora.core.status.snapshot import RunFacts
from remora.core.units import SECOND_NS
from remora.gate.governor import Governor
from remora.loops.listed.allowance import RunAllowance
from remora.loops.listed.backlog import Backlog
from remora.loops.listed.details import Details
from remora.loops.listed.parents import take_parents
from remora.loops.listed.recovery import ListedRecovery
from remora.loops.listed.vanished import Missed, Vanished
from remora.loops.listed.walk import ListWalk

log = structlog.get_logger()

# The rest of an interrupted walk, one for entries that appeared since, and one more if a walk missed entries.
WALKS_PER_RUN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the owner allows this run."""

    max_wall_ns: int | None = None
    max_fetches: int | None = None
    recover_only: bool = False
    force: bool = False  # walk although the cool-down of an earlier run is not over
    in_flight: int = 1  # how many details may be in flight at once


class ListedRun:
    """One bounded run over one listed source. Its collector uses the policy `LISTED`."""

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
        self._options = options
        self.counts = RunCounts()
        self.phase = Phase.RECOVERY
        self._record: RunRecord | None = None  # from the moment its begin is stored
        self._shows_gone = False
        self._missed: Missed | None = None  # what no walk has shown can be judged
        budget = Budget(clock.monotonic_ns(), options.max_wall_ns, options.max_fetches)
        self._allowance = RunAllowance(governor, clock=clock, budget=budget, counts=self.counts, policy=LISTED)
        self._gaps = ListedRecovery(
            source, collector, store, clock=clock, owner=owner, allowance=self._allowance, counts=self.counts
        )
        self._backlog = Backlog(source, collector, store, clock=clock)
        self._details = Details(source, collector, store, self._allowance, counts=self.counts, width=options.in_flight)
        self._vanished = Vanished(source, collector, store, self._details, clock=clock, counts=self.counts)

    async def run_once(self) -> RunSummary:
        """The whole run. A killed run leaves a record without an end; nothing else is lost."""
        started_ns = self._clock.wall_ns()
        run_id = await self._store.start_run(self._source, now_ns=started_ns)
        self._record = RunRecord(run_id, started_ns)
        stop = await self._phases()
        stopped_by = StoppedBy.COMPLETE if stop is None else stop.by
        because = in_words(stop, self._allowance.budget, self.counts, now_ns=self._clock.monotonic_ns())
        left = await self._backlog.keep(None if stop is not None and stop.is_owed else stop, told=because)
        if stop is None and left.unread_pages:
            pages = "1 page of it" if left.unread_pages == 1 else f"{left.unread_pages} pages of it"
            because = f"{because}; {pages} could not be read yet"
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
            unread_pages=left.unread_pages,
            walk_waits_s=round(wait_ns / SECOND_NS, 3),
            counts=counts,
        )
        return RunSummary(stopped_by, self.counts, left.owed, left.not_before_ns, because, left.dead, left.unread_pages)

    def facts(self) -> RunFacts | None:
        """The run and its counts so far; None before its begin is stored."""
        if self._record is None:
            return None
        return RunFacts(
            run_id=self._record.run_id,
            started_at_ns=self._record.started_ns,
            phase=str(self.phase),
            counts=self.counts.as_mapping(),
        )

    async def _phases(self) -> Stop | None:
        await self._forget_other_declarations()
        orphaned = await self._take_parents()
        cooling = None if self._options.force else await self._backlog.cooling()
        if (stop := await self._recover(without=PRESSURE)) is not None:
            return stop
        if cooling is not None and (wait_ns := cooling.until_ns - self._clock.wall_ns()) > 0:
            return Stop(StoppedBy.COOL_DOWN, cooling.reason, wait_ns)
        if self._options.recover_only:
            return await self._rest() or Stop(StoppedBy.RECOVER_ONLY)
        if orphaned is not None or self._all_parents_vanished():
            return await self._rest() or orphaned
        walk_stop, is_cut = await self._walk_beside_details()
        if walk_stop is not None and (walk_stop.is_pressure or is_cut):
            # A page was refused, or the walk has had its share. The details are fetched before the walk goes on.
            if (stop := await self._fetch_owed()) is not None:
                return stop
            walk_stop = await self._walk(waits=True)
        # A list that cannot be read ends the walk, not the run: what is already owed can still be collected.
        if walk_stop is not None and (walk_stop.is_ours or walk_stop.reason is GapReason.UNAUTHORIZED):
            return walk_stop
        return await self._rest() or walk_stop

    async def _forget_other_declarations(self) -> None:
        """Another declaration may lead to other entries, which older marks would hide, to other marks, or to other documents."""
        can = self._collector.capabilities
        now: dict[str, Json] = {"list_at": can.list_at, "marks_at": can.marks_at, "details_at": can.details_at}
        before = await self._store.note(self._source, DECLARED_NOTE)
        if can.marks_at is None or before == now:
            return
        if isinstance(before, dict):
            if before.get("marks_at") != can.marks_at:
                await self._store.forget_marks(self._source)
                log.warning("marks_forgotten", source=self._source)
            elif before.get("list_at") != can.list_at:
                await self._store.forget_walk(self._source)
                log.warning("walk_forgotten", source=self._source)
            if before.get("details_at", can.details_at) != can.details_at:
                await self._owe_details_anew()
        await self._store.keep_note(self._source, DECLARED_NOTE, now)

    async def _owe_details_anew(self) -> None:
        """What was answered so far, good or bad, answered another question."""
        if self._collector.capabilities.inline_details:
            await self._store.forget_walk(self._source)  # the walk shows all documents
        else:
            await self._store.owe_details(self._source)
        await self._store.replay_gaps(self._source, now_ns=self._clock.wall_ns())
        log.warning("details_owed_anew", source=self._source)

    async def _take_parents(self) -> Stop | None:
        """Tell the source for whose entries its list is walked. A stop, if there is none to walk it for."""
        parents, each = (
            await take_parents(self._source, self._collector, self._store),
            self._collector.capabilities.each,
        )
        if parents is None:
            return None
        why = None
        if parents.lacking:
            why = f"{parents.lacking} entries of {each} lack a field that list.path needs; check the name after {{entry.}}"
        elif not parents.known:
            why = f"the list is walked for each entry of {each}, and none is known yet; run {each} first"
        return None if why is None else Stop(StoppedBy.LIST_CONTRADICTS, GapReason.MALFORMED, why=why)

    def _all_parents_vanished(self) -> bool:
        """Whether the list belongs to entries of another source, and none of them is there any more: nothing to walk."""
        walked = self._collector.walked
        return walked is not None and walked.capabilities.each is not None and not walked.has_parents()

    async def _rest(self) -> Stop | None:
        """Fetch what is owed. What was refused before comes last, because it may always be refused."""
        if (stop := await self._fetch_owed()) is not None or (stop := await self._judge_vanished()) is not None:
            return stop
        # What has vanished, or is gone but still listed, is requested once more: the answer shows whether it is gone.
        if (self.counts.vanished or self._shows_gone) and (stop := await self._recover(without=PRESSURE)) is not None:
            return stop
        return await self._recover(without=BUT_PRESSURE) if await self._is_refused_due() else None

    async def _is_refused_due(self) -> bool:
        """Whether a refused gap is due. Without one the run is over, even if some of its budget is left."""
        now_ns = self._clock.wall_ns()
        counts = await self._store.gap_counts(self._source)
        return any(gap.kind is Kind.DOCUMENT and gap.reason in PRESSURE and gap.next_ns <= now_ns for gap in counts)

    async def _walk(self, *, waits: bool) -> Stop | None:
        """Walk the rest of an interrupted walk, if there is one, and then the entries that appeared since.

        If a walk missed entries, another one follows: only entries that neither walk shows have vanished.
        """
        self._begin(Phase.WALK)
        left_behind: Stop | None = None
        for _ in range(WALKS_PER_RUN_MAX):
            walk = ListWalk(
                self._source,
                self._collector,
                self._store,
                self._allowance,
                clock=self._clock,
                counts=self.counts,
                vanished=self._vanished,
                waits=waits,
            )
            stop = await walk.run()
            self._missed = self._missed if walk.missed is None else walk.missed
            self._shows_gone = self._shows_gone or walk.shows_gone
            if stop is not None and not stop.is_owed:
                return stop
            left_behind = left_behind or stop
            if not walk.was_resumed and not walk.misses_entries and not await self._owes_inline():
                break
        return left_behind

    async def _walk_beside_details(self) -> tuple[Stop | None, bool]:
        """Walk, but leave half of the budget to details that an earlier run left owed. Whether that ended the walk.

        A walk that takes all of the budget, run after run, would leave nothing for them.
        """
        is_shared = not self._collector.capabilities.inline_details
        is_shared = is_shared and await self._store.count_owed_details(self._source) > 0
        if is_shared:
            self._allowance.spend_half()
        stop = await self._walk(waits=False)
        self._allowance.spend_all()
        return stop, is_shared and stop is not None and stop.is_ours

    async def _owes_inline(self) -> bool:
        """Whether a process ended between recording a page and its documents: another walk shows them again."""
        is_inline = self._collector.capabilities.inline_details
        return is_inline and await self._store.count_owed_details(self._source) > 0

    async def _recover(self, *, without: Sequence[GapReason]) -> Stop | None:
        """Request once more what is owed and due. Pressure ends only the recovery; our own budget ends the run."""
        self._begin(Phase.RECOVERY)
        self.counts.outcomes.update(await self._gaps.run_through(without=without, may_go_on=self._may_recover))
        stop = self._allowance.stop
        return stop if stop is not None and stop.is_ours else None

    def _may_recover(self) -> bool:
        why = "pressure" if self._allowance.is_pressed else "refused" if self._allowance.is_refused else None
        if why is not None:
            log.info("recovery_stopped", source=self._source, reason=why)
        return why is None

    async def _fetch_owed(self) -> Stop | None:
        self._begin(Phase.DETAILS)
        # An inline list contains its details.
        return None if self._collector.capabilities.inline_details else await self._details.run()

    async def _judge_vanished(self) -> Stop | None:
        if self._missed is None:
            return None
        self._begin(Phase.DETAILS)
        stop = await self._vanished.judge(self._missed)
        if stop is None:
            await self._vanished.settle_inline()
        return stop

    def _begin(self, phase: Phase) -> None:
        self.phase = phase
        self._allowance.resume()
