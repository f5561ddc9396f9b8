"""What can one wrong number do? A provider that tells an absurd newest id stops nothing, and nothing of it is kept."""

import asyncio

import pytest

from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.newest_id import PLAUSIBLE_IDS
from remora.core.ledger.notes import LIVE_FROM_NOTE, NEWEST_NOTE
from remora.core.ledger.segment import SegmentKind
from remora.loops.numbered.service import ServiceSettings
from remora.sim.clock import SimClock
from remora.sim.world import WorldSettings
from tests.loops.rig import MINUTE_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time

pytestmark = pytest.mark.slow

ABSURD = 2**53
HISTORY = WorldSettings(items=3_000)
YOUNG_IDS = 50  # assigned since the last poll, at most
QUIET = ServiceSettings(rescan=None)


async def wait(rig: Rig, for_ns: int) -> None:
    await rig.clock.sleep_until(rig.clock.monotonic_ns() + for_ns)


async def running(process: Process) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(process.service.run())


async def stop(task: "asyncio.Task[None]") -> None:
    assert not task.done(), "the service ended by itself"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def assert_only_the_truth_is_kept(rig: Rig) -> None:
    truth = rig.world.max_id(rig.clock.true_ns())
    kept = await rig.store.note(NAME, NEWEST_NOTE)
    assert not isinstance(kept, int) or kept <= truth
    ends = (await rig.store.coverage(NAME)).ranges[-1:]
    assert all(piece.end <= truth for piece in ends)
    assert sum((await rig.store.open_segments(NAME)).values()) <= truth
    assert all(int(gap.key) <= truth for gap in await rig.store.gaps(NAME))


async def assert_all_is_collected(rig: Rig) -> None:
    newest = rig.world.max_id(rig.clock.true_ns())
    assert (await rig.store.coverage(NAME)).uncovered(IdRange(1, newest - YOUNG_IDS)) == ()


@pytest.mark.parametrize("lie_ns", [30 * SECOND_NS, 10 * MINUTE_NS])
def test_a_lie_on_the_first_start_delays_the_mirror_and_does_nothing_else(lie_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        rig.provider.claims_newest_id = ABSURD
        async with rig.process(settings=QUIET) as process:
            service = await running(process)
            await wait(rig, lie_ns)
            await assert_only_the_truth_is_kept(rig)
            assert process.service.state().newest_refused == ABSURD
            rig.provider.claims_newest_id = None
            await wait(rig, 2 * MINUTE_NS)
            assert process.service.state().newest_refused is None
            await stop(service)
        await assert_only_the_truth_is_kept(rig)
        await assert_all_is_collected(rig)

    in_virtual_time(main)


@pytest.mark.parametrize("lie_ns", [30 * SECOND_NS, 10 * MINUTE_NS])
def test_a_lie_to_a_running_mirror_is_shown_and_over_with_the_next_true_answer(lie_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        async with rig.process(settings=QUIET) as process:
            service = await running(process)
            await wait(rig, 2 * MINUTE_NS)
            rig.provider.claims_newest_id = ABSURD
            await wait(rig, lie_ns + 30 * SECOND_NS)
            assert process.service.state().newest_refused == ABSURD
            await assert_only_the_truth_is_kept(rig)
            rig.provider.claims_newest_id = None
            await wait(rig, 2 * MINUTE_NS)
            assert process.service.state().newest_refused is None
            await stop(service)
        await assert_only_the_truth_is_kept(rig)
        await assert_all_is_collected(rig)

    in_virtual_time(main)


def test_what_is_planned_is_fetched_by_a_process_that_starts_during_a_lie() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        await rig.live_for(5 * SECOND_NS, settings=QUIET)
        planned = sum((await rig.store.open_segments(NAME)).values())
        assert planned > 2_000, "hardly anything is left to fetch"
        rig.provider.claims_newest_id = ABSURD
        await rig.live_for(10 * MINUTE_NS, settings=QUIET)
        assert sum((await rig.store.open_segments(NAME)).values()) == 0
        await assert_only_the_truth_is_kept(rig)

    in_virtual_time(main)


def test_holes_below_a_stored_item_are_fetched_before_the_newest_id_was_ever_told() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        async with rig.process() as process:
            await process.collector.collect(Discovery.item(2_000, via=Lane.LIVE))
        await rig.store.cover(NAME, IdRange(2_000, 2_000))
        rig.provider.claims_newest_id = ABSURD
        await rig.live_for(10 * MINUTE_NS, settings=QUIET)
        assert (await rig.store.coverage(NAME)).uncovered(IdRange(1, 2_000)) == ()
        assert sum((await rig.store.open_segments(NAME)).values()) == 0
        await assert_only_the_truth_is_kept(rig)

    in_virtual_time(main)


def test_holes_in_what_was_live_are_fetched_by_a_process_that_hears_no_newest_id() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        only_live = ServiceSettings(backfill=False, rescan=None)
        await rig.live_for(MINUTE_NS, settings=only_live)
        live_from = await rig.store.note(NAME, LIVE_FROM_NOTE)
        assert isinstance(live_from, int)
        await rig.store.cover(NAME, IdRange(live_from + 500, live_from + 500))
        await wait(rig, 60 * MINUTE_NS)
        rig.provider.claims_newest_id = ABSURD
        await rig.live_for(10 * MINUTE_NS, settings=only_live)
        assert (await rig.store.coverage(NAME)).uncovered(IdRange(live_from, live_from + 500)) == ()

    in_virtual_time(main)


def test_a_store_that_already_believes_an_absurd_number_is_healed_by_the_next_true_answer() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=HISTORY)
        await rig.store.keep_note(NAME, NEWEST_NOTE, ABSURD)
        await rig.store.keep_note(NAME, LIVE_FROM_NOTE, ABSURD)
        await rig.store.plan(NAME, SegmentKind.BACKFILL, [IdRange(1, ABSURD - 1)], now_ns=clock.wall_ns())
        await rig.store.cover(NAME, IdRange(ABSURD, ABSURD))
        rig.provider.claims_newest_id = ABSURD
        async with rig.process(settings=QUIET) as process:
            service = await running(process)
            await wait(rig, MINUTE_NS)
            rig.provider.claims_newest_id = None
            await wait(rig, 3 * MINUTE_NS)
            await stop(service)
        await assert_only_the_truth_is_kept(rig)
        await assert_all_is_collected(rig)

    in_virtual_time(main)


def test_after_a_long_downtime_the_source_proves_how_far_it_has_come() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=3_000, new_per_day=50_000))
        await rig.live_for(2 * MINUTE_NS, settings=QUIET)
        known = await rig.store.note(NAME, NEWEST_NOTE)
        assert isinstance(known, int)
        await wait(rig, 2 * 60 * MINUTE_NS)
        await rig.live_for(5 * MINUTE_NS, settings=QUIET)
        newest = await rig.store.note(NAME, NEWEST_NOTE)
        assert isinstance(newest, int)
        assert newest > known + 3 * PLAUSIBLE_IDS
        await assert_all_is_collected(rig)

    in_virtual_time(main)
