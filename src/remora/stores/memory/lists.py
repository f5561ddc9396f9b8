"""How does the memory store keep the ledger of listed sources: walks, owed details, documents and runs?"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace

from remora.contracts import OwedDetail, PageRecorded, RunRecord, StoredDocument, WalkState
from remora.core.item import Entry
from remora.core.ledger import marks
from remora.core.ledger.discovery import Kind, fingerprint
from remora.core.ledger.gap import GapEvent, GapState, moved
from remora.core.ledger.list_promises import newest_of_each
from remora.core.ledger.notes import ENTRY_MARK_NOTE, PIECE_NOTE
from remora.core.reasons import GapReason
from remora.stores.decisions import RUNS_KEPT, Known, is_owed_anew
from remora.stores.memory.state import DocumentRow, MemoryPart


class MemoryLists(MemoryPart):
    """The ledger of listed sources."""

    async def record_page(
        self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int
    ) -> PageRecorded:
        """Owe the details of new and newer entries and move the walk."""
        owed = back = 0
        for entry in newest_of_each(entries):
            named = self._tables.documents.get((source, entry.key))
            row = named or DocumentRow(fingerprint(source, entry.key), first_seen_ns=now_ns)
            gap = self._tables.open_gaps.get((source, Kind.DOCUMENT, row.fingerprint))
            is_gone = gap is not None and gap.gap.state is GapState.GONE
            is_owed = is_owed_anew(
                entry, Known(row.listed_mark, row.vanished_ns is not None, is_gone) if named else None
            )
            back += row.vanished_ns is not None
            row.seen_in_walk, row.vanished_ns = state.walk, None
            if not is_owed:
                continue
            row.listed_mark, row.listed_ns, row.owed = entry.updated_at, now_ns, True
            self._tables.documents[source, entry.key] = row
            if gap is not None and is_gone:
                gap.gap = replace(moved(gap.gap, GapEvent.FOUND), last_seen_ns=now_ns)
                del self._tables.open_gaps[source, Kind.DOCUMENT, row.fingerprint]
            owed += 1
        self._tables.walks[source] = state
        return PageRecorded(owed, back)

    async def unlisted(self, source: str, *, walk: int, newer_than: str | None = None, limit: int) -> Sequence[str]:
        """Keys of documents that no page has shown since this walk began."""
        rows = ((key, row) for (named, key), row in self._tables.documents.items() if named == source)
        shown = ((key, row) for key, row in rows if row.listed_ns is not None and row.vanished_ns is None)
        missed = [(key, row) for key, row in shown if row.seen_in_walk < walk]
        if newer_than is not None:
            missed = [one for one in missed if _is_above(one[1], newer_than) and self._is_missing(source, one[1])]
        return sorted(key for key, _ in missed)[:limit]

    async def is_listed_from(self, source: str, second: int) -> bool:
        """Whether an entry has a time at or after this second as its mark."""
        rows = (row for (named, _), row in self._tables.documents.items() if named == source)
        shown = (row for row in rows if row.listed_ns is not None and row.vanished_ns is None)
        return any(marks.is_from(row.listed_mark, second) for row in shown)

    async def record_vanished(self, source: str, keys: Collection[str], *, now_ns: int) -> int:
        """Mark these entries as vanished."""
        rows = [row for key in keys if (row := self._tables.documents.get((source, key))) and row.vanished_ns is None]
        for row in rows:
            row.vanished_ns = now_ns
            gap = self._tables.open_gaps.get((source, Kind.DOCUMENT, row.fingerprint))
            if gap is not None and gap.gap.state in {GapState.OWED, GapState.DEAD}:
                gap.gap = replace(moved(gap.gap, GapEvent.REPLAY), not_before_ns=now_ns)
        return len(rows)

    async def record_existing(self, source: str, keys: Collection[str], *, walk: int) -> None:
        """These entries count as seen in this walk."""
        for key in keys:
            if (row := self._tables.documents.get((source, key))) is not None:
                row.seen_in_walk = walk

    def _is_missing(self, source: str, document: DocumentRow) -> bool:
        row = self._tables.open_gaps.get((source, Kind.DOCUMENT, document.fingerprint))
        return row is not None and row.gap.reason is GapReason.NOT_FOUND and row.gap.state is not GapState.GONE

    async def walk_state(self, source: str) -> WalkState:
        """How far the walk has come."""
        return self._tables.walks.get(source, WalkState())

    async def forget_marks(self, source: str) -> None:
        """Forget every mark, and how far walks have come."""
        await self.forget_walk(source)
        for (named, _), row in self._tables.documents.items():
            if named == source:
                row.listed_mark = None

    async def owe_details(self, source: str) -> None:
        """Owe the details of all entries again."""
        self._forget_notes(source, PIECE_NOTE)
        for (named, _), row in self._tables.documents.items():
            if named == source and row.listed_ns is not None and row.vanished_ns is None:
                row.owed = True

    async def forget_walk(self, source: str) -> None:
        """Forget how far walks have come."""
        self._forget_notes(source, ENTRY_MARK_NOTE)
        state = await self.walk_state(source)
        self._tables.walks[source] = WalkState(walk=state.walk, full_walk=state.full_walk)

    def _forget_notes(self, source: str, prefix: str) -> None:
        for note in [note for note in self._tables.notes if note[0] == source and note[1].startswith(prefix)]:
            del self._tables.notes[note]

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Newest mark first, without those that have a gap of their own."""
        owed = [OwedDetail(key, row.listed_mark) for key, row in self._owed(source)]
        owed.sort(key=lambda detail: detail.key)
        owed.sort(key=lambda detail: _order(detail.listed_mark), reverse=True)
        return tuple(owed[:limit])

    async def count_owed_details(self, source: str) -> int:
        """How many details are owed."""
        return len(self._owed(source))

    async def count_documents(self, source: str) -> int:
        """How many documents are known."""
        return sum(1 for named, _ in self._tables.documents if named == source)

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
        return row.stored(key) if row else None

    async def document_revisions(self, source: str, key: str) -> Sequence[StoredDocument]:
        """Earlier contents, oldest first."""
        now = self._tables.documents.get((source, key))
        kept = self._tables.document_revisions.get((source, key), ())
        return tuple(replace(one, vanished_ns=now.vanished_ns, owed=now.owed) for one in kept if now is not None)

    async def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""
        for key in sorted(key for named, key in self._tables.documents if named == source):
            row = self._tables.documents[source, key]
            if row.body is not None:
                yield row.stored(key)

    async def key_of(self, source: str, fingerprint: str) -> str | None:
        """The locator behind a gap's key."""
        rows = ((named, key, row) for (named, key), row in self._tables.documents.items())
        return next((key for named, key, row in rows if named == source and row.fingerprint == fingerprint), None)

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """Store that a run begins."""
        run = RunRecord(next(self._tables.run_ids), now_ns)
        self._tables.runs[source] = [*self._tables.runs.get(source, ()), run][-RUNS_KEPT:]
        return run.run_id

    async def end_run(self, source: str, run: RunRecord) -> None:
        """Store that the run ended, and why."""
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


def _is_above(row: DocumentRow, mark: str) -> bool:
    rank, least = marks.rank(row.listed_mark), marks.rank(mark)
    return rank is not None and least is not None and rank > least
