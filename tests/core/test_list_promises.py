"""Is a page that contradicts its declaration noticed, and an honest list never suspected?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Entry, Order, Page
from remora.core.ledger.list_promises import clash, contradiction, is_in_order


def page(*marks: str | int | None, order: Order | None = Order.UPDATED) -> Page:
    entries = tuple(Entry(f"k{at}", None if mark is None else str(mark)) for at, mark in enumerate(marks))
    return Page(entries, "next", order=order, mark_at="updated")


def told(shown: Page, before: Page | None = None) -> str:
    return contradiction(shown, before.entries if before is not None else ()) or ""


@given(st.lists(st.integers(0, 30), max_size=40), st.sampled_from([Order.UPDATED, Order.CREATED, Order.OLDEST]))
def test_a_page_in_the_declared_order_is_never_suspected_whatever_its_ties(marks: list[int], order: Order) -> None:
    ordered = sorted(marks, reverse=not order.is_ascending)
    half = len(ordered) // 2
    before, after = page(*ordered[:half], order=order), page(*ordered[half:], order=order)
    assert told(before) == ""
    assert told(after, before) == ""
    assert is_in_order(after)


def test_an_oldest_first_list_is_told_with_its_marks_and_what_to_write() -> None:
    sentence = told(page(1, 2, 3))
    assert "declared as newest first, but a page has marks from 1 to 3" in sentence
    assert 'write order = "oldest"' in sentence


def test_a_newest_first_list_that_is_declared_oldest_first_is_told_too() -> None:
    assert 'write order = "updated"' in told(page(3, 2, 1, order=Order.OLDEST))


def test_marks_in_no_order_point_to_the_path_of_the_mark() -> None:
    assert "check list.updated" in told(page(3, 9, 1, 7, 2, 8))


def test_pages_of_one_entry_are_compared_with_each_other() -> None:
    assert told(page(5), page(6)) == ""
    assert "after a page with marks from 5 to 5" in told(page(6), page(5))


@pytest.mark.parametrize("marks", [(None, None), (None, 9, 8, None, 7, None), (None,)])
def test_entries_without_marks_are_told_where_marks_were_promised(marks: tuple[int | None, ...]) -> None:
    assert 'entries have no mark at "updated"' in told(page(*marks))


def test_a_list_without_marks_promises_none() -> None:
    assert told(page(None, None, order=None)) == ""


def test_one_odd_entry_such_as_a_pinned_one_is_no_contradiction_but_ends_no_walk() -> None:
    pinned = page(1, 9, 8, 7)
    assert told(pinned) == ""
    assert not is_in_order(pinned)
    assert told(page(9, None, 8, 7)) == ""


def test_a_sentence_holds_no_key() -> None:
    secret = Page((Entry("secret-a", "1"), Entry("secret-b", "2")), "n", order=Order.UPDATED, mark_at="updated")
    assert "secret" not in told(secret)
    assert len(told(page("9" * 190, "8" * 195))) < 400


def test_a_key_that_several_whole_entries_share_is_told() -> None:
    shared = tuple(Entry(str(number % 3), str(9 - number), None, b"%d" % number) for number in range(9))
    assert "6 of 9 entries have the key of another entry" in (contradiction(Page(shared, None), ()) or "")
    shown_twice = (*shared[:3], shared[0])
    assert contradiction(Page(shown_twice, None), ()) is None, "the same entry twice loses nothing"
    bare = tuple(Entry(entry.key, entry.updated_at) for entry in shared)
    assert contradiction(Page(bare, None), ()) is None, "a detail per key is asked for"


def whole(*entries: tuple[str, int | None, bytes]) -> Page:
    """Entries that hold their documents: key, mark and content."""
    return Page(tuple(Entry(key, None if mark is None else str(mark), None, body) for key, mark, body in entries), None)


def test_two_contents_under_one_key_clash_unless_a_mark_says_which_is_newer() -> None:
    others = tuple((f"k{at}", 5, b"other") for at in range(30))
    same_mark = whole(*others, ("a", 5, b"one"), ("a", 5, b"two"))
    assert contradiction(same_mark, ()) is None, "one entry in ten may be odd, so the walk goes on"
    assert "1 of 32 entries has the key of another entry of the page and another content" in (clash(same_mark) or "")
    assert "check list.key" in (clash(same_mark) or "")
    assert clash(whole(*others, ("a", None, b"one"), ("a", None, b"two"))) is not None
    assert clash(whole(*others, ("a", 5, b"one"), ("a", None, b"two"))) is not None, "without a mark nothing is older"
    assert clash(whole(*others, ("a", 4, b"one"), ("a", 5, b"two"))) is None, "the newer one is kept"
    assert clash(whole(*others, ("a", 3, b"one"), ("a", 3, b"two"), ("a", 5, b"three"))) is None
    assert clash(whole(*others, ("a", None, b"one"), ("a", None, b"one"))) is None, "the same entry twice loses nothing"
    assert clash(Page((Entry("a", "1"), Entry("a", "1")), None)) is None, "a detail per key is asked for"


def test_a_clash_names_no_key_and_says_how_marks_would_help_where_there_are_none() -> None:
    bare = whole(("secret", None, b"one"), ("secret", None, b"two"), ("b", None, b"x"))
    assert "secret" not in (clash(bare) or "")
    assert "or write list.updated" in (clash(bare) or "")
