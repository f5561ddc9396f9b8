"""When does a write become durable? One connection writes; whatever queued while the last transaction ran is the next.

There is no timer: a lone write is committed at once, and under load the batch grows by itself.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

from remora.contracts import Observation, Outcome
from remora.core.errors import RemoraError, StoreError, StoreUnavailable
from remora.stores.decisions import OnBatch, is_durable
from remora.stores.sqlite.database import Connection, connect_writer, explained, roll_back
from remora.stores.sqlite.offload import Offloader
from remora.stores.sqlite.recording import Recorder
from remora.stores.sqlite.writer_lock import WriterLock

T = TypeVar("T")

# As many as one transaction can take without making the first caller wait noticeably for the last.
BATCH_MAX: Final = 500
# Callers wait for their own write, so only a runaway caller comes near this.
QUEUE_MAX: Final = 100_000


@dataclass(slots=True)
class _Record:
    source: str
    observation: Observation
    done: "asyncio.Future[Outcome]"


@dataclass(slots=True)
class _Work:
    work: Callable[[Connection], Any]
    done: "asyncio.Future[Any]"


_Job = _Record | _Work


class Writer:
    """The only one who writes."""

    def __init__(self, path: Path, offloader: Offloader, on_batch: OnBatch | None = None) -> None:
        self._path = path
        self._offloader = offloader
        self._on_batch = on_batch
        self._lock = WriterLock(path)
        self._connection: Connection | None = None
        self._inode = 0
        self._recorder = Recorder()
        self._queue: deque[_Job] = deque()
        self._draining: asyncio.Task[None] | None = None

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
        """Write what was accepted, then let go."""
        while self._draining is not None:
            await asyncio.wait([self._draining])
        await self._offloader.run(self._close)
        self._offloader.close()

    def abandon(self) -> None:
        """Let go as a killed process would: what was not durable is not written."""
        self._queue.clear()
        self._close()
        self._offloader.close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._lock.free()

    def record(self, source: str, observation: Observation) -> "asyncio.Future[Outcome]":
        """The outcome, once it is durable."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._enqueue(_Record(source, observation, done))
        return done

    def run(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """The result of some work inside a transaction, once that is durable."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Work(work, done))
        return done

    def _enqueue(self, job: _Job) -> None:
        if self._connection is None:
            raise StoreUnavailable("the store is not open for writing", hint="open it first, and not read-only")
        assert len(self._queue) < QUEUE_MAX, "more writes wait than callers can exist"
        self._queue.append(job)
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="store-writer")

    async def _drain(self) -> None:
        now_s = asyncio.get_running_loop().time
        try:
            while self._queue:
                batch = self._take()
                began_s = now_s()
                try:
                    results = await self._offloader.run(lambda batch=batch: self._write(batch))  # type: ignore[misc]
                except BaseException as error:
                    _fail(batch, error)
                    raise
                _resolve(batch, results)
                if self._on_batch is not None and is_durable(results):
                    self._on_batch(now_s() - began_s)
        finally:
            self._draining = None

    def _take(self) -> list[_Job]:
        batch: list[_Job] = []
        while self._queue and len(batch) < BATCH_MAX:
            job = self._queue.popleft()
            if not job.done.cancelled():  # nobody waits for it any more
                batch.append(job)
        return batch

    def _write(self, batch: Sequence[_Job]) -> list[object]:
        """All in one transaction; when one of them is poison, each in its own."""
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
        for together, jobs in groupby(batch, key=lambda job: isinstance(job, _Record)):
            if together:
                records = [(job.source, job.observation) for job in jobs if isinstance(job, _Record)]
                results.extend(self._recorder.record(connection, records))
            else:
                results.extend(job.work(connection) for job in jobs if isinstance(job, _Work))
        return results

    def _check_file(self) -> None:
        """A file that was moved away would go on being written where nobody looks."""
        try:
            here = self._path.stat().st_ino == self._inode
        except OSError:
            here = False
        if not here:
            raise StoreUnavailable(
                f"the store's file {self._path} was moved or removed while in use",
                hint="put it back, or stop and start again to begin a new one",
            )


def _as_ours(error: Exception) -> Exception:
    """Bad values are the store's error; our own mistakes stay what they are."""
    if isinstance(error, UnicodeError | OverflowError | sqlite3.Error):
        return StoreError(f"this cannot be stored: {error}", hint="it stays owed; please report it")
    return error


def _fail(batch: Sequence[_Job], error: BaseException) -> None:
    for job in batch:
        if not job.done.done():
            job.done.set_exception(StoreUnavailable(f"the writer stopped: {error!r}", hint="open the store again"))


def _resolve(batch: Sequence[_Job], results: Sequence[object]) -> None:
    for job, result in zip(batch, results, strict=True):
        if job.done.done():
            continue
        if isinstance(result, Exception):
            job.done.set_exception(result)
        else:
            job.done.set_result(result)  # type: ignore[arg-type]
