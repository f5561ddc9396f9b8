"""Does a walk over a list stop where it may, and nowhere else?"""

from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Entry, Page
from remora.core.list_walk import WalkState, after_page, finished, fits_on, is_at_end, restarted

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


def test_a_finished_walk_leaves_the_newest_mark_it_met_as_watermark() -> None:
    state = after_page(after_page(WalkState(watermark="3"), page("12", "8"), ""), page("7", "2"), "next")
    assert finished(state) == WalkState(watermark="12")


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


@given(st.lists(pages, max_size=8), st.none() | marks)
def test_the_watermark_never_goes_down_and_moves_only_at_the_end(walked: list[Page], watermark: str | None) -> None:
    state = WalkState(watermark=watermark)
    for number, one in enumerate(walked):
        state = after_page(state, one, str(number))
        assert state.watermark == watermark
    ended = finished(state).watermark
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
