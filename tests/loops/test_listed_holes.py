"""Is a page that always fails owed, and does the walk go on behind it?"""

import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.status.model import YesNo
from remora.core.status.readout import read_out
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.operate.observe.read_status import read_ledger
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import NOT_FOUND, Answer, Response
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
        state = await rig.store.walk_state(NAME)
        assert (state.watermark, state.full_walk) == (None, None)
        assert words[way] in await what_is_missing(rig), "status names the hole"
        await rig.run(RunOptions(max_fetches=1))
        assert words[way] in await what_is_missing(rig), "a run that did not get there has not read it"

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
        assert (await rig.run()).stopped_by is StoppedBy.LIST_TROUBLE
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
