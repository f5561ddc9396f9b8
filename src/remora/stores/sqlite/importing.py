"""How does a dump come into a SQLite file? In large transactions, and with the readers' indexes built at the end."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from remora.contracts.importing import ImportState
from remora.core.item import Item
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.units import MILLISECOND_NS
from remora.stores.imported_rows import state_from_row, still_uncovered
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection, build_indexes
from remora.stores.sqlite.feed import write_changes
from remora.stores.sqlite.item_rows import second_hand_row, source_number, write_items
from remora.stores.statements import with_common

# A page of runs of ids: a file in random order has as many as rows.
_COVER_RUNS = 20_000


@cache
def _statements() -> Mapping[str, str]:
    return with_common((files(__package__) / "importing.sql").read_text("utf-8"))


class ImportingSqliteStore(SqliteStore):
    """The SQLite store, with import of items from files."""

    async def begin_import(self, source: str, *, file: str, fingerprint: str, now_ns: int) -> ImportState:
        """Begin to import a file, or find it again."""
        named: dict[str, object] = {"source": source, "fingerprint": fingerprint}
        values = {**named, "file": file, "now": now_ns // MILLISECOND_NS}

        def work(connection: Connection) -> ImportState:
            connection.execute(_statements()["begin_import"], values)
            return state_from_row(connection.execute(_statements()["import_state"], named).fetchone())

        return await self._write(work)

    async def import_items(
        self, source: str, state: ImportState, items: Sequence[Item], *, rows_read: int, now_ns: int
    ) -> ImportState:
        """Add what is not held yet."""
        now = now_ns // MILLISECOND_NS
        wanted = {item.item_id: item for item in items}
        ids = sorted(wanted)

        def work(connection: Connection) -> int:
            number = source_number(connection, source)
            held = {
                row[0]
                for row in connection.execute(
                    _statements()["ids_held"], {"number": number, "ids": json.dumps(ids)}
                ).fetchall()
            }
            new = [item_id for item_id in ids if item_id not in held]
            write_items(connection, [second_hand_row(number, wanted[item_id], now) for item_id in new])
            write_changes(connection, source, "item", "new", keys=json.dumps(new), now=now)
            ranges = Coverage.of(IdRange(item_id, item_id) for item_id in ids).ranges
            if len(ranges) <= max(1, len(ids) // 10):  # a file in random order is covered at its end
                for piece in ranges:
                    self._cover(connection, source, piece)
            moved = {"import_id": state.import_id, "rows_read": rows_read, "items": len(new), "now": now}
            connection.execute(_statements()["move_import"], {**moved, **_ends(ids)})
            return len(new)

        added = await self._write(work)
        return ImportState(state.import_id, rows_read, state.items + added, is_finished=False)

    async def end_import(self, source: str, state: ImportState, *, now_ns: int) -> None:
        """Cover what is held in the file's range of ids."""
        named: dict[str, object] = {"import_id": state.import_id, "now": now_ns // MILLISECOND_NS}
        (row,) = await self._import_rows("import_range", named)
        first_id, last_id = row
        if first_id is not None:
            known = await self.coverage(source)
            for hole in known.uncovered(IdRange(first_id, last_id)):
                ends = {"source": source, "first": hole.start, "last": hole.end}
                found = [IdRange(*run) for run in await self._import_rows("held_runs", ends)]
                for start in range(0, len(found), _COVER_RUNS):
                    await self._write(self._covering(source, found[start : start + _COVER_RUNS]))
        await self._write(lambda connection: connection.execute(_statements()["end_import"], named).rowcount)

    async def plan_anew(self, source: str, *, now_ns: int) -> int:
        """Leave what is covered by now out of the pending segments."""
        named, now = {"source": source}, now_ns // MILLISECOND_NS

        def work(connection: Connection) -> int:
            plans = connection.execute(_statements()["take_plans"], named).fetchall()
            left = still_uncovered(plans, connection.execute(self._sql["coverage"], named).fetchall())
            rows = [(source, "backfill", ids.start, ids.end, ids.start - 1, now, now) for ids in left]
            write_rows(connection, "add_segments", rows)
            return len(rows)

        return await self._write(work)

    async def defer_indexes(self) -> None:
        """Drop what `restore_indexes` builds."""

        def work(connection: Connection) -> None:
            connection.execute(_statements()["drop_author_index"])
            connection.execute(_statements()["drop_domain_index"])

        await self._write(work)

    async def restore_indexes(self) -> None:
        """Build them, in one transaction."""

        def work(connection: Connection) -> None:
            # From now on, until the store is opened again: an index of a large mirror does not fit into memory.
            connection.execute("PRAGMA temp_store = FILE")
            build_indexes(connection)

        await self._write(work)

    async def _import_rows(self, name: str, values: Mapping[str, object]) -> list[tuple[int, int]]:
        return await self._read(lambda connection: connection.execute(_statements()[name], values).fetchall())

    def _covering(self, source: str, pieces: Sequence[IdRange]) -> Callable[[Connection], None]:
        def work(connection: Connection) -> None:
            for piece in Coverage.of(pieces).ranges:
                self._cover(connection, source, piece)

        return work


def _ends(ids: Sequence[int]) -> dict[str, int | None]:
    return {"first": ids[0] if ids else None, "last": ids[-1] if ids else None}
