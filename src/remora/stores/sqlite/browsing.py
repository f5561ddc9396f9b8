"""How does a person browse a SQLite file? In reads that end in time, on a connection of their own."""

import sqlite3
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from remora.contracts.browsing import too_slow
from remora.stores.browsing import CommonBrowsing
from remora.stores.sqlite.database import Connection, bounded
from remora.stores.sqlite.reading import SqliteReader
from remora.stores.statements import named

T = TypeVar("T")


@cache
def _statements() -> dict[str, str]:
    return dict(named((files(__package__) / "browsing.sql").read_text("utf-8")))


class SqliteBrowsing(SqliteReader, CommonBrowsing):
    """Reads the file, cannot write, and stops a read that takes too long."""

    def __init__(self, path: Path, *, seconds_max: float) -> None:
        super().__init__(path)
        self._sql = {**self._sql, **_statements()}
        self._seconds_max = seconds_max

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await super()._read(lambda connection: _bounded(connection, work, self._seconds_max))


def _bounded(connection: Connection, work: Callable[[Connection], T], seconds_max: float) -> T:
    try:
        with bounded(connection, seconds_max):
            return work(connection)
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise too_slow(seconds_max) from None
        raise
