"""What do commands say about a SQLite store that is damaged, cut off or empty?"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from remora.stores import open_store
from remora.stores.sqlite.database import PAGE_BYTES
from tests.contract.answers import story
from tests.operate.command_line import CommandLine
from tests.read.conftest import keep


async def make(folder: str) -> None:
    store = open_store(f"sqlite:///{folder}/remora.db")
    await store.open()
    await keep(store, *(story(item_id, text="x" * 3_000) for item_id in range(1, 300)))
    await store.close()


@pytest.fixture
def mirror(remora: CommandLine) -> CommandLine:
    asyncio.run(make(str(remora.folder)))
    return remora


def says_damaged(remora: CommandLine, *words: str) -> bool:
    result = remora(*words)
    assert "Traceback" not in result.stderr
    return result.exit_code == 1 and " is damaged: " in result.stderr and "backup" in result.stderr


def test_a_query_of_a_damaged_store_says_what_every_command_says(mirror: CommandLine) -> None:
    path = mirror.folder / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'stored_items'").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)
    assert says_damaged(mirror, "show", "1")
    assert says_damaged(mirror, "query", "SELECT sum(length(body)) FROM items")


def test_a_query_reads_half_of_a_surrogate_pair_as_a_replacement(remora: CommandLine) -> None:
    async def fill() -> None:
        store = open_store(f"sqlite:///{remora.folder}/remora.db")
        await store.open()
        await keep(store, story(1, text="half \\ud800 of it"))
        await store.close()

    asyncio.run(fill())
    assert "half \ufffd" in remora("query", "SELECT text FROM item_fields").stdout
