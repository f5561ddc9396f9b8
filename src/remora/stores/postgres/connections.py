"""How do we get a connection, and what happens when it breaks? A small bounded pool that drops dead connections."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.string import BytesBinaryDumper
from psycopg.waiting import Ready, Wait

from remora.core.errors import ConfigurationError, StoreError, StoreUnavailable
from remora.stores.postgres.faults import Conflict, ConnectionLost, explained
from remora.stores.postgres.statements import SQL

POOL_SIZE: Final = 6
LOSSES_AT_MOST: Final = 1
CONFLICTS_AT_MOST: Final = 8
CONNECT_TIMEOUT_S: Final = 10
ACQUIRE_TIMEOUT_S: Final = 15.0
STATEMENT_TIMEOUT_MS: Final = 30_000
LOCK_TIMEOUT_MS: Final = 10_000
# The server ends a silent session after this time, so that a frozen process does not keep its row locks.
IDLE_IN_TRANSACTION_MS: Final = 30_000
# The server ends a statement that takes too long. If it does not even say so in this time, nobody is there any more.
ANSWER_GRACE_S: Final = 5.0
# A router forgets a connection that is silent for minutes, and tells nobody. What the store's URL says comes first.
KEEPALIVES: Final = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 3}

Row = tuple[Any, ...]
T = TypeVar("T")


class Connection(psycopg.AsyncConnection[Row]):
    """A connection that hangs up if the other end is silent for longer than a statement may take there."""

    answers_within_s: float | None = None
    _awaited = 1  # statements that the server answers before it sends anything

    async def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Wait for the server; the end of the connection ends the wait, too."""
        patience = None
        if self.answers_within_s is not None:
            patience_s = self.answers_within_s * self._awaited
            patience = asyncio.get_running_loop().call_later(patience_s, self._hang_up)
        try:
            # When cancelled, the driver waits once more, and a connection that breaks meanwhile hides the cancellation.
            with _staying_cancelled():
                return await super().wait(sent_at_once(gen, self.fileno()), *arguments, **options)
        finally:
            if patience is not None:
                patience.cancel()

    async def in_one_round_trip(
        self, statements: Sequence[tuple[bytes, Mapping[str, Any] | None]]
    ) -> list[psycopg.AsyncCursor[Row]]:
        """Send these together, and wait once for what the server says to all of them. Rows come in binary form."""
        self._awaited = len(statements)  # each may take as long as one alone
        try:
            # An order to stop that comes while the first one is obeyed leaves the connection in no state to go on.
            with _staying_cancelled():
                async with self.pipeline():
                    return [await self.execute(statement, values, binary=True) for statement, values in statements]
        finally:
            self._awaited = 1

    def _hang_up(self) -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


def sent_at_once(gen: PQGen[RV], wire: int) -> PQGen[RV]:
    """What may be sent now does not wait for a turn of the event loop, which takes milliseconds in a backfill.

    What has come meanwhile is read when everything is sent. So all answers to what is sent together come at its end.
    """
    looking = select.poll()
    looking.register(wire, select.POLLOUT)
    try:
        state = next(gen)
        while True:
            ready = Ready.W if state & Wait.W and looking.poll(0) else (yield state)
            state = gen.send(ready)
    except StopIteration as done:
        result: RV = done.value
        return result


@contextmanager
def _staying_cancelled() -> Iterator[None]:
    """Whatever the driver makes of a cancellation that comes meanwhile, it ends as one."""
    before = _cancellings()
    try:
        yield
    except psycopg.Error:
        if _cancellings() > before:
            raise asyncio.CancelledError from None
        raise


def _cancellings() -> int:
    """How often this task was asked to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


@asynccontextmanager
async def explaining(connection: Connection | None = None) -> AsyncIterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        connected = connection is not None and not connection.broken and not connection.closed
        raise explained(error, connected=connected) from None


@asynccontextmanager
async def rolling_back(connection: Connection) -> AsyncIterator[None]:
    """If this fails, the transaction that was begun in it never happened. Who begins it ends it."""
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):  # then the connection is closed, which ends it as well
            await connection.rollback()
        raise


def check_address(url: str) -> None:
    """Refuse an address that cannot be read, without repeating it: it may hold a password."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "the store's URL cannot be read",
            hint="write postgresql://user@host:5432/database, then options as ?sslmode=require; in a password @ is %40",
        ) from None


async def connect(url: str, *, settings: Mapping[str, str] | None = None, patient: bool = False) -> Connection:
    """A connection in autocommit mode with our limits set. A patient one waits for the server as long as it takes."""
    async with explaining():
        address = make_conninfo(url, **{**KEEPALIVES, **conninfo_to_dict(url)})
        connection = await Connection.connect(
            address, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, application_name="remora"
        )
    # The driver's default for bytes in a COPY unpacks each value in Python.
    connection.adapters.register_dumper(bytes, BytesBinaryDumper)
    limits = {
        "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
        **(settings or {}),
    }
    if not patient and (most_ms := int(limits["statement_timeout"])):
        connection.answers_within_s = most_ms / 1_000 + ANSWER_GRACE_S
    try:
        async with explaining(connection):
            await connection.execute(SQL["set_session"], {"names": list(limits), "values": list(limits.values())})
    except BaseException:
        await connection.close()
        raise
    return connection


class Pool:
    """At most `size` connections. If all are busy, a caller waits, but not for ever."""

    def __init__(
        self,
        url: str,
        *,
        size: int = POOL_SIZE,
        settings: Mapping[str, str] | None = None,
        patient: bool = False,
        acquire_timeout_s: float = ACQUIRE_TIMEOUT_S,
    ) -> None:
        check_address(url)
        self._patient = patient
        self._url = url
        self._acquire_timeout_s = acquire_timeout_s
        self._size = size
        self._settings = settings
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work on a connection. Repeat it after a conflict and, once, after a lost connection.

        All work is idempotent: when a connection breaks, nobody knows what the server still did.
        """
        conflicts = losses = 0
        while True:
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except ConnectionLost:
                losses += 1
                await self._forget_idle()
                if losses > LOSSES_AT_MOST:
                    raise
            except Conflict:
                conflicts += 1
                if conflicts > CONFLICTS_AT_MOST:
                    raise

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        await self._forget_idle()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one transaction or one reading."""
        await self._acquire()
        try:
            connection = self._idle.pop() if self._idle else await self._open()
            try:
                async with explaining(connection):
                    yield connection
            except BaseException as error:
                # This session may stay read-only; a new one may reach the new primary. After a conflict it can go on.
                is_unfit = isinstance(error, StoreUnavailable) and not isinstance(error, Conflict)
                if is_unfit or not _is_clean(connection):
                    await connection.close()
                raise
            finally:
                await self._take_back(connection)
        finally:
            self._free.release()

    async def _acquire(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", hint="open it first")
        try:
            async with asyncio.timeout(self._acquire_timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"all {self._size} connections to PostgreSQL are busy for {self._acquire_timeout_s:g} s",
                hint="look for slow statements on the database's host; Remora tries again by itself",
            ) from None

    async def _open(self) -> Connection:
        return await connect(self._url, settings=self._settings, patient=self._patient)

    async def _take_back(self, connection: Connection) -> None:
        if _is_clean(connection) and not self._closed:
            self._idle.append(connection)
        else:
            await connection.close()

    async def _forget_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()


def _is_clean(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status is TransactionStatus.IDLE
