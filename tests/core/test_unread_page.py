"""When does a page show that the entries of an unread page were passed? Only by marks, and only if all of them tell."""

import pytest

from remora.core.item import Entry, Order, Page
from remora.core.ledger.unread_page import UnreadPage, followed_by, left_behind, reaches_above, reaches_below

UNREAD = UnreadPage("2", "page 2", above="2026-01-20", below="2026-01-10")


def page(*marks: str | None, order: Order | None = Order.UPDATED) -> Page:
    return Page(tuple(Entry(f"key-{at}", mark) for at, mark in enumerate(marks)), None, order=order)


@pytest.mark.parametrize(
    "marks, above, below",
    [
        (("2026-01-25", "2026-01-15"), True, False),
        (("2026-01-15", "2026-01-05"), False, True),
        (("2026-01-25", "2026-01-05"), True, True),
        (("2026-01-20", "2026-01-10"), False, False),  # ties do not count
        (("2026-01-21", "2026-01-25"), True, False),  # out of order: every entry must be beyond
        (("2026-01-25", None), True, False),  # an entry without a mark tells nothing
        ((None, "2026-01-05"), False, True),
        ((), False, False),
    ],
)
def test_a_page_reaches_beyond_an_unread_one_only_by_its_marks(
    marks: tuple[str | None, ...],
    above: bool,
    below: bool,
) -> None:
    assert reaches_above(UNREAD, page(*marks)) is above
    assert reaches_below(UNREAD, page(*marks)) is below


def test_a_list_without_an_order_shows_nothing() -> None:
    for order in (None, Order.NONE):
        assert not reaches_above(UNREAD, page("2026-01-25", order=order))


def test_behind_a_page_out_of_order_everything_from_its_newest_mark_on_may_be_missing() -> None:
    before = page("2026-01-21", "2026-01-25", "2026-01-23")
    assert left_behind("3", "page 3", before, first="1").above == "2026-01-25"
    assert left_behind("3", "page 3", page("2026-01-25", "2026-01-21"), first="1").above == "2026-01-21"
    assert followed_by(UnreadPage("2", "page 2"), before, first="1").below == "2026-01-21"
