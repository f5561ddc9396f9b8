"""Does a loop end when it is told to, even if the news it waits for comes in the same moment?"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import UpdateAges
from remora.loops.numbered.inbox import InboxWorkers
from remora.loops.numbered.live import Live
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.sim.clock import SimClock
from remora.sim.world import WorldSettings
from tests.loops.rig import NAME, Process, Rig, in_virtual_time

# Turns of the event loop between the news and the end: at one of them a wait is over and nobody has been told yet.
TURNS = range(8)
Loop = tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]  # how it runs, and what wakes it


def live(process: Process) -> Loop:
    loop = Live(process.source, process.collector, process.store, clock=process.clock)

    async def wake() -> None:
        loop.look_now()

    return loop.run, wake


def inbox(process: Process) -> Loop:
    loop = InboxWorkers(NAME, process.collector, process.store, clock=process.clock)
    return loop.run, lambda: loop.announce([(Kind.ITEM, "7")])


def rescan(process: Process) -> Loop:
    loop = Rescan(
        NAME,
        process.collector,
        process.store,
        clock=process.clock,
        settings=RescanSettings(),
        ages=UpdateAges,
        owner="one",
        width=4,
    )
    return loop.run, loop.want


@pytest.mark.parametrize("make", [live, inbox, rescan])
def test_a_loop_that_is_woken_and_cancelled_at_once_ends(make: Callable[[Process], Loop]) -> None:
    async def main(clock: SimClock) -> list[int]:
        unstoppable: list[int] = []
        rig = Rig.make(clock, world=WorldSettings(items=100))
        async with rig.process() as process:
            for turns in TURNS:
                run, wake = make(process)
                running = asyncio.ensure_future(run())
                await asyncio.sleep(1.5)
                await wake()
                for _ in range(turns):
                    await asyncio.sleep(0)
                running.cancel()
                if not (await asyncio.wait([running], timeout=60))[0]:
                    unstoppable.append(turns)
                    running.cancel()
        return unstoppable

    assert in_virtual_time(main) == []
