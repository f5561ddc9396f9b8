"""Which entries may be on a page that could not be read, and when have they been seen? Content decides, not the position.

A list moves: what was on page 22 may be on page 23 tomorrow. So a page that could not be read is remembered with the marks of
its neighbours. It has been read when pages that join show an entry from before it, everything between, and one from behind it.
"""

from dataclasses import dataclass, replace

from remora.core.item import Entry, Order, Page
from remora.core.ledger.list_promises import is_in_order
from remora.core.ledger.marks import is_newer


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """One page of a list that could not be read."""

    position: str  # where it was, in the source's own form
    words: str  # which page this is, for an operator, without a key or a content
    above: str | None = None  # a mark before it; None: it may begin with the first entry of its part of the list
    below: str | None = None  # a mark behind it; None: it may end with the last one
    by_walk: bool = False  # the list has no usable marks: every walk reads it to its end, and only a walk can prove it


def left_behind(position: str, words: str, before: Page | None, *, first: str) -> UnreadPage:
    """The page that a walk leaves behind. `before`: the page read before it. `first`: the first position of its part.

    Without a mark before it, everything from the beginning of its part of the list is read again.
    """
    above = None if before is None or not _is_sorted(before) else _edge(before, towards_end=True)
    is_unsorted = before is not None and not _has_order(before)
    return UnreadPage(first if above is None else position, words, above, by_walk=is_unsorted and not first)


def followed_by(unread: UnreadPage, behind: Page, *, first: str) -> UnreadPage:
    """This page was read behind it, in the same part of the list. What is missing is before its entries."""
    if not _has_order(behind):
        return replace(unread, by_walk=not first)
    if unread.below is not None or not behind.entries:
        return unread
    return replace(unread, below=_edge(behind, towards_end=False))


def reaches_above(unread: UnreadPage, page: Page) -> bool:
    """Whether this page begins before the entries that are missing."""
    return unread.above is not None and _is_beyond(page, unread.above, towards_end=False)


def reaches_below(unread: UnreadPage, page: Page) -> bool:
    """Whether this page ends behind the entries that are missing."""
    return unread.below is not None and _is_beyond(page, unread.below, towards_end=True)


def advanced(unread: UnreadPage, position: str, words: str, read: Page | None) -> UnreadPage:
    """What is still missing after pages were read up to a position, the last of them `read`."""
    if read is None or not _is_sorted(read):
        return unread
    return replace(unread, position=position, words=words, above=_edge(read, towards_end=True))


def _has_order(page: Page) -> bool:
    return page.order is not None and page.order is not Order.NONE


def _is_sorted(page: Page) -> bool:
    return _has_order(page) and bool(page.entries)


def _edge(page: Page, *, towards_end: bool) -> str | None:
    """The mark at one end of a page; at the other end if its marks are not in order. None if an entry has no mark."""
    if any(entry.mark is None for entry in page.entries):
        return None
    at_last = towards_end if is_in_order(page) else not towards_end
    if is_in_order(page):
        return page.entries[-1 if at_last else 0].mark
    return _extreme(page, at_last=at_last)


def _extreme(page: Page, *, at_last: bool) -> str | None:
    """The mark that would be the first or the last one if the page were in order."""
    is_ascending = page.order is not None and page.order.is_ascending
    found = page.entries[0].mark
    for entry in page.entries:
        if is_newer(entry.mark, found) if at_last is is_ascending else is_newer(found, entry.mark):
            found = entry.mark
    return found


def _is_beyond(page: Page, mark: str, *, towards_end: bool) -> bool:
    """Whether the page reaches beyond a mark. Ties do not count, and of a page out of order every entry must be beyond."""
    if not _is_sorted(page):
        return False
    entries = page.entries if not is_in_order(page) else (page.entries[-1 if towards_end else 0],)
    return all(_is_past(entry, page, mark, towards_end=towards_end) for entry in entries)


def _is_past(entry: Entry, page: Page, mark: str, *, towards_end: bool) -> bool:
    if entry.mark is None:
        return False
    is_ascending = page.order is not None and page.order.is_ascending
    return is_newer(entry.mark, mark) if towards_end is is_ascending else is_newer(mark, entry.mark)
