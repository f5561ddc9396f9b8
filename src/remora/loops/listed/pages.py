"""How does a page of a list become durable? Its new entries are owed at once, and documents that it holds are recorded."""

from typing import Final

from remora.collect import Asked, Collector
from remora.contracts import PageRecorded, Store
from remora.core.item import Document, Entry, Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_walk import WalkState
from remora.core.ledger.marks import is_newer
from remora.core.ledger.run import RunCounts
from remora.core.verdict import Found

INLINE_AT_ONCE: Final = 100


class PageRecorder:
    """Records the pages of one source's list."""

    def __init__(self, source: str, collector: Collector, store: Store, *, counts: RunCounts) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._counts = counts

    async def record(self, page: Page, state: WalkState, *, now_ns: int) -> PageRecorded:
        """Record the page and how far the walk has come with it."""
        listed = await self._store.record_page(self._source, page.entries, state, now_ns=now_ns)
        self._counts.entries += len(page.entries)
        self._counts.listed += listed.owed
        await self._keep_inline(page, now_ns)
        return listed

    async def _keep_inline(self, page: Page, now_ns: int) -> None:
        """Record the documents that the page itself contains. They are as new as their entries."""
        whole: dict[str, Entry] = {}
        for entry in page.entries:
            known = whole.get(entry.key)
            if entry.body is not None and (known is None or is_newer(entry.updated_at, known.updated_at)):
                whole[entry.key] = entry
        entries = list(whole.values())
        for start in range(0, len(entries), INLINE_AT_ONCE):
            batch = entries[start : start + INLINE_AT_ONCE]
            kept = await self._collector.record_many([_inline(entry, now_ns) for entry in batch])
            self._counts.outcomes.update(outcome for _, outcome in kept)


def _inline(entry: Entry, now_ns: int) -> tuple[Discovery, Asked]:
    """The document that an entry contains, as if it had been asked for."""
    assert entry.body is not None, "an entry that is kept has its document"
    found = Found(Document(entry.key, entry.body, entry.updated_at))
    return Discovery(Kind.DOCUMENT, entry.key, Lane.DETAIL), Asked(found, now_ns, 0)
