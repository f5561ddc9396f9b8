"""Does a backfill that was restarted under a long Retry-After say until when it waits, and why?"""

import asyncio

from remora.core.rate.gate_types import LimitedBy
from remora.core.units import SECOND_NS
from remora.operate.config.reader import read_source
from remora.operate.jobs.backfill import BackfillJob, Wanted
from remora.operate.jobs.progress import Progress, in_words
from remora.operate.jobs.runtime import Numbered
from remora.operate.observe.recent_meter import RecentMeter
from remora.sim.clock import SimClock
from remora.sim.faults import FaultKind, Faults
from remora.sim.world import WorldSettings
from tests.loops.rig import NAME, Process, Rig, in_virtual_time

SETTINGS = read_source(NAME, {"preset": "hackernews", "url": "http://sim/v0", "ceiling": "100/s"})
REFUSED = Faults(rates={FaultKind.RATE_LIMITED: 1.0}, retry_after_s=3_600)


class Shown:
    """A view that keeps everything."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.last: Progress | None = None

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, progress: Progress) -> None:
        self.last = progress

    def close(self) -> None: ...


def job(rig: Rig, process: Process, view: Shown) -> BackfillJob:
    runtime = Numbered(NAME, SETTINGS, process.source, process.governor, process.collector)
    meter = RecentMeter(rig.meter, clock=process.clock)
    return BackfillJob(runtime, rig.store, clock=process.clock, meter=meter, view=view, owner="one")


def test_the_wait_is_shown_before_the_first_answer() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=50), faults=REFUSED)
        async with rig.process() as process:
            first = asyncio.ensure_future(job(rig, process, Shown()).run(Wanted()))
            await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
            assert process.governor.state().not_before_in_ns > 0, "the provider asked for a pause"
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        async with rig.process() as process:
            view = Shown()
            second = asyncio.ensure_future(job(rig, process, view).run(Wanted()))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert view.last is not None
            told = in_words(view.last)
            assert "waits 59 min, until 20" in told
            assert told.endswith("the provider asked for a pause (Retry-After)")
            assert view.last.limited_by == LimitedBy.RETRY_AFTER
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    in_virtual_time(main)
