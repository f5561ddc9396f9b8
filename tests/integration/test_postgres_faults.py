"""What happens when PostgreSQL restarts, hangs up, refuses or is full? The operator is told what to do; work resumes."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from remora.contracts import Outcome
from remora.core.errors import ConfigurationError, StoreError, StoreRefused, StoreUnavailable
from remora.core.verdict import Found
from remora.stores.postgres import PostgresStore
from remora.stores.postgres.connections import Connection, Pool
from remora.stores.postgres.faults import explained
from tests.contract.answers import REFUSED, SOURCE, observed, record, story
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(postgres_url, pool_size=2)
    await opened.open()
    yield opened
    await opened.close()


def hang_up(url: str) -> int:
    """Cut every other connection to this database, as a failover or an operator would."""
    with psycopg.connect(url, autocommit=True) as operator:
        cut = operator.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert cut is not None
    return int(cut[0])


def others_connected(url: str) -> int:
    """How many other connections to this database there are."""
    with psycopg.connect(url) as operator:
        count = operator.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert count is not None
    return int(count[0])


async def test_cut_connections_are_replaced_without_anybody_noticing(store: PostgresStore, postgres_url: str) -> None:
    assert await record(store, 1, story(1), at_s=0) is Outcome.NEW
    assert hang_up(postgres_url) >= 2
    assert await record(store, 2, story(2), at_s=1) is Outcome.NEW
    assert await store.item(SOURCE, 1) is not None


async def test_closing_again_after_a_cancelled_close_leaves_no_connection_open(
    store: PostgresStore, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE items IN EXCLUSIVE MODE")
        writing = asyncio.create_task(record(store, 1, story(1), at_s=0))
        await asyncio.sleep(0.1)
        ending = asyncio.create_task(store.close())
        await asyncio.sleep(0.1)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
    await store.close()
    assert await writing is Outcome.NEW
    async with asyncio.timeout(5):
        while others_connected(postgres_url):  # noqa: ASYNC110 - the server notices a moment later
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_restarted_server_is_found_again_and_what_was_acknowledged_is_there(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    acknowledged: list[int] = []
    errors: list[StoreUnavailable] = []
    finished = asyncio.Event()

    async def write(first: int) -> None:
        item_id = first
        while not finished.is_set():
            item_id += 4
            while True:
                try:
                    await record(store, item_id, story(item_id), at_s=0)
                    acknowledged.append(item_id)
                    break
                except StoreUnavailable as error:
                    errors.append(error)
                    await asyncio.sleep(0.05)

    async def acknowledge(more: int) -> None:
        wanted = len(acknowledged) + more
        async with asyncio.timeout(20):
            while len(acknowledged) < wanted:  # noqa: ASYNC110 - the writers go on for ever, nobody signals
                await asyncio.sleep(0.02)

    writers = [asyncio.create_task(write(n)) for n in range(4)]
    await acknowledge(100)
    postgres_server.kill()
    await asyncio.sleep(0.2)
    postgres_server.start()
    await acknowledge(100)
    finished.set()
    await asyncio.gather(*writers)
    assert errors
    assert "reconnects by itself" in errors[0].hint
    held = {item_id async for item_id, _ in store.bodies(SOURCE)}
    assert set(acknowledged) <= held


class LostAnswer:
    """A way to the server on which the answer to the first COMMIT never comes back."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.lost = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.ensure_future(self._relay(reader, writer)))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        answers = asyncio.ensure_future(self._pump(server_reader, writer))
        try:
            while data := await reader.read(65_536):
                if b"COMMIT" in data and not self.lost:
                    self.lost += 1
                    answers.cancel()
                    server_writer.write(data)
                    await server_reader.read(65_536)  # it is committed now
                    return
                server_writer.write(data)
        finally:
            answers.cancel()
            writer.close()
            server_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)


async def test_an_attempt_of_unknown_outcome_is_not_counted_twice(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    """The commit's answer is lost: the second try finds the first one's row and leaves its count alone."""
    lossy = LostAnswer(postgres_server.port)
    async with lossy as port:
        through = PostgresStore(postgres_url.replace(f":{postgres_server.port}/", f":{port}/"))
        await through.open()
        assert await record(through, 5, REFUSED, at_s=0) is Outcome.OWED
        await through.close()
    assert lossy.lost == 1
    assert [gap.attempts for gap in await store.gaps(SOURCE)] == [1]


async def test_a_read_only_server_is_named_and_left_as_soon_as_writes_are_possible_again(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    await record(store, 1, story(1), at_s=0)
    database = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_server.url(), autocommit=True) as operator:
        operator.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on".encode())
        hang_up(postgres_url)
        with pytest.raises(StoreUnavailable, match="read-only") as refused:
            await record(store, 2, story(2), at_s=0)
        assert "primary" in refused.value.hint
        assert await store.item(SOURCE, 1) is not None
        operator.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only".encode())
    assert await record(store, 2, story(2), at_s=0) is Outcome.NEW


async def test_a_writer_does_not_begin_on_a_read_only_server_and_a_reader_does(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    await record(store, 1, story(1), at_s=0)
    database = postgres_url.rpartition("/")[2]
    postgres_server.command(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    writer, reader = PostgresStore(postgres_url), PostgresStore(postgres_url, read_only=True)
    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        await writer.open()
    assert "primary" in refused.value.hint
    await reader.open()
    assert await reader.item(SOURCE, 1) is not None
    await reader.close()
    postgres_server.command(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    await writer.open()
    await writer.close()


async def test_a_statement_that_takes_too_long_is_ended_and_named(postgres_url: str) -> None:
    pool = Pool(postgres_url, size=1, settings={"statement_timeout": "50"})

    async def sleep(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(10)")

    async def answer(connection: Connection) -> object:
        return await (await connection.execute("SELECT 42")).fetchone()

    with pytest.raises(StoreUnavailable, match="time limit"):
        await pool.run(sleep)
    assert await pool.run(answer) == (42,)
    await pool.close()


async def test_a_lock_that_is_not_free_in_time_is_named(store: PostgresStore, postgres_url: str) -> None:
    pool = Pool(postgres_url, size=1, settings={"lock_timeout": "50"})

    async def read(connection: Connection) -> None:
        await connection.execute("SELECT * FROM items")

    with psycopg.connect(postgres_url) as somebody:
        somebody.execute("LOCK TABLE stored_items IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match="lock was not free") as waited:
            await pool.run(read)
    assert "pg_stat_activity" in waited.value.hint
    await pool.run(read)
    await pool.close()


@pytest.mark.slow
async def test_when_all_connections_are_busy_callers_wait_and_are_told_in_the_end(postgres_url: str) -> None:
    pool = Pool(postgres_url, size=2, acquire_timeout_s=0.1)

    async def sleep(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(1)")

    async def answer(connection: Connection) -> object:
        return await (await connection.execute("SELECT 42")).fetchone()

    sleeping = asyncio.gather(*(pool.run(sleep) for _ in range(2)))
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="all 2 connections"):
        await pool.run(answer)
    await sleeping
    assert await pool.run(answer) == (42,)
    await pool.close()


async def test_a_cancelled_caller_leaves_no_half_done_connection_behind(
    store: PostgresStore, postgres_url: str
) -> None:
    pool = Pool(postgres_url, size=1)

    async def sleep(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_sleep(10)")

    async def answer(connection: Connection) -> object:
        return await (await connection.execute("SELECT 42")).fetchone()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pool.run(sleep), timeout=0.1)
    assert await pool.run(answer) == (42,)
    await pool.close()


async def test_a_store_that_cannot_be_reached_says_so_without_its_password() -> None:
    store = PostgresStore("postgresql://ada:secret@127.0.0.1:1/mirror")
    with pytest.raises(StoreUnavailable, match="nothing listens at its address") as refused:
        await store.open()
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigurationError) as unreadable:
        await PostgresStore("postgresql://ada:secret@[broken/mirror").open()
    assert "secret" not in str(unreadable.value)


async def test_a_missing_database_is_named(postgres_server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="does not exist") as missing:
        await PostgresStore(postgres_server.url("nowhere")).open()
    assert "createdb" in missing.value.hint


@pytest.mark.parametrize(
    "limit, said, hint",
    [
        ("ALTER ROLE eve CONNECTION LIMIT 0", "no free connection", "connection limit"),
        ("ALTER ROLE eve NOLOGIN", "refused the user", "check the user"),
        ("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC", "lacks a right", "grant it"),
        ("ALTER DATABASE {database} ALLOW_CONNECTIONS false", "closed to connections", "reconnects by itself"),
    ],
)
async def test_a_connection_that_the_server_refuses_says_why(
    postgres_server: PostgresServer, postgres_url: str, limit: str, said: str, hint: str
) -> None:
    database = postgres_url.rpartition("/")[2]
    postgres_server.command("CREATE ROLE eve LOGIN")
    try:
        postgres_server.command(limit.format(database=database))
        with pytest.raises(StoreError, match=said) as refused:
            await PostgresStore(postgres_url.replace("remora@", "eve@")).open()
        assert hint in refused.value.hint
        assert "eve" not in str(refused.value)
    finally:
        postgres_server.drop_role("eve")


async def test_closing_writes_what_was_accepted(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    writing = [asyncio.ensure_future(store.record(SOURCE, observed(n, Found(story(n)), started_s=0))) for n in range(9)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*writing) == [Outcome.NEW] * 9
    with pytest.raises(StoreUnavailable):
        await store.item(SOURCE, 1)


@pytest.mark.parametrize(
    "words, said, write",
    [
        (
            'root certificate file "/etc/ssl/root.crt" does not exist',
            "certificate to know the server by",
            "sslrootcert=",
        ),
        ("SSL error: certificate verify failed", "signed by nobody we know", "sslrootcert="),
        (
            'server certificate for "db.example" does not match host name "10.0.0.7"',
            "another name",
            "sslmode=verify-ca",
        ),
        ("server does not support SSL, but SSL was required", "offers no encryption", "sslmode=prefer"),
    ],
)
def test_encryption_that_cannot_be_had_says_what_to_write(words: str, said: str, write: str) -> None:
    """Certificates cannot be had here; the words of the driver for them can."""
    refused = explained(
        psycopg.OperationalError(f'connection to server at "10.0.0.7" failed: {words}'), connected=False
    )
    assert isinstance(refused, StoreRefused)
    assert said in refused.message
    assert write in refused.hint


@pytest.mark.parametrize(
    "words, cause",
    [
        ("failed to resolve host 'db.example': [Errno -2] Name or service not known", "its host's name is not known"),
        ("connection timeout expired", "it gave no answer in time"),
        ("FATAL:  the database system is starting up", "it is still starting"),
        ("FATAL:  the database system is not yet accepting connections", "it is still starting"),
        ("FATAL:  the database system is in recovery mode", "it is recovering from a crash"),
        ("connection to server failed: session is read-only", "this server is read-only"),
        ("connection to server failed: server is in hot standby mode", "this server is read-only"),
        ("something new", "the connection to PostgreSQL is lost"),
    ],
)
def test_a_server_that_does_not_answer_may_come_back(words: str, cause: str) -> None:
    lost = explained(psycopg.OperationalError(words), connected=False)
    assert isinstance(lost, StoreUnavailable)
    assert cause in lost.message
    assert "db.example" not in str(lost)


def test_a_full_disk_and_a_full_server_tell_the_operator_what_to_do() -> None:
    """A real full disk cannot be had here; the code that PostgreSQL sends for it can."""
    full = explained(psycopg.errors.DiskFull("could not extend file"), connected=True)
    assert isinstance(full, StoreUnavailable)
    assert "disk space" in full.hint
    crowded = explained(psycopg.errors.TooManyConnections("sorry, too many clients already"), connected=False)
    assert isinstance(crowded, StoreUnavailable)
    assert "max_connections" in crowded.hint
    broken = explained(psycopg.errors.IoError("could not read block 7"), connected=True)
    assert isinstance(broken, StoreUnavailable), "a disk that is mounted again must not need a restart of Remora"
    assert "the server's log" in broken.hint
    # The server's own text may quote an item's content, so it never appears.
    assert "could not extend" not in str(full)
