"""Is a list collected whole in every way of paging, also while it moves?"""

from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.run import StoppedBy
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import Response
from remora.sources.paging import ListSettings, Paging, next_page, page_place
from tests.loops.listed_rig import PAGINGS, ListedRig, SmallArchive

WAYS = {
    "next": ListSettings(path="/next", paging=Paging.NEXT, page_size=10),
    "last": ListSettings(path="/last", paging=Paging.LAST, page_size=10),
    "none": ListSettings(path="/all", paging=Paging.NONE),
    "page": PAGINGS[Paging.PAGE],
    "header": ListSettings(path="/header", paging=Paging.CURSOR, page_size=10, cursor_header="X-Next"),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_paging_collects_everything_and_then_only_what_is_new(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57), settings=WAYS[way])
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        rig.archive.asked.clear()
        rig.archive.add("new", "c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.requests("detail")) == {"new", "c3"}
        assert rig.archive.requests("page").total() <= 2
        assert await rig.is_complete()

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["last", "page"])
@pytest.mark.parametrize("stops_after", [2, 3, 5])
def test_a_walk_that_was_cut_off_goes_on_after_entries_vanished(way: str, stops_after: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57), settings=WAYS[way])
        await rig.run(RunOptions(max_fetches=stops_after))
        rig.archive.remove("c56", "c50", "c49")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@pytest.mark.parametrize("gone", [1, 2, 3, 9, 15])
@pytest.mark.slow
def test_an_entry_deleted_between_two_numbered_pages_does_not_hide_its_neighbour(gone: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(100), settings=WAYS["page"])
        vanishing = [f"c{number}" for number in range(99, 99 - gone, -1)]

        def hook(asked: str) -> Response | None:
            if vanishing and asked.startswith("page") and len(rig.archive.asked) == 4:
                rig.archive.remove(*vanishing)
                vanishing.clear()
            return None

        rig.archive.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@given(total=st.integers(0, 400), page_size=st.integers(1, 60), first_page=st.integers(0, 1))
def test_numbered_pages_overlap_and_leave_nothing_out(total: int, page_size: int, first_page: int) -> None:
    settings = ListSettings(paging=Paging.PAGE, page_size=page_size, first_page=first_page)
    seen, position, pages = 0, "", 0
    while True:
        place = page_place(settings, position)
        start = (place.number - first_page) * place.size
        listed = max(0, min(total, start + place.size) - start)
        if listed:
            assert start + place.shared >= seen >= start, "no entry lies between two pages"
            assert place.shared or seen % lcm(*range(1, page_size + 1)) == 0, "a page of some size shows an entry again"
            seen, pages = max(seen, start + listed), pages + 1
        following = next_page(settings, position, listed)
        if following is None:
            break
        position = following
    assert seen == total
    assert pages <= total + 2, "each page but the last ones shows something new"


def test_a_header_that_never_comes_is_told() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(path="/list", paging=Paging.CURSOR, page_size=10, cursor_header="X-Nxt")
        summary = await ListedRig(clock, SmallArchive(57), settings=settings).run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        told = "a page of 9 entries names no next page in a X-Nxt header, but there are more; check list.cursor_header"
        assert told in summary.because

    run(main)


@pytest.mark.parametrize("entries", [9, 10, 11])
def test_a_list_of_exactly_one_page_is_read_whole_where_the_last_page_names_no_next_one(entries: int) -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(entries)
        settings = ListSettings(path="/links", paging=Paging.LINK, page_size=10)
        rig = ListedRig(clock, archive, settings=settings)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == archive.truth()

    run(main)


def test_a_provider_that_ignores_the_page_size_is_told() -> None:
    async def main(clock: SimClock) -> None:
        class FixedSize(SmallArchive):
            def _page(self, path: str, query: object) -> Response:
                assert isinstance(query, dict)
                return super()._page(path, {**query, "limit": "10"})

        rig = ListedRig(clock, FixedSize(57), settings=WAYS["page"])
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert 'write size_param = "" if it cannot be chosen' in summary.because

    run(main)


def test_a_full_list_that_loses_an_entry_before_it_is_asked_for_again_is_read_whole_by_the_next_run() -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(10)
        asked: list[str] = []

        def loses_one(what: str) -> None:
            asked.append(what)
            if len(asked) == 2:
                archive.remove("c0")

        archive.hook = loses_one
        rig = ListedRig(clock, archive, settings=ListSettings(path="/links", paging=Paging.LINK, page_size=10))
        assert (await rig.run()).stopped_by is StoppedBy.LIST_CONTRADICTS
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert (await rig.mirror()).items() >= archive.truth().items()

    run(main)
