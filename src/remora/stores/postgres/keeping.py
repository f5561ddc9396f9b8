"""How is a PostgreSQL mirror kept small? In short transactions beside everybody else."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from remora.contracts.keeping import TableSize
from remora.core.units import MILLISECOND_NS
from remora.stores.common_keeping import CommonHousekeeping
from remora.stores.postgres.connections import Connection, Pool, Row
from remora.stores.postgres.statements import parse
from remora.stores.reading import no_position

_SQL: Final = parse(files(__package__).joinpath("keeping.sql").read_text("utf-8"))
_POSITION: Final = re.compile(r"(\d+):(\d+)")
_COMPACT_TIMEOUT_MS: Final = 0  # as long as it takes


class PostgresHousekeeping(CommonHousekeeping):
    """Housekeeping with one connection."""

    _before_revisions: Sequence[Any] = (0, 0, 0)
    _before_document_revisions: Sequence[Any] = ("", "", 0)

    def __init__(self, url: str) -> None:
        self._pool = Pool(url, size=1, settings={"statement_timeout": str(_COMPACT_TIMEOUT_MS)})

    async def open(self) -> None:
        """The first statement connects."""

    async def close(self) -> None:
        """Close the connection."""
        await self._pool.close()

    async def keep_position(self, name: str, position: str, *, now_ns: int) -> None:
        """How far this reader has come."""
        xid, seq = _parts(position)
        values = {"name": name, "position": position, "xid": xid, "seq": seq, "now": now_ns // MILLISECOND_NS}
        await self._change("keep_position", values)

    async def forget_changes(self, *, before_ns: int, up_to: str | None, limit: int) -> int:
        """Delete old changes that everybody has read."""
        xid, seq = (None, None) if up_to is None else _parts(up_to)
        values = {"xid": xid, "seq": seq, "before": before_ns // MILLISECOND_NS, "limit": limit}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await connection.execute(_SQL["lock_readers"])
                return (await connection.execute(_SQL["forget_changes"], values)).rowcount

        return await self._pool.run(work)

    async def table_sizes(self, *, seconds_max: float) -> Sequence[TableSize]:
        """What each table takes. The large ones are counted."""
        ((items, revisions, changes),) = await self._rows("count_rows", {})
        counts = {"stored_items": items, "stored_revisions": revisions, "changes": changes}
        return tuple(TableSize(name, size, counts.get(name)) for name, size, _ in await self._rows("table_sizes", {}))

    async def estimated_sizes(self) -> Sequence[TableSize]:
        """What each table takes; rows as the planner estimates them."""
        return tuple(TableSize(*row) for row in await self._rows("table_sizes", {}))

    async def compact(self) -> None:
        """Let the space of deleted rows be used again."""
        await self._change("compact_changes", {})
        await self._change("compact_revisions", {})
        await self._change("compact_document_revisions", {})

    async def _rows(self, name: str, values: Mapping[str, Any]) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            return await (await connection.execute(_SQL[name], values)).fetchall()

        return await self._pool.run(work)

    def _array(self, numbers: Sequence[int]) -> object:
        return list(numbers)

    async def _change(self, name: str, values: Mapping[str, Any]) -> int:
        async def work(connection: Connection) -> int:
            return (await connection.execute(_SQL[name], values)).rowcount

        return await self._pool.run(work)


def _parts(position: str) -> tuple[str, int]:
    if position == "0":
        return "0", 0
    found = _POSITION.fullmatch(position)
    if found is None:
        raise no_position(position)
    return found[1], int(found[2])
