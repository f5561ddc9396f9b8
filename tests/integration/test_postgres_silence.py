"""What if PostgreSQL, or the way to it, falls silent without hanging up? The wait ends, and the next connection is used."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from remora.contracts import Outcome
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import PostgresStore, connections
from remora.stores.postgres.connections import KEEPALIVES, connect
from remora.stores.postgres.faults import ConnectionLost
from remora.stores.postgres.singleton import Singleton
from tests.contract.answers import record, story

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


class Way:
    """A way to the server that can fall silent: what is open then stays open, and nothing passes through it any more."""

    def __init__(self, url: str) -> None:
        self._target = conninfo_to_dict(url)
        self._passing = asyncio.Event()
        self._passing.set()
        self._copying: set[asyncio.Task[None]] = set()
        self.url = url

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to the server and back."""
        host, port = str(self._target["host"]), self._target.get("port", 5432)
        if host.startswith("/"):
            there = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            there = await asyncio.open_connection(host, int(str(port)))
        passing = self._passing
        for source, sink in ((reader, there[1]), (there[0], writer)):
            copying = asyncio.create_task(self._copy(source, sink, passing))
            self._copying.add(copying)
            copying.add_done_callback(self._copying.discard)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passing: asyncio.Event) -> None:
        try:
            while data := await source.read(1 << 16):
                await passing.wait()
                sink.write(data)
        finally:
            sink.close()

    def fall_silent(self) -> None:
        """Nothing passes on the connections that are open now. New ones pass."""
        self._passing.clear()
        self._passing = asyncio.Event()
        self._passing.set()

    async def end(self) -> None:
        """Close all connections."""
        copying = tuple(self._copying)
        for each in copying:
            each.cancel()
        await asyncio.gather(*copying, return_exceptions=True)


@pytest.fixture
async def way(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Way]:
    monkeypatch.setattr(connections, "ANSWER_GRACE_S", 0.2)
    monkeypatch.setattr(connections, "STATEMENT_TIMEOUT_MS", 300)
    async with carried(postgres_url) as way:
        yield way


@asynccontextmanager
async def carried(postgres_url: str) -> AsyncIterator[Way]:
    way = Way(postgres_url)
    server = await asyncio.start_server(way.carry, "127.0.0.1", 0)
    way.url = make_conninfo(postgres_url, host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    yield way
    server.close()
    await way.end()


async def test_a_store_goes_on_with_a_new_connection(way: Way) -> None:
    store = PostgresStore(way.url, pool_size=2)
    await store.open()
    assert await record(store, 1, story(1), at_s=0) is Outcome.NEW
    way.fall_silent()
    async with asyncio.timeout(20):
        assert await record(store, 2, story(2), at_s=1) is Outcome.NEW
        await store.close()


async def test_a_statement_on_a_silent_connection_ends_as_a_lost_one(way: Way) -> None:
    connection = await connect(way.url)
    way.fall_silent()
    async with asyncio.timeout(20):
        with pytest.raises(ConnectionLost):
            async with connections.explaining(connection):
                await connection.execute("SELECT 1")
    await connection.close()


async def test_a_statement_that_is_cancelled_on_a_silent_connection_ends_as_cancelled(way: Way) -> None:
    connection = await connect(way.url)
    way.fall_silent()

    async def ask() -> None:
        async with connections.explaining(connection):
            await connection.execute("SELECT 1")

    asking = asyncio.create_task(ask())
    while connection.info.transaction_status is not TransactionStatus.ACTIVE:  # noqa: ASYNC110 - the driver tells nobody
        await asyncio.sleep(0)
    asking.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await asking
    await connection.close()


async def test_a_statement_that_the_server_works_on_is_not_cut_off(way: Way) -> None:
    allowed = await connect(way.url, settings={"statement_timeout": "20000"})
    patient = await connect(way.url, patient=True)
    await patient.execute("SET statement_timeout = 0")
    for connection in (allowed, patient):
        await connection.execute("SELECT pg_sleep(1)")
        assert not connection.broken
        await connection.close()


async def test_the_only_process_of_a_name_asks_again_on_a_new_connection(way: Way) -> None:
    store = PostgresStore(way.url)
    await store.open()  # makes the tables
    await store.close()
    alone = Singleton(way.url, "the walk", owner="one", clock=SystemClock())
    assert await alone.take()
    way.fall_silent()
    async with asyncio.timeout(20):
        with pytest.raises(ConnectionLost):
            await alone.beat()
        assert not await alone.beat(), "the lock belongs to the silent session until the server ends that"
        await alone.release()


@pytest.mark.parametrize("written", [{}, {"keepalives_idle": 7}])
async def test_the_way_is_kept_open_unless_the_url_says_otherwise(postgres_url: str, written: dict[str, int]) -> None:
    connection = await connect(make_conninfo(postgres_url, **written))
    options = connection.info.get_parameters()
    await connection.close()
    assert {name: int(options[name]) for name in KEEPALIVES} == {**KEEPALIVES, **written}
