"""How does the SQLite store keep the ledger of listed sources?"""

import json
from collections.abc import AsyncIterator, Collection, Sequence

from remora.contracts import OwedDetail, PageRecorded, RunRecord, StoredDocument, WalkState
from remora.core.item import Entry
from remora.core.ledger import marks
from remora.core.ledger.discovery import Kind
from remora.core.ledger.discovery import fingerprint as fingerprint_of
from remora.core.ledger.list_promises import newest_of_each
from remora.core.units import MILLISECOND_NS
from remora.stores.common import CommonLists
from remora.stores.decisions import FORGOTTEN_AT_ONCE, LISTED_AGAIN, RUNS_KEPT, Known, has_returned, is_owed_anew
from remora.stores.rows import document_from_row, dump_json, run_from_row, walk_from_row
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.feed import write_changes
from remora.stores.sqlite.session import SqlitePart


class SqliteLists(SqlitePart, CommonLists):
    """The ledger of listed sources."""

    async def record_page(
        self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int
    ) -> PageRecorded:
        """Owe the details of new and newer entries and move the walk, in one transaction."""
        page = newest_of_each(entries)
        now = now_ns // MILLISECOND_NS

        def work(connection: Connection) -> PageRecorded:
            asked = {"source": source, "keys": json.dumps([entry.key for entry in page])}
            found = connection.execute(self._sql["listed"], asked).fetchall()
            known = {key: Known(mark, bool(vanished), bool(gone)) for key, mark, vanished, gone in found}
            owed = [entry for entry in page if is_owed_anew(entry, known.get(entry.key))]
            connection.executemany(self._sql["list_entry"], [_entry_values(source, entry, now) for entry in owed])
            connection.execute(self._sql["see_entries"], {**asked, "walk": state.walk})
            back = [fingerprint_of(source, entry.key) for entry in owed if entry.key in known]
            relisted = {"source": source, "now": now, "fingerprints": json.dumps(back)}
            connection.execute(self._sql["relist_gone"], relisted)
            again = [entry.key for entry in page if has_returned(entry, known)]
            self._tell_listed_again(connection, source, again, now)
            connection.execute(self._sql["move_walk"], _walk_values(source, state, now))
            return PageRecorded(len(owed), len(again))

        return await self._write(work)

    def _tell_listed_again(self, connection: Connection, source: str, keys: Sequence[str], now: int) -> None:
        if keys:
            write_changes(connection, source, Kind.DOCUMENT.value, LISTED_AGAIN, keys=json.dumps(keys), now=now)

    async def walk_state(self, source: str) -> WalkState:
        """How far the walk has come."""
        row = await self._row("walk_state", {"source": source})
        return walk_from_row(row) if row else WalkState()

    async def unlisted(self, source: str, *, walk: int, newer_than: str | None = None, limit: int) -> Sequence[str]:
        """Keys of documents that no page has shown since this walk began."""
        name = "unlisted" if newer_than is None else "unlisted_in_range"
        wanted = {"source": source, "walk": walk, "rank": marks.rank(newer_than), "limit": limit}
        return [key for (key,) in await self._rows(name, wanted)]

    async def is_listed_from(self, source: str, second: int) -> bool:
        """Whether an entry has a time at or after this second as its mark."""
        return await self._count("is_listed_from", {"source": source, "second": second}) > 0

    async def record_vanished(self, source: str, keys: Collection[str], *, now_ns: int) -> int:
        """Mark these entries as vanished."""
        values = {"source": source, "keys": json.dumps([*keys]), "now": now_ns // MILLISECOND_NS}

        def work(connection: Connection) -> int:
            connection.execute(self._sql["tell_vanished"], values)
            connection.execute(self._sql["ask_vanished"], values)
            return connection.execute(self._sql["mark_vanished"], values).rowcount

        return await self._write(work)

    async def record_existing(self, source: str, keys: Collection[str], *, walk: int) -> None:
        """These entries count as seen in this walk."""
        values = {"source": source, "keys": json.dumps([*keys]), "walk": walk}
        await self._write(lambda connection: connection.execute(self._sql["see_existing"], values))

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Entries whose detail is owed and that have no gap of their own, newest mark first."""
        rows = await self._rows("owed_details", {"source": source, "limit": limit})
        return tuple(OwedDetail(key, mark) for key, mark in rows)

    async def count_owed_details(self, source: str) -> int:
        """How many details are owed."""
        row = await self._row("count_owed_details", {"source": source})
        assert row is not None, "a count has a row"
        owed: int = row[0]
        return owed

    async def document(self, source: str, key: str) -> StoredDocument | None:
        """One document of the mirror."""
        row = await self._row("document", {"source": source, "key": key})
        return document_from_row(row) if row else None

    async def document_revisions(self, source: str, key: str) -> Sequence[StoredDocument]:
        """Earlier contents, oldest first."""
        rows = await self._rows("document_revisions", {"source": source, "key": key})
        return tuple(document_from_row(row) for row in rows)

    async def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""
        after = ""
        while True:
            wanted = {"source": source, "after": after, "limit": self._page_rows}
            page = await self._page("documents", wanted, body_at=3)
            for row in page:
                yield document_from_row(row)
            if not page:
                return
            after = page[-1][0]

    async def key_of(self, source: str, fingerprint: str) -> str | None:
        """The locator behind a gap's key."""
        row = await self._row("key_of", {"source": source, "fingerprint": fingerprint})
        return row[0] if row else None

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """Store that a run begins."""
        values = {"source": source, "now": now_ns // MILLISECOND_NS}
        old = {"source": source, "kept": RUNS_KEPT, "limit": FORGOTTEN_AT_ONCE}

        def work(connection: Connection) -> int:
            run_id: int = connection.execute(self._sql["start_run"], values).fetchone()[0]
            connection.execute(self._sql["forget_runs"], old)
            return run_id

        return await self._write(work)

    async def end_run(self, source: str, run: RunRecord) -> None:
        """Store that the run ended, and why."""
        values = {
            "source": source,
            "run_id": run.run_id,
            "ended": None if run.ended_ns is None else run.ended_ns // MILLISECOND_NS,
            "stopped_by": run.stopped_by,
            "counts": dump_json(dict(run.counts)),
        }
        await self._change("end_run", values)

    async def runs(self, source: str, *, limit: int = 20) -> Sequence[RunRecord]:
        """The latest runs, newest first."""
        return tuple(run_from_row(row) for row in await self._rows("runs", {"source": source, "limit": limit}))


def _entry_values(source: str, entry: Entry, now: int) -> dict[str, object]:
    return {
        "source": source,
        "key": entry.key,
        "fingerprint": fingerprint_of(source, entry.key),
        "mark": entry.updated_at,
        "rank": marks.rank(entry.updated_at),
        "now": now,
    }


def _walk_values(source: str, state: WalkState, now: int) -> dict[str, object]:
    return {
        "source": source,
        "watermark": state.watermark,
        "walking_from": state.walking_from,
        "seen_down_to": state.seen_down_to,
        "position": state.position,
        "walk": state.walk,
        "full_walk": state.full_walk,
        "now": now,
    }
