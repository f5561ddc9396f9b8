"""Who writes the SQLite file? One connection; every batch of writes is one transaction, often in a thread of its own.

What a backfill records takes SQLite a few milliseconds. In a thread it takes longer, because two threads take the
interpreter and the caches of the processor from each other. So the event loop itself does that as long as it is quick, and
the thread does what is slow or waits for the disk. A commit only appends to the log, without waiting for the disk, unless
it begins the log anew; then, and when the log is long enough to be copied back, it is the thread's turn.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from remora.contracts import Observation, Outcome
from remora.core.errors import RemoraError, StoreError, StoreUnavailable
from remora.core.item import Document, Item, User
from remora.core.lanes import PATIENT
from remora.core.verdict import Found
from remora.stores.batches import Batches
from remora.stores.decisions import OnBatch
from remora.stores.sqlite.database import (
    BUSY_TIMEOUT_MS,
    LOG_BYTES_MAX,
    Connection,
    connect_writer,
    explained,
    log_of,
    roll_back,
    size_of,
)
from remora.stores.sqlite.offload import Offloader
from remora.stores.sqlite.recording import Job, Recorder
from remora.stores.sqlite.reserve import RESERVE_BYTES, check_room
from remora.stores.sqlite.writer_lock import WriterLock

T = TypeVar("T")

# As many as fit into one transaction before the first caller notices the wait for the last, and the event loop the pause.
BATCH_MAX: Final = 512
# Observations that can wait are written when there are so many of them, or this long after the last ones: at 2,600 items
# a second, a transaction for every few items costs twice as much. With more of them, walks wait for their cursors.
ENOUGH: Final = 256
PAUSE_S: Final = 0.065
# The event loop records a batch if the last one took no longer than this. A disk that has to be read and a
# busy machine take longer, and would hold up everything else. In the thread the same takes about twice as long.
AT_ONCE_S: Final = 0.02
THREAD_COSTS: Final = 2
# The same for the bodies of a batch, which the last one says nothing about: 256 documents of 1 MB take seconds.
AT_ONCE_BYTES: Final = 1 << 20


class _Light(NamedTuple):
    """Work of a few short statements."""

    work: Callable[[Connection], Any]

    def __call__(self, connection: Connection) -> Any:
        return self.work(connection)


_STORED: Final = (Item, Document, User)
_QUICK: Final = frozenset({tuple, _Light})
# An observation with its source, or some work inside a transaction.
_Job = Job | _Light | Callable[[Connection], Any]


class Writer:
    """The only writer."""

    def __init__(self, path: Path, offloader: Offloader, on_batch: OnBatch | None = None) -> None:
        self._path = path
        self._offloader = offloader
        self._lock = WriterLock(path)
        self._connection: Connection | None = None
        self._inode = 0
        self._log = log_of(path)
        self._begins_log = True  # the next commit, perhaps: then it waits for the disk, and is the thread's
        self._reserve_bytes = RESERVE_BYTES
        self._recorder = Recorder()
        self._took_s = 0.0  # by the last batch, if the event loop had done it
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
        can_wait = PATIENT.issuperset([observation.discovery.via for observation in observations])
        return self._batches.put_many([(source, observation) for observation in observations], can_wait=can_wait)

    def run(
        self, work: Callable[[Connection], T], *, can_wait: bool = False, is_light: bool = False
    ) -> "asyncio.Future[T]":
        """Run some work inside a transaction, light or not. Returns its result once it is durable."""
        return self._put(_Light(work) if is_light else work, can_wait=can_wait)

    def _put(self, job: _Job, *, can_wait: bool = False) -> "asyncio.Future[Any]":
        self._check_open()
        return self._batches.put(job, can_wait=can_wait)

    def _check_open(self) -> None:
        if self._connection is None:
            raise StoreUnavailable("the store is not open for writing", hint="open it first, and not read-only")

    async def _offload(self, batch: list[_Job]) -> list[object]:
        begun = self._begin_at_once(batch) if self._is_quick(batch) else None
        if begun is not None and not self._begins_log and self._commit_at_once():
            results = begun
        else:
            open_still = begun if self._open_connection().in_transaction else None
            results = await self._offloader.run(lambda: self._write(batch, open_still))
        if self._is_log_long():
            await self._offloader.run(self._copy_log_back)
            self._begins_log = True
        return results

    def _is_quick(self, batch: Sequence[_Job]) -> bool:
        is_light = len(batch) <= 2 * BATCH_MAX and _QUICK.issuperset(map(type, batch))
        return is_light and self._took_s <= AT_ONCE_S and _body_bytes(batch) <= AT_ONCE_BYTES

    def _begin_at_once(self, batch: Sequence[_Job]) -> list[object] | None:
        """Do all but the commit; None: it was not possible, and nothing has happened. The thread tries again and tells why."""
        try:
            results, took_s = self._begin(batch, wait_ms=0)
        except Exception:  # noqa: BLE001 - whatever it is, it happens again where it can be told to whoever made it
            self._roll_back()
            return None
        self._took_s = took_s
        return results

    def _commit_at_once(self) -> bool:
        """Make it durable; False: it was not possible, and nothing has happened."""
        began_s = time.monotonic()
        try:
            self._commit()
        except Exception:  # noqa: BLE001 - as above
            self._roll_back()
            return False
        self._took_s += time.monotonic() - began_s
        return True

    def _is_log_long(self) -> bool:
        try:
            return size_of(self._log) > LOG_BYTES_MAX
        except OSError:  # what was committed is durable; the next batch tells what is wrong with the folder
            return False

    def _copy_log_back(self) -> None:
        """Copy the log into the file, as far as nobody reads what was there before. What fails is tried after the next batch."""
        with suppress(sqlite3.Error):
            self._open_connection().execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _write(self, batch: Sequence[_Job], begun: list[object] | None = None) -> list[object]:
        """All in one transaction, which may have begun. If one has a value that the database refuses, each gets its own."""
        try:
            return self._in_one_transaction(batch, begun)
        except StoreUnavailable as error:
            return [StoreUnavailable(error.message, hint=error.hint) for _ in batch]
        except Exception as error:  # noqa: BLE001 - a bad value or our own mistake: told to whoever made it, to nobody else
            if len(batch) == 1:
                return [self._as_ours(error)]
            return [result for job in batch for result in self._write([job])]

    def _in_one_transaction(self, batch: Sequence[_Job], begun: list[object] | None) -> list[object]:
        try:
            if begun is None:
                begun, took_s = self._begin(batch, wait_ms=BUSY_TIMEOUT_MS)
                self._took_s = took_s / THREAD_COSTS
            self._commit()
        finally:
            self._roll_back()
        return begun

    def _begin(self, batch: Sequence[_Job], *, wait_ms: int) -> tuple[list[object], float]:
        """All but the commit, and the seconds that it took. `wait_ms` is for somebody else who writes just now."""
        connection = self._open_connection()
        self._check_file()
        check_room(self._path, self._reserve_bytes)
        try:
            connection.execute(f"PRAGMA busy_timeout = {wait_ms}")
            connection.execute("BEGIN IMMEDIATE")
            began_s = time.monotonic()
            results = self._run_all(connection, batch)
        except sqlite3.OperationalError as error:
            raise explained(error, self._path) from error
        return results, time.monotonic() - began_s

    def _commit(self) -> None:
        try:
            self._open_connection().execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise explained(error, self._path) from error
        self._begins_log = False
        self._recorder.committed()

    def _roll_back(self) -> None:
        """Nothing happens after a commit."""
        roll_back(self._open_connection())
        self._recorder.rolled_back()

    def _open_connection(self) -> Connection:
        assert self._connection is not None, "the writer is open while it writes"
        return self._connection

    def _run_all(self, connection: Connection, batch: Sequence[_Job]) -> list[object]:
        """Neighbouring observations are recorded together; everything keeps its order."""
        results: list[object] = []
        for is_work, jobs in groupby(batch, key=callable):
            if is_work:
                results.extend(job(connection) for job in jobs)  # type: ignore[operator]
            else:
                results.extend(self._recorder.record(connection, list(jobs)))  # type: ignore[arg-type]
        return results

    def _as_ours(self, error: Exception) -> Exception:
        """Turn errors about bad values, and a damaged file, into a `StoreError`. Our own mistakes stay as they are."""
        if type(error) is sqlite3.DatabaseError:  # about the file; each error about a value has a class of its own
            return explained(error, self._path)
        if isinstance(error, UnicodeError | OverflowError | sqlite3.Error):
            return StoreError(f"this cannot be stored: {error}", hint="it stays owed; please report it")
        return error

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


def _body_bytes(batch: Sequence[_Job]) -> int:
    """How many bytes of bodies are recorded. Work has none."""
    size = 0
    for job in batch:
        if not callable(job):
            verdict = job[1].verdict
            if isinstance(verdict, Found) and isinstance(verdict.thing, _STORED):
                size += len(verdict.thing.body)
    return size
