"""How is a whole mirror exported from PostgreSQL, or imported into it?"""

from collections.abc import Callable
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from remora.core.ledger.coverage import Coverage, IdRange
from remora.stores.postgres import PostgresStore
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.statements import parse
from remora.stores.postgres.values import dump_mark, load_mark
from remora.stores.tables import Key, Row, Table

_SQL: Final = parse(files(__package__).joinpath("portable.sql").read_text("utf-8"))
_FLAGS: Final = frozenset({"dead", "deleted", "owed", "near_newest"})
# Text from the source that must come back exactly, whatever characters it has.
_ESCAPED: Final = frozenset(
    {"name", "key", "listed_mark", "updated_at", "watermark", "walking_from", "seen_down_to", "position"}
)


class PortablePostgresStore(PostgresStore):
    """The PostgreSQL store, with export and import of its whole content."""

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        """The next rows after a key."""
        dumped = _converted(table.columns[: len(after)], after, dump_mark, bool)
        values: dict[str, Any] = {**{f"k{place}": part for place, part in enumerate(dumped)}, "limit": limit}
        statement = _SQL[f"export_{table.name}"]

        async def work(connection: Connection) -> list[Row]:
            return await (await connection.execute(statement, values, binary=True)).fetchall()

        rows = await self._connections().run(work)
        if table.name == "coverage":
            return [row for row in _put_together(rows) if row[:2] > after][:limit]
        return [_converted(table.columns, row, load_mark, int) for row in rows]

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        """Write rows; idempotent."""
        dumped = [_converted(table.columns, row, dump_mark, bool) for row in rows]
        columns = zip(*dumped, strict=True)
        values = {f"c{place}": list(column) for place, column in enumerate(columns)}
        statement = _SQL[f"import_{table.name}"]

        async def work(connection: Connection) -> None:
            await connection.execute(statement, values)

        await self._connections().run(work)

    async def finish_import(self) -> None:
        """Make new numbers start after the imported ones."""

        async def work(connection: Connection) -> None:
            await connection.execute(_SQL["advance_numbers"])

        await self._connections().run(work)


def _converted(
    columns: tuple[str, ...],
    row: Row,
    text: Callable[[str | None], str | None],
    flag: Callable[[Any], int],
) -> Row:
    return tuple(
        flag(value) if name in _FLAGS else text(value) if name in _ESCAPED else value
        for name, value in zip(columns, row, strict=True)
    )


def _put_together(rows: list[Row]) -> list[Row]:
    whole: list[Row] = []
    for source, ranges in groupby(rows, key=lambda row: row[0]):
        covered = Coverage.of(IdRange(first_id, last_id) for _, first_id, last_id in ranges)
        whole.extend((source, piece.start, piece.end) for piece in covered.ranges)
    return whole
