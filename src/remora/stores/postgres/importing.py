"""How does a dump come into PostgreSQL? In large transactions, beside other processes that may add the same items."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from remora.contracts.importing import ImportState
from remora.core.item import Item
from remora.core.ledger.coverage import Coverage, IdRange
from remora.stores.imported_rows import second_hand_row, state_from_row, still_uncovered
from remora.stores.postgres import PostgresStore
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import lock
from remora.stores.postgres.statements import SQL as COMMON_SQL
from remora.stores.postgres.statements import parse
from remora.stores.rows import milliseconds

_SQL: Final = parse(files(__package__).joinpath("importing.sql").read_text("utf-8"))


class ImportingPostgresStore(PostgresStore):
    """The PostgreSQL store, with import of items from files."""

    async def begin_import(self, source: str, *, file: str, fingerprint: str, now_ns: int) -> ImportState:
        """Begin to import a file, or find it again."""
        named = {"source": source, "fingerprint": fingerprint}

        async def work(connection: Connection) -> ImportState:
            await connection.execute(_SQL["begin_import"], {**named, "file": file, "now": milliseconds(now_ns)})
            row = await (await connection.execute(_SQL["import_state"], named)).fetchone()
            assert row is not None, "it was just begun"
            return state_from_row(row)

        return await self._connections().run(work)

    async def import_items(
        self, source: str, state: ImportState, items: Sequence[Item], *, rows_read: int, now_ns: int
    ) -> ImportState:
        """Add what is not held yet."""
        now = milliseconds(now_ns)
        wanted = {item.item_id: item for item in items}
        ids = sorted(wanted)

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await connection.execute(_SQL["add_source"], {"source": source})
                row = await (await connection.execute(_SQL["source_number"], {"source": source})).fetchone()
                assert row is not None, "the source was just added"
                new = await _add(connection, [second_hand_row(row[0], wanted[item_id], now) for item_id in ids])
                if new:
                    told = {"source": source, "kind": "item", "change": "new", "changed_at": now}
                    keys = "\n".join(map(str, sorted(new)))
                    await connection.execute(COMMON_SQL["add_changes"], {**told, "keys": keys})
                moved = {"import_id": state.import_id, "rows_read": rows_read, "items": len(new), "now": now}
                ends = {"first": ids[0] if ids else None, "last": ids[-1] if ids else None}
                await connection.execute(_SQL["move_import"], {**moved, **ends})
                ranges = Coverage.of(IdRange(item_id, item_id) for item_id in ids).ranges
                if len(ranges) <= max(1, len(ids) // 10):  # a file in random order is covered at its end
                    await _cover(connection, source, ranges)
                return len(new)

        added = await self._connections().run(work)
        return ImportState(state.import_id, rows_read, state.items + added, is_finished=False)

    async def end_import(self, source: str, state: ImportState, *, now_ns: int) -> None:
        """Cover what is held in the file's range of ids."""
        named = {"import_id": state.import_id, "now": milliseconds(now_ns)}
        known = await self.coverage(source)

        async def work(connection: Connection) -> None:
            row = await (await connection.execute(_SQL["import_range"], named)).fetchone()
            assert row is not None, "the import was begun"
            if row[0] is not None:
                for hole in known.uncovered(IdRange(*row)):
                    ends = {"source": source, "first": hole.start, "last": hole.end}
                    found = await (await connection.execute(_SQL["held_runs"], ends)).fetchall()
                    await _cover(connection, source, [IdRange(*run) for run in found])
            await connection.execute(_SQL["end_import"], named)

        await self._connections().run(work)

    async def plan_anew(self, source: str, *, now_ns: int) -> int:
        """Leave what is covered by now out of the pending segments. Claimed ones are walked by their owners."""
        named = {"source": source}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await lock(connection, f"plan:{source}:backfill")
                plans = await (await connection.execute(_SQL["take_plans"], named)).fetchall()
                covered = await (await connection.execute(_SQL["coverage"], named)).fetchall()
                left = still_uncovered([(row[0], row[1]) for row in plans], [(row[0], row[1]) for row in covered])
                ends = {"first_ids": [ids.start for ids in left], "last_ids": [ids.end for ids in left]}
                created = {"kind": "backfill", "created": milliseconds(now_ns)}
                await connection.execute(COMMON_SQL["add_segments"], {**named, **ends, **created})
                return len(left)

        return await self._connections().run(work)

    async def defer_indexes(self) -> None:
        """Other processes may be reading: the indexes stay."""

    async def restore_indexes(self) -> None:
        """They were never dropped."""


async def _add(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> list[int]:
    if not rows:
        return []
    values = {f"c{place}": list(column) for place, column in enumerate(zip(*rows, strict=True))}
    return [row[0] for row in await (await connection.execute(_SQL["add_second_hand"], values)).fetchall()]


async def _cover(connection: Connection, source: str, pieces: Sequence[IdRange]) -> None:
    for piece in pieces:
        values = {"source": source, "first_id": piece.start, "last_id": piece.end}
        await connection.execute(COMMON_SQL["cover"], values)
