"""Which stores must keep the contract? Every factory here: each test of this folder runs once per store."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore

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
    store = SqliteStore(folder / "remora.db")
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def sqlite_in_place(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    folder: Path = request.getfixturevalue("tmp_path")
    store = SqliteStore(folder / "remora.db", offload=InPlace)
    await store.open()
    yield store
    await store.close()


FACTORIES: dict[str, Factory] = {"memory": memory, "sqlite": sqlite, "sqlite_in_place": sqlite_in_place}
MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {"postgres": (pytest.mark.postgres,)}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in FACTORIES])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An open, empty store of each kind."""
    async with FACTORIES[request.param](request) as opened:
        yield opened
