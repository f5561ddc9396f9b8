"""How far was the list of each entry of another source read? Each has a watermark of its own.

The lists of two entries are read at different times, so the newest mark of one says nothing about the other. And an entry
that appears later is read from its beginning, however old it is. A watermark moves only when its list was read whole.
"""

from dataclasses import replace

from remora.contracts import Store
from remora.contracts.source import WalkedSource
from remora.core.item import Page
from remora.core.ledger.discovery import fingerprint
from remora.core.ledger.list_walk import WalkState, after_page
from remora.core.ledger.marks import newest
from remora.core.ledger.notes import ENTRY_MARK_NOTE


class EntryMarks:
    """The watermarks that one walk uses and moves. Without entries of another source it does nothing."""

    def __init__(self, source: str, store: Store, walked: WalkedSource | None) -> None:
        self._source = source
        self._store = store
        self._walked = walked if walked is not None and walked.capabilities.each is not None else None
        self._parent: str | None = None
        self._read = WalkState()  # of the list of this entry
        self._is_proven = True
        self.is_whole = False  # everything of this entry's list was read so far

    def in_part(self, state: WalkState, position: str) -> WalkState:
        """The state of the walk, with the watermark of the list that this position is in."""
        return state if self._walked is None else replace(state, watermark=self._walked.known_at(position))

    def read(self, position: str, page: Page, *, is_whole: bool) -> None:
        """This page was read. `is_whole`: everything on it could be kept."""
        self._enter(position)
        self.is_whole = self.is_whole and is_whole
        self._read = after_page(self._read, page, position)

    def left_behind(self, position: str) -> None:
        """This page could not be read."""
        self._enter(position)
        self.is_whole = False

    def started_over(self, *, is_proven: bool = True) -> None:
        """The walk begins again, or nothing proves any more that its pages join."""
        self._parent, self.is_whole, self._is_proven = None, False, is_proven

    async def move(self, following: str | None) -> None:
        """Keep the watermark if the walk leaves the list of this entry for the one at `following`."""
        walked, parent, mark = self._walked, self._parent, self._read.walking_from
        if walked is None or parent is None or not self.is_whole or mark is None:
            return
        if following is not None and walked.parent_at(following) == parent:
            return
        moved = newest(await kept_mark(self._store, self._source, parent), mark)
        assert moved is not None, "one of them is a mark"
        await self._store.keep_note(self._source, _name(self._source, parent), moved)
        walked.take_watermark(parent, moved)

    def _enter(self, position: str) -> None:
        parent = None if self._walked is None else self._walked.parent_at(position)
        if parent != self._parent:
            self._parent, self._read, self.is_whole = parent, WalkState(), parent is not None and self._is_proven


async def kept_mark(store: Store, source: str, parent: str) -> str | None:
    """The watermark of the list of one entry; None if it was never read whole."""
    kept = await store.note(source, _name(source, parent))
    return kept if isinstance(kept, str) else None


def _name(source: str, parent: str) -> str:
    return f"{ENTRY_MARK_NOTE} {fingerprint(source, parent)}"
