"""When does a listed source run inside the service? Once per `every`, counted from the start of its last run.

The last run is read from the ledger, so a restart neither repeats a run that is not due nor forgets one that was
interrupted. After a failed run a restart does not wait: its owner may have mended what failed. The provider can end a
run, but never the schedule. While the store is unavailable, the schedule waits.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, RunRecord, Store
from remora.core.errors import RemoraError
from remora.core.ledger.run import FAILURES, RUNS_APART_LEAST_NS, RunSummary, span
from remora.core.status.snapshot import RunFacts
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor
from remora.loops.listed.run import ListedRun, RunOptions
from remora.loops.supervisor import restart_delay_ns

log = structlog.get_logger()

# How soon after a suspended machine wakes up a run that became due begins.
LOOK_EVERY_NS: Final = MINUTE_NS


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """The state of the schedule. Times are wall clock."""

    doing: str  # "recovery", "walk" or "details" during a run, else "waiting"
    last_run: RunSummary | None = None  # the last one of this process
    last_started_ns: int | None = None
    next_run_at_ns: int | None = None  # None during a run
    why_not_now: str | None = None
    run: RunFacts | None = None  # the run in progress, with its counts so far
    failures: int = 0  # in a row
    last_error: str | None = None  # what the store said


class ListedSchedule:
    """Runs one listed source again and again."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        governor: Governor,
        *,
        clock: Clock,
        owner: str,
        every_ns: int,
        options: RunOptions | None = None,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._governor = governor
        self._clock = clock
        self._owner = owner
        self._every_ns = max(every_ns, RUNS_APART_LEAST_NS)
        self._options = options or RunOptions()
        self._running: ListedRun | None = None
        self._is_wanted = asyncio.Event()
        self._state = ScheduleState("waiting")

    def state(self) -> ScheduleState:
        """For the status: the last run, the next run, and why there is none now."""
        if self._running is None:
            return self._state
        return replace(self._state, doing=str(self._running.phase), run=self._running.facts())

    async def run(self) -> None:
        """Start a run whenever one is due, for ever."""
        while True:
            try:
                await self._wait_until_due()
                await self.run_once()
            except RemoraError as error:
                if not error.retryable:
                    raise
                await self._rest_after(error)

    def run_now(self) -> bool:
        """Start a run at once; False if one is under way."""
        if self._running is not None:
            return False
        self._is_wanted.set()
        return True

    async def run_once(self) -> RunSummary:
        """One run, now."""
        run = ListedRun(
            self._source,
            self._collector,
            self._store,
            self._governor,
            clock=self._clock,
            owner=self._owner,
            options=self._options,
        )
        started_ns = self._clock.wall_ns()
        self._running = run
        self._state = replace(self._state, last_started_ns=started_ns, next_run_at_ns=None, why_not_now=None)
        try:
            summary = await run.run_once()
        finally:
            self._running = None
        self._state = replace(self._state, last_run=summary, failures=0, last_error=None)
        return summary

    async def _wait_until_due(self) -> None:
        runs = await self._store.runs(self._source, limit=1)
        last = runs[0] if runs else None
        wait_ns = self._wait_ns(last)
        if wait_ns > 0:
            await self._wait(wait_ns, self._why_not_now(last))
        self._is_wanted.clear()  # the run that begins now is the one that was asked for

    def _why_not_now(self, last: RunRecord | None) -> str:
        if self._is_due_now(last):
            return f"the last run was cut off or failed, and two runs begin at least {span(RUNS_APART_LEAST_NS)} apart"
        why = f"a run begins every {span(self._every_ns)}"
        return f"{why}; the last one stopped because {done.because}" if (done := self._state.last_run) else why

    async def _wait(self, wait_ns: int, why: str) -> None:
        """Wait for the next run, or until somebody asks for it."""
        next_ns = self._clock.wall_ns() + wait_ns
        self._state = replace(self._state, next_run_at_ns=next_ns, why_not_now=why)
        log.debug("next_run", source=self._source, in_s=round(wait_ns / SECOND_NS, 1))
        sleeping = asyncio.ensure_future(self._sleep(wait_ns, next_ns))
        wanted = asyncio.ensure_future(self._is_wanted.wait())
        try:
            await asyncio.wait((sleeping, wanted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            wanted.cancel()

    async def _sleep(self, wait_ns: int, until_wall_ns: int) -> None:
        """Until one of the clocks says so: while a machine is suspended, the monotonic one stands still."""
        due_ns = self._clock.monotonic_ns() + wait_ns
        while (now_ns := self._clock.monotonic_ns()) < due_ns and self._clock.wall_ns() < until_wall_ns:
            await self._clock.sleep_until(min(due_ns, now_ns + LOOK_EVERY_NS))

    def _wait_ns(self, last: RunRecord | None) -> int:
        """How long until the next run is due.

        Now means at least `RUNS_APART_LEAST_NS` after its start, so that a service that is restarted all the time sends little.
        """
        if last is None:
            return 0
        since_ns = max(0, self._clock.wall_ns() - last.started_ns)  # after a clock step back, wait one interval at most
        return (RUNS_APART_LEAST_NS if self._is_due_now(last) else self._every_ns) - since_ns

    def _is_due_now(self, last: RunRecord | None) -> bool:
        """A run without an end was interrupted with its process: the next is due now. So is one after an earlier process failed."""
        if last is None or last.ended_ns is None:
            return True
        return self._state.last_started_ns is None and last.stopped_by in FAILURES

    async def _rest_after(self, error: RemoraError) -> None:
        failures = self._state.failures + 1
        wait_ns = restart_delay_ns(failures)
        name = type(error).__name__
        log.warning("run_failed", source=self._source, error=name, failures=failures)
        self._state = replace(
            self._state,
            failures=failures,
            last_error=error.message,
            next_run_at_ns=self._clock.wall_ns() + wait_ns,
            why_not_now=f"the store does not answer ({error.message})",
        )
        await self._clock.sleep_until(self._clock.monotonic_ns() + wait_ns)
