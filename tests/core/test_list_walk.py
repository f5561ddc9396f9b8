"""Does a walk over a list stop where it may, and nowhere else?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remora.core.item import Entry, Order, Page
from remora.core.ledger.gap import DOUBTED_FOR_NS
from remora.core.ledger.list_walk import (
    FULL_WALK_EVERY_NS,
    FULL_WALK_IN_DOUBT_NS,
    WalkState,
    after_page,
    begun,
    finished,
    fits_on,
    full_walk_is_due,
    is_at_end,
    joins,
    restarted,
)
from remora.core.units import HOUR_NS

marks = st.integers(0, 50).map(str)
entries = st.builds(Entry, key=st.text("abcdef", min_size=1, max_size=3), updated_at=st.none() | marks)
pages = st.builds(Page, entries=st.lists(entries, max_size=8).map(tuple), next_position=st.none() | st.just("next"))


def page(*of_marks: str | None, next_position: str | None = "next") -> Page:
    return Page(tuple(Entry(f"k{number}", mark) for number, mark in enumerate(of_marks)), next_position)


def test_a_walk_goes_on_while_anything_on_the_page_is_at_or_above_the_watermark() -> None:
    assert not is_at_end(WalkState(watermark="10"), page("12", "10", "9"))


def test_entries_with_the_mark_of_the_watermark_are_looked_at_again() -> None:
    assert not is_at_end(WalkState(watermark="10"), page("10", "10"))


def test_a_page_that_is_older_than_the_watermark_ends_the_walk() -> None:
    assert is_at_end(WalkState(watermark="10"), page("9", "8"))


def test_an_entry_without_a_mark_keeps_the_walk_going() -> None:
    assert not is_at_end(WalkState(watermark="10"), page("9", None))


def test_the_first_walk_goes_to_the_end_of_the_list() -> None:
    assert not is_at_end(WalkState(), page("9"))
    assert is_at_end(WalkState(), page("9", next_position=None))


def test_an_empty_page_in_the_middle_does_not_end_a_walk() -> None:
    assert not is_at_end(WalkState(watermark="10"), page())


def test_only_the_first_page_of_an_unsorted_list_moves_the_watermark() -> None:
    first, later = (replace(page(*marks), order=Order.NONE) for marks in (("5", "8"), ("12", "2")))
    state = after_page(after_page(WalkState(watermark="3"), first, ""), later, "next")
    assert finished(state, is_end=True).watermark == "8", "what changed since the first page has a newer mark than that"
    window = replace(later, begins_part=True)
    assert finished(after_page(state, window, "next"), is_end=True).watermark == "12"


def test_a_finished_walk_leaves_the_newest_mark_it_met_as_watermark() -> None:
    state = after_page(after_page(WalkState(watermark="3"), page("12", "8"), ""), page("7", "2"), "next")
    assert finished(state, is_end=False) == WalkState(watermark="12")


def test_an_interrupted_walk_does_not_move_the_watermark() -> None:
    state = after_page(WalkState(watermark="3"), page("12", "8"), "")
    assert state.watermark == "3"
    assert state.is_under_way
    assert restarted(state) == WalkState(watermark="3")


def test_a_page_read_again_fits_when_it_still_shows_something_known() -> None:
    state = after_page(WalkState(), page("12", "8"), "")
    assert fits_on(state, page("9", "7"))
    assert fits_on(state, page("8"))


def test_a_page_that_shows_nothing_known_may_have_skipped_entries() -> None:
    state = after_page(WalkState(), page("12", "8"), "")
    assert not fits_on(state, page("7", "6"))


@pytest.mark.slow
@given(st.lists(pages, max_size=8), st.none() | marks)
def test_the_watermark_never_goes_down_and_moves_only_at_the_end(walked: list[Page], watermark: str | None) -> None:
    state = WalkState(watermark=watermark)
    for number, one in enumerate(walked):
        state = after_page(state, one, str(number))
        assert state.watermark == watermark
    ended = finished(state, is_end=False).watermark
    assert watermark is None or (ended is not None and int(ended) >= int(watermark))


@given(st.lists(pages, min_size=1, max_size=8))
def test_everything_recorded_lies_between_the_newest_and_the_oldest_mark_of_the_walk(walked: list[Page]) -> None:
    state = WalkState()
    seen: list[int] = []
    for number, one in enumerate(walked):
        state = after_page(state, one, str(number))
        seen += [int(entry.updated_at) for entry in one.entries if entry.updated_at is not None]
    assert state.walking_from == (str(max(seen)) if seen else None)
    assert state.seen_down_to == (str(min(seen)) if seen else None)


def keyed(*keys: str, shared: int = 1, unreadable: int = 0, resume_at: str | None = None) -> Page:
    entries = tuple(Entry(key, str(50 - number)) for number, key in enumerate(keys))
    return Page(entries, "next", unreadable=unreadable, shared=shared, resume_at=resume_at)


def test_a_page_joins_when_it_shows_an_entry_of_the_pages_before_it() -> None:
    assert joins(keyed("c", "d", "e"), {"a", "b", "c"})
    assert not joins(keyed("d", "e"), {"a", "b", "c"})


def test_an_empty_page_where_known_entries_should_stand_does_not_join() -> None:
    assert not joins(keyed(), {"a"})


def test_pages_that_cannot_overlap_or_are_not_trusted_anyway_are_taken_as_they_come() -> None:
    assert joins(keyed("x", shared=0), {"a"})
    assert joins(keyed("x", unreadable=1), {"a"})


def test_a_walk_goes_on_where_its_page_says_or_at_the_page_itself() -> None:
    assert after_page(WalkState(), keyed("a", resume_at="95-5"), "0").position == "95-5"
    assert after_page(WalkState(), keyed("a"), "0").position == "0"


def test_after_an_interruption_a_cursor_needs_no_proof_and_an_overlapping_page_gives_one() -> None:
    state = after_page(WalkState(), page("12", "8"), "")
    older = tuple(Entry("k", mark) for mark in ("7", "6"))
    assert fits_on(state, Page(older, "next", shared=0, resume_at="next"))
    assert not fits_on(state, Page(older, "next", shared=2, resume_at="next"))
    assert not fits_on(state, Page(older, "next", shared=0, resume_at=None))


def test_a_full_walk_is_due_at_first_after_a_week_and_when_the_clock_stepped_back() -> None:
    assert full_walk_is_due(None, now_ns=0)
    assert not full_walk_is_due(5, now_ns=FULL_WALK_EVERY_NS)
    assert full_walk_is_due(5, now_ns=FULL_WALK_EVERY_NS + 5)
    assert full_walk_is_due(2 * HOUR_NS, now_ns=HOUR_NS)


def test_a_full_walk_is_due_after_a_day_if_a_detail_has_been_missing_since_the_last_one() -> None:
    due_ns = FULL_WALK_IN_DOUBT_NS + 5
    assert full_walk_is_due(5, now_ns=due_ns, doubted_at_ns=6)
    assert not full_walk_is_due(5, now_ns=due_ns - 1, doubted_at_ns=6)
    assert not full_walk_is_due(5, now_ns=due_ns, doubted_at_ns=4), "the last full walk has told already"
    assert FULL_WALK_IN_DOUBT_NS < DOUBTED_FOR_NS, "nobody gives up on a missing detail before a full walk has told"


def test_a_full_walk_forgets_the_watermark_but_not_a_walk_that_is_under_way() -> None:
    assert begun(WalkState(watermark="9"), is_full=True) == WalkState(walk=1)
    assert begun(WalkState(watermark="9"), is_full=False) == WalkState(watermark="9", walk=1)
    under_way = WalkState(watermark="9", walking_from="12", seen_down_to="10", position="0", walk=4)
    assert begun(under_way, is_full=True) == under_way


def test_every_walk_has_a_number_and_one_that_saw_the_whole_list_is_remembered_until_it_is_judged() -> None:
    walk = begun(WalkState(watermark="9", walk=4, full_walk=3), is_full=False)
    assert (walk.walk, walk.full_walk) == (5, 3)
    assert restarted(walk) == walk
    assert finished(walk, is_end=False) == walk
    assert finished(walk, is_end=True) == WalkState(watermark="9", walk=5, full_walk=5)
