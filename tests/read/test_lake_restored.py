"""Does a followed folder lack nothing if its mirror was restored from a backup, or is another one?"""

from pathlib import Path

import pyarrow.parquet
import pytest

from remora.core.errors import ConfigurationError
from remora.operate.jobs.following import Patience
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read.export import Wanted
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from remora.stores.sqlite.backup import back_up
from tests.contract.answers import SOURCE
from tests.read.conftest import item, keep


async def collect(path: Path, *ids: int) -> None:
    """A service records these items and ends."""
    store = open_store(f"sqlite:///{path}")
    await store.open()
    await keep(store, *map(item, ids))
    await store.close()


async def follow(path: Path, folder: Path) -> None:
    url = f"sqlite:///{path}"
    async with MirrorReader(url) as mirror:
        await follow_into(
            mirror,
            url,
            Wanted(SOURCE, is_listed=False),
            folder,
            tell=lambda _: None,
            patience=Patience(print),
            once=True,
        )


def restore(kept: Path, path: Path) -> None:
    """As docs/operating.md says: the log of the old file goes, too."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    kept.rename(path)


def ids_in(folder: Path) -> set[int]:
    tables = (pyarrow.parquet.ParquetFile(file).read(columns=["id"]) for file in folder.rglob("*.parquet"))
    return {row["id"] for table in tables for row in table.to_pylist()}


async def test_a_followed_folder_gets_what_a_restored_mirror_collects_under_numbers_that_it_has_read(
    tmp_path: Path,
) -> None:
    path, kept, folder = tmp_path / "hn.db", tmp_path / "kept.db", tmp_path / "lake"
    await collect(path, 1)
    await follow(path, folder)
    back_up(path, kept, progress=lambda *_: None)
    await collect(path, 2, 3)
    await follow(path, folder)
    restore(kept, path)
    await collect(path, 4, 5, 6)
    await follow(path, folder)
    assert ids_in(folder) == {1, 2, 3, 4, 5, 6}


async def test_a_folder_that_the_mirror_does_not_know_is_refused(tmp_path: Path) -> None:
    path, other, folder = tmp_path / "hn.db", tmp_path / "other.db", tmp_path / "lake"
    await collect(path, 1)
    await collect(other, 2, 3)
    await follow(path, folder)
    with pytest.raises(ConfigurationError, match="does not know"):
        await follow(other, folder)
    async with housekeeping(f"sqlite:///{other}") as keeping:
        assert await keeping.named_readers() == (), "nobody is waited for"
    await follow(path, folder)
    assert ids_in(folder) == {1}
