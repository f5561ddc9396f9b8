"""Does a folder of Parquet files follow the mirror, keep what was edited, and show whole files only?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read import lake as lakes
from remora.read.lake import Lake
from remora.read.mirror import MirrorReader
from tests.contract.answers import SOURCE
from tests.read.conftest import item, keep

NEWEST = """
SELECT id, title, score FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)
QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC, changed_at DESC) = 1 ORDER BY id
"""


def newest(folder: Path) -> dict[int, tuple[str | None, int | None]]:
    """What DuckDB sees: the newest row of each item."""
    rows = duckdb.connect().execute(NEWEST.format(folder=folder)).fetchall()
    return {item_id: (title, score) for item_id, title, score in rows}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def rows_of(folder: Path, item_id: int) -> list[Mapping[str, Any]]:
    tables = (pyarrow.parquet.ParquetFile(file).read().to_pylist() for file in files(folder))
    return [row for rows in tables for row in rows if row["id"] == item_id]


async def follow(mirror: MirrorReader, url: str, folder: Path) -> int:
    return await follow_into(mirror, url, SOURCE, folder, tell=lambda _: None, once=True)


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
        await Lake(tmp_path / "lake", "other").open(mirror)
