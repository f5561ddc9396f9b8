"""How is a SQLite file kept small? In short transactions beside the writer; only `compact` needs the file for itself."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from remora.contracts.keeping import TableSize
from remora.core.errors import ConfigurationError, StoreUnavailable
from remora.core.units import MILLISECOND_NS
from remora.files import room_for
from remora.stores.common_keeping import CommonHousekeeping
from remora.stores.reading import no_position
from remora.stores.sqlite.database import (
    Connection,
    bounded,
    check_place,
    connect_beside,
    connect_reader,
    explained,
    frozen,
    roll_back,
)
from remora.stores.sqlite.offload import InThread, Offloader
from remora.stores.sqlite.page_sample import estimated_sizes
from remora.stores.sqlite.writer_lock import WriterLock
from remora.stores.statements import with_common

# A file of at most 200 MB is walked whole: it takes no longer.
WALKED_PAGES_MAX: Final = 50_000
WALK_SECONDS_MAX: Final = 10.0
LOG_BYTES_PER_PAGE: Final = 24
_COUNTED: Final = {
    "stored_items": "count_items",
    "stored_revisions": "count_revisions",
    "stored_changes": "count_changes",
}

T = TypeVar("T")


@cache
def _statements() -> Mapping[str, str]:
    return with_common(Path(__file__).with_name("keeping.sql").read_text("utf-8"))


class SqliteHousekeeping(CommonHousekeeping):
    """Housekeeping on a connection of its own. The writer never waits for more than one short transaction."""

    _before_revisions: Sequence[Any] = (0,)
    _before_document_revisions: Sequence[Any] = (0,)

    def __init__(self, path: Path, *, offload: Callable[[], Offloader] = InThread) -> None:
        self._path = path
        self._offload = offload
        self._thread: Offloader | None = None
        self._connection: Connection | None = None
        self._sql = _statements()

    async def open(self) -> None:
        """Open the file, which must be a store."""
        check_place(self._path, read_only=True)
        self._thread = self._offload()
        try:
            self._connection = await self._thread.run(lambda: connect_beside(self._path))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        thread, connection = self._thread, self._connection
        self._thread = self._connection = None
        if thread is not None:
            if connection is not None:
                await thread.run(connection.close)
            thread.close()

    async def keep_position(self, name: str, position: str, *, now_ns: int) -> None:
        """How far this reader has come."""
        values = {"name": name, "position": str(_seq(position)), "now": now_ns // MILLISECOND_NS}
        await self._change("keep_position", values)

    async def forget_changes(self, *, before_ns: int, up_to: str | None, limit: int) -> int:
        """Delete old changes that everybody has read."""
        seq = None if up_to is None else _seq(up_to)
        values = {"seq": seq, "before": before_ns // MILLISECOND_NS, "limit": limit}
        return await self._change("forget_changes", values)

    async def table_sizes(self, *, seconds_max: float) -> Sequence[TableSize]:
        """What each table takes."""
        return await self._run(lambda connection: self._table_sizes(connection, seconds_max))

    def _table_sizes(self, connection: Connection, seconds_max: float) -> list[TableSize]:
        try:
            with bounded(connection, seconds_max):
                sizes = connection.execute(self._sql["table_sizes"]).fetchall()
                counts = {name: connection.execute(self._sql[count]).fetchone()[0] for name, count in _COUNTED.items()}
        except sqlite3.OperationalError as error:
            if str(error) in {"interrupted", "no such table: dbstat"}:
                return []
            raise
        return [TableSize(name, size, counts.get(name)) for name, size, _ in sizes]

    async def estimated_sizes(self) -> Sequence[TableSize]:
        """What each table takes. In a large file from a sample of its pages."""
        ((pages,),) = await self._rows("page_count", {})
        if pages <= WALKED_PAGES_MAX and (exact := await self.table_sizes(seconds_max=WALK_SECONDS_MAX)):
            return exact
        trees = await self._rows("list_trees", {})
        assert self._thread is not None, "the rows were just read"
        page_bytes, found = await self._thread.run(lambda: estimated_sizes(self._path, trees))
        sizes = (TableSize(name, round(size.pages) * page_bytes, round(size.entries)) for name, size in found.items())
        return sorted(sizes, key=lambda size: -size.bytes)

    async def compact(self) -> None:
        """Rewrite the file without its unused pages."""
        lock = WriterLock(self._path)
        lock.take()
        try:
            await self._run(lambda connection: connection.execute("VACUUM").fetchall())
        finally:
            lock.free()

    async def _rows(self, name: str, values: Mapping[str, object]) -> list[Any]:
        return await self._run(lambda connection: connection.execute(self._sql[name], values).fetchall())

    def _array(self, numbers: Sequence[int]) -> object:
        return json.dumps(list(numbers))

    async def _change(self, name: str, values: Mapping[str, object]) -> int:
        def work(connection: Connection) -> int:
            try:
                connection.execute("BEGIN IMMEDIATE")
                changed = connection.execute(self._sql[name], values).rowcount
                connection.execute("COMMIT")
            finally:
                roll_back(connection)
            return changed

        return await self._run(work)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        thread, connection = self._thread, self._connection
        if thread is None or connection is None:
            raise StoreUnavailable(f"the store {self._path} is not open", hint="open it first")
        try:
            return await thread.run(lambda: work(connection))
        except sqlite3.Error as error:
            raise explained(error, self._path) from error


def check_room_to_shrink(path: Path, *, temporary: Path) -> None:
    """Refuse to shrink a file without room for it: SQLite writes it anew as a temporary file, then once more into its log."""
    path, temporary = path.resolve(), temporary.resolve()
    size = _size_when_shrunk(path)
    is_one_disk = path.stat().st_dev == temporary.stat().st_dev
    for folder, needed in ((path.parent, size * 2 if is_one_disk else size), (temporary, size)):
        if (free := room_for(folder / path.name)) < needed:
            raise ConfigurationError(
                f"shrinking writes the file anew and needs up to {needed:,} bytes in {folder}, which has {free:,} left",
                hint="make room, or name a folder on a disk with room for temporary files with SQLITE_TMPDIR, or write "
                "--no-shrink: the file then uses the space of what was deleted again",
            )


def _size_when_shrunk(path: Path) -> int:
    """The pages that hold something, with what the log has for each of them besides."""
    with closing(connect_reader(path, is_at_rest=frozen(path) is not None)) as connection:
        pages, unused, page_bytes = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    size: int = (pages - unused) * (page_bytes + LOG_BYTES_PER_PAGE)
    return size


def _seq(position: str) -> int:
    if not position.isdecimal():
        raise no_position(position)
    return int(position)
