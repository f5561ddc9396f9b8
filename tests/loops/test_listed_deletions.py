"""What becomes of entries that are deleted upstream? They are gone: kept, counted, and nobody is woken for them."""

import json
import random
from pathlib import Path

import pytest

from remora.contracts import StoredDocument
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.replies import GONE, NOT_FOUND, Answer, Response, ok
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive, sqlite_store

FIXED = ListSettings(path="/pages", paging=Paging.PAGE, page_size=10, size_param="")


async def states(rig: ListedRig) -> list[GapState]:
    return [gap.state for gap in await rig.store.gaps(NAME) if gap.kind is Kind.DOCUMENT]


async def held(rig: ListedRig, key: str) -> StoredDocument:
    document = await rig.store.document(NAME, key)
    assert document is not None
    return document


def deleting(archive: SmallArchive, *keys: str) -> None:
    """The entries are deleted after the list was read, before the first detail is asked for."""

    def hook(asked: str) -> Response | None:
        if asked.startswith("detail"):
            archive.hook = lambda _asked: None
            archive.remove(*keys)
        return None

    archive.hook = hook


@pytest.mark.parametrize("paging", PAGINGS)
@pytest.mark.parametrize("key", ["c59", "c30", "c0"])
@pytest.mark.slow
def test_an_entry_deleted_between_list_and_detail_is_gone_within_two_days_and_never_dead(
    paging: Paging, key: str
) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60), settings=PAGINGS[paging])
        deleting(rig.archive, key)
        for _ in range(8):
            summary = await rig.run()
            assert (summary.stopped_by, summary.dead) == (StoppedBy.COMPLETE, 0)
            await rig.wait(6 * HOUR_NS)
        assert await states(rig) == [GapState.GONE]
        assert (await held(rig, key)).vanished_ns is not None
        asked = rig.archive.requests("detail")[key]
        for _ in range(8):
            await rig.wait(2 * DAY_NS)
            await rig.run()
        assert rig.archive.requests("detail")[key] == asked, "what is gone is not asked for again"
        assert await rig.is_complete()

    run(main)


def test_a_new_entry_that_is_deleted_before_its_detail_is_gone_after_the_next_walks() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        rig.archive.add("new1", "new2")
        deleting(rig.archive, "new1")
        await rig.wait(HOUR_NS)
        await rig.run()
        assert await states(rig) == [GapState.OWED]
        for _ in range(2):
            await rig.wait(HOUR_NS)
            await rig.run()
        assert await states(rig) == [GapState.GONE]
        assert rig.archive.requests("page").total() < 20, "no full walk was needed"

    run(main)


def test_a_full_walk_records_which_held_documents_the_list_no_longer_shows_and_clears_it_when_they_are_back() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        bodies = await rig.mirror()
        rig.archive.remove("c7", "c8")
        await rig.wait(8 * DAY_NS)
        summary = await rig.run()
        assert (summary.stopped_by, summary.counts.vanished) == (StoppedBy.COMPLETE, 2)
        assert [(await held(rig, key)).vanished_ns is not None for key in ("c6", "c7", "c8")] == [False, True, True]
        assert await rig.mirror() == bodies, "what has vanished is kept"
        assert await states(rig) == [GapState.GONE, GapState.GONE], "their details are missing, too"
        rig.archive.place("c7", 8)
        await rig.wait(8 * DAY_NS)
        await rig.run()
        assert [(await held(rig, key)).vanished_ns is not None for key in ("c7", "c8")] == [False, True]

    run(main)


@pytest.mark.parametrize("kills", [False, True])
def test_an_entry_that_was_skipped_between_two_pages_of_a_fixed_size_has_not_vanished(kills: bool) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60), settings=FIXED)
        await rig.run()
        await rig.wait(8 * DAY_NS)

        def hook(asked: str) -> Response | None:
            if asked == "page 4":  # the pages above it were read: one entry less moves its first entry up, unseen
                rig.archive.hook = lambda _asked: None
                rig.archive.remove("c59")
            return None

        rig.archive.hook = hook
        if kills:
            await rig.run(RunOptions(max_fetches=5))
        summary = await rig.run()
        assert (summary.stopped_by, summary.counts.vanished) == (StoppedBy.COMPLETE, 0)
        asked = rig.archive.requests("page").total()
        for _ in range(3):
            await rig.wait(HOUR_NS)
            await rig.run()
        assert rig.archive.requests("page").total() <= asked + 6, "the list is not read to its end again"
        await rig.wait(8 * DAY_NS)
        assert (await rig.run()).counts.vanished == 1
        assert [(await held(rig, key)).vanished_ns is not None for key in ("c59", "c29")] == [True, False]

    run(main)


def test_an_entry_that_changed_before_it_is_judged_has_not_vanished_and_one_that_only_left_the_list_has() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        await rig.wait(8 * DAY_NS)
        bodies = {key: rig.archive.body(key) for key in ("c7", "c8", "c9")}
        rig.archive.remove(*bodies)
        rig.archive.spoiled["c7"] = ok(json.dumps({"id": "c7", "update_time": 7_000}).encode())
        rig.archive.spoiled["c8"] = ok(bodies["c8"])
        rig.archive.spoiled["c9"] = Answer(500, b"{}")
        summary = await rig.run()
        assert (summary.stopped_by, summary.counts.vanished) == (StoppedBy.COMPLETE, 1)
        assert [(await held(rig, key)).vanished_ns is not None for key in bodies] == [False, True, False]
        await rig.wait(8 * DAY_NS)
        rig.archive.spoiled["c9"] = ok(bodies["c9"])
        assert (await rig.run()).counts.vanished == 2
        assert (await rig.store.walk_state(NAME)).full_walk is None, "all of it is judged"
        asked = rig.archive.requests("detail").total()
        await rig.wait(8 * DAY_NS)
        await rig.run()
        assert rig.archive.requests("detail").total() == asked, "what has vanished is not asked for again"

    run(main)


@pytest.mark.slow
def test_entries_that_left_the_list_and_are_refused_do_not_stop_run_after_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        left = [f"c{number}" for number in range(30)]
        rig.archive.remove(*left)
        rig.archive.spoiled |= dict.fromkeys(left, Answer(403, b"{}"))
        await rig.wait(8 * DAY_NS)
        stops = []
        for _ in range(40):
            stops.append((await rig.run()).stopped_by)
            await rig.wait(HOUR_NS)
        assert stops.count(StoppedBy.COMPLETE) >= 30
        assert set(left) <= set(rig.archive.requests("detail")), "each was asked for"

    run(main)


def test_what_a_run_had_no_requests_left_to_ask_for_is_judged_by_the_next_ones_and_new_entries_come_first() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        rig.archive.remove(*(f"c{number}" for number in range(20)))
        await rig.wait(8 * DAY_NS)
        options = RunOptions(max_fetches=12)
        for turn in range(9):
            rig.archive.add(f"new{turn}")
            await rig.run(options)
            await rig.wait(HOUR_NS)
            assert f"new{turn}" in await rig.mirror()
        assert [(await held(rig, f"c{number}")).vanished_ns is not None for number in range(22)] == [True] * 20 + [
            False
        ] * 2

    run(main)


def test_an_entry_that_moves_to_the_front_during_a_full_walk_has_not_vanished() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        await rig.wait(8 * DAY_NS)

        def hook(asked: str) -> Response | None:
            if asked.startswith("page") and asked != "page 0":
                rig.archive.hook = lambda _asked: None
                rig.archive.add("c3")
            return None

        rig.archive.hook = hook
        summary = await rig.run()
        assert summary.counts.vanished == 0
        assert (await held(rig, "c3")).vanished_ns is None
        assert await rig.is_complete()

    run(main)


def test_an_entry_that_is_deleted_and_comes_back_is_owed_again_and_fetched() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(20))
        deleting(rig.archive, "c5")
        for _ in range(8):
            await rig.run()
            await rig.wait(6 * HOUR_NS)
        assert await states(rig) == [GapState.GONE]
        rig.archive.place("c5", 6)
        await rig.wait(8 * DAY_NS)
        await rig.run()
        assert await states(rig) == []
        assert await rig.is_complete()

    run(main)


def test_a_detail_that_is_gone_although_its_list_shows_it_is_final_after_three_looks() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(8))
        rig.archive.spoiled = {"c5": GONE}
        for _ in range(10):
            summary = await rig.run()
            assert (summary.stopped_by, summary.owed, summary.dead) == (StoppedBy.COMPLETE, 0, 0)
            assert await states(rig) == [GapState.GONE]
            await rig.wait(DAY_NS)
        assert rig.archive.requests("detail")["c5"] == 3

    run(main)


def test_a_single_stray_gone_loses_nothing_that_is_listed() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        rig.archive.spoiled = {"c5": GONE}
        await rig.run()
        rig.archive.spoiled = {}
        for _ in range(3):
            await rig.wait(13 * HOUR_NS)
            await rig.run()
        assert await rig.is_complete()
        assert await states(rig) == []

    run(main)


def test_a_missing_detail_that_the_list_goes_on_showing_is_dead_in_the_end_and_never_gone() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        rig.archive.spoiled = {"c5": NOT_FOUND}
        for _ in range(20):
            await rig.run()
            await rig.wait(6 * HOUR_NS)
        assert await states(rig) == [GapState.DEAD]
        assert (await held(rig, "c5")).vanished_ns is None

    run(main)


def test_what_vanished_from_a_list_that_was_empty_for_a_run_is_back_with_the_next_one() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run()
        rig.archive.hook = lambda asked: ok(b'{"items": []}') if asked.startswith("page") else None
        await rig.wait(HOUR_NS)
        assert (await rig.run()).counts.vanished == 60
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        details = rig.archive.requests("detail").total()
        await rig.run()
        kept = [document async for document in rig.store.documents(NAME)]
        assert [document.key for document in kept if document.vanished_ns is not None] == []
        assert rig.archive.requests("detail").total() == details, "their marks are the known ones"
        await rig.wait(HOUR_NS)
        assert (await rig.run()).counts.pages == 2, "then only the top is read again"

    run(main)


def test_a_list_that_is_empty_for_once_makes_nothing_vanish() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(8))
        await rig.run()
        truth = rig.archive.listing()
        rig.archive.remove(*(key for key, _ in truth))

        def hook(_asked: str) -> None:
            if not rig.archive.listing() and rig.archive.requests("page").total() > 3:
                for key, mark in truth:
                    rig.archive.place(key, mark)

        rig.archive.hook = hook
        await rig.wait(HOUR_NS)
        await rig.run()
        assert [(await held(rig, key)).vanished_ns for key, _ in truth] == [None] * len(truth)

    run(main)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("paging", [Paging.OFFSET, Paging.CURSOR])
@pytest.mark.slow
def test_deletions_at_any_moment_leave_a_mirror_that_is_complete_with_everything_deleted_kept_or_gone(
    paging: Paging, seed: int
) -> None:
    async def main(clock: SimClock) -> None:
        chance = random.Random(seed)
        rig = ListedRig(clock, SmallArchive(60), settings=PAGINGS[paging])
        left = [20]

        def hook(_asked: str) -> None:
            keys = [key for key, _ in rig.archive.listing()]
            if left[0] and chance.random() < 0.2:
                left[0] -= 1
                rig.archive.remove(chance.choice(keys))

        rig.archive.hook = hook
        for _ in range(12):
            summary = await rig.run()
            assert (summary.stopped_by, summary.dead) == (StoppedBy.COMPLETE, 0)
            await rig.wait(6 * HOUR_NS)
        rig.archive.hook = lambda _asked: None
        await rig.wait(8 * DAY_NS)
        await rig.run()
        await rig.wait(HOUR_NS)
        assert (await rig.run()).owed == 0
        assert set(await states(rig)) <= {GapState.GONE}
        mirror, truth = await rig.mirror(), rig.archive.truth()
        assert {key: mirror[key] for key in truth} == truth
        for number in range(60):
            known = await rig.store.document(NAME, f"c{number}")  # None: deleted before any page showed it
            assert (known is not None and known.vanished_ns is None) == (f"c{number}" in truth)

    run(main, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_kill_at_any_call_while_a_deletion_is_found_out_loses_nothing_and_calls_nothing_gone_that_is_there(
    after_effect: bool, tmp_path: Path
) -> None:
    async def attempt(rig: ListedRig, die_at: int) -> bool:
        deleting(rig.archive, "c2")
        await rig.run()
        await rig.wait(26 * HOUR_NS)
        life = Generation(die_at_call=die_at, after_effect=after_effect)
        died = False
        try:
            async with rig.process(life) as process:
                await life.live(process.run().run_once())
        except Crashed:
            died = True
        for _ in range(3):
            await rig.wait(26 * HOUR_NS)
            await rig.run()
        assert await rig.is_complete(), f"killed at call {die_at}"
        assert await states(rig) == [GapState.GONE], f"killed at call {die_at}"
        shown = [(await held(rig, key)).vanished_ns is None for key in rig.archive.truth()]
        assert all(shown), f"killed at call {die_at}"
        return died

    async def main(clock: SimClock) -> None:
        die_at = 1
        while True:
            async with sqlite_store(tmp_path / f"{die_at}.db") as store:
                if not await attempt(ListedRig(clock, SmallArchive(4), store), die_at):
                    break
            die_at += 3
        assert die_at > 20
        assert clock.monotonic_ns() > MINUTE_NS

    run(main)
