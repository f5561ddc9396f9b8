"""What do commands say about a SQLite store that is damaged, cut off or empty?"""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from remora.core.errors import StoreError, StoreUnavailable
from remora.stores import open_store
from remora.stores.sqlite.database import PAGE_BYTES, explained
from tests.contract.answers import story
from tests.operate.command_line import CommandLine
from tests.read.conftest import keep

READING = (("status",), ("gaps",), ("show", "1"), ("query", "SELECT sum(length(body)) FROM items"))


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


def damage(path: Path, table: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


async def test_a_write_into_a_damaged_store_says_so_and_does_not_blame_what_is_written(tmp_path: Path) -> None:
    await make(str(tmp_path))
    damage(tmp_path / "remora.db", "stored_changes")
    store = open_store(f"sqlite:///{tmp_path}/remora.db")
    await store.open()
    with pytest.raises(StoreError, match="is damaged") as refused:
        await keep(store, story(300), story(301))
    await store.close()
    assert "backup" in (refused.value.hint or "")


def test_a_query_of_a_damaged_store_says_what_every_command_says(mirror: CommandLine) -> None:
    damage(mirror.folder / "remora.db", "stored_items")
    assert says_damaged(mirror, "show", "1")
    assert says_damaged(mirror, "query", "SELECT sum(length(body)) FROM items")


@pytest.mark.slow
@pytest.mark.parametrize("words", [*READING, ("store", "migrate"), ("store", "stats")])
@pytest.mark.parametrize("kept_bytes", [300_000, PAGE_BYTES])
def test_a_store_that_was_cut_off_is_damaged_and_not_foreign(
    mirror: CommandLine, kept_bytes: int, words: tuple[str, ...]
) -> None:
    assert (mirror.folder / "remora.db").stat().st_size > 300_000
    os.truncate(mirror.folder / "remora.db", kept_bytes)
    assert says_damaged(mirror, *words)


def test_another_program_s_database_that_was_cut_off_stays_foreign(remora: CommandLine) -> None:
    path = remora.folder / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes AS SELECT zeroblob(100000)")
        connection.commit()
    os.truncate(path, 50_000)
    assert "is a database of another program" in remora("status").stderr


@pytest.mark.parametrize("words", READING)
def test_an_empty_file_is_no_store_yet(remora: CommandLine, words: tuple[str, ...]) -> None:
    (remora.folder / "remora.db").touch()
    told = remora.refused(*words)
    assert "remora.db is empty, so there is no store yet" in told
    assert "remora up" in told


def test_a_query_reads_half_of_a_surrogate_pair_as_a_replacement(remora: CommandLine) -> None:
    async def fill() -> None:
        store = open_store(f"sqlite:///{remora.folder}/remora.db")
        await store.open()
        await keep(store, story(1, text="half \\ud800 of it"))
        await store.close()

    asyncio.run(fill())
    assert "half \ufffd" in remora("query", "SELECT text FROM item_fields").stdout


def test_a_lock_that_another_program_holds_is_told_as_that_and_not_as_a_full_disk(mirror: CommandLine) -> None:
    path = mirror.folder / "remora.db"
    with closing(sqlite3.connect(path, timeout=0)) as other, closing(sqlite3.connect(path, timeout=0)) as ours:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as refused:
            ours.execute("BEGIN IMMEDIATE")
    told = explained(refused.value, path)
    assert isinstance(told, StoreUnavailable)
    assert "another program holds its lock" in str(told)
    assert "disk" not in f"{told} {told.hint}"
