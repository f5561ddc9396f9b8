"""How does a person browse a PostgreSQL mirror? In reads that the server stops in time."""

from importlib.resources import files
from typing import Final

import psycopg

from remora.contracts.browsing import too_slow
from remora.stores.browsing import CommonBrowsing
from remora.stores.common import Values
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.reading import READING, PostgresReader
from remora.stores.postgres.statements import parse

_SQL: Final = {**READING, **parse(files(__package__).joinpath("browsing.sql").read_text("utf-8"))}


class PostgresBrowsing(PostgresReader, CommonBrowsing):
    """Reads the database, cannot write, and stops a read that takes too long."""

    def __init__(self, url: str, *, seconds_max: float) -> None:
        super().__init__(url)
        self._seconds_max = seconds_max

    async def _rows(self, name: str, values: Values) -> list[Row]:
        timeout = {"milliseconds": str(int(self._seconds_max * 1_000))}

        async def work(connection: Connection) -> list[Row]:
            try:
                async with connection.transaction():
                    await connection.execute(_SQL["set_query_timeout"], timeout)
                    return await (await connection.execute(_SQL[name], values, binary=True)).fetchall()
            except psycopg.errors.QueryCanceled:
                raise too_slow(self._seconds_max) from None

        return await self._connections().run(work)
