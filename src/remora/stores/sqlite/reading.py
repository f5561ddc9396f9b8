"""How is a SQLite file read while another process writes it? Read-only and in short reads. Queries cannot write."""

import sqlite3
from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing
from functools import cache
from importlib.resources import files
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from remora.contracts.reader import ITEM_ROW, ItemColumns, QueryResult
from remora.core.errors import ConfigurationError
from remora.stores.common import Values
from remora.stores.reading import (
    NO_ITEMS,
    CommonReader,
    failed_query,
    large_answer,
    no_position,
    refused_query,
    slow_query,
    text_bytes,
)
from remora.stores.sqlite.database import Connection, bounded, while_awaited
from remora.stores.sqlite.offload import InThread, Offloader
from remora.stores.sqlite.session import SqlitePart
from remora.stores.statements import with_common

_READING_ACTIONS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
# These describe the schema and change nothing.
_READING_PRAGMAS: Final = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "user_version",
        "data_version",
    }
)
_decoder: Final = msgspec.json.Decoder(list[Any])
# The store failed, not the statement.
_STORE_FAILED: Final = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_FULL,
    }
)
# After `EXPLAIN` any statement is harmless, but SQLite still asks about each of its parts.


@cache
def _statements() -> dict[str, str]:
    return dict(with_common((files(__package__) / "reading.sql").read_text("utf-8")))


class SqliteReader(SqlitePart, CommonReader):
    """Reads the file and cannot write."""

    def __init__(self, path: Path, *, offload: Callable[[], Offloader] = InThread) -> None:
        super().__init__(path, read_only=True, offload=offload)
        self._sql = _statements()

    async def open(self) -> None:
        """Refuse a foreign file and half a copy."""
        await super().open()
        await self._check_whole()

    async def query(self, statement: str, *, limit: int, seconds_max: float) -> QueryResult:
        """The rows of one query. It ends when nobody waits for it any more."""

        def work(connection: Connection) -> QueryResult:
            with bounded(connection, seconds_max, is_left=is_left):
                return _query(connection, statement, limit, seconds_max, self._answer_bytes)

        with while_awaited() as is_left:
            return await self._read(work)

    async def _item_columns(self, page: Values) -> ItemColumns:
        return await self._read(lambda connection: self._columns_of(connection, page))

    def _columns_of(self, connection: Connection, page: Values) -> ItemColumns:
        connection.execute("BEGIN")  # both statements see the same moment
        try:
            ids, sizes = map(_decoder.decode, connection.execute(self._sql["read_item_sizes"], page).fetchone())
            if not ids:
                return NO_ITEMS
            ends = list(accumulate(sizes))
            rows = min(bisect_left(ends, self._page_bytes) + 1, len(ids))
            last = {**page, "last": ids[rows - 1]}
            *found, bodies = connection.execute(self._sql["read_item_columns"], last).fetchone()
        finally:
            connection.execute("ROLLBACK")
        columns = [_decoder.decode(column) for column in found]
        assert columns[0] == ids[:rows], "an aggregate takes the rows in the order of the index"
        cut = [bodies[start:end] for start, end in pairwise([0, *ends[:rows]])]
        return dict(zip(ITEM_ROW, [*columns, cut], strict=True))

    def _position(self, text: str) -> dict[str, object]:
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise no_position(text)
        return {"seq": int(text)}


def _query(connection: Connection, statement: str, limit: int, seconds_max: float, bytes_max: int) -> QueryResult:
    refused: list[int] = []

    def authorize(action: int, name: str | None, argument: str | None, *_: str | None) -> int:
        allowed = action in _READING_ACTIONS or (
            action == sqlite3.SQLITE_PRAGMA
            and name in _READING_PRAGMAS
            and (argument is None or name != "user_version")
        )
        if not allowed:
            refused.append(action)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    # A view reads half of a surrogate pair from a body as bytes that are no text.
    connection.text_factory = lambda found: found.decode("utf-8", "replace")
    # No value is made that could not be told. A longer body, which only a much larger `body_max` lets in, cannot be looked into.
    length_max = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, bytes_max)
    try:
        with closing(connection.execute(statement)) as cursor:
            rows = _bounded_rows(cursor, limit + 1, bytes_max)
            columns = tuple(column[0] for column in cursor.description or ())
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if _is_of_the_store(error):
            raise
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG:
            raise large_answer(bytes_max) from None
        raise _explained(error, bool(refused), seconds_max) from None
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length_max)
        connection.text_factory = str
        connection.set_authorizer(None)
    if not columns:
        raise refused_query("this statement gives no rows")
    return QueryResult(columns, rows[:limit], len(rows) > limit)


def _bounded_rows(cursor: sqlite3.Cursor, count: int, bytes_max: int) -> tuple[tuple[Any, ...], ...]:
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in islice(cursor, count):
        size += text_bytes(row)
        if size > bytes_max:
            raise large_answer(bytes_max)
        rows.append(row)
    return tuple(rows)


def _is_of_the_store(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # only an error of SQLite itself has one
    return code is not None and code & 0xFF in _STORE_FAILED


def _explained(error: Exception, was_refused: bool, seconds_max: float) -> ConfigurationError:  # noqa: FBT001
    words = str(error)
    if was_refused or "readonly" in words:
        return refused_query("this statement writes or opens something")
    if "one statement at a time" in words:
        return refused_query("there is more than one statement")
    if words == "interrupted":
        return slow_query(seconds_max)
    return failed_query(words)
