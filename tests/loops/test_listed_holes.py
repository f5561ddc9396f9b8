"""Is a page that always fails owed, and does the walk go on behind it?"""

import pytest

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.reasons import GapReason
from remora.core.status.last_run import failed_run
from remora.core.status.model import YesNo
from remora.core.status.readout import read_out
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.operate.observe.read_status import read_ledger
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import NOT_FOUND, Answer, Response
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed
from tests.loops.test_listed_since import WAYS as PARTS
from tests.loops.test_listed_since import Dated

SPOILED = Answer(500, b"{}")
WAYS = {"offset": (PAGINGS[Paging.OFFSET], "page 24"), "page": (PAGINGS[Paging.PAGE], "page 4")}


def rig_of(clock: SimClock, way: str) -> ListedRig:
    settings, failing = WAYS[way]
    rig = ListedRig(clock, SmallArchive(77), settings=settings, ceiling_ns=SECOND_NS // 50)

    def hook(asked: str) -> Response | None:
        return SPOILED if asked == failing else None

    rig.archive.hook = hook
    return rig


async def what_is_missing(rig: ListedRig) -> str:
    """Why the status calls the copy incomplete."""
    source = read_source(NAME, {"kind": "listed", "url": "https://a.example"})
    told = read_out((), {NAME: await read_ledger(rig.store, NAME, source)}, now_ns=rig.clock.wall_ns())
    complete = told.sources[NAME].answers.complete
    assert complete.answer is YesNo.NO
    return complete.reason


@pytest.mark.parametrize("way", WAYS)
def test_the_walk_goes_on_behind_a_page_that_always_fails_and_names_it(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_TROUBLE, "the source is not complete until it was read"
        assert "cannot be read (server_error)" in summary.because
        words = {"offset": "the page with entries 25 to 34", "page": "page 4 of"}
        assert words[way] in summary.because
        held = await rig.mirror()
        assert 60 <= len(held) < 77
        assert held.keys() >= {f"c{number}" for number in range(35)}, "what is behind it"
        assert (await rig.store.walk_state(NAME)).full_walk is None, "what the page shows has not vanished"
        (gap,) = await rig.store.gaps(NAME)
        assert (gap.kind, gap.state, gap.reason, gap.attempts) == (
            Kind.UNREAD_PAGE,
            GapState.OWED,
            GapReason.SERVER_ERROR,
            1,
        )
        assert words[way] in await what_is_missing(rig), "status names the hole"

    run(main)


@pytest.mark.parametrize("way", WAYS)
def test_later_runs_ask_for_the_page_on_its_schedule_and_do_not_walk_the_list_again(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        await rig.run()
        for attempts in range(2, 6):
            rig.archive.asked.clear()
            await rig.wait(DAY_NS // 2)
            rig.archive.add(f"new{attempts}")
            summary = await rig.run()
            assert (summary.stopped_by, summary.unread_pages) == (StoppedBy.COMPLETE, 1)
            assert summary.because.endswith("1 page of it could not be read yet")
            assert sum(rig.archive.requests("page").values()) <= 5, "the page itself, and the top of the list"
            assert rig.archive.requests("page")[WAYS[way][1].removeprefix("page ")] == 1
            (gap,) = await rig.store.gaps(NAME)
            assert gap.attempts == attempts
        rig.archive.asked.clear()
        assert (await rig.run()).unread_pages == 1
        assert rig.archive.requests("page")[WAYS[way][1].removeprefix("page ")] == 0, "it is not due"

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_what_was_on_the_page_is_found_wherever_it_is_when_the_list_answers(way: str) -> None:
    """Entries come and go meanwhile, so what was on the page is on other pages when it can be read."""

    async def main(clock: SimClock) -> None:
        for moved, removed in ((0, 14), (45, 3)):
            rig = rig_of(clock, way)
            await rig.run()
            rig.archive.add(*(f"new{number}" for number in range(moved)))
            rig.archive.remove(*(f"c{number}" for number in range(76, 76 - removed, -1)))
            await rig.wait(HOUR_NS)
            rig.archive.hook = lambda _asked: None
            summary = await rig.run()
            assert (summary.stopped_by, summary.unread_pages) == (StoppedBy.COMPLETE, 0)
            assert (await rig.mirror()).keys() >= rig.archive.truth().keys()
            assert await rig.store.gaps(NAME) == ()

    run(main)


def test_another_page_at_the_same_position_does_not_replace_the_one_that_is_owed() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "offset")
        await rig.run()
        rig.archive.add(*(f"new{number}" for number in range(40)))
        await rig.wait(HOUR_NS)
        assert (await rig.run()).unread_pages == 2
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        assert (await rig.run()).unread_pages == 0
        assert await rig.is_complete()

    run(main)


def test_a_page_that_answers_but_shows_other_entries_settles_nothing() -> None:
    """The fault moves with its entry: the position answers again, and the entries behind it do not."""

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(77), ceiling_ns=SECOND_NS // 50)

        def hook(asked: str) -> Response | None:
            if not asked.startswith("page "):
                return None
            start = int(asked.removeprefix("page ") or 0)
            return SPOILED if any(key == "c48" for key, _ in rig.archive.listing()[start : start + 10]) else None

        rig.archive.hook = hook
        await rig.run()
        before = await rig.mirror()
        rig.archive.add(*(f"new{number}" for number in range(30)))
        for _ in range(3):
            await rig.wait(HOUR_NS)
            summary = await rig.run()
            assert (summary.stopped_by, summary.unread_pages) == (StoppedBy.COMPLETE, 1)
        assert (await rig.mirror()).keys() - before.keys() >= {f"new{number}" for number in range(30)}
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        assert (await rig.run()).unread_pages == 0
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("way", WAYS)
def test_a_walk_that_left_a_page_behind_and_was_interrupted_still_owes_it(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, fetches = rig_of(clock, way), 7
        while (
            not (await rig.run(RunOptions(max_fetches=fetches))).unread_pages or rig.archive.asked[-1] == WAYS[way][1]
        ):
            rig, fetches = rig_of(clock, way), fetches + 1
        assert (await rig.store.walk_state(NAME)).is_under_way, "it read one page behind it, and was interrupted"
        rig.archive.asked.clear()
        summary = await rig.run()
        assert summary.unread_pages == 1
        assert rig.archive.requests("page")[WAYS[way][1].removeprefix("page ")] == 0, "the walk went on behind it"
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).unread_pages == 0
        assert await rig.is_complete()

    run(main)


def test_a_full_walk_that_reads_everything_settles_every_page() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(
            clock,
            SmallArchive(77),
            settings=ListSettings(page_size=10, updated=""),
            detail=DetailSettings(key="id"),
            ceiling_ns=SECOND_NS // 50,
        )
        rig.archive.hook = lambda asked: SPOILED if asked == "page 24" else None
        assert (await rig.run()).unread_pages == 1
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        assert (await rig.run(RunOptions(recover_only=True))).unread_pages == 1, (
            "without marks only a walk can prove it"
        )
        assert (await rig.run()).unread_pages == 0
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("way", WAYS)
def test_a_page_that_was_left_behind_is_read_once_it_answers(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        await killed(rig, Generation(die_at_call=150))
        await rig.wait(HOUR_NS)
        await rig.run(RunOptions(max_fetches=20))
        rig.archive.add("new", "c5")
        await rig.wait(HOUR_NS)
        assert (await rig.run()).unread_pages == 1
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_list_that_does_not_answer_at_all_is_not_walked_page_by_page() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(77), ceiling_ns=SECOND_NS // 50)
        rig.archive.hook = lambda asked: SPOILED if asked != "page 0" else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_TROUBLE
        failing = {asked for asked in rig.archive.asked if asked.startswith("page") and asked != "page 0"}
        assert len(failing) <= 4

    run(main)


def test_a_cursor_cannot_be_computed_so_the_walk_stops_there() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(77), settings=PAGINGS[Paging.CURSOR], ceiling_ns=SECOND_NS // 50)
        rig.archive.hook = lambda asked: SPOILED if asked == "page 68" else None
        summary = await rig.run()
        assert (summary.stopped_by, summary.because) == (
            StoppedBy.LIST_TROUBLE,
            "the list does not answer (server_error)",
        )
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_window_that_fails_is_left_behind_and_one_that_is_empty_or_absent_is_not_the_end() -> None:
    async def main(clock: SimClock) -> None:
        archive = Dated(3)
        for number, step in enumerate((100, 400, 700)):  # months of silence between them
            archive.place(f"late{number}", archive.listing()[0][1] + step * 3_600)
        rig = ListedRig(clock, archive, settings=PARTS["window"], ceiling_ns=SECOND_NS // 50)
        clock.step_wall(90 * DAY_NS)
        windows = iter(range(1_000))

        def hook(_asked: str) -> Response | None:
            number = next(windows)
            return {5: NOT_FOUND}.get(number)

        archive.hook = hook
        await rig.run()
        archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_thirty_empty_windows_are_not_the_end_of_the_list() -> None:
    async def main(clock: SimClock) -> None:
        archive = Dated(0)
        archive.place("old", archive._clock)
        archive.place("new", archive._clock + 60 * 86_400)
        clock.step_wall(90 * DAY_NS)
        rig = ListedRig(clock, archive, settings=PARTS["window"], ceiling_ns=SECOND_NS // 50)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_page_that_is_refused_is_named_too() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(page_size=10)
        rig = ListedRig(clock, SmallArchive(77), settings=settings, ceiling_ns=SECOND_NS // 50)
        rig.archive.hook = lambda asked: Answer(403, b"{}") if asked == "page 24" else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_TROUBLE
        assert "entries 25 to 34 cannot be read (forbidden)" in summary.because

    run(main)


def test_the_status_says_why_the_last_run_failed_in_the_words_of_the_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57))
        rig.archive.hook = lambda asked: Answer(403, b"") if asked.startswith("page") else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_REFUSED
        source = read_source(NAME, {"kind": "listed", "url": "https://a.example"})
        told = failed_run(NAME, await read_ledger(rig.store, NAME, source), now=None)
        assert told is not None
        assert told.reason == f"the last run failed: {summary.because}"
        rig.archive.hook = lambda _asked: None
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert (await read_ledger(rig.store, NAME, source)).told is None

    run(main)


def test_status_tells_a_walk_over_the_whole_list_from_one_that_stopped_at_what_is_known() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57))
        await rig.run()
        await rig.wait(3 * DAY_NS)
        rig.archive.add("new")
        rig.archive.remove("c5")
        summary = await rig.run()
        assert (summary.stopped_by, summary.counts.vanished) == (StoppedBy.COMPLETE, 0), "it did not read so far down"
        await rig.wait(HOUR_NS)
        source = read_source(NAME, {"kind": "listed", "url": "https://a.example"})
        told = read_out((), {NAME: await read_ledger(rig.store, NAME, source)}, now_ns=rig.clock.wall_ns())
        fresh = told.sources[NAME].answers.fresh.reason
        assert fresh == "new entries were last looked for 60 min ago; the whole list was last walked 3 d ago"

    run(main)
