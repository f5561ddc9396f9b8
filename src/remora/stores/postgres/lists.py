"""How does the PostgreSQL store keep the ledger of listed sources?"""

from collections.abc import AsyncIterator, Collection, Sequence

from remora.contracts import OwedDetail, PageRecorded, RunRecord, StoredDocument, WalkState
from remora.core.item import Entry
from remora.core.ledger import marks
from remora.core.ledger.discovery import Kind
from remora.core.ledger.discovery import fingerprint as fingerprint_of
from remora.core.ledger.list_promises import newest_of_each
from remora.stores.common import CommonLists
from remora.stores.decisions import FORGOTTEN_AT_ONCE, LISTED_AGAIN, RUNS_KEPT, Known, has_returned, is_owed_anew
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import PostgresPart, lock
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import document_from_row, dump_key, dump_mark, load_key, load_mark
from remora.stores.rows import dump_json, milliseconds, run_from_row, walk_from_row


class PostgresLists(PostgresPart, CommonLists):
    """The ledger of listed sources."""

    async def record_page(
        self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int
    ) -> PageRecorded:
        """Owe the details of new and newer entries and move the walk, in one transaction."""
        page = newest_of_each(entries)
        now = milliseconds(now_ns)

        async def work(connection: Connection) -> PageRecorded:
            async with connection.transaction():
                await lock(connection, f"walk:{source}")
                asked = {"source": source, "keys": [dump_key(entry.key) for entry in page]}
                found = await (await connection.execute(SQL["listed"], asked)).fetchall()
                known = {load_key(key): Known(load_mark(mark), *told) for key, mark, *told in found}
                owed = [entry for entry in page if is_owed_anew(entry, known.get(entry.key))]
                owed.sort(key=lambda entry: entry.key)
                await connection.execute(SQL["list_entries"], _entry_values(source, owed, now))
                await connection.execute(SQL["see_entries"], {**asked, "walk": state.walk})
                back = [fingerprint_of(source, entry.key) for entry in owed if entry.key in known]
                await connection.execute(SQL["relist_gone"], {"source": source, "now": now, "fingerprints": back})
                if again := [dump_key(entry.key) for entry in page if has_returned(entry, known)]:
                    told = {"source": source, "kind": Kind.DOCUMENT, "change": LISTED_AGAIN, "changed_at": now}
                    await connection.execute(SQL["add_changes"], {**told, "keys": "\n".join(again)})
                await connection.execute(SQL["move_walk"], _walk_values(source, state, now))
                return PageRecorded(len(owed), len(again))

        return await self._connections().run(work)

    async def walk_state(self, source: str) -> WalkState:
        """How far the walk has come."""
        row = await self._row("walk_state", {"source": source})
        return walk_from_row(row, load_key) if row else WalkState()

    async def unlisted(self, source: str, *, walk: int, newer_than: str | None = None, limit: int) -> Sequence[str]:
        """Keys of documents that no page has shown since this walk began."""
        name = "unlisted" if newer_than is None else "unlisted_in_range"
        wanted = {"source": source, "walk": walk, "rank": marks.rank(newer_than), "limit": limit}
        return [load_key(key) for (key,) in await self._rows(name, wanted)]

    async def is_listed_from(self, source: str, second: int) -> bool:
        """Whether an entry has a time at or after this second as its mark."""
        return await self._count("is_listed_from", {"source": source, "second": second}) > 0

    async def record_vanished(self, source: str, keys: Collection[str], *, now_ns: int) -> int:
        """Mark these entries as vanished."""
        values = {"source": source, "keys": [dump_key(key) for key in keys], "now": milliseconds(now_ns)}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await lock(connection, f"walk:{source}")
                await connection.execute(SQL["tell_vanished"], values)
                await connection.execute(SQL["ask_vanished"], values)
                return (await connection.execute(SQL["mark_vanished"], values)).rowcount

        return await self._connections().run(work)

    async def record_existing(self, source: str, keys: Collection[str], *, walk: int) -> None:
        """These entries count as seen in this walk."""
        values = {"source": source, "keys": [dump_key(key) for key in keys], "walk": walk}

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await lock(connection, f"walk:{source}")
                await connection.execute(SQL["see_existing"], values)

        await self._connections().run(work)

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Entries whose detail is owed and that have no gap of their own, newest mark first."""
        rows = await self._rows("owed_details", {"source": source, "limit": limit})
        return tuple(OwedDetail(load_key(key), load_mark(mark)) for key, mark in rows)

    async def count_owed_details(self, source: str) -> int:
        """How many details are owed."""
        return await self._count("count_owed_details", {"source": source})

    async def document(self, source: str, key: str) -> StoredDocument | None:
        """One document of the mirror."""
        row = await self._row("document", {"source": source, "key": dump_key(key)})
        return document_from_row(row) if row else None

    async def document_revisions(self, source: str, key: str) -> Sequence[StoredDocument]:
        """Earlier contents, oldest first."""
        rows = await self._rows("document_revisions", {"source": source, "key": dump_key(key)})
        return tuple(document_from_row(row) for row in rows)

    async def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""
        after: str | None = None
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
        return load_key(row[0]) if row else None

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """Store that a run begins."""
        values = {"source": source, "now": milliseconds(now_ns)}
        old = {"source": source, "kept": RUNS_KEPT, "limit": FORGOTTEN_AT_ONCE}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await lock(connection, f"runs:{source}")
                row = await (await connection.execute(SQL["start_run"], values)).fetchone()
                await connection.execute(SQL["forget_runs"], old)
                assert row is not None, "a new run has a number"
                return int(row[0])

        return await self._connections().run(work)

    async def end_run(self, source: str, run: RunRecord) -> None:
        """Store that the run ended, and why."""
        values = {
            "source": source,
            "run_id": run.run_id,
            "ended": None if run.ended_ns is None else milliseconds(run.ended_ns),
            "stopped_by": run.stopped_by,
            "counts": dump_json(dict(run.counts)),
        }
        await self._change("end_run", values)

    async def runs(self, source: str, *, limit: int = 20) -> Sequence[RunRecord]:
        """The latest runs, newest first."""
        return tuple(run_from_row(row) for row in await self._rows("runs", {"source": source, "limit": limit}))


def _entry_values(source: str, entries: Sequence[Entry], now: int) -> dict[str, object]:
    return {
        "source": source,
        "keys": [dump_key(entry.key) for entry in entries],
        "fingerprints": [fingerprint_of(source, entry.key) for entry in entries],
        "marks": [dump_mark(entry.updated_at) for entry in entries],
        "ranks": [marks.rank(entry.updated_at) for entry in entries],
        "listed": now,
    }


def _walk_values(source: str, state: WalkState, now: int) -> dict[str, object]:
    return {
        "source": source,
        "watermark": dump_mark(state.watermark),
        "walking_from": dump_mark(state.walking_from),
        "seen_down_to": dump_mark(state.seen_down_to),
        "position": dump_mark(state.position),
        "walk": state.walk,
        "full_walk": state.full_walk,
        "now": now,
    }
