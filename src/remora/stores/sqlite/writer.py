"""Who writes the SQLite file? One connection in one thread; every batch of writes is one transaction."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

from remora.contracts import Observation, Outcome
from remora.core.errors import RemoraError, StoreError, StoreUnavailable
from remora.core.lanes import PATIENT
from remora.core.quantities import format_size
from remora.stores.batches import Batches
from remora.stores.decisions import OnBatch
from remora.stores.sqlite.database import Connection, connect_writer, explained, roll_back
from remora.stores.sqlite.offload import Offloader
from remora.stores.sqlite.recording import Job, Recorder
from remora.stores.sqlite.writer_lock import WriterLock

T = TypeVar("T")

# As many as fit into one transaction before the first caller notices the wait for the last.
BATCH_MAX: Final = 500
# Observations that can wait are written when there are so many of them, or this long after the last ones: at 2,600 items
# a second, a transaction for every few items costs twice as much. With more of them, walks wait for their cursors.
ENOUGH: Final = 128
PAUSE_S: Final = 0.05
# Nothing is written once the disk has less than this: a full disk would stop the database in the middle of its work.
RESERVE_BYTES: Final = 256 << 20


# An observation with its source, or some work inside a transaction.
_Job = Job | Callable[[Connection], Any]


class Writer:
    """The only writer."""

    def __init__(self, path: Path, offloader: Offloader, on_batch: OnBatch | None = None) -> None:
        self._path = path
        self._offloader = offloader
        self._lock = WriterLock(path)
        self._connection: Connection | None = None
        self._inode = 0
        self._reserve_bytes = RESERVE_BYTES
        self._recorder = Recorder()
        self._batches = Batches(self._offload, batch_max=BATCH_MAX, on_batch=on_batch, pause_s=PAUSE_S, enough=ENOUGH)

    async def open(self) -> None:
        """Take the lock, bring the schema up to date."""
        await self._offloader.run(self._open)

    def _open(self) -> None:
        self._lock.take()
        try:
            self._connection = connect_writer(self._path)
        except RemoraError:
            self._lock.free()
            raise
        self._inode = self._path.stat().st_ino

    async def close(self) -> None:
        """Write what was accepted, then close."""
        await self._batches.finish()
        await self._offloader.run(self._close)
        self._offloader.close()

    def abandon(self) -> None:
        """Close as a killed process would: what is not durable yet is not written."""
        self._batches.drop()
        self._close()
        self._offloader.close()

    def limit_pages(self, *, grows: bool) -> None:
        """Let the file grow no more, or again. SQLite never sets this bound below the file's present size."""
        if self._connection is not None:
            self._connection.execute("PRAGMA max_page_count = 4294967294" if grows else "PRAGMA max_page_count = 1")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._lock.free()

    def record(self, source: str, observation: Observation) -> "asyncio.Future[Outcome]":
        """Return the outcome once it is durable."""
        return self._put((source, observation))

    def record_many(self, source: str, observations: Sequence[Observation]) -> "asyncio.Future[list[Outcome]]":
        """The same for many: one transaction, one future."""
        self._check_open()
        can_wait = all(observation.discovery.via in PATIENT for observation in observations)
        return self._batches.put_many([(source, observation) for observation in observations], can_wait=can_wait)

    def run(self, work: Callable[[Connection], T], *, can_wait: bool = False) -> "asyncio.Future[T]":
        """Run some work inside a transaction. Returns its result once it is durable."""
        return self._put(work, can_wait=can_wait)

    def _put(self, job: _Job, *, can_wait: bool = False) -> "asyncio.Future[Any]":
        self._check_open()
        return self._batches.put(job, can_wait=can_wait)

    def _check_open(self) -> None:
        if self._connection is None:
            raise StoreUnavailable("the store is not open for writing", hint="open it first, and not read-only")

    async def _offload(self, batch: list[_Job]) -> list[object]:
        return await self._offloader.run(lambda: self._write(batch))

    def _write(self, batch: Sequence[_Job]) -> list[object]:
        """All in one transaction. If one of them has a value that the database refuses, each gets its own."""
        try:
            return self._in_one_transaction(batch)
        except StoreUnavailable as error:
            return [StoreUnavailable(error.message, hint=error.hint) for _ in batch]
        except Exception as error:  # noqa: BLE001 - a bad value or our own mistake: told to whoever made it, to nobody else
            if len(batch) == 1:
                return [_as_ours(error)]
            return [result for job in batch for result in self._write([job])]

    def _in_one_transaction(self, batch: Sequence[_Job]) -> list[object]:
        connection = self._connection
        assert connection is not None, "the writer is open while it writes"
        self._check_file()
        self._check_room()
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = self._run_all(connection, batch)
            connection.execute("COMMIT")
            self._recorder.committed()
        except sqlite3.OperationalError as error:
            raise explained(error, self._path) from error
        finally:
            roll_back(connection)
            self._recorder.rolled_back()
        return results

    def _run_all(self, connection: Connection, batch: Sequence[_Job]) -> list[object]:
        """Neighbouring observations are recorded together; everything keeps its order."""
        results: list[object] = []
        for is_work, jobs in groupby(batch, key=callable):
            if is_work:
                results.extend(job(connection) for job in jobs)  # type: ignore[operator]
            else:
                results.extend(self._recorder.record(connection, list(jobs)))  # type: ignore[arg-type]
        return results

    def _check_file(self) -> None:
        """Refuse to go on if the file was moved: writes would go where nobody looks."""
        try:
            here = self._path.stat().st_ino == self._inode
        except OSError:
            here = False
        if not here:
            raise StoreUnavailable(
                f"the store's file {self._path} was moved or removed while in use",
                hint="put it back, or stop and start again to begin a new one",
            )

    def _check_room(self) -> None:
        """Refuse to write on a disk that is almost full. It goes on by itself when there is room again."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return  # unknown: the write itself will tell
        free = disk.f_bavail * disk.f_frsize
        if free < self._reserve_bytes:
            raise StoreUnavailable(
                f"the disk of {self._path} is full: {format_size(free)} free, and {format_size(self._reserve_bytes)} are kept free",
                hint="make room; a service goes on by itself, another command goes on when it is run again (remora store stats, remora store compact)",
            )


def _as_ours(error: Exception) -> Exception:
    """Turn errors about bad values into a `StoreError`. Our own mistakes stay as they are."""
    if isinstance(error, UnicodeError | OverflowError | sqlite3.Error):
        return StoreError(f"this cannot be stored: {error}", hint="it stays owed; please report it")
    return error
