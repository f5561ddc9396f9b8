"""How is a whole mirror copied from one store to another? Table by table, resumable, and compared at the end.

Nobody should write to the source meanwhile; the comparison finds what changed during the copy. The target must be
empty or hold a copy of the same source that nobody has used: it remembers how far the copy has come.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from remora.contracts import Json
from remora.core.errors import ConfigurationError, StoreError, StoreForeign
from remora.stores.copied import FINISHED, OWN_NOTES, PROGRESS, check_whole
from remora.stores.tables import TABLES, Key, Portable, Row, Table

PAGE_ROWS: Final = 2_000
_DIGEST_BYTES: Final = 16

# Called with a table's name and how many of its rows have been copied so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Summed:
    """How many rows a table has, and a sum over their contents that does not depend on their order."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied and is equal on both sides."""

    tables: dict[str, Summed]

    @property
    def rows(self) -> int:
        """All rows of all tables."""
        return sum(summed.rows for summed in self.tables.values())


async def copy_store(
    source: Portable, target: Portable, *, progress: Progress = lambda _table, _rows: None
) -> CopyReport:
    """Copy everything and compare both sides. Both stores are open. Another call resumes an interrupted copy."""
    await check_whole(source)
    begin_at = await _where_to_begin(target)
    for place, table in enumerate(TABLES):
        if place < begin_at.place:
            continue
        after = begin_at.after if place == begin_at.place and begin_at.after else table.below_first
        await _copy_table(source, target, table, after=after, progress=progress)
    await target.finish_import()
    report = await _compare(source, target)
    await target.keep_note(OWN_NOTES, PROGRESS, FINISHED)
    return report


def open_portable(url: str, *, read_only: bool) -> Portable:
    """The store at an address in its portable form, not yet opened."""
    scheme, _, rest = url.partition("://")
    match scheme:
        case "sqlite":
            from remora.stores.sqlite.portable import PortableSqliteStore  # noqa: PLC0415

            return PortableSqliteStore(Path(rest.removeprefix("/")), read_only=read_only)
        case "postgresql" | "postgres":
            from remora.stores.postgres.portable import PortablePostgresStore  # noqa: PLC0415

            return PortablePostgresStore(url, read_only=read_only)
        case _:
            raise ConfigurationError(
                f"a store at {scheme}:// cannot be copied",
                hint="write sqlite:///remora.db or postgresql://host/database",
            )


@dataclass(frozen=True, slots=True)
class _Beginning:
    place: int = 0
    after: Key = ()


async def _where_to_begin(target: Portable) -> _Beginning:
    known = await target.note(OWN_NOTES, PROGRESS)
    if known is None:
        for table in TABLES:
            if await target.export_rows(table, after=table.below_first, limit=1):
                raise StoreForeign(
                    f"the target store is not empty: it has {table.name}",
                    hint="copy into a new file or an empty database",
                )
        await target.keep_note(OWN_NOTES, PROGRESS, {"table": TABLES[0].name, "after": []})
        return _Beginning()
    names = [table.name for table in TABLES]
    match known:
        case {"table": str(name), "after": list(after)} if name in names:
            return _Beginning(names.index(name), tuple(after))
        case _ if known == FINISHED:
            # Copied before, and not used since: write everything again, so that it equals the source.
            return _Beginning()
        case _:
            raise StoreError(
                "the target store's note of an earlier copy cannot be read", hint="copy into an empty store instead"
            )


async def _copy_table(source: Portable, target: Portable, table: Table, *, after: Key, progress: Progress) -> None:
    copied = 0
    while rows := await source.export_rows(table, after=after, limit=PAGE_ROWS):
        await target.import_rows(table, rows)
        after = table.key(rows[-1])
        place: Json = list(after)
        await target.keep_note(OWN_NOTES, PROGRESS, {"table": table.name, "after": place})
        copied += len(rows)
        progress(table.name, copied)


async def _compare(source: Portable, target: Portable) -> CopyReport:
    sums: dict[str, Summed] = {}
    for table in TABLES:
        here, there = await sum_up(source, table), await sum_up(target, table)
        if here != there and not table.may_move:
            raise StoreError(
                f"the copies of {table.name} differ: {here.rows} rows in the source, {there.rows} in the target",
                hint="stop whatever writes either store and copy again into an empty one",
            )
        sums[table.name] = there
    return CopyReport(sums)


async def sum_up(store: Portable, table: Table) -> Summed:
    """Read a whole table and sum it up."""
    rows_seen, total = 0, 0
    after = table.below_first
    while rows := await store.export_rows(table, after=after, limit=PAGE_ROWS):
        rows_seen += len(rows)
        total += sum(_digest(row) for row in rows)
        after = table.key(rows[-1])
    return Summed(rows_seen, f"{total % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}")


def _digest(row: Row) -> int:
    packed = msgspec.msgpack.encode(row)
    return int.from_bytes(blake2b(packed, digest_size=_DIGEST_BYTES).digest(), "big")
