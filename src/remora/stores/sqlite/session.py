"""Who uses the file? One writer with its own connection, and one reader that can never write."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from remora.core.errors import StoreUnavailable
from remora.stores.common import Part, Values
from remora.stores.decisions import OnBatch
from remora.stores.rows import Row
from remora.stores.sqlite.database import (
    Connection,
    at_rest,
    check_place,
    check_unwritten,
    connect_reader,
    explained,
    may_write_beside,
)
from remora.stores.sqlite.offload import InThread, Offloader
from remora.stores.sqlite.statements import queries
from remora.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqlitePart(Part):
    """A part of the SQLite store. The connections are opened once and shared by all parts."""

    _page_rows = 500
    _ids_max = 5_000

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        offload: Callable[[], Offloader] = InThread,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._offload = offload
        self._on_batch = on_batch
        self._is_open = False
        self._writer: Writer | None = None
        self._reading: Offloader | None = None
        self._reader: Connection | None = None
        self._at_rest: tuple[int, int] | None = None  # time and size of a file that nobody may begin to write
        self._sql = queries()

    async def open(self) -> None:
        """Refuse a foreign file, take the writer's lock, bring the schema up to date."""
        assert not self._is_open, "the store is open already"
        await self.close()  # the rest of a close that was cancelled
        check_place(self._path, read_only=self._read_only)
        try:
            self._reading = self._offload()
            if not self._read_only:
                self._writer = Writer(self._path, self._offload(), self._on_batch)
                await self._writer.open()
            self._reader = await self._reading.run(self._connect_reader)
        except BaseException:
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Write what was accepted, then close. Closing twice is harmless; it also ends a close that was cancelled."""
        self._is_open = False  # nothing more is accepted, but each part is known until it is closed
        if (reading := self._reading) is not None:
            if (reader := self._reader) is not None:
                await reading.run(reader.close)
            reading.close()
            self._reader = self._reading = None
        if (writer := self._writer) is not None:  # after the reader: the last to close removes the -wal and -shm files
            await writer.close()
            self._writer = None

    def abandon(self) -> None:
        """Close at once and write nothing more, as a killed process would. For simulated crashes."""
        reader, reading, writer = self._reader, self._reading, self._writer
        self._reader = self._reading = self._writer = None
        self._is_open = False
        if reader is not None and reading is not None:
            reader.close()
            reading.close()
        if writer is not None:
            writer.abandon()

    def limit_pages(self, *, grows: bool) -> None:
        """Let the file grow no more, or again. For simulated full disks."""
        if self._writer is not None:
            self._writer.limit_pages(grows=grows)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        reader, reading = self._reader, self._reading
        if not self._is_open or reader is None or reading is None:
            raise StoreUnavailable(f"the store {self._path} is not open", hint="open it first")
        try:
            found = await reading.run(lambda: work(reader))
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        check_unwritten(self._path, self._at_rest)
        return found

    def _connect_reader(self) -> Connection:
        """In a folder without write permission, only a file without a writer can be read."""
        try:
            return connect_reader(self._path)
        except StoreUnavailable:
            if not self._read_only or may_write_beside(self._path):
                raise
        self._at_rest = at_rest(self._path)
        if self._at_rest is None:
            raise StoreUnavailable(
                f"{self._path} cannot be read from here: its last writer did not end cleanly",
                hint="read it as a user who may write to its folder, or let that user start and stop `remora up` once",
            )
        return connect_reader(self._path, is_at_rest=True)

    async def _rows(self, name: str, values: Values) -> list[Row]:
        """All rows of a query that only reads."""
        statement = self._sql[name]
        return await self._read(lambda connection: connection.execute(statement, values).fetchall())

    async def _page(self, name: str, values: Values, *, body_at: int) -> list[Row]:
        """Rows one by one, until there are enough bytes."""
        statement = self._sql[name]

        def work(connection: Connection) -> list[Row]:
            rows: list[Row] = []
            size = 0
            cursor = connection.execute(statement, values)
            for row in cursor:
                rows.append(row)
                size += len(row[body_at])
                if size >= self._page_bytes:
                    break
            cursor.close()
            return rows

        return await self._read(work)

    async def _write(self, work: Callable[[Connection], T], *, can_wait: bool = False, is_light: bool = False) -> T:
        """Run the work in one transaction, shared with other writes of the same time. Light work is a few short statements."""
        return await self._open_writer().run(work, can_wait=can_wait, is_light=is_light)

    async def _change(self, name: str, values: Values) -> int:
        """Run one statement that writes. Returns how many rows it changed."""
        statement = self._sql[name]
        return await self._write(lambda connection: connection.execute(statement, values).rowcount)

    def _dump_keys(self, keys: Sequence[str]) -> str:
        return json.dumps(list(keys))

    def _dump_ids(self, ids: Sequence[int]) -> str:
        return json.dumps(list(ids))

    def _open_writer(self) -> Writer:
        if not self._is_open or self._writer is None:
            raise StoreUnavailable(
                f"the store {self._path} is not open for writing", hint="open it first, and not read-only"
            )
        return self._writer
