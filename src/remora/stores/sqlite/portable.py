"""How is a whole mirror exported from a SQLite file, or imported into one?"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.item_rows import portable_row
from remora.stores.statements import with_common
from remora.stores.tables import Key, Row, Table


@cache
def _statements() -> Mapping[str, str]:
    return with_common((files(__package__) / "portable.sql").read_text("utf-8"))


class PortableSqliteStore(SqliteStore):
    """The SQLite store, with export and import of its whole content."""

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        """The next rows after a key."""
        statement = _statements()[f"export_{table.name}"]
        values: dict[str, object] = {**{f"k{place}": part for place, part in enumerate(after)}, "limit": limit}
        return await self._read(lambda connection: connection.execute(statement, values).fetchall())

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        """Write rows; idempotent."""
        statement = _statements()[f"import_{table.name}"]
        stored = [portable_row(row) for row in rows] if table.name == "items" else rows

        def work(connection: Connection) -> None:
            connection.executemany(statement, stored)

        await self._write(work)

    async def finish_import(self) -> None:
        """Nothing to do: SQLite's new numbers are always above the highest one it has seen."""
