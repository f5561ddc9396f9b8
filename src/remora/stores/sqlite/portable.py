"""How does a whole mirror leave a SQLite file, or arrive in one?"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import Connection
from remora.stores.statements import with_common
from remora.stores.tables import Key, Row, Table


@cache
def _statements() -> Mapping[str, str]:
    return with_common((files(__package__) / "portable.sql").read_text("utf-8"))


class PortableSqliteStore(SqliteStore):
    """The SQLite store as one whose whole content can leave and arrive."""

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        """The next rows beyond a key."""
        statement = _statements()[f"export_{table.name}"]
        values: dict[str, object] = {**{f"k{place}": part for place, part in enumerate(after)}, "limit": limit}
        return await self._read(lambda connection: connection.execute(statement, values).fetchall())

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        """Write rows, whether they were written before or not."""
        statement = _statements()[f"import_{table.name}"]

        def work(connection: Connection) -> None:
            connection.executemany(statement, rows)

        await self._write(work)

    async def finish_import(self) -> None:
        """SQLite hands out numbers beyond the highest one it has seen, by itself."""
