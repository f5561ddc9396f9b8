"""Does the search index leave as much of the disk free as the mirror does?"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remora.core.errors import StoreUnavailable
from remora.read.indexing import Indexer
from remora.stores import open_reader
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.search import SqliteSearchIndex

EVERYTHING = 1 << 62


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[Path]:
    """A mirror without an index."""
    path = tmp_path / "mirror.db"
    store = SqliteStore(path)
    await store.open()
    yield path
    await store.close()


async def test_a_build_keeps_a_part_of_the_disk_free_and_goes_on_when_there_is_room(file: Path) -> None:
    reader, index = open_reader(f"sqlite:///{file}"), SqliteSearchIndex(file, seconds_max=1.0)
    await reader.open()
    await index.open(to_write=True)
    reserve, index._reserve_bytes = index._reserve_bytes, EVERYTHING
    with pytest.raises(StoreUnavailable, match="are kept free"):
        await Indexer(reader, index).run_once()
    assert await index.progress() is None
    index._reserve_bytes = reserve
    await Indexer(reader, index).run_once()
    assert await index.progress() is not None
    await index.close()
    await reader.close()


async def test_no_index_is_begun_on_a_disk_that_is_almost_full(file: Path) -> None:
    index = SqliteSearchIndex(file, seconds_max=1.0)
    index._reserve_bytes = EVERYTHING
    with pytest.raises(StoreUnavailable, match="are kept free"):
        await index.open(to_write=True)
    assert not await index.exists()
