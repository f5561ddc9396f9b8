"""How is a listed archive collected? In bounded runs: what is owed, then the list, then the details, under one budget.

Nothing is held only in memory: a page's entries are owed from the moment the page is recorded, and a run that stops
leaves one backlog gap that says why. A transient stop of the provider is waited out; only the run's own budget, or a
provider that keeps asking for less, ends a run early.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from remora.collect import Asked, Collector, is_worth_a_retry
from remora.contracts import Clock, Outcome, RunRecord, Store
from remora.core.budget import Budget
from remora.core.circuit import CircuitState
from remora.core.discovery import Discovery, FromGap, Kind
from remora.core.gap import Gap, GapState, is_due
from remora.core.item import Page
from remora.core.list_walk import WalkState, after_page, finished, fits_on, is_at_end, restarted
from remora.core.priority import Lane
from remora.core.reasons import GapFamily, GapReason
from remora.core.run import RunCounts, RunSummary, Stop, StoppedBy, stop_for_cap, stop_for_pressure
from remora.core.units import MILLISECOND_NS, MINUTE_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict
from remora.governor import Governor

log = structlog.get_logger()

# A provider that asks for less this often in a row, with every wait kept, is not going to relent within this run.
PRESSED_IN_A_ROW_MAX: Final = 8
TROUBLE_DELAYS_NS: Final = (200 * MILLISECOND_NS, 500 * MILLISECOND_NS, 1_000 * MILLISECOND_NS)
RETRIES_PER_RUN_MAX: Final = 100
DETAILS_AT_ONCE: Final = 100
GAPS_AT_ONCE: Final = 20
GAP_LEASE_NS: Final = 30 * MINUTE_NS
# No list is longer; a source that pages in a circle must not keep a run walking for ever.
PAGES_PER_WALK_MAX: Final = 1_000_000
# The rest of a stopped run is owed as one gap under this name, however many entries it has.
BACKLOG: Final = Discovery(Kind.PAGE, "backlog", Lane.WALK)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the owner allows this run."""

    max_wall_ns: int | None = None
    max_fetches: int | None = None
    recover_only: bool = False
    force: bool = False  # the one bypass: walk although an earlier run's pressure is still cooling down


class ArchiveRun:
    """One bounded run over one listed source."""

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
        self._governor = governor
        self._clock = clock
        self._owner = owner
        self._options = options
        self._budget = Budget(clock.monotonic_ns(), options.max_wall_ns, options.max_fetches)
        self._retries = 0
        self._pressed_in_a_row = 0
        self.counts = RunCounts()

    async def run_once(self) -> RunSummary:
        """The whole run. Its record is kept, whatever ends it."""
        started_ns = self._clock.wall_ns()
        run_id = await self._store.start_run(self._source, now_ns=started_ns)
        stop = await self._phases()
        stopped_by = StoppedBy.COMPLETE if stop is None else stop.by
        not_before_ns = await self._keep_backlog(stop)
        owed = await self._store.count_owed_details(self._source)
        record = RunRecord(run_id, started_ns, self._clock.wall_ns(), stopped_by, self.counts.as_mapping())
        await self._store.end_run(self._source, record)
        log.info("run_ended", source=self._source, stopped_by=str(stopped_by), owed=owed, **self.counts.as_mapping())
        return RunSummary(stopped_by, self.counts, owed, not_before_ns)

    async def _phases(self) -> Stop | None:
        if (stop := await self._recover()) is not None:
            return stop
        if self._options.recover_only:
            return Stop(StoppedBy.RECOVER_ONLY, GapReason.MAX_FETCHES)
        if not self._options.force and (stop := await self._cooling_down()) is not None:
            return stop
        walk_stop = await self._walk()
        # A list that cannot be read ends the walk, not the run: what is owed already can still be collected.
        if walk_stop is not None and walk_stop.reason.family in {GapFamily.RUN_CAP, GapFamily.PRESSURE}:
            return walk_stop
        return await self._details() or walk_stop

    # ── recovery ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _recover(self) -> Stop | None:
        """Ask again for what is owed and due. Pressure ends the recovery, not the run; only our own budget does."""
        try:
            while documents := await self._lease_documents():
                for gap in documents:
                    if (stop := self._cap()) is not None:
                        return stop
                    await self._serve(gap)
                    if self._is_pressed():
                        log.info("recovery_stopped", source=self._source, reason=str(GapReason.UPSTREAM_PRESSURE))
                        return None
            return None
        finally:
            await self._store.release_gaps(self._source, owner=self._owner)

    async def _lease_documents(self) -> list[Gap]:
        gaps = await self._store.lease_gaps(
            self._source,
            owner=self._owner,
            limit=GAPS_AT_ONCE,
            lease_ns=GAP_LEASE_NS,
            now_ns=self._clock.wall_ns(),
        )
        return [gap for gap in gaps if gap.kind is Kind.DOCUMENT]

    async def _serve(self, gap: Gap) -> None:
        key = await self._store.key_of(self._source, gap.key)
        assert key is not None, "a gap names a document that was never listed"
        discovery = Discovery(Kind.DOCUMENT, key, Lane.RECOVER, FromGap(self._owner))
        await self._record(discovery, await self._ask_once(discovery))

    def _is_pressed(self) -> bool:
        is_open = self._governor.state().circuit is not CircuitState.CLOSED
        return self._pressed_in_a_row > 0 and (is_open or self._pressed_in_a_row >= PRESSED_IN_A_ROW_MAX)

    # ── the list ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _walk(self) -> Stop | None:
        """Record page after page. What a page owes and how far the walk is become durable together."""
        state = await self._store.walk_state(self._source)
        position, is_resuming, is_whole = state.position or "", state.is_under_way, True
        for _ in range(PAGES_PER_WALK_MAX):
            page = await self._page(position)
            if isinstance(page, Stop):
                return page
            if is_resuming and not fits_on(state, page):
                log.info("walk_restarted", source=self._source)
                state, position, is_resuming = restarted(state), "", False
                continue
            is_resuming = False
            # From the first unreadable entry on the walk goes on, but nothing durable moves past it.
            is_whole = is_whole and page.unreadable == 0
            is_last = is_at_end(state, page)
            state = _next_state(state, page, position, is_whole=is_whole, is_last=is_last)
            self.counts.listed += await self._store.record_page(
                self._source, page.entries, state, now_ns=self._clock.wall_ns()
            )
            if is_last or page.next_position is None:
                return None if is_whole else Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED)
            position = page.next_position
        return Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED)

    async def _page(self, position: str) -> Page | Stop:
        asked = await self._ask(Discovery(Kind.PAGE, position, Lane.WALK))
        if isinstance(asked, Stop):
            return asked
        match asked.verdict:
            case Found(Page() as page):
                self.counts.pages += 1
                return page
            case verdict:
                return _list_stop(verdict)

    # ── the details ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _details(self) -> Stop | None:
        """Fetch every owed detail, newest first. One that is refused, gone or wrong is a gap; the rest goes on."""
        while owed := await self._store.owed_details(self._source, limit=DETAILS_AT_ONCE):
            for detail in owed:
                discovery = Discovery(Kind.DOCUMENT, detail.key, Lane.DETAIL)
                asked = await self._ask(discovery)
                if isinstance(asked, Stop):
                    return asked
                await self._record(discovery, asked)
        return None

    async def _record(self, discovery: Discovery, asked: Asked) -> Outcome:
        outcome = await self._collector.record(discovery, asked)
        self.counts.outcomes[outcome] += 1
        return outcome

    # ── asking, within the budget ───────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, discovery: Discovery) -> Asked | Stop:
        """Ask for the same thing until there is an answer, waiting out pressure in the gate.

        Every turn of this loop sends a request, so it moves towards a cap, the guard or an answer; it cannot spin.
        """
        troubles = 0
        while True:
            if (stop := self._cap()) is not None:
                return stop
            asked = await self._ask_once(discovery)
            if not is_worth_a_retry(asked.verdict):
                return asked
            if isinstance(asked.verdict, Pressure):
                if self._pressed_in_a_row >= PRESSED_IN_A_ROW_MAX:
                    return stop_for_pressure(wait_ns=self._governor.wait_ahead_ns())
                continue
            if troubles >= len(TROUBLE_DELAYS_NS):
                return asked
            if self._retries >= RETRIES_PER_RUN_MAX:
                return stop_for_cap(GapReason.RETRY_BUDGET)
            self._retries += 1
            await self._clock.sleep_until(self._clock.monotonic_ns() + TROUBLE_DELAYS_NS[troubles])
            troubles += 1

    async def _ask_once(self, discovery: Discovery) -> Asked:
        asked = await self._collector.ask(discovery)
        for _ in range(asked.requests):
            self._budget = self._budget.after_fetch()
        self.counts.requests += asked.requests
        if isinstance(asked.verdict, Pressure):
            self._pressed_in_a_row += 1
            self.counts.waits += 1
        elif not isinstance(asked.verdict, Trouble):
            self._pressed_in_a_row = 0
        return asked

    def _cap(self) -> Stop | None:
        """Whether the budget is used up, or would be before the gate lets the next request leave."""
        now_ns = self._clock.monotonic_ns()
        if (cap := self._budget.cap(now_ns=now_ns)) is not None:
            return stop_for_cap(cap)
        wait_ns = self._governor.wait_ahead_ns()
        if not self._budget.covers(wait_ns, now_ns=now_ns):
            return stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=wait_ns)
        return None

    # ── the backlog ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _cooling_down(self) -> Stop | None:
        backlog = await self._backlog()
        if backlog is None or backlog.reason.family is not GapFamily.PRESSURE:
            return None
        if is_due(backlog, now_ns=self._clock.wall_ns()):
            return None
        return Stop(StoppedBy.COOL_DOWN, backlog.reason)

    async def _keep_backlog(self, stop: Stop | None) -> int | None:
        """One gap for everything that is left; settled when nothing is. Gives the moment the walk may go on.

        Pressure arms a cool-down that grows from run to run; a stop of our own arms nothing.
        """
        backlog = await self._backlog()
        if stop is None:
            if backlog is not None:
                await self._record_backlog(Found(Page(entries=(), next_position=None)))
            return None
        if stop.by not in {StoppedBy.COOL_DOWN, StoppedBy.RECOVER_ONLY}:
            await self._record_backlog(Deferred(stop.reason))
            backlog = await self._backlog()
        is_cooling = backlog is not None and backlog.reason.family is GapFamily.PRESSURE
        return backlog.not_before_ns if backlog is not None and is_cooling else None

    async def _record_backlog(self, verdict: Verdict) -> None:
        await self._collector.record(BACKLOG, Asked(verdict, self._clock.wall_ns(), 0))

    async def _backlog(self) -> Gap | None:
        owed = await self._store.gaps(self._source, state=GapState.OWED, limit=1_000_000)
        return next((gap for gap in owed if gap.kind is Kind.PAGE), None)


def _next_state(state: WalkState, page: Page, position: str, *, is_whole: bool, is_last: bool) -> WalkState:
    if not is_whole:
        return restarted(state) if is_last else state
    seen = after_page(state, page, position)
    return finished(seen) if is_last else seen


def _list_stop(verdict: Verdict) -> Stop:
    match verdict:
        case Refused(reason) | Missing(reason):
            return Stop(StoppedBy.LIST_REFUSED, reason)
        case Malformed(reason):
            return Stop(StoppedBy.LIST_UNREADABLE, reason)
        case Trouble(reason) | Pressure(reason) | Deferred(reason):
            return Stop(StoppedBy.LIST_TROUBLE, reason)
        case Found() | NotYet():
            return Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED)
