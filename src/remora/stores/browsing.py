"""How do both databases serve people who browse? With methods that name a statement of `browsing.sql`."""

from collections.abc import Mapping, Sequence

from remora.contracts.browsing import Announced, DocumentFacts, MirroredGap, StoryList, WaitingIds
from remora.contracts.reader import Change, MirroredItem, Revision
from remora.core.texts import storable
from remora.core.units import MILLISECOND_NS
from remora.stores.reading import CommonReader, item_from
from remora.stores.rows import Row, nanoseconds


class CommonBrowsing(CommonReader):
    """The lists that differ only in their statements."""

    async def stories(self, source: str, wanted: StoryList) -> Sequence[MirroredItem]:
        """Stories of one type and time."""
        values = {
            "source": source,
            "type": wanted.type,
            "since": wanted.since_s,
            "until": wanted.until_s,
            "prefix": None if wanted.title_prefix is None else f"{wanted.title_prefix}%",
            "skip": wanted.skip,
            "limit": wanted.limit,
        }
        rows = await self._rows("browse_by_score" if wanted.by_score else "browse_by_time", values)
        return tuple(item_from(source, row) for row in rows)

    async def newest_items(self, source: str, *, before_id: int, limit: int) -> Sequence[MirroredItem]:
        """The items with the highest ids."""
        rows = await self._rows("browse_newest", {"source": source, "before": before_id, "limit": limit})
        return tuple(item_from(source, row) for row in rows)

    async def items_by(
        self, source: str, author: str, *, comments: bool, skip: int, limit: int
    ) -> Sequence[MirroredItem]:
        """What an author wrote."""
        values = {"source": source, "author": storable(author), "skip": skip, "limit": limit}
        rows = await self._rows("browse_comments_by" if comments else "browse_stories_by", values)
        return tuple(item_from(source, row) for row in rows)

    async def stories_of(self, source: str, ids: Sequence[int]) -> Mapping[int, MirroredItem]:
        """The story above each of these comments."""
        rows = await self._rows("browse_roots", {"source": source, "ids": self._dump_ids(ids)})
        found = await self.items(source, sorted({root for _, root in rows}))
        stories = {story.id: story for story in found if story.parent is None}
        return {item_id: stories[root] for item_id, root in rows if root in stories}

    async def gaps(self, source: str, *, kind: str, state: str, limit: int) -> Sequence[MirroredGap]:
        """Gaps of one state."""
        found: list[MirroredGap] = []
        # One state at a time: then the index gives the order, and only the rows that are shown are read.
        for each in ("leased", "owed") if state == "owed" else (state,):
            values = {"source": source, "kind": kind, "state": each, "limit": limit - len(found)}
            rows = await self._rows("browse_gaps", values)
            found.extend(self._gap(source, kind, state, row) for row in rows)
        return tuple(found)

    def _gap(self, source: str, kind: str, state: str, row: Row) -> MirroredGap:
        key, document_key, reason, attempts, first_seen, last_seen, not_before = row
        return MirroredGap(
            source,
            kind,
            self._load_key(key),
            None if document_key is None else self._load_key(document_key),
            state,
            reason,
            attempts,
            first_seen * MILLISECOND_NS,
            last_seen * MILLISECOND_NS,
            not_before * MILLISECOND_NS,
        )

    async def owed_documents(self, source: str, *, limit: int) -> Sequence[tuple[str, str | None]]:
        """Documents whose detail is owed."""
        rows = await self._rows("browse_owed_documents", {"source": source, "limit": limit})
        return tuple((self._load_key(key), None if mark is None else self._load_key(mark)) for key, mark in rows)

    async def waiting_ids(self, source: str, *, limit: int) -> Sequence[WaitingIds]:
        """The ids that unfinished walks have still to ask for."""
        rows = await self._rows("browse_waiting_ids", {"source": source, "limit": limit})
        return tuple(WaitingIds(kind, first_id, last_id) for kind, first_id, last_id in rows)

    async def announced(self, source: str, *, limit: int) -> Sequence[Announced]:
        """Announced changes that are not fetched yet."""
        rows = await self._rows("browse_announced", {"source": source, "limit": limit})
        return tuple(Announced(kind, self._load_key(key), at * MILLISECOND_NS) for kind, key, at in rows)

    async def latest_changes(self, source: str, *, limit: int) -> Sequence[Change]:
        """The newest lines of the change feed."""
        rows = await self._rows("browse_changes", {"source": source, "limit": limit})
        return tuple(
            Change(position, source, kind, self._load_key(key), change, changed * MILLISECOND_NS)
            for position, kind, key, change, changed in rows
        )

    async def document_facts(self, source: str, key: str) -> DocumentFacts | None:
        """What the ledger knows about a document."""
        row = await self._row("browse_document", {"source": source, "key": self._dump_key(key)})
        if row is None:
            return None
        first_seen, changed, vanished, revision, owed, gone = row
        return DocumentFacts(
            first_seen * MILLISECOND_NS, nanoseconds(changed), nanoseconds(vanished), revision, bool(owed), bool(gone)
        )

    async def document_revisions(self, source: str, key: str) -> Sequence[Revision]:
        """Earlier contents, oldest first."""
        rows = await self._rows("browse_document_revisions", {"source": source, "key": self._dump_key(key)})
        return tuple(
            Revision(number, body, changed * MILLISECOND_NS, fetched * MILLISECOND_NS)
            for number, body, changed, fetched in rows
        )
