"""Does a folder of Parquet files follow the mirror, keep what was edited, and show whole files only?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.core.item import Document, Entry
from remora.core.ledger.list_walk import WalkState
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read import lake as lakes
from remora.read.export import Wanted
from remora.read.lake import Lake
from remora.read.mirror import MirrorReader
from tests.contract.answers import ARCHIVE, SOURCE, at, record_document
from tests.read.conftest import item, keep

NEWEST = """
SELECT id, title, score FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC, changed_at DESC) = 1 ORDER BY id
"""


NEWEST_CHATS = """
SELECT key, title, revision, vanished_at IS NOT NULL FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
QUALIFY row_number() OVER (PARTITION BY key ORDER BY exported_at DESC) = 1 ORDER BY key
"""


def newest_chats(folder: Path) -> list[tuple[str, str, int, bool]]:
    """What DuckDB sees: the newest row of each document."""
    with duckdb.connect() as connection:
        return connection.execute(NEWEST_CHATS.format(folder=folder)).fetchall()


def newest(folder: Path) -> dict[int, tuple[str | None, int | None]]:
    """What DuckDB sees: the newest row of each item."""
    with duckdb.connect() as connection:
        rows = connection.execute(NEWEST.format(folder=folder)).fetchall()
    return {item_id: (title, score) for item_id, title, score in rows}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def rows_of(folder: Path, item_id: int) -> list[Mapping[str, Any]]:
    tables = (pyarrow.parquet.ParquetFile(file).read().to_pylist() for file in files(folder))
    return [row for rows in tables for row in rows if row["id"] == item_id]


async def follow(mirror: MirrorReader, url: str, folder: Path) -> int:
    return await follow_into(mirror, url, Wanted(SOURCE, is_listed=False), folder, tell=lambda _: None, once=True)


async def follow_chats(mirror: MirrorReader, url: str, folder: Path) -> int:
    return await follow_into(mirror, url, Wanted(ARCHIVE, is_listed=True), folder, tell=lambda _: None, once=True)


async def test_a_lake_has_every_item_and_keeps_what_was_edited(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    assert await follow(mirror, url, folder) == 0
    assert len(newest(folder)) == 9
    await keep(store, item(5, type="story", title="Deleted", text=""), item(60, type="story", title="New"), at_s=20)
    assert await follow(mirror, url, folder) == 2
    assert newest(folder)[5][0] == "Deleted"
    assert newest(folder)[60][0] == "New"
    assert [row["title"] for row in rows_of(folder, 5)] == ["Deleted", "After"]
    assert await follow(mirror, url, folder) == 0
    async with housekeeping(url) as keeping:
        (reader,) = await keeping.named_readers()
    assert reader.position == await mirror.newest_position()


async def test_many_small_files_become_one_and_no_revision_is_lost(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    for turn in range(lakes.SMALL_FILES_MAX + 3):
        # A new score each time, and now and then a new title.
        await keep(store, item(30, type="story", title=f"Title {turn // 4}", score=turn), at_s=30 + turn)
        await follow(mirror, url, folder)
    assert len(files(folder)) <= 2 + lakes.SMALL_FILES_MAX
    last = lakes.SMALL_FILES_MAX + 2
    assert newest(folder)[30] == (f"Title {last // 4}", last)
    assert {row["title"] for row in rows_of(folder, 30)} == {"Fish swim", *(f"Title {n // 4}" for n in range(last + 1))}


async def test_a_kill_between_the_files_and_the_state_writes_again_and_loses_nothing(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    await follow(mirror, url, folder)
    state = (folder / lakes.STATE).read_bytes()
    await keep(store, item(60, type="story", title="New"), at_s=20)
    await follow(mirror, url, folder)
    restore(folder, state)
    assert await follow(mirror, url, folder) == 1
    assert newest(folder)[60][0] == "New"
    assert not list(folder.rglob("*.part"))


def restore(folder: Path, state: bytes) -> None:
    (folder / lakes.STATE).write_bytes(state)


async def test_a_folder_of_another_source_is_refused(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    await follow(mirror, url, tmp_path / "lake")
    with pytest.raises(ConfigurationError, match="follows"):
        await Lake(tmp_path / "lake", "other", is_listed=False).open(mirror)


async def test_a_lake_of_documents_keeps_edits_and_knows_what_vanished_and_came_back(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "chats"
    await follow_chats(mirror, url, folder)
    assert newest_chats(folder) == [("chat-1", "About chat-1", 1, False), ("chat-2", "About chat-2", 1, False)]

    await record_document(store, "chat-2", Document("chat-2", b'{"title":"Edited"}', "2026-01-04"), at_s=20)
    await list_chats(store, "chat-2", walk=1)
    assert await store.record_vanished(ARCHIVE, walk=1, now_ns=at(21)) == 2
    assert await follow_chats(mirror, url, folder) == 2, "the edit, and the one that vanished with a content"
    assert newest_chats(folder) == [("chat-1", "About chat-1", 1, True), ("chat-2", "Edited", 2, False)]

    await list_chats(store, "chat-1", walk=2)
    await follow_chats(mirror, url, folder)
    assert newest_chats(folder)[0] == ("chat-1", "About chat-1", 1, False)
    titles = [row["title"] for file in files(folder) for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]
    assert {"About chat-2", "Edited"} <= set(titles), "the earlier content stays"


async def list_chats(store: Store, *keys: str, walk: int) -> None:
    entries = [Entry(key, "2026-01-01") for key in keys]
    await store.record_page(ARCHIVE, entries, WalkState(walk=walk), now_ns=at(20 + walk))


async def test_many_small_files_of_documents_become_one_and_no_edit_is_lost(
    store: Store, mirror: MirrorReader, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakes, "SMALL_FILES_MAX", 2)
    folder = tmp_path / "chats"
    await follow_chats(mirror, url, folder)
    for turn in range(5):
        edited = Document("chat-1", f'{{"title":"Edit {turn}"}}'.encode(), f"2026-02-0{turn + 1}")
        await record_document(store, "chat-1", edited, at_s=30 + turn)
        await follow_chats(mirror, url, folder)
    assert len(files(folder)) <= 4
    titles = [row["title"] for file in files(folder) for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]
    assert {f"Edit {turn}" for turn in range(5)} <= set(titles)
    assert newest_chats(folder)[0][1:3] == ("Edit 4", 6)
