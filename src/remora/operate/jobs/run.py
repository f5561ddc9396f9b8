"""How does `remora run` work? One bounded run over a listed source, with progress and a summary at its end."""

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from remora.contracts import Clock
from remora.core.errors import Exit
from remora.core.ledger.run import StoppedBy
from remora.core.units import SECOND_NS
from remora.operate.jobs.progress import Progress, ProgressView, shown, with_rate
from remora.operate.jobs.runtime import ListedRuntime, rate_facts
from remora.operate.observe.recent_meter import RecentMeter

if TYPE_CHECKING:
    from remora.loops.listed.run import ListedRun


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a run went, as it is printed."""

    source: str
    stopped_by: str
    because: str  # one sentence with the limit that ended the run
    counts: dict[str, int]
    owed: int
    dead: int
    unread_pages: int  # pages of the list that could not be read yet
    next_in_s: float | None  # how long the walk waits after pressure; None: nothing holds the next run
    seconds: float

    @property
    def exit_code(self) -> Exit:
        """75 if the run can be resumed."""
        return StoppedBy(self.stopped_by).exit_code


def run_name(source: str) -> str:
    """The name of the leader lease for runs over a listed source."""
    return f"run:{source}"


async def run_listed(
    run: "ListedRun", runtime: ListedRuntime, *, clock: Clock, meter: RecentMeter, view: ProgressView
) -> RunReport:
    """One run, shown while it goes on."""
    started_ns = clock.monotonic_ns()
    async with shown(partial(_show, run, runtime, meter, view)):
        summary = await run.run_once()
    not_before_ns = summary.next_not_before_ns
    return RunReport(
        source=runtime.name,
        stopped_by=summary.stopped_by,
        because=summary.because,
        counts=summary.counts.as_mapping(),
        owed=summary.owed,
        dead=summary.dead,
        unread_pages=summary.unread_pages,
        next_in_s=None if not_before_ns is None else round(max(0, not_before_ns - clock.wall_ns()) / SECOND_NS, 1),
        seconds=round((clock.monotonic_ns() - started_ns) / SECOND_NS, 3),
    )


def _show(run: "ListedRun", runtime: ListedRuntime, meter: RecentMeter, view: ProgressView) -> None:
    progress = Progress(source=runtime.name, done=run.counts.outcomes.total(), outcomes=dict(run.counts.outcomes))
    view.show(with_rate(progress, rate_facts(runtime.governor, meter, runtime.name)))
