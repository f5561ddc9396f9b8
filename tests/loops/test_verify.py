"""Does a second reading find what is missing or stale, heal it, and count nothing else as a fault?"""

import pytest

from remora.core.errors import ConfigurationError
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.run import REFUSED_IN_A_ROW_MAX
from remora.core.ledger.segment import SegmentKind
from remora.loops.numbered.backfill import SegmentWorker
from remora.loops.verify import Finding, Verify, document_again, item_again
from remora.sim.clock import SimClock
from remora.sim.faults import Faults, Outage
from remora.sim.replies import Answer
from remora.sim.world import WorldSettings
from remora.sources.listed import DetailSettings
from tests.loops import listed_rig
from tests.loops.listed_rig import ListedRig, SmallArchive
from tests.loops.rig import HOUR_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time
from tests.loops.test_listed_each import rig_of

WORLD = WorldSettings(items=600, new_per_day=1_000)


async def hold(rig: Rig, process: Process, last_id: int) -> None:
    """Hold everything up to an id."""
    await process.collector.newest()
    await rig.store.plan(NAME, SegmentKind.BACKFILL, (IdRange(1, last_id),), now_ns=process.clock.wall_ns())
    kinds = (SegmentKind.BACKFILL,)
    worker = SegmentWorker(NAME, process.collector, rig.store, clock=process.clock, owner="one", kinds=kinds, width=32)
    await worker.run_until_done()


@pytest.mark.slow
def test_what_was_never_stored_and_what_changed_is_found_and_healed() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD)
        async with rig.process() as process:
            await hold(rig, process, 580)
            await rig.store.cover(NAME, IdRange(581, 600))  # a ledger that claims more than the mirror holds
            await clock.sleep_until(clock.monotonic_ns() + 12 * HOUR_NS)
            before = {difference.item_id for difference in await rig.differences() if difference.item_id <= 600}
            checking = Verify(NAME, process.collector, rig.store, width=16)
            findings = await checking.run(map(item_again, range(1, 601)))
            absent = sum(rig.world.is_absent(item_id) for item_id in range(581, 601))
            assert findings.total() == 600
            assert findings[Finding.MISSING] == 20 - absent
            assert findings[Finding.STALE] > 0
            assert findings[Finding.COUNTS] > 0
            assert sum(findings[bad] for bad in (Finding.MISSING, Finding.STALE, Finding.COUNTS)) == len(before)
            assert [each.item_id for each in await rig.differences() if each.item_id <= 600] == []

    in_virtual_time(main)


def test_a_true_mirror_is_the_same_and_no_answer_says_nothing() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WORLD, faults=Faults(outages=(Outage(600, 900),)))
        async with rig.process() as process:
            await hold(rig, process, 100)
            await clock.sleep_until(clock.monotonic_ns() + 600 * SECOND_NS)
            checking = Verify(NAME, process.collector, rig.store, width=4)
            findings = await checking.run(map(item_again, range(1, 51)))
            assert findings[Finding.UNANSWERED] > 0
            assert findings[Finding.SAME] > 0
            assert findings[Finding.MISSING] == findings[Finding.GONE] == 0
            assert findings.total() == 50

    in_virtual_time(main)


@pytest.mark.parametrize("width", [1, 16])
def test_a_provider_that_refuses_one_after_the_other_is_not_asked_for_the_whole_sample(width: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        await rig.run()
        rig.archive.asked.clear()
        rig.archive.hook = lambda _asked: Answer(401, b"")
        async with rig.process() as process:
            checking = Verify(listed_rig.NAME, process.collector, rig.store, width=width)
            findings = await checking.run(document_again(f"c{number}") for number in range(40))
        assert checking.is_refused
        assert findings[Finding.UNANSWERED] == len(rig.archive.asked) == REFUSED_IN_A_ROW_MAX

    in_virtual_time(main)


def test_single_refusals_do_not_end_the_second_reading() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        await rig.run()
        rig.archive.spoiled = {f"c{number}": Answer(403, b"") for number in range(0, 40, 2)}
        async with rig.process() as process:
            checking = Verify(listed_rig.NAME, process.collector, rig.store, width=1)
            findings = await checking.run(document_again(f"c{number}") for number in range(40))
        assert not checking.is_refused
        assert (findings[Finding.UNANSWERED], findings[Finding.SAME]) == (20, 20)

    in_virtual_time(main)


def test_documents_that_only_their_list_holds_are_not_asked_for_one_by_one_and_called_gone() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12), detail=DetailSettings(inline=True))
        await rig.run()
        asked, mirror = len(rig.archive.asked), await rig.mirror()
        async with rig.process() as process:
            checking = Verify(listed_rig.NAME, process.collector, rig.store, width=1)
            with pytest.raises(ConfigurationError, match="holds the whole documents"):
                await checking.run(map(document_again, sorted(mirror)))
        assert len(rig.archive.asked) == asked
        assert await rig.store.gaps(listed_rig.NAME) == ()

    in_virtual_time(main)


def test_documents_of_the_entries_of_another_source_are_asked_for_with_their_entry() -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor", channels=3, messages=4)
        await rig.run()
        held = await rig.mirror()
        workspace.asked.clear()
        async with rig.process() as process:
            findings = await Verify(listed_rig.NAME, process.collector, rig.store, width=1).run(
                map(document_again, held)
            )
        assert findings == {Finding.SAME: len(held)}
        assert set(workspace.requests("replies")) == set(workspace.messages)

    in_virtual_time(main)
