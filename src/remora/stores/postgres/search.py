"""Where is the search index of a PostgreSQL mirror? In two separate tables of the same database."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import psycopg

from remora.contracts.browsing import too_slow
from remora.contracts.search import EntryColumns, IndexEntry, IndexSize, SearchOrder, SearchQuery
from remora.core.errors import StoreBusy, StoreRefused, StoreUnavailable
from remora.core.texts import storable
from remora.core.words import wanted_words, words_of
from remora.stores.postgres.connections import Connection, Pool, Row
from remora.stores.postgres.statements import parse
from remora.stores.postgres.values import dump_key, load_key
from remora.stores.search_values import indexed, of_another_form, search_values

_SQL: Final = parse(files(__package__).joinpath("search.sql").read_text("utf-8"))


class PostgresSearchIndex:
    """A tsvector index. Words are indexed as they are, without stemming."""

    def __init__(self, url: str, *, seconds_max: float) -> None:
        self._url = url
        self._seconds_max = seconds_max
        self._pool: Pool | None = None

    async def exists(self) -> bool:
        """Whether the tables exist."""
        pool = Pool(self._url, size=1)
        try:
            async with pool.connection() as connection:
                row = await (await connection.execute(_SQL["index_exists"])).fetchone()
                return bool(row and row[0])
        finally:
            await pool.close()

    async def open(self, *, to_write: bool) -> None:
        """Connect. For writing, create the tables if needed."""
        timeout = {"statement_timeout": str(int(self._seconds_max * 1_000))}
        # Enough to note every row with a common word: with less, PostgreSQL notes pages and reads all words on them again.
        # And each query has its own plan: one plan for all would ignore the filters that are left out.
        reading = {
            "default_transaction_read_only": "on",
            "work_mem": "64MB",
            "plan_cache_mode": "force_custom_plan",
        }
        if to_write:
            await self._create()
        self._pool = Pool(self._url, size=1, settings=None if to_write else {**reading, **timeout})

    async def _create(self) -> None:
        # An index that an earlier version did not have takes as long as the table is large.
        pool = Pool(self._url, size=1, settings={"statement_timeout": "0"})
        try:
            async with pool.connection() as connection:
                row = await (await connection.execute(_SQL["index_rights"])).fetchone()
                is_ready, may_create = row or (False, False)
                if may_create:
                    await connection.execute(_SQL["create_index"])
                elif not is_ready:  # a smaller role only fills the tables that the owner has made
                    raise StoreRefused(
                        "this database role may not create the search index",
                        hint="let the owner run `remora search --build`, then `remora store migrate --grant-to ROLE`",
                    )
        finally:
            await pool.close()

    async def close(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def progress(self) -> str | None:
        """How far the index has come."""
        rows = await self._rows("index_progress", {})
        return rows[0][0] if rows else None

    async def write(self, entries: Sequence[IndexEntry], *, before: str | None, after: str) -> None:
        """Add or replace entries in one transaction."""
        # If a thing has several entries, only the last counts: one statement may not write a row twice.
        latest = {(entry.source, entry.kind, entry.key): entry for entry in entries}
        columns = _columns(list(latest.values()))

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_SQL["lock_index"])
                row = await (await connection.execute(_SQL["index_progress"])).fetchone()
                if (row[0] if row else None) != before:
                    raise StoreBusy("another process writes the search index", hint="let it finish")
                await connection.execute(_SQL["put_entries"], columns)
                await connection.execute(_SQL["keep_progress"], {"value": after})

        await self._open_pool().run(work)

    async def find(
        self, query: SearchQuery, *, source: str | None, order: SearchOrder, limit: int
    ) -> Sequence[tuple[str, str, str]]:
        """What matches, best first."""
        await self._check_form()
        values = search_values(query, match=_match(query), source=source, order=order, limit=limit)
        rows = await self._rows("find_words" if query.has_words else "find_filters", values)
        return [(found, kind, load_key(key)) for found, kind, key in rows]

    async def columns(self, keys: Sequence[tuple[str, str, str]]) -> Sequence[EntryColumns]:
        """The columns of entries."""
        wanted = {
            "source": [source for source, _, _ in keys],
            "kind": [kind for _, kind, _ in keys],
            "key": [dump_key(key) for _, _, key in keys],
        }
        return [EntryColumns(*row) for row in await self._rows("entry_columns", wanted)]

    async def size(self) -> IndexSize:
        """Entries, and bytes with all indexes."""
        await self._check_form()
        entries, size = (await self._rows("index_size", {}))[0]
        return IndexSize(entries, size)

    async def clear(self) -> None:
        """An empty index."""
        await self._execute("clear_index")

    async def _check_form(self) -> None:
        if not (await self._rows("index_form", {}))[0][0]:
            raise of_another_form()

    async def _rows(self, name: str, values: dict[str, Any]) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            try:
                return await (await connection.execute(_SQL[name], values)).fetchall()
            except psycopg.errors.QueryCanceled:
                raise too_slow(self._seconds_max) from None

        return await self._open_pool().run(work)

    async def _execute(self, name: str) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(_SQL[name])

        await self._open_pool().run(work)

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise StoreUnavailable("the search index is not open", hint="open it first")
        return self._pool


def _columns(entries: Sequence[IndexEntry]) -> dict[str, list[Any]]:
    # PostgreSQL's own parser would keep accents, and take node.js or an address as one word.
    words = [indexed(entry, words_of) for entry in entries]
    return {
        "source": [entry.source for entry in entries],
        "kind": [entry.kind for entry in entries],
        "key": [dump_key(entry.key) for entry in entries],
        "type": [storable(entry.type) for entry in entries],
        "author": [storable(entry.by) for entry in entries],
        "domain": [storable(entry.domain) for entry in entries],
        "time": [entry.time_s for entry in entries],
        "score": [entry.score for entry in entries],
        "title": [title for title, _ in words],
        "text": [text for _, text in words],
    }


def _match(query: SearchQuery) -> str:
    """The query in the syntax of `to_tsquery`. Words are letters and digits only, so that none is read as an operator."""
    terms = [("!" if term.is_excluded else "", _phrase(term.text)) for term in query.terms]
    return " & ".join(f"{sign}({phrase})" for sign, phrase in terms if phrase)


def _phrase(text: str) -> str:
    words, is_beginning = wanted_words(storable(text))
    return " <-> ".join(f"'{word}'" for word in words) + (":*" if is_beginning else "")
