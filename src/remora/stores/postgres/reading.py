"""How is a PostgreSQL mirror read? In read-only sessions with short reads. Queries cannot write."""

import re
from importlib.resources import files
from typing import ClassVar, Final

import psycopg
from psycopg import sql

from remora.contracts.reader import QueryResult
from remora.core.errors import ConfigurationError, PositionLost, StoreForeign
from remora.stores.common import Values
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.migrations import is_feed_restored
from remora.stores.postgres.session import PostgresPart
from remora.stores.postgres.statements import parse
from remora.stores.reading import (
    CommonReader,
    failed_query,
    large_answer,
    no_position,
    refused_query,
    slow_query,
    text_bytes,
)

READING: Final = parse(files(__package__).joinpath("reading.sql").read_text("utf-8"))
_POSITION: Final = re.compile(r"(\d{1,19}):(\d{1,18})")
READER_CONNECTIONS: Final = 2
# How many rows of a query are fetched at once: few at first, twice as many after each part that was small.
_FIRST_ROWS: Final = 32
_ROWS_AT_ONCE_MAX: Final = 8_192
_SMALL_BYTES: Final = 1 << 20
# The statement is at fault, not the server: also if it asks for more than any server can do.
_OF_THE_STATEMENT: Final = (
    psycopg.ProgrammingError,
    psycopg.DataError,
    psycopg.NotSupportedError,
    psycopg.InternalError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyColumns,
    psycopg.errors.TooManyArguments,
)


class PostgresReader(PostgresPart, CommonReader):
    """Reads the database and cannot write."""

    _numbers_in_order: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        super().__init__(url, read_only=True, pool_size=READER_CONNECTIONS)

    async def open(self) -> None:
        """Connect and refuse a foreign database and half a copy."""
        await super().open()
        await self._check_whole()

    async def query(self, statement: str, *, limit: int, seconds_max: float) -> QueryResult:
        """The rows of one query."""

        async def work(connection: Connection) -> QueryResult:
            return await _query(connection, statement, limit, seconds_max, self._answer_bytes)

        return await self._connections().run(work)

    async def _rows(self, name: str, values: Values) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            return await (await connection.execute(READING[name], values, binary=True)).fetchall()

        return await self._connections().run(work)

    async def _check_position(self, after: str) -> None:
        """Also refuse a feed, or a position, with numbers that this server has not given: new changes come before them.

        After the position of a named reader nothing is ever deleted: numbers that are missing there were never given, as
        after a rollback or a crash of the server.
        """
        values = {**self._position(after), "position": after}

        async def work(connection: Connection) -> tuple[bool, bool, bool]:
            row = await (await connection.execute(READING["about_position"], values)).fetchone()
            assert row is not None, "it has no source of rows"
            return await is_feed_restored(connection), *row

        is_restored, is_beyond, is_named = await self._connections().run(work)
        if is_restored:
            raise StoreForeign(
                "the change feed was restored from a dump of another server and has its numbers",
                hint="run `remora store migrate`, or start the service: both number it anew",
            )
        if is_beyond:
            raise PositionLost(
                f"this server has not given position {after}: was the database restored from a dump?",
                hint="read the mirror anew, then follow from 0",
            )
        if not is_named:
            await super()._check_position(after)

    def _position(self, text: str) -> dict[str, object]:
        if text == "0":
            return {"xid": "0", "seq": 0}
        found = _POSITION.fullmatch(text)
        if found is None:
            raise no_position(text)
        return {"xid": found[1], "seq": int(found[2])}


async def _query(connection: Connection, statement: str, limit: int, seconds_max: float, bytes_max: int) -> QueryResult:
    """Run it as the prepared query of a cursor, so that it can only be one statement that reads."""
    try:
        async with connection.transaction():
            await connection.execute(READING["set_query_timeout"], {"milliseconds": str(int(seconds_max * 1_000))})
            await connection.execute(
                READING["declare_query"] + b"\n" + statement.rstrip().rstrip(";").encode(), prepare=True
            )
            async with connection.cursor() as cursor:
                rows = await _bounded_rows(cursor, limit + 1, bytes_max)
                columns = tuple(column.name for column in cursor.description or ())
    except psycopg.errors.QueryCanceled:
        raise slow_query(seconds_max) from None
    except _OF_THE_STATEMENT as error:
        raise _explained(error) from None
    return QueryResult(columns, rows[:limit], len(rows) > limit)


async def _bounded_rows(cursor: psycopg.AsyncCursor[Row], count: int, bytes_max: int) -> tuple[Row, ...]:
    """The first rows, in parts: large ones come one at a time, so that what is too much stays at the server."""
    fetch = sql.SQL(READING["fetch_query"].decode())
    rows: list[Row] = []
    size, at_once = 0, _FIRST_ROWS
    while len(rows) < count:
        asked = min(at_once, count - len(rows))
        part = await (await cursor.execute(fetch.format(count=sql.Literal(asked)))).fetchall()
        part_bytes = sum(map(text_bytes, part))
        size += part_bytes
        if size > bytes_max:
            raise large_answer(bytes_max)
        rows += part
        if len(part) < asked:
            break
        at_once = min(2 * at_once, _ROWS_AT_ONCE_MAX) if part_bytes < _SMALL_BYTES else 1
    return tuple(rows)


def _explained(error: psycopg.Error) -> ConfigurationError:
    words = error.diag.message_primary or str(error)
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or "data-modifying" in words:
        return refused_query("this statement writes")
    if "multiple commands" in words:
        return refused_query("there is more than one statement")
    if isinstance(error, psycopg.errors.SyntaxError) and not words.startswith("syntax error at end"):
        return failed_query(f"{words}; a statement that writes is refused")
    return failed_query(words)
