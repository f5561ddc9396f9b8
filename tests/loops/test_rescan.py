"""Does the rescan find what nobody told us, look far enough back, and leave everything else alone?"""

import asyncio
from typing import Any

import pytest

from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.freshness import RescanPass, UpdateAges, pass_from_json
from remora.core.ledger.notes import RESCAN_DONE_NOTE, RESCAN_WANTED_NOTE
from remora.core.ledger.segment import BATCH_MAX, Segment, SegmentKind
from remora.loops.numbered.backfill import SegmentWorker
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.faults import Faults, Outage
from remora.sim.world import WorldSettings
from remora.stores.memory import MemoryStore
from tests.loops.rig import DAY_NS, HOUR_NS, MINUTE_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time

pytestmark = pytest.mark.slow

WORLD = WorldSettings(items=3_000, new_per_day=1_000)  # three days of history


def make_rescan(process: Process, settings: RescanSettings | None = None, ages: UpdateAges | None = None) -> Rescan:
    return Rescan(
        NAME,
        process.collector,
        process.store,
        clock=process.clock,
        settings=settings or RescanSettings(),
        ages=lambda: ages or UpdateAges(),
        owner="one",
        width=32,
    )


async def backfill(rig: Rig, process: Process) -> None:
    """Hold everything there is, as history would be read: once, and long ago."""
    await process.collector.newest()
    ids = IdRange(1, process.collector.newest_id or 0)
    await rig.store.plan(NAME, SegmentKind.BACKFILL, (ids,), now_ns=process.clock.wall_ns())
    worker = SegmentWorker(
        NAME, process.collector, rig.store, clock=process.clock, owner="one", kinds=(SegmentKind.BACKFILL,), width=32
    )
    await worker.run_until_done()


def test_changes_that_nobody_told_of_are_found_and_counted() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
            covered = await rig.store.coverage(NAME)
            await clock.sleep_until(clock.monotonic_ns() + 12 * HOUR_NS)
            stale = {difference.item_id for difference in await rig.differences()}
            rescan = make_rescan(process, RescanSettings(window_ns=4 * DAY_NS))
            done = await rescan.run_once()
            assert done is not None
            assert done.processed == 3_000
            assert done.changed > 20
            still = {difference.item_id for difference in await rig.differences()}
            assert len([item_id for item_id in still if item_id <= 3_000]) <= 3 < len(stale)
            assert rescan.state().changed == done.changed
            assert await rig.store.coverage(NAME) == covered, "a rescan never touches coverage"
            assert await rig.store.open_segments(NAME) == {}

    in_virtual_time(main)


def test_only_items_that_differ_from_the_copy_count_as_changed() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
            await clock.sleep_until(clock.monotonic_ns() + 12 * HOUR_NS)
            before = {item_id: body async for item_id, body in rig.store.bodies(NAME)}
            rescan = make_rescan(process, RescanSettings(window_ns=4 * DAY_NS))
            done = await rescan.run_once()
            after = {item_id: body async for item_id, body in rig.store.bodies(NAME)}
            assert done is not None
            assert 0 < done.changed == sum(before.get(item_id) != body for item_id, body in after.items())
            assert rescan.state().changed == done.changed < done.processed

    in_virtual_time(main)


def test_only_the_window_is_read_and_in_its_own_lane() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
            done = await make_rescan(process, RescanSettings(window_ns=DAY_NS)).run_once()
        assert done is not None
        assert 990 <= done.processed <= 1_020
        assert rig.meter.departures[NAME, Lane.RESCAN] == done.processed

    in_virtual_time(main)


@pytest.mark.slow
def test_after_downtime_the_window_begins_at_the_previous_pass_minus_the_horizon() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
            first = await make_rescan(process, RescanSettings(window_ns=DAY_NS)).run_once()
        await clock.sleep_until(clock.monotonic_ns() + 2 * DAY_NS)
        async with rig.process() as process:
            await backfill(rig, process)
            second = await make_rescan(process, RescanSettings(window_ns=DAY_NS)).run_once()
        assert first is not None
        assert second is not None
        assert 2_950 <= second.processed <= 3_050, "one day before the first pass, and the two days away"

    in_virtual_time(main)


def test_a_rescan_that_read_nothing_because_the_source_was_down_is_no_success() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=60, new_per_day=1_000))
        async with rig.process() as process:
            await backfill(rig, process)
            rescan = make_rescan(process, RescanSettings(window_ns=DAY_NS))
            rig.provider.set_faults(Faults(outages=(Outage(from_s=0, to_s=10**9),)))
            assert await rescan.run_once() is None
            assert rescan.state().last_success_at_ns is None
            assert not rescan.state().running
            assert await rig.store.note(NAME, RESCAN_DONE_NOTE) is None
            rig.provider.set_faults(Faults())
            done = await rescan.run_once()
        assert done is not None
        assert rescan.state().last_success_at_ns == done.ended_at_ns

    in_virtual_time(main)


def test_an_empty_mirror_has_an_empty_window_and_the_pass_is_recorded() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        async with rig.process() as process:
            done = await make_rescan(process).run_once()
        assert done is not None
        assert (done.processed, done.time_s) == (0, None)
        assert pass_from_json(await rig.store.note(NAME, RESCAN_DONE_NOTE)) == done

    in_virtual_time(main)


class CountedClaims(MemoryStore):
    """A store that counts how often a segment was asked for."""

    claims = 0

    async def claim(self, *args: Any, **kwargs: Any) -> Segment | None:
        self.claims += 1
        return await super().claim(*args, **kwargs)


def test_while_one_slow_walker_works_only_one_other_asks_for_more() -> None:
    async def main(clock: SimClock) -> None:
        store = CountedClaims()
        world = WorldSettings(items=60, new_per_day=20)
        rig = Rig.make(clock, world=world, store=store, ceiling_ns=MINUTE_NS)
        async with rig.process() as process:
            await backfill(rig, process)
            store.claims, began_ns = 0, clock.monotonic_ns()
            assert await make_rescan(process, RescanSettings(window_ns=4 * DAY_NS)).run_once() is not None
            minutes = (clock.monotonic_ns() - began_ns) // MINUTE_NS
            assert minutes >= 50
            assert store.claims <= 32 * 2 + 13 * minutes

    in_virtual_time(main)


def test_a_pass_that_was_killed_goes_on_where_it_was() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
        life = Generation()
        before = rig.meter.departures[NAME, Lane.RESCAN]

        async def first_life() -> None:
            async with rig.process(life=life) as process:
                await process.collector.newest()
                await make_rescan(process, RescanSettings(window_ns=4 * DAY_NS)).run_once()

        asyncio.get_running_loop().call_later(8, life.crash)
        with pytest.raises(Crashed):
            await life.live(first_life())
        async with rig.process() as process:
            await process.collector.newest()
            done = await make_rescan(process, RescanSettings(window_ns=4 * DAY_NS)).run_once()
        assert done is not None
        read = rig.meter.departures[NAME, Lane.RESCAN] - before
        assert 3_000 <= read <= 3_010 + BATCH_MAX, "a kill repeats at most a batch"

    in_virtual_time(main)


async def passes_in(rig: Rig, rescan: Rescan, for_ns: int, look_ns: int = MINUTE_NS) -> list[RescanPass]:
    seen: list[RescanPass] = []
    running = asyncio.get_running_loop().create_task(rescan.run())
    end_ns = rig.clock.monotonic_ns() + for_ns
    while rig.clock.monotonic_ns() < end_ns:
        await rig.clock.sleep_until(rig.clock.monotonic_ns() + look_ns)
        done = pass_from_json(await rig.store.note(NAME, RESCAN_DONE_NOTE))
        if done is not None and done not in seen:
            seen.append(done)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return seen


def test_a_pass_comes_every_six_hours_and_whenever_one_is_wanted() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=200, new_per_day=100))
        async with rig.process() as process:
            await backfill(rig, process)
            rescan = make_rescan(process)
            asyncio.get_running_loop().call_later(
                8 * 3_600, lambda: asyncio.get_running_loop().create_task(rescan.want())
            )
            seen = await passes_in(rig, rescan, 15 * HOUR_NS)
        started_h = [round((done.started_at_ns - seen[0].started_at_ns) / HOUR_NS, 1) for done in seen]
        assert started_h == [0, 6, 8, 14]
        assert await rig.store.note(NAME, RESCAN_WANTED_NOTE) is None

    in_virtual_time(main)


def test_a_wish_survives_a_kill_and_is_not_fulfilled_by_a_pass_that_began_before_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await backfill(rig, process)
            rescan = make_rescan(process, RescanSettings(window_ns=DAY_NS))
            running = asyncio.get_running_loop().create_task(rescan.run_once())
            await asyncio.sleep(2)
            await rescan.want()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        async with rig.process() as process:
            await process.collector.newest()
            again = make_rescan(process, RescanSettings(window_ns=DAY_NS))
            seen = await passes_in(rig, again, 10 * MINUTE_NS, look_ns=SECOND_NS)
        assert len(seen) == 2
        assert await rig.store.note(NAME, RESCAN_WANTED_NOTE) is None

    in_virtual_time(main)


def test_auto_follows_the_ages_at_which_items_change() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        ages = UpdateAges()
        for _ in range(300):
            ages = ages.seen(1.5 * 86_400)
        async with rig.process() as process:
            await backfill(rig, process)
            rescan = make_rescan(process, RescanSettings(window_ns=None), ages)
            done = await rescan.run_once()
        assert done is not None
        window_ns = rescan.state().window_ns
        assert window_ns == rescan.state().suggested_window_ns
        assert window_ns is not None
        assert abs(done.processed - 1_000 * window_ns / DAY_NS) < 30

    in_virtual_time(main)


def test_an_old_item_from_the_future_does_not_stretch_the_window() -> None:
    async def main(clock: SimClock) -> None:
        # This world has bodies with absurd and missing times among its oddities.
        rig = Rig.make(clock, world=WorldSettings(items=3_000, new_per_day=1_000, odd_share=0.05))
        async with rig.process() as process:
            await backfill(rig, process)
            done = await make_rescan(process, RescanSettings(window_ns=DAY_NS)).run_once()
        assert done is not None
        assert 950 <= done.processed <= 1_050
        assert done.time_s is not None
        assert abs(done.time_s - clock.true_ns() // SECOND_NS) < 3_600

    in_virtual_time(main)
