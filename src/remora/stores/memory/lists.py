"""How does the memory store keep the ledger of listed sources: walks, owed details, documents and runs?"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from remora.contracts import OwedDetail, RunRecord, StoredDocument, WalkState
from remora.core.item import Entry
from remora.core.ledger import marks
from remora.core.ledger.discovery import Kind, fingerprint
from remora.core.ledger.gap import GapState
from remora.stores.decisions import newest_of_each
from remora.stores.memory.state import DocumentRow, MemoryPart


class MemoryLists(MemoryPart):
    """The ledger of listed sources."""

    async def record_page(self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int) -> int:
        """New and newer entries are owed, and the walk moves."""
        owed = 0
        for entry in newest_of_each(entries):
            known = self._tables.documents.get((source, entry.key))
            if known is not None and not marks.is_newer(entry.updated_at, known.listed_mark):
                continue
            row = known or DocumentRow(fingerprint(source, entry.key))
            row.listed_mark, row.listed_ns, row.owed = entry.updated_at, now_ns, True
            self._tables.documents[source, entry.key] = row
            owed += 1
        self._tables.walks[source] = state
        return owed

    async def walk_state(self, source: str) -> WalkState:
        """Where the walk stands."""
        return self._tables.walks.get(source, WalkState())

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Newest mark first, without those that have a gap of their own."""
        owed = [OwedDetail(key, row.listed_mark) for key, row in self._owed(source)]
        owed.sort(key=lambda detail: detail.key)
        owed.sort(key=lambda detail: _order(detail.listed_mark), reverse=True)
        return tuple(owed[:limit])

    async def count_owed_details(self, source: str) -> int:
        """How many."""
        return len(self._owed(source))

    def _owed(self, source: str) -> list[tuple[str, DocumentRow]]:
        return [
            (key, row)
            for (named, key), row in self._tables.documents.items()
            if named == source and row.owed and not self._has_open_gap(source, row.fingerprint)
        ]

    def _has_open_gap(self, source: str, key: str) -> bool:
        row = self._tables.gaps.get((source, Kind.DOCUMENT, key))
        return row is not None and row.gap.state is not GapState.SETTLED

    async def document(self, source: str, key: str) -> StoredDocument | None:
        """One document of the mirror."""
        row = self._tables.documents.get((source, key))
        return _stored(key, row) if row else None

    async def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""
        for key in sorted(key for named, key in self._tables.documents if named == source):
            row = self._tables.documents[source, key]
            if row.body is not None:
                yield _stored(key, row)

    async def key_of(self, source: str, fingerprint: str) -> str | None:
        """The locator behind a gap's key."""
        rows = ((named, key, row) for (named, key), row in self._tables.documents.items())
        return next((key for named, key, row in rows if named == source and row.fingerprint == fingerprint), None)

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """A run begins."""
        run = RunRecord(next(self._tables.run_ids), now_ns)
        self._tables.runs.setdefault(source, []).append(run)
        return run.run_id

    async def end_run(self, source: str, run: RunRecord) -> None:
        """It ended, and why."""
        runs = self._tables.runs.get(source, [])
        self._tables.runs[source] = [
            replace(run, started_ns=known.started_ns, counts=dict(run.counts)) if known.run_id == run.run_id else known
            for known in runs
        ]

    async def runs(self, source: str, *, limit: int = 20) -> Sequence[RunRecord]:
        """The latest runs, newest first."""
        return tuple(reversed(self._tables.runs.get(source, [])))[:limit]


def _order(mark: str | None) -> tuple[bool, float, bool, str]:
    rank = marks.rank(mark)
    return (rank is not None, rank or 0.0, mark is not None, mark or "")


def _stored(key: str, row: DocumentRow) -> StoredDocument:
    updated_at = row.updated_at if row.body is not None else row.listed_mark
    return StoredDocument(key, row.fingerprint, updated_at, row.body, row.fetched_ns)
