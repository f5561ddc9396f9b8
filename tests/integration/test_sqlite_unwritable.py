"""Can a store be read where nothing may be written? At rest and while it is written, yes; a half-done one says why not."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.core.errors import StoreUnavailable
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.search_index import build
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from tests.contract.answers import SOURCE, record, story
from tests.unwritable import open_folder, unwritable


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def store_in(folder: Path, *, read_only: bool) -> Store:
    return open_store(f"sqlite:///{folder}/remora.db", read_only=read_only)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def filled(folder: Path) -> Store:
    store = store_in(folder, read_only=False)
    await store.open()
    await record(store, 1, story(1), at_s=0)
    return store


async def test_a_store_at_rest_is_read_and_nothing_is_left_behind(folder: Path) -> None:
    await (await filled(folder)).close()
    before = names(folder)
    with unwritable(folder):
        reader = store_in(folder, read_only=True)
        await reader.open()
        assert await reader.item(SOURCE, 1) is not None
        await reader.close()
    assert names(folder) == before


async def test_a_store_at_rest_is_read_through_a_link_in_a_folder_that_may_be_written(folder: Path) -> None:
    await (await filled(folder)).close()
    with open_folder() as writable:
        writable.chmod(0o777)
        (writable / "remora.db").symlink_to(folder / "remora.db")
        with unwritable(folder):
            reader = store_in(writable, read_only=True)
            await reader.open()
            assert await reader.item(SOURCE, 1) is not None
            await reader.close()


async def test_a_search_index_at_rest_is_searched_and_nothing_is_left_behind(folder: Path) -> None:
    await (await filled(folder)).close()
    await build(f"sqlite:///{folder}/remora.db", rebuild=False, tell=lambda _: None)
    before = names(folder)
    with unwritable(folder):
        async with MirrorReader(f"sqlite:///{folder}/remora.db") as mirror:
            assert [hit.key for hit in await mirror.search("first")] == ["1"]
            assert (await mirror.search_report()) is not None
    assert names(folder) == before


async def test_the_sizes_of_a_store_are_told_and_what_would_write_says_that_it_cannot(folder: Path) -> None:
    await (await filled(folder)).close()
    before = names(folder)
    with unwritable(folder):
        async with housekeeping(f"sqlite:///{folder}/remora.db") as store:
            assert {size.name for size in await store.estimated_sizes()} >= {"stored_items"}
            with pytest.raises(StoreUnavailable, match="cannot be written") as refused:
                await store.keep_position("mine", "1", now_ns=0)
            assert "the user who owns it" in refused.value.hint
    assert names(folder) == before


async def test_a_store_that_somebody_writes_is_read(folder: Path) -> None:
    writer = await filled(folder)
    with unwritable(folder):
        reader = store_in(folder, read_only=True)
        await reader.open()
        assert await reader.item(SOURCE, 1) is not None
    await record(writer, 2, story(2), at_s=1)
    assert await reader.item(SOURCE, 2) is not None
    await reader.close()
    await writer.close()


async def test_a_reading_of_a_store_that_was_written_meanwhile_is_not_believed(folder: Path) -> None:
    await (await filled(folder)).close()
    reader = store_in(folder, read_only=True)
    with unwritable(folder):
        await reader.open()
    writer = await filled(folder)
    with pytest.raises(StoreUnavailable, match="was written while it was read"):
        await reader.item(SOURCE, 1)
    await writer.close()
    await reader.close()


async def test_a_store_whose_writer_was_cut_off_says_why_it_cannot_be_read(folder: Path) -> None:
    writer = await filled(folder)
    crashed = folder / "crashed"
    crashed.mkdir()
    for name in ("remora.db", "remora.db-wal"):
        shutil.copy(folder / name, crashed / name)
    await writer.close()
    with unwritable(crashed), pytest.raises(StoreUnavailable, match="did not end cleanly"):
        await store_in(crashed, read_only=True).open()
