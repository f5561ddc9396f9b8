"""Does a named reader of the change feed go on in a copy of the mirror where it was?"""

from pathlib import Path

import psycopg
import pyarrow.parquet
import pytest

from remora.operate.jobs.following import Patience
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read.export import Wanted
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from remora.stores.copy import copy_store, open_portable
from tests.contract.answers import SOURCE, at, record, story
from tests.integration.named_reader import read_on

pytestmark = pytest.mark.postgres

HALF, ALL, NONE = "half", "all", "none"


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgresql", "postgresql to sqlite"])
def urls(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> tuple[str, str]:
    """The mirror and its copy."""
    known = {"sqlite": iter(f"sqlite:///{tmp_path}/{n}.db" for n in range(2)), "postgresql": iter([postgres_url])}
    source, target = request.param.split(" to ")
    return next(known[source]), next(known[target])


async def collect(url: str, *ids: int) -> None:
    store = open_store(url)
    await store.open()
    for item_id in ids:
        await record(store, item_id, story(item_id), at_s=item_id)
    await store.close()


async def copy(source_url: str, target_url: str) -> None:
    source, target = open_portable(source_url, read_only=True), open_portable(target_url, read_only=False)
    await source.open()
    await target.open()
    try:
        await copy_store(source, target)
    finally:
        await target.close()
        await source.close()


async def forget_everything(url: str) -> int:
    async with housekeeping(url) as keeping:
        return await keeping.forget_changes(before_ns=at(999), up_to=None, limit=100)


async def register(url: str, name: str) -> None:
    async with housekeeping(url) as keeping:
        await keeping.keep_position(name, "0", now_ns=0)


async def test_named_readers_go_on_in_a_copy_which_deletes_nothing_that_they_have_not_read(
    urls: tuple[str, str],
) -> None:
    source, target = urls
    await collect(source, 1, 2, 3, 4, 5)
    assert await read_on(source, HALF, most=3) == ["1", "2", "3"]
    assert len(await read_on(source, ALL)) == 5
    await copy(source, target)
    assert await forget_everything(target) == 3
    await collect(target, 6)
    assert await read_on(target, HALF) == ["4", "5", "6"]
    assert await read_on(target, ALL) == ["6"]


async def test_a_copy_waits_for_a_reader_that_has_read_nothing_and_for_one_behind_deleted_changes(
    urls: tuple[str, str],
) -> None:
    source, target = urls
    await collect(source, 1, 2, 3)
    assert len(await read_on(source, ALL)) == 3
    assert await forget_everything(source) == 3
    await register(source, NONE)
    await copy(source, target)
    await collect(target, 4)
    assert await read_on(target, ALL) == ["4"]
    assert await forget_everything(target) == 0
    assert await read_on(target, NONE) == ["4"]


async def test_a_change_that_became_visible_late_is_read_in_the_copy(postgres_url: str, tmp_path: Path) -> None:
    await collect(postgres_url, 1, 2, 3)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE changes SET xid = '3' WHERE seq <> 2")  # the transaction of 2 ended last
    assert await read_on(postgres_url, HALF, most=2) == ["1", "3"]
    await copy(postgres_url, f"sqlite:///{tmp_path}/copy.db")
    assert await read_on(f"sqlite:///{tmp_path}/copy.db", HALF) == ["2", "3"]


async def test_a_followed_folder_goes_on_with_a_copy_of_its_mirror(urls: tuple[str, str], tmp_path: Path) -> None:
    source, target = urls
    await collect(source, *range(1, 10))
    await follow(source, tmp_path / "lake")
    await collect(source, 10)
    await copy(source, target)
    await collect(target, 11)
    await follow(target, tmp_path / "lake")
    tables = (pyarrow.parquet.ParquetFile(file).read(columns=["id"]) for file in (tmp_path / "lake").rglob("*.parquet"))
    assert sorted({row["id"] for table in tables for row in table.to_pylist()}) == list(range(1, 12))


async def follow(url: str, folder: Path) -> None:
    async with MirrorReader(url) as mirror:
        wanted = Wanted(SOURCE, is_listed=False)
        await follow_into(mirror, url, wanted, folder, tell=lambda _: None, patience=Patience(print), once=True)
