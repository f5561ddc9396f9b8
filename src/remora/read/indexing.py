"""How is the search index built and kept up to date? First everything that is held, then the change feed, in small steps.

The position in the change feed is taken before the first item is read, so what changes during the build is read again
afterwards. Each step is one transaction that also keeps how far the index is: a killed build resumes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from remora.contracts.reader import Change, Reader
from remora.contracts.search import IndexEntry, SearchIndex
from remora.core.errors import PositionLost
from remora.read.index_entries import document_entry, item_entry

STEP_ROWS: Final = 500
_LAST_ID: Final = 2**63 - 1


class Scan(msgspec.Struct, frozen=True):
    """A source that is still read from its beginning, and how far."""

    source: str
    is_listed: bool
    after_id: int = 0
    after_key: str = ""


class Progress(msgspec.Struct, frozen=True):
    """How far the index is: sources that are still read, and the position in the change feed."""

    position: str
    scans: tuple[Scan, ...] = ()


class Indexer:
    """Builds one index from one mirror."""

    def __init__(self, reader: Reader, index: SearchIndex) -> None:
        self._reader = reader
        self._index = index

    async def run_once(self) -> int:
        """One step; returns how many rows it read. 0: the index holds everything."""
        kept = await self._index.progress()
        if kept is None:
            begun = await self._begin()
            await self._index.write((), before=None, after=_dump(begun))
            return 1
        progress = load_progress(kept)
        if progress.scans:
            entries, count, after = await self._scan(progress)
        else:
            try:
                entries, count, after = await self._follow(progress)
            except PositionLost:  # the mirror was restored from a backup: what the index knows may not be in it
                await self._index.clear()
                return 1
        if after != progress:
            await self._index.write(entries, before=kept, after=_dump(after))
        return count

    async def _begin(self) -> Progress:
        position = await self._reader.newest_position()
        sources = await self._reader.sources()
        return Progress(position, tuple(Scan(source.name, source.is_listed) for source in sources))

    async def _scan(self, progress: Progress) -> tuple[list[IndexEntry], int, Progress]:
        scan, *rest = progress.scans
        if scan.is_listed:
            documents = await self._reader.document_page(
                scan.source, after=scan.after_key, fetched_since_ns=0, limit=STEP_ROWS
            )
            entries = [document_entry(document) for document in documents]
            moved = msgspec.structs.replace(scan, after_key=documents[-1].key) if documents else scan
        else:
            items = await self._reader.item_page(
                scan.source, first_id=scan.after_id, last_id=_LAST_ID, changed_since_ns=0, limit=STEP_ROWS
            )
            entries = [item_entry(item) for item in items]
            moved = msgspec.structs.replace(scan, after_id=items[-1].id + 1) if items else scan
        left = (moved, *rest) if entries else tuple(rest)  # a page of giants is short, only an empty one is the last
        return entries, max(len(entries), 1), Progress(progress.position, left)

    async def _follow(self, progress: Progress) -> tuple[list[IndexEntry], int, Progress]:
        changes = await self._reader.changes(progress.position, limit=STEP_ROWS)
        if not changes:
            return [], 0, progress
        return await self._changed(changes), len(changes), Progress(changes[-1].position)

    async def _changed(self, changes: Sequence[Change]) -> list[IndexEntry]:
        """What the changed things are now, each once."""
        entries: list[IndexEntry] = []
        ids: dict[str, set[int]] = {}
        for source, kind, key in dict.fromkeys((change.source, change.kind, change.key) for change in changes):
            if kind == "item":
                ids.setdefault(source, set()).add(int(key))
            elif kind == "document":
                document = await self._reader.document(source, key)
                if document is not None and document.body is not None:
                    entries.append(document_entry(document))
        for source, wanted in ids.items():
            entries.extend(item_entry(item) for item in await self._reader.items(source, sorted(wanted)))
        return entries


def load_progress(text: str) -> Progress:
    """The progress that was kept."""
    return msgspec.json.decode(text, type=Progress)


def _dump(progress: Progress) -> str:
    return msgspec.json.encode(progress).decode()
