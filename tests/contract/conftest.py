"""Which stores must keep the contract? Every factory here: each test of this folder runs once per store."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from remora.contracts import Store
from remora.stores.memory import MemoryStore
from remora.stores.postgres import PostgresStore
from remora.stores.sqlite import InPlace, SqliteStore
from tests.postgres_server import PostgresServer
from tests.prepared_sqlite import prepare

# A factory gets the test's request, to ask for other fixtures, and gives an open, empty store.
Factory = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    store = MemoryStore()
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    folder: Path = request.getfixturevalue("tmp_path")
    store = SqliteStore(prepare(folder / "remora.db"))
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def sqlite_in_place(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    folder: Path = request.getfixturevalue("tmp_path")
    store = SqliteStore(prepare(folder / "remora.db"), offload=InPlace)
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def postgres(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    url: str = request.getfixturevalue("contract_database")
    # The suite passes its own time; in service the database's clock judges leases.
    store = PostgresStore(url, callers_clock=True)
    await store.open()
    yield store
    await store.close()
    _empty(url)


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        ours = [sql.Identifier(name) for (name,) in found if name != "migrations"]
        if ours:
            connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(sql.SQL(", ").join(ours)))


FACTORIES: dict[str, Factory] = {
    "memory": memory,
    "sqlite": sqlite,
    "sqlite_in_place": sqlite_in_place,
    "postgres": postgres,
}
MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {"postgres": (pytest.mark.postgres,)}


@pytest.fixture(scope="session")
def contract_database(postgres_server: PostgresServer) -> str:
    """One database for the whole suite, emptied after each test: quicker than a new one each time."""
    postgres_server.create_database("contract")
    return postgres_server.url("contract")


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in FACTORIES])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An open, empty store of each kind."""
    async with FACTORIES[request.param](request) as opened:
        yield opened
