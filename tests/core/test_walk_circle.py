"""Is a list that leads back to its own pages noticed, however long the circle is?"""

from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.walk_circle import EMPTY_PAGES_TOLD_MAX, PAGES_WITHOUT_NEWS_MAX, WalkCircle


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_circle_of_any_length_is_closed_within_three_rounds(before: int, length: int) -> None:
    circle, read = WalkCircle(), 0
    while circle.closes(str(read if read < before else before + (read - before) % length)) is None:
        read += 1
    assert read <= 3 * (before + length) + 3


def test_positions_that_do_not_repeat_are_no_circle() -> None:
    circle = WalkCircle()
    assert all(circle.closes(str(position)) is None for position in range(10_000))


def test_pages_that_show_nothing_new_end_a_walk_after_some_in_a_row() -> None:
    circle = WalkCircle()
    for _ in range(PAGES_WITHOUT_NEWS_MAX - 1):
        circle.read(has_news=False)
    assert circle.closes("a") is None
    circle.read(has_news=False)
    assert circle.closes("b") is not None
    circle.read(has_news=True)
    assert circle.closes("c") is None


def test_empty_pages_that_say_that_more_follow_end_a_walk_after_very_many_in_a_row() -> None:
    circle = WalkCircle()
    for page in range(2 * EMPTY_PAGES_TOLD_MAX - 1):
        circle.read(has_news=True, is_empty=page != EMPTY_PAGES_TOLD_MAX - 1)
    assert circle.closes("a") is None
    circle.read(has_news=True, is_empty=True)
    assert circle.closes("b") is not None
