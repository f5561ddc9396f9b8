"""Does a process that only helps use the pace, whatever single items do, and lose nothing when it is killed?"""

import asyncio
from random import Random

import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.segment import LEASE_NS, SegmentKind
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.gate.governor import Limits
from remora.loops.numbered.worker import Worker
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, QUICK, Numbers, Process, process
from tests.gate.rig import Answer, simulated

IN_FLIGHT = 64
HANGS = Answer(fault=Fault.TIMEOUT, latency_ns=20 * SECOND_NS)


def limits(per_second: int) -> Limits:
    return Limits(SECOND_NS // per_second, in_flight=IN_FLIGHT)


def helper(one: Process) -> Worker:
    return Worker(NAME, one.collector, one.store, clock=one.clock, owner="helper", width=IN_FLIGHT)


async def work_for(clock: SimClock, one: Process, for_ns: int) -> None:
    """Help for so long, then stop on request."""
    working = asyncio.ensure_future(helper(one).run())
    await clock.sleep_until(clock.monotonic_ns() + for_ns)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "per_second, hanging_share, least_used", [(100, 0, 0.99), (250, 0, 0.98), (100, 0.001, 0.98), (100, 0.01, 0.95)]
)
def test_it_uses_the_ceiling_although_answers_take_long_and_some_items_hang(
    per_second: int, hanging_share: float, least_used: float
) -> None:
    async def main(clock: SimClock) -> float:
        dice = Random(1)
        history = IdRange(1, 60 * per_second)
        hanging = {item_id for item_id in range(history.start, history.end) if dice.random() < hanging_share}

        def says(item_id: int, _attempt: int) -> Answer:
            return HANGS if item_id in hanging else Answer(latency_ns=dice.randrange(100, 300) * MILLISECOND_NS)

        source, store = Numbers(clock, newest=history.end, says=says), MemoryStore()
        await store.plan(NAME, SegmentKind.BACKFILL, (history,), now_ns=clock.wall_ns())
        async with process(clock, source, store, limits=limits(per_second)) as one:
            await work_for(clock, one, 30 * SECOND_NS)
        return len(set(source.ids)) / 30 / per_second

    assert simulated(main) >= least_used


@pytest.mark.slow
@pytest.mark.parametrize("die_at_call", [3, 200, 800, 2_400])
def test_a_killed_one_loses_nothing_and_repeats_at_most_what_was_in_flight(die_at_call: int) -> None:
    async def main(clock: SimClock) -> None:
        history = IdRange(1, 4_000)
        source, store = Numbers(clock, newest=history.end), MemoryStore()
        await store.plan(NAME, SegmentKind.BACKFILL, (history,), now_ns=clock.wall_ns())
        life = Generation(die_at_call=die_at_call)

        async def live() -> None:
            async with process(clock, source, store, life=life) as one:
                await helper(one).run()

        with pytest.raises(Crashed):
            await life.live(live())
        async with process(clock, source, store) as two:
            await work_for(clock, two, LEASE_NS + MINUTE_NS)
        assert set(source.ids) == set(range(1, 4_001))
        assert len(source.repeated) <= QUICK.in_flight
        assert await store.coverage(NAME) == Coverage((history,))
        assert await store.open_segments(NAME) == {}

    simulated(main)


@pytest.mark.slow
def test_one_that_is_stopped_gives_all_its_segments_back_at_once() -> None:
    async def main(clock: SimClock) -> None:
        history = IdRange(1, 4_000)
        source, store = Numbers(clock, newest=history.end), MemoryStore()
        await store.plan(NAME, SegmentKind.BACKFILL, (history,), now_ns=clock.wall_ns())
        async with process(clock, source, store) as one:
            await work_for(clock, one, 3 * SECOND_NS)
        (left,) = (await store.open_segments(NAME)).values()
        kinds, now_ns = (SegmentKind.BACKFILL,), clock.wall_ns()
        while segment := await store.claim(NAME, kinds, owner="two", lease_ns=LEASE_NS, now_ns=now_ns):
            assert segment.left is not None
            left -= len(segment.left)
        assert left == 0

    simulated(main)
