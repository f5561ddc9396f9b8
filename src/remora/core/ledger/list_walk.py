"""How far has the walk over a list got, and may it stop? Content decides, never offsets.

A list is usually walked newest first. The watermark is the newest mark of the last walk that saw everything. Entries
with the same mark are read again, because a tie may hide a new entry. Now and then a walk ignores the watermark and
goes to the end of the list, to find entries that slipped below the watermark unseen.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from remora.core.item import Entry, Order, Page
from remora.core.ledger.list_promises import is_in_order
from remora.core.ledger.marks import is_newer, is_written_otherwise, newest
from remora.core.units import DAY_NS, MINUTE_NS

FULL_WALK_EVERY_NS: Final = 7 * DAY_NS
# A missing detail causes a full walk at most this often: in a large archive something is deleted every day.
FULL_WALK_IN_DOUBT_NS: Final = DAY_NS
# The clocks of two machines, or of one before and after a correction, may differ by this much.
CLOCK_SLACK_NS: Final = MINUTE_NS


@dataclass(frozen=True, slots=True)
class WalkState:
    """The progress of the forward walk over a list. Stored with every page."""

    watermark: str | None = None  # the newest mark of the last finished walk; None: walk to the end of the list
    walking_from: str | None = (
        None  # the newest mark this walk has seen: the next watermark, once the walk has seen everything
    )
    seen_down_to: str | None = None  # the oldest mark this walk has recorded
    position: str | None = None  # the page to continue with; None: no walk is in progress
    walk: int = 0  # the number of this walk, or of the last one
    full_walk: int | None = None  # a walk that saw the whole list; what it missed is not recorded as vanished yet

    @property
    def is_under_way(self) -> bool:
        """Whether a walk was interrupted and can continue."""
        return self.position is not None


def full_walk_is_due(finished_at_ns: int | None, *, now_ns: int, doubted_at_ns: int | None = None) -> bool:
    """Whether the next walk ignores the watermark. A time in the future proves nothing, so a full walk is due then too.

    `doubted_at_ns` is when a detail was first missing although the list had shown its entry. A full walk is due earlier
    then: only a full walk shows whether the list still has the entry.
    """
    if finished_at_ns is None or finished_at_ns > now_ns + CLOCK_SLACK_NS:
        return True
    is_doubted = doubted_at_ns is not None and doubted_at_ns >= finished_at_ns
    return now_ns - finished_at_ns >= (FULL_WALK_IN_DOUBT_NS if is_doubted else FULL_WALK_EVERY_NS)


def begun(state: WalkState, *, is_full: bool) -> WalkState:
    """The state a walk begins with. A walk in progress continues unchanged."""
    if state.is_under_way:
        return state
    return WalkState(None if is_full else state.watermark, walk=state.walk + 1, full_walk=state.full_walk)


def fits_on(state: WalkState, page: Page) -> bool:
    """Whether the first page after an interruption joins the pages seen before, with no unseen entries between them.

    It joins if it shows a known entry: it is the last page again, or overlaps with it. Entries that vanished above it
    shift its content, and a page without a known entry may have skipped something. A cursor needs no such proof.
    """
    if state.seen_down_to is None or (page.resume_at is not None and not page.shared):
        return True
    if page.order is Order.NONE:
        return True  # marks prove nothing; the walk that follows a resumed one reads the whole list
    if page.order is not None and page.order.is_ascending:
        return any(entry.mark is None or not is_newer(entry.mark, state.walking_from) for entry in page.entries)
    return any(entry.mark is None or not is_newer(state.seen_down_to, entry.mark) for entry in page.entries)


def joins(page: Page, recent_keys: Collection[str]) -> bool:
    """Whether a page joins the previous ones: it repeats one of their entries, so nothing lies between them.

    Entries only move to the front or vanish, so the entries after a known one are those not seen yet. Pages that cannot
    overlap (`shared` is 0) always pass, and a page with an unreadable entry is not trusted anyway.
    """
    if not page.shared or page.unreadable:
        return True
    return any(entry.key in recent_keys for entry in page.entries)


def after_page(state: WalkState, page: Page, position: str) -> WalkState:
    """The walk after this page was recorded.

    An entry of an unsorted list may change to a place that was read already. Its mark is then newer than all marks of the
    first page, so only that page moves the next watermark.
    """
    marks = [entry.mark for entry in page.entries if entry.mark is not None]
    oldest = state.seen_down_to
    for mark in marks:
        oldest = mark if oldest is None or is_newer(oldest, mark) else oldest
    is_first = page.begins_part or state.seen_down_to is None
    moves = marks if page.order is not Order.NONE or is_first else []
    return replace(
        state,
        walking_from=newest(state.walking_from, *moves),
        seen_down_to=oldest,
        position=position if page.resume_at is None else page.resume_at,
    )


def is_at_end(state: WalkState, page: Page) -> bool:
    """Whether nothing new can follow: the list ended, or everything on this page is older than the watermark.

    Marks end a walk only where they are in order without exception, and only in a list that begins with the newest.
    """
    if page.next_position is None:
        return True
    is_ascending = page.order is not None and page.order.is_ascending
    return not is_ascending and _is_all_older(page.entries, state.watermark) and is_in_order(page)


def finished(state: WalkState, *, is_end: bool) -> WalkState:
    """The state after a walk saw everything down to the watermark or, if `is_end`, to the end of the list."""
    full_walk = state.walk if is_end else state.full_walk
    watermark = newest(state.watermark, state.walking_from)
    if is_written_otherwise(state.walking_from, state.watermark):
        watermark = state.walking_from  # as the list writes its marks now
    return WalkState(watermark, walk=state.walk, full_walk=full_walk)


def restarted(state: WalkState) -> WalkState:
    """The state before the walk's first page. What was owed stays owed; the watermark does not move."""
    return WalkState(state.watermark, walk=state.walk, full_walk=state.full_walk)


def _is_all_older(entries: Sequence[Entry], watermark: str | None) -> bool:
    if watermark is None or not entries:
        return False
    return all(entry.mark is not None and is_newer(watermark, entry.mark) for entry in entries)
