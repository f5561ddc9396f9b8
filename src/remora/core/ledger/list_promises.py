"""Does a page keep what the declaration promises? Order, marks, and pages that differ from each other.

A wrong declaration gives a wrong mirror, so every page is compared with it. A sentence about a page contains marks and
counts, never a key or content.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from remora.core.item import Entry, Order, Page
from remora.core.ledger.marks import compare, is_newer, newest

# A few entries may be out of order: a pinned entry comes first, and an entry may change while its page is written.
ODD_ONE_IN: Final = 10
# Entries that arrive during the walk can shift a page onto the one before it; they do not do so twice in a row.
REPEATS_MAX: Final = 2
MARK_SHOWN_MAX: Final = 40
# The sentence for pages that never join, however often the walk steps back.
MOVES_TOO_FAST: Final = "the list changed faster than it could be read, so entries between two pages may be missing"

_WRITE_ORDER: Final = {
    Order.OLDEST: 'write order = "oldest" if the list shows the oldest entries first',
    Order.UPDATED: 'write order = "updated" if the list shows the newest change first',
    Order.CREATED: 'write order = "created" if the list shows the newest entries first',
    Order.NONE: 'write order = "none" if the list is not sorted by its marks',
}


def contradiction(page: Page, before: Sequence[Entry]) -> str | None:
    """How this page contradicts the declaration, and what to write instead; None when they agree.

    `before` holds the entries of the previous page of the list; it is empty if there is none.
    """
    if page.contradicts is not None:
        return page.contradicts
    if (shared := _shared_keys(page)) is not None or page.order is None:
        return shared
    if page.order is Order.NONE:
        return _without_marks(page)
    return _without_marks(page) or _out_of_order(page, page.order, before)


def clash(page: Page) -> str | None:
    """Whether entries that hold their documents share a key, and no mark says which of them is the newer one.

    One of them is kept; the others have no place. So a walk over such a page is never complete, but it goes on: the
    other entries of the list are good.
    """
    kept = {entry.key: entry for entry in newest_of_each(page.entries)}
    if len(kept) == len(page.entries):
        return None
    lost = sum(_clash(entry, kept[entry.key]) for entry in page.entries)
    if not lost:
        return None
    marks = "" if page.mark_at else ", or write list.updated if a mark of the entry says which one is newer"
    return (
        f"{lost} of {len(page.entries)} entries {'has' if lost == 1 else 'have'} the key of another entry of the page and "
        f"another content, and only one of them can be kept; check list.key: it must differ for each entry{marks}"
    )


def newest_of_each(entries: Sequence[Entry]) -> list[Entry]:
    """What is kept of a page: one entry per key, with its newest mark, in the order of the page."""
    newest: dict[str, Entry] = {}
    for entry in entries:
        known = newest.get(entry.key)
        if known is None or is_newer(entry.updated_at, known.updated_at):
            newest[entry.key] = entry
    return list(newest.values())


def is_in_order(page: Page) -> bool:
    """Whether the marks of a page are in order without exception, so that they may end a walk."""
    if page.order is Order.NONE:
        return False
    return page.order is None or _wrong_pairs(page.entries, page.order)[0] == 0


def repeated(pages: int) -> str:
    """The sentence for a list that shows one page again and again."""
    return (
        f"{pages} pages in a row show the same entries, so the list does not go on where it is asked to; "
        "check paging and the name of its parameter (offset_param, page_param or cursor_param), and write list.end if the "
        "provider repeats its last page and a field of it tells that"
    )


def marks_in_words(entries: Sequence[Entry]) -> str:
    """The first and the last mark of a page, as they were read."""
    marks = [entry.mark for entry in entries if entry.mark is not None]
    if not marks:
        return "no marks"
    return f"marks from {_shown(marks[0])} to {_shown(marks[-1])}"


def _shared_keys(page: Page) -> str | None:
    """Entries that a page holds whole, and of which only one per key would be kept."""
    kept: dict[str, bytes | None] = {}
    lost = sum(entry.body != kept.setdefault(entry.key, entry.body) for entry in page.entries)
    if not _is_too_odd(lost, len(page.entries)):
        return None
    return (
        f"{lost} of {len(page.entries)} entries have the key of another entry of the page, and only one of them would be kept; "
        "check list.key: it must differ for each entry"
    )


def _clash(entry: Entry, kept: Entry) -> bool:
    """Whether another content of a kept entry is neither older nor the same."""
    return entry.body != kept.body and (entry.updated_at is None or not is_newer(kept.updated_at, entry.updated_at))


def _without_marks(page: Page) -> str | None:
    bare = sum(entry.mark is None for entry in page.entries)
    if not _is_too_odd(bare, len(page.entries)):
        return None
    return (
        f'{bare} of {len(page.entries)} entries have no mark at "{page.mark_at}"; '
        'check list.updated, or write updated = "" if the list has no marks'
    )


def _out_of_order(page: Page, order: Order, before: Sequence[Entry]) -> str | None:
    wrong, pairs = _wrong_pairs(page.entries, order)
    read = f"the list is declared as {_declared(order)}, but a page has {marks_in_words(page.entries)}"
    if _is_too_odd(wrong, pairs):
        return f"{read}, {wrong} of {pairs} neighbours in the wrong order; {_write(page.entries, order)}"
    if _is_all_on_the_wrong_side(page.entries, before, order):
        return f"{read} after a page with {marks_in_words(before)}; {_write((*before, *page.entries), order)}"
    return None


def _wrong_pairs(entries: Sequence[Entry], order: Order) -> tuple[int, int]:
    """How many neighbours are in the wrong order, of those whose marks differ."""
    marks = [entry.mark for entry in entries if entry.mark is not None]
    signs = [compare(right, left) for left, right in pairwise(marks)]
    differ = [sign for sign in signs if sign]
    return sum((sign > 0) is not order.is_ascending for sign in differ), len(differ)


def _is_all_on_the_wrong_side(entries: Sequence[Entry], before: Sequence[Entry], order: Order) -> bool:
    """Whether every mark lies beyond every mark of the page before, against the order."""
    first, second = (entries, before) if order.is_ascending else (before, entries)
    lower, upper = newest(*(entry.mark for entry in first)), _oldest(second)
    return lower is not None and upper is not None and compare(lower, upper) < 0


def _oldest(entries: Sequence[Entry]) -> str | None:
    oldest: str | None = None
    for entry in entries:
        if entry.mark is not None and (oldest is None or compare(entry.mark, oldest) < 0):
            oldest = entry.mark
    return oldest


def _is_too_odd(odd: int, of: int) -> bool:
    return odd > 0 and (odd == of or odd > max(1, of // ODD_ONE_IN))


def _write(entries: Sequence[Entry], order: Order) -> str:
    """What declaration would fit the page: the other direction, or another mark."""
    other = Order.UPDATED if order.is_ascending else Order.OLDEST
    wrong, pairs = _wrong_pairs(entries, other)
    if wrong * ODD_ONE_IN <= pairs:
        return _WRITE_ORDER[other]
    return (
        "check list.updated: it should name the mark that the list is sorted by, or ask the provider to sort by it, "
        'or write order = "none" if it cannot'
    )


def _declared(order: Order) -> str:
    return "oldest first" if order.is_ascending else "newest first"


def _shown(mark: str) -> str:
    return mark if len(mark) <= MARK_SHOWN_MAX else f"{mark[:MARK_SHOWN_MAX]}…"
