"""How does a test get a SQLite store without making its schema anew? It copies a prepared one."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from remora.contracts import Store
from remora.stores.sqlite import InPlace, SqliteStore

Fill = Callable[[Store], Awaitable[None]]


async def nothing(_store: Store) -> None:
    """Only the schema."""


def prepare(path: Path, fill: Fill = nothing) -> Path:
    """Put a closed store here, unless there is one. To open it takes a third of the time that a new one takes."""
    if not path.exists():
        path.write_bytes(_prepared(fill))
    return path


@cache
def _prepared(fill: Fill) -> bytes:
    with ThreadPoolExecutor(1) as elsewhere:  # a test's own event loop may run in this thread
        return elsewhere.submit(asyncio.run, _made(fill)).result()


def _contents(folder: Path) -> bytes:
    assert {path.name for path in folder.iterdir()} <= {"prepared.db", "prepared.db.lock"}, "all of it is in one file"
    return (folder / "prepared.db").read_bytes()


async def _made(fill: Fill) -> bytes:
    folder = Path(tempfile.mkdtemp())
    try:
        store = SqliteStore(folder / "prepared.db", offload=InPlace)
        await store.open()
        await fill(store)
        await store.close()
        return _contents(folder)
    finally:
        shutil.rmtree(folder)
