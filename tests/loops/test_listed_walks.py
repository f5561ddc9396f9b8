"""Is every entry of a list that moves under the walk collected, whatever happens to it?"""

import json
from collections.abc import Callable

import pytest

from remora.core.ledger.discovery import Kind
from remora.core.ledger.list_promises import MOVES_TOO_FAST
from remora.core.ledger.run import StoppedBy
from remora.core.ledger.walk_circle import PAGES_WITHOUT_NEWS_MAX
from remora.core.units import DAY_NS, HOUR_NS
from remora.loops.listed.run import RunOptions
from remora.loops.listed.walk import TURNS_BACK_MAX
from remora.sim.clock import SimClock, run
from remora.sim.replies import Answer, Response, ok
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive

REFUSED = Answer(400, b'{"error":"this cursor is too old"}')


def once(asked: str, change: Callable[[], None]) -> Callable[[str], Response | None]:
    """A hook that lets something happen right before one request is answered, the first time it is asked."""
    happened = False

    def hook(now_asked: str) -> Response | None:
        nonlocal happened
        if now_asked == asked and not happened:
            happened = True
            change()
        return None

    return hook


@pytest.mark.parametrize("paging", PAGINGS)
def test_a_run_collects_everything_that_is_listed_with_one_request_each(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57), settings=PAGINGS[paging])
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE, summary
        assert (summary.owed, summary.counts.outcomes["new"]) == (0, 57)
        assert await rig.is_complete()
        assert max(rig.archive.requests("detail").values()) == 1

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_the_next_run_reads_only_the_top_of_the_list_and_what_is_new_or_newer(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(57), settings=PAGINGS[paging])
        await rig.run()
        rig.archive.asked.clear()
        rig.archive.add("new", "c3")
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.requests("detail")) == {"new", "c3"}
        assert rig.archive.requests("page").total() == 2
        assert await rig.is_complete()

    run(main)


def test_an_entry_deleted_between_two_pages_does_not_hide_its_neighbour() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(100))
        # Page by page: each time one entry of those already seen vanishes, the rest moves up by one.
        vanishing = iter([f"c{number}" for number in range(99, 80, -1)])

        def hook(asked: str) -> Response | None:
            if asked.startswith("page") and asked != "page 0":
                rig.archive.remove(next(vanishing))
            return None

        rig.archive.hook = hook
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@pytest.mark.parametrize("gone", [2, 5, 9, 10, 15, 30])
@pytest.mark.slow
def test_pages_that_do_not_join_any_more_are_read_again_from_further_up(gone: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(100))
        seen_first = [f"c{number}" for number in range(99, 99 - gone, -1)]
        rig.archive.hook = once("page 32", lambda: rig.archive.remove(*seen_first))
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())
        assert rig.archive.requests("page").total() <= 25

    run(main)


def test_a_list_that_shrinks_below_the_place_of_the_walk_is_not_at_its_end() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        # The first fifty vanish while the page after the third is on its way: it is empty, and ten are left unseen.
        rig.archive.hook = once("page 24", lambda: rig.archive.remove(*(f"c{number}" for number in range(59, 9, -1))))
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@pytest.mark.slow
def test_a_list_that_moves_faster_than_it_can_be_read_ends_the_walk_and_keeps_the_watermark() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(2_000))

        def hook(asked: str) -> Response | None:
            if asked.startswith("page"):
                rig.archive.remove(*[key for key, _ in rig.archive.listing()[:30]])
            return None

        rig.archive.hook = hook
        summary = await rig.run(RunOptions(max_fetches=4_000))
        assert (await rig.store.walk_state(NAME)).watermark is None
        assert summary.counts.pages < 400 - TURNS_BACK_MAX
        assert (summary.stopped_by, summary.because) == (
            StoppedBy.LIST_UNREADABLE,
            f"{MOVES_TOO_FAST}; the walk did not move past it",
        )
        rig.archive.hook = lambda _asked: None
        await rig.run()
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@pytest.mark.slow
def test_an_entry_that_moves_twice_ahead_of_the_walk_is_found_by_the_next_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(200))
        oldest = rig.archive.listing()[-1][0]

        def hook(asked: str) -> None:
            if asked.startswith("page") and len(rig.archive.requests("page")) in {5, 12}:
                rig.archive.add(oldest)

        rig.archive.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() != rig.archive.truth(), "it was on no page when that page was read"
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == rig.archive.truth()

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_entries_added_and_updated_during_a_walk_are_collected_by_the_next_run(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40), settings=PAGINGS[paging])

        def hook(asked: str) -> Response | None:
            turn = len(rig.archive.asked)
            if turn <= 4:
                rig.archive.add(f"new{turn}", f"c{turn}", f"c{39 - turn}")
            return None

        rig.archive.hook = hook
        await rig.run()
        rig.archive.hook = lambda _asked: None
        await rig.run()
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_an_entry_that_ties_with_the_watermark_is_not_lost(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(15), settings=PAGINGS[paging])
        await rig.run()
        newest = rig.archive.listing()[0][1]
        rig.archive.place("zz-same-second", newest)
        await rig.run()
        assert await rig.is_complete()

    run(main)


def test_many_entries_of_the_same_moment_are_all_collected() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(5))
        for number in range(60):
            rig.archive.place(f"t{number:02}", 6)
        await rig.run(RunOptions(max_fetches=4))
        await rig.run()
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_an_entry_that_slipped_below_the_watermark_is_found_by_the_weekly_full_walk(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(45), settings=PAGINGS[paging])
        await rig.run()
        rig.archive.place("slipped", 3)
        await rig.wait(6 * DAY_NS)
        await rig.run()
        assert "slipped" not in await rig.mirror()
        await rig.wait(DAY_NS + HOUR_NS)
        rig.archive.asked.clear()
        summary = await rig.run()
        assert await rig.is_complete()
        assert (summary.counts.listed, summary.counts.outcomes.total()) == (1, 1), "only the unknown one is fetched"
        rig.archive.asked.clear()
        await rig.run()
        assert rig.archive.requests("page").total() == 2, "the next walk stops at the watermark again"

    run(main)


def test_a_full_walk_that_is_interrupted_goes_on_as_one() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(95))
        await rig.run()
        rig.archive.place("slipped", 3)
        await rig.wait(8 * DAY_NS)
        assert (await rig.run(RunOptions(max_fetches=4))).stopped_by is StoppedBy.MAX_FETCHES
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_an_unreadable_entry_never_lets_the_cursor_move_past_it_and_the_rest_is_collected(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(35), settings=PAGINGS[paging])
        rig.archive.unreadable = {"c20"}
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_UNREADABLE
        assert 'has no key at "id"; the walk did not move past it' in summary.because
        assert (await rig.store.walk_state(NAME)).watermark is None
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c20"}
        rig.archive.unreadable = set()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert max(rig.archive.requests("detail").values()) == 1

    run(main)


@pytest.mark.parametrize("body", [b'{"error":"try later"}', b"null", b'{"items":[', b"[]", b'{"items":{}}'])
def test_a_page_that_cannot_be_read_is_not_the_end_of_the_list(body: bytes) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(35))
        rig.archive.hook = lambda asked: ok(body) if asked == "page 16" else None
        summary = await rig.run()
        assert summary.stopped_by in {
            StoppedBy.LIST_UNREADABLE,
            StoppedBy.LIST_TROUBLE,
            StoppedBy.LIST_REFUSED,
        }
        assert [gap.kind for gap in await rig.store.gaps(NAME)] == [Kind.UNREAD_PAGE]
        assert not await rig.is_complete()
        assert len(await rig.mirror()) == 27, "what is listed before and behind it is collected all the same"
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_position_that_is_too_old_begins_the_walk_again_instead_of_failing_for_ever() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(35), settings=PAGINGS[Paging.CURSOR])
        await rig.run(RunOptions(max_fetches=2))
        rig.archive.hook = once("page 26", lambda: None)
        refuse = {"page 26"}

        def hook(asked: str) -> Response | None:
            if asked in refuse:
                refuse.remove(asked)
                return REFUSED
            return None

        rig.archive.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_refused_list_stops_the_run_but_not_what_is_owed_already() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        await rig.run(RunOptions(max_fetches=4))
        rig.archive.hook = lambda asked: REFUSED if asked.startswith("page") else None
        summary = await rig.run()
        assert (summary.stopped_by, summary.owed) == (StoppedBy.LIST_REFUSED, 0)
        assert "refuses the list (forbidden)" in summary.because
        assert "is the request declared as the provider wants it?" in summary.because
        assert len(await rig.mirror()) == 12

    run(main)


def test_a_list_that_goes_round_in_a_circle_ends_the_walk() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        first = ok(b'{"items":[{"id":"c29","update_time":30},{"id":"c28","update_time":29}]}')
        rig.archive.hook = lambda asked: first if asked.startswith("page") else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert summary.counts.pages <= PAGES_WITHOUT_NEWS_MAX + 1
        assert set(await rig.mirror()) == {"c28", "c29"}

    run(main)


def test_cursors_that_lead_back_to_the_beginning_end_the_walk_and_the_details_are_fetched() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(path="/ring", paging=Paging.CURSOR, page_size=2, updated="")
        rig = ListedRig(clock, SmallArchive(60), settings=settings)

        def hook(asked: str) -> Response | None:
            at = int(asked.removeprefix("page ") or "0") if asked.startswith("page") else None
            if at is None:
                return None
            lines = [{"id": f"c{number}"} for number in (at, at + 1)]
            return ok(json.dumps({"items": lines, "next_cursor": (at + 2) % 60}).encode())  # 0 begins again

        rig.archive.hook = hook
        summary = await rig.run(RunOptions(max_fetches=1_000))
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "leads back to a page that was read before" in summary.because
        assert await rig.is_complete()

    run(main)


def test_pages_that_hold_nothing_readable_do_not_keep_a_walk_going_for_ever() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(3), settings=PAGINGS[Paging.PAGE])
        no_more = ok(b'{"items": [{"message": "no more entries"}]}')
        rig.archive.hook = lambda asked: no_more if asked.startswith("page") and asked != "page 1" else None
        summary = await rig.run(RunOptions(max_fetches=200))
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert summary.counts.pages <= PAGES_WITHOUT_NEWS_MAX + 1
        assert await rig.is_complete()

    run(main)


def test_an_interrupted_walk_goes_on_at_its_page_and_not_at_the_top() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(95))
        await rig.run(RunOptions(max_fetches=6))
        rig.archive.asked.clear()
        await rig.run()
        assert next(iter(rig.archive.requests("page"))) == "48", "the page after the one recorded last"
        assert await rig.is_complete()

    run(main)


def test_a_walk_resumed_after_the_list_shrank_beyond_its_page_begins_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(95))
        await rig.run(RunOptions(max_fetches=6))
        rig.archive.remove(*(f"c{number}" for number in range(94, 64, -1)))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert set(rig.archive.truth()) <= set(await rig.mirror())

    run(main)


@pytest.mark.parametrize("paging", PAGINGS)
def test_an_entry_with_an_absurd_mark_hides_nothing_that_comes_below_it(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12), settings=PAGINGS[paging])
        rig.archive.place("from the year 9999", 10**9)
        await rig.run()
        assert await rig.is_complete()
        for number in range(35):
            rig.archive.place(f"new {number}", 100 + number)
        await rig.run()
        assert await rig.is_complete()

    run(main)
