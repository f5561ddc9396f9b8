"""Does an item that is never answered leave its neighbours alone? The pace is used, the walk goes on, the item is owed."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from remora.contracts import Store
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.freshness import UpdateAges
from remora.core.ledger.segment import Segment, SegmentKind
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.gate.governor import Limits
from remora.loops.numbered.backfill import IDLE_NS, WALKERS, SegmentWorker, walk_until_done
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.loops.numbered.service import WALK_IDLE_NS, ServiceSettings
from remora.loops.recover import Recover, beside_walks
from remora.sim.clock import SimClock
from remora.sim.faults import FaultKind, Faults
from remora.sim.world import WorldSettings
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, Numbers, Process, process
from tests.gate.rig import GOOD, Answer, simulated
from tests.loops.rig import Rig

PER_SECOND = 250
IN_FLIGHT = 64
CEILING = Limits(SECOND_NS // PER_SECOND, in_flight=IN_FLIGHT)
HANGS = Answer(fault=Fault.TIMEOUT, latency_ns=20 * SECOND_NS)
HISTORY = IdRange(1, 20_000)


def walker(one: Process, number: int) -> SegmentWorker:
    kinds = (SegmentKind.BACKFILL,)
    return SegmentWorker(
        NAME, one.collector, one.store, clock=one.clock, owner=f"one:{number}", kinds=kinds, width=IN_FLIGHT
    )


async def plan(store: Store, clock: SimClock, ids: IdRange) -> None:
    await store.plan(NAME, SegmentKind.BACKFILL, (ids,), now_ns=clock.wall_ns())


@pytest.mark.slow
@pytest.mark.parametrize("hanging_share, least_used", [(0.001, 0.97), (0.01, 0.8), (0.05, 0.45)])
def test_a_backfill_uses_its_ceiling_although_some_items_hang(hanging_share: float, least_used: float) -> None:
    async def main(clock: SimClock) -> float:
        dice = Random(1)
        hanging = {item_id for item_id in range(HISTORY.start, HISTORY.end) if dice.random() < hanging_share}
        source = Numbers(clock, says=lambda item_id, _attempt: HANGS if item_id in hanging else GOOD)
        store = MemoryStore()
        await plan(store, clock, HISTORY)
        async with process(clock, source, store, limits=CEILING) as one:
            recover = Recover(NAME, one.collector, store, clock=clock, owner="recover", policy=beside_walks(IN_FLIGHT))
            runs = [*(walker(one, number).run() for number in range(WALKERS)), recover.run()]
            running = [asyncio.ensure_future(run) for run in runs]
            await clock.sleep_until(clock.monotonic_ns() + 30 * SECOND_NS)
            collected = len(set(source.ids))
            assert one.governor.state().circuit is CircuitState.CLOSED
            assert one.governor.state().last_back_off is None
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return collected / 30 / PER_SECOND

    assert simulated(main) >= least_used


@pytest.mark.slow
def test_owed_items_that_hang_again_and_again_slow_nothing_down() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        source.says = lambda item_id, _attempt: HANGS if item_id % 10 == 5 else GOOD
        async with process(clock, source, store, limits=CEILING) as one:
            await plan(store, clock, IdRange(1, 999))
            await walker(one, 0).run_until_done()
            assert len(await store.gaps(NAME)) == 100
            recovering = asyncio.ensure_future(
                Recover(NAME, one.collector, store, clock=clock, owner="recover", policy=beside_walks(IN_FLIGHT)).run()
            )
            for _ in range(20):  # nothing else is asked for but the newest id, now and then
                await clock.sleep_until(clock.monotonic_ns() + 15 * SECOND_NS)
                assert await one.collector.newest() is not None
                assert one.governor.state().circuit is CircuitState.CLOSED
            recovering.cancel()
            await asyncio.gather(recovering, return_exceptions=True)
            assert one.governor.state().last_back_off is None
        assert len(await store.gaps(NAME)) == 100

    simulated(main)


@pytest.mark.slow
def test_a_walk_waits_for_one_hanging_item_a_few_seconds_and_owes_it() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda item_id, _attempt: HANGS if item_id == 500 else GOOD)
        store = MemoryStore()
        await plan(store, clock, IdRange(1, 999))
        async with process(clock, source, store, limits=CEILING) as one:
            started_ns = clock.monotonic_ns()
            await walker(one, 0).run_until_done()
            assert clock.monotonic_ns() - started_ns <= 12 * SECOND_NS
        assert [(gap.key, gap.reason) for gap in await store.gaps(NAME)] == [("500", GapReason.TIMEOUT)]
        assert sorted(source.ids) == list(range(1, 1_000))
        assert await store.coverage(NAME) == Coverage((IdRange(1, 999),))

    simulated(main)


def test_an_item_that_was_answered_while_the_process_was_stopped_is_not_given_up() -> None:
    async def main(clock: SimClock) -> None:
        slow = Answer(latency_ns=3_200 * MILLISECOND_NS)
        source = Numbers(clock, says=lambda item_id, _attempt: slow if item_id == 50 else GOOD)
        store = MemoryStore()
        await plan(store, clock, IdRange(1, 99))
        async with process(clock, source, store, limits=CEILING) as one:
            walking = asyncio.ensure_future(walker(one, 0).run_until_done())
            await clock.sleep_until(clock.monotonic_ns() + 3_100 * MILLISECOND_NS)
            clock.stall(10 * SECOND_NS)
            await walking
        assert source.repeated == set()
        assert list(await store.gaps(NAME)) == []

    simulated(main)


@pytest.mark.slow
def test_a_provider_that_is_slow_with_every_item_is_waited_for() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=8 * SECOND_NS))
        store = MemoryStore()
        await plan(store, clock, IdRange(1, 999))
        async with process(clock, source, store, limits=CEILING) as one:
            await walker(one, 0).run_until_done()
        assert list(await store.gaps(NAME)) == []
        assert sorted(source.ids) == list(range(1, 1_000))

    simulated(main)


class Claims(MemoryStore):
    """A store that remembers who asked for segments, and who got one."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock
        self.asked_at_ns: list[int] = []
        self.owners: set[str] = set()

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        self.asked_at_ns.append(self._clock.monotonic_ns())
        segment = await super().claim(source, kinds, owner=owner, lease_ns=lease_ns, now_ns=now_ns)
        if segment is not None:
            self.owners.add(owner)
        return segment


@pytest.mark.slow
def test_the_service_walks_several_segments_at_once_and_looks_for_work_with_one_walker() -> None:
    async def main(clock: SimClock) -> None:
        store = Claims(clock)
        hanging = {str(item_id): FaultKind.HANG for item_id in range(50, 8_000, 100)}
        rig = Rig.make(clock, world=WorldSettings(items=8_000), faults=Faults(ids=hanging), store=store)
        await rig.live_for(10 * MINUTE_NS, settings=ServiceSettings(rescan=None))
        assert len(store.owners) == WALKERS
        assert (await store.coverage("hackernews")).frontier(first_id=1) >= 8_000
        # History is in; one walker of history and one of repairs look now and then.
        idle = [at_ns for at_ns in store.asked_at_ns if at_ns > clock.monotonic_ns() - MINUTE_NS]
        assert len(idle) <= 2 * (1 + MINUTE_NS // WALK_IDLE_NS)

    simulated(main)


def test_while_others_hold_what_is_left_one_walker_of_a_catch_up_looks_for_it() -> None:
    async def main(clock: SimClock) -> None:
        store = Claims(clock)
        await plan(store, clock, IdRange(1, 10))
        held = await store.claim(
            NAME, (SegmentKind.BACKFILL,), owner="another", lease_ns=MINUTE_NS, now_ns=clock.wall_ns()
        )
        assert held is not None
        async with process(clock, Numbers(clock), store, limits=CEILING) as one:
            await walk_until_done([walker(one, number) for number in range(WALKERS)])
        assert clock.monotonic_ns() >= MINUTE_NS, "it waits until the lease of the other one has ended"
        assert (await store.coverage(NAME)).frontier(first_id=1) == 10
        assert len(store.asked_at_ns) <= 2 * WALKERS + MINUTE_NS // IDLE_NS

    simulated(main)


def test_a_catch_up_ends_with_its_last_segment_and_one_look_for_more() -> None:
    async def main(clock: SimClock) -> None:
        store = Claims(clock)
        await plan(store, clock, IdRange(1, 10))
        async with process(clock, Numbers(clock), store, limits=CEILING) as one:
            began_ns = clock.monotonic_ns()
            await walk_until_done([walker(one, number) for number in range(WALKERS)])
        assert (await store.coverage(NAME)).frontier(first_id=1) == 10
        assert clock.monotonic_ns() - began_ns < IDLE_NS, "nobody sleeps when the last one is walked"
        assert len(store.asked_at_ns) <= 3, (
            "one that finds the segment, and one that looks before it is walked and after it"
        )

    simulated(main)


@pytest.mark.slow
def test_a_rescan_walks_several_segments_at_once_so_that_hanging_items_do_not_hold_up_the_pass() -> None:
    async def main(clock: SimClock) -> None:
        store = Claims(clock)
        rig = Rig.make(clock, world=WorldSettings(items=8_000, new_per_day=8_000), store=store)
        async with rig.process() as one:
            await one.collector.newest()
            await store.plan("hackernews", SegmentKind.BACKFILL, (IdRange(1, 8_000),), now_ns=clock.wall_ns())
            kinds = (SegmentKind.BACKFILL,)
            await SegmentWorker(
                "hackernews", one.collector, store, clock=clock, owner="one", kinds=kinds, width=IN_FLIGHT
            ).run_until_done()
            store.owners.clear()
            rescan = Rescan(
                "hackernews",
                one.collector,
                store,
                clock=clock,
                settings=RescanSettings(),
                ages=UpdateAges,
                owner="one",
                width=IN_FLIGHT,
            )
            done = await rescan.run_once()
        assert done is not None
        assert done.processed >= 8_000
        assert len(store.owners) == WALKERS
        assert await store.open_segments("hackernews") == {}

    simulated(main)
