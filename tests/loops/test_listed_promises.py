"""Does a run stop when the list contradicts its declaration, and never report a wrong mirror as complete?"""

import json
from collections.abc import Mapping

import pytest

from remora.core.item import Order
from remora.core.ledger.run import RunSummary, StoppedBy
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive


class OldestFirst(SmallArchive):
    """A list that shows the oldest mark first: what is added or updated comes last."""

    def listing(self) -> list[tuple[str, int]]:
        return super().listing()[::-1]


class EndsWith404(SmallArchive):
    """A list whose page after the last one does not exist."""

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        answer = super()._page(path, query)
        assert isinstance(answer, Answer)
        return answer if json.loads(answer.body)["items"] else NOT_FOUND


async def stops_without_a_watermark(rig: ListedRig) -> RunSummary:
    summary = await rig.run()
    assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
    assert (await rig.store.walk_state(NAME)).watermark is None
    assert not any(key in summary.because for key in rig.archive.truth())
    return summary


WRONG = {
    "oldest first": (OldestFirst(57), ListSettings(page_size=10), 'write order = "oldest"'),
    "mistyped updated": (SmallArchive(57), ListSettings(page_size=10, updated="updated_tme"), "check list.updated"),
    "mistyped cursor": (
        SmallArchive(57),
        ListSettings(path="/cursor", paging=Paging.CURSOR, page_size=10, next_cursor="nextcursor"),
        'write next_cursor = "next_cursor"',
    ),
    "mistyped offset": (SmallArchive(57), ListSettings(page_size=10, offset_param="ofset"), "offset_param"),
    "mistyped page": (
        SmallArchive(57),
        ListSettings(path="/pages", paging=Paging.PAGE, page_size=10, page_param="pge"),
        "page_param",
    ),
    "wrong order": (SmallArchive(57), ListSettings(page_size=10, order=Order.OLDEST), 'write order = "updated"'),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_stops_the_run_and_says_what_to_write(case: str) -> None:
    async def main(clock: SimClock) -> None:
        archive, settings, told = WRONG[case]
        rig = ListedRig(clock, archive, settings=settings)
        assert told in (await stops_without_a_watermark(rig)).because

    run(main)


def test_more_without_a_next_page_stops_the_run() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(path="/cursor", paging=Paging.CURSOR, page_size=10, more="more")
        rig = ListedRig(clock, SmallArchive(57), settings=settings)
        body = json.dumps({"items": [{"id": "a", "update_time": 1}], "next_cursor": None, "more": True})
        rig.archive.hook = lambda asked: ok(body.encode()) if asked.startswith("page") else None
        assert '"more" is true, but the page names no next page' in (await stops_without_a_watermark(rig)).because

    run(main)


def test_a_contradiction_on_a_later_page_keeps_what_was_listed_before_and_owes_the_rest() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57))
        shuffled = [{"id": f"x{number}", "update_time": number * 7 % 10} for number in range(10)]

        def hook(asked: str) -> Response | None:
            return ok(json.dumps({"items": shuffled}).encode()) if asked == "page 16" else None

        rig.archive.hook = hook
        await stops_without_a_watermark(rig)
        assert len(await rig.mirror()) == 18
        rig.archive.hook = lambda _asked: None
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_an_oldest_first_list_that_is_declared_so_is_collected_and_followed() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, OldestFirst(57), settings=ListSettings(page_size=10, order=Order.OLDEST))
        await rig.run(RunOptions(max_fetches=4))
        rig.archive.remove("c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        rig.archive.add("new", "c5")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        mirror = await rig.mirror()
        assert {key: mirror[key] for key in rig.archive.truth()} == rig.archive.truth()

    run(main)


def test_a_list_without_marks_is_walked_to_its_end_and_each_entry_is_fetched_once() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(25), settings=ListSettings(page_size=10, updated=""))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        rig.archive.add("new")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("paging", [Paging.OFFSET, Paging.PAGE])
@pytest.mark.parametrize("entries", [20, 27])
def test_a_list_that_ends_with_a_404_has_ended(paging: Paging, entries: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, EndsWith404(entries), settings=PAGINGS[paging])
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.requests("page").total() <= 6
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("after", ["after {}", "after 6 or 7"])
def test_a_cursor_that_is_never_null_ends_with_empty_pages(after: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(25), settings=PAGINGS[Paging.CURSOR])

        def hook(asked: str) -> Response | None:
            where = asked.partition(" ")[2]
            if asked.startswith("detail") or (where.isdigit() and int(where) > 6) or not where:
                return None
            following = "and again" if where == after else after.format(where)
            empty = {"items": [], "next_cursor": following}
            lines = [{"id": f"c{at}", "update_time": at + 1} for at in range(4, -1, -1)]
            return ok(json.dumps({**empty, "items": lines} if where == "6" else empty).encode())

        rig.archive.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


NEXT = ListSettings(path="/next", paging=Paging.NEXT, page_size=10)


@pytest.mark.parametrize("settings", [PAGINGS[Paging.OFFSET], PAGINGS[Paging.PAGE], NEXT])
def test_more_changes_than_a_page_between_two_requests_contradict_nothing(settings: ListSettings) -> None:
    """A provider that asks for a wait lets a busy list move on by pages; then a page is newer than the one before it."""

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57), settings=settings)
        asked: list[str] = []

        def flood(path: str) -> None:
            asked.append(path)
            if len(asked) == 3:
                rig.archive.add(*(f"n{number}" for number in range(35)))

        rig.archive.hook = flood
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE, summary.because
        assert await rig.is_complete()

    run(main)


def test_pages_in_the_wrong_order_stop_the_run_all_the_same() -> None:
    class PagesBackwards(SmallArchive):
        """Each page is in order, but the last page comes first."""

        def listing(self) -> list[tuple[str, int]]:
            newest_first = super().listing()
            return [entry for start in range(50, -1, -10) for entry in newest_first[start : start + 10]]

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, PagesBackwards(60), settings=NEXT)
        assert "after a page with marks" in (await stops_without_a_watermark(rig)).because
        assert rig.archive.requests("page").total() == 4  # looked at twice

    run(main)
