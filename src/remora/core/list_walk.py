"""How far has the walk over a list come, and may it stop? Content marks decide, never offsets.

A list is walked newest first. The watermark is the newest mark of the last walk that saw everything; entries with the
same mark are looked at again, because a tie may hide an entry that was not there before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remora.core.item import Entry, Page
from remora.core.marks import is_newer, newest


@dataclass(frozen=True, slots=True)
class WalkState:
    """Where the forward walk over a list stands. Stored with every page."""

    watermark: str | None = None  # the newest mark of the last finished walk
    walking_from: str | None = (
        None  # the newest mark this walk has met: the next watermark, once it has seen everything
    )
    seen_down_to: str | None = None  # the oldest mark this walk has recorded
    position: str | None = None  # the page recorded last; None: no walk is under way

    @property
    def is_under_way(self) -> bool:
        """Whether a walk was interrupted and can go on."""
        return self.position is not None


def fits_on(state: WalkState, page: Page) -> bool:
    """Whether a page read again after an interruption joins what was seen, or entries may lie unseen between them.

    The interrupted walk's last page is read once more: entries that vanished above it shift what it shows, and a page
    that shows nothing known any more may have skipped something.
    """
    if state.seen_down_to is None:
        return True
    return any(entry.updated_at is None or not is_newer(state.seen_down_to, entry.updated_at) for entry in page.entries)


def after_page(state: WalkState, page: Page, position: str) -> WalkState:
    """The walk after this page was recorded."""
    marks = [entry.updated_at for entry in page.entries if entry.updated_at is not None]
    oldest = state.seen_down_to
    for mark in marks:
        oldest = mark if oldest is None or is_newer(oldest, mark) else oldest
    return replace(state, walking_from=newest(state.walking_from, *marks), seen_down_to=oldest, position=position)


def is_at_end(state: WalkState, page: Page) -> bool:
    """Whether nothing new can follow: the list ended, or everything on this page is older than the watermark."""
    return page.next_position is None or _is_all_older(page.entries, state.watermark)


def finished(state: WalkState) -> WalkState:
    """The state once a walk saw everything down to the watermark or the end of the list."""
    return WalkState(watermark=newest(state.watermark, state.walking_from))


def restarted(state: WalkState) -> WalkState:
    """Before the walk's first page. What was owed stays owed; the watermark has not moved."""
    return WalkState(watermark=state.watermark)


def _is_all_older(entries: Sequence[Entry], watermark: str | None) -> bool:
    if watermark is None or not entries:
        return False
    return all(entry.updated_at is not None and is_newer(watermark, entry.updated_at) for entry in entries)
