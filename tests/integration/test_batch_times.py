"""Is every batch that became durable timed, and none that did not?"""

import asyncio
from pathlib import Path

import pytest

from remora.contracts import Outcome
from remora.core.errors import StoreUnavailable
from remora.core.lanes import Lane
from remora.core.verdict import Found
from remora.operate.config.settings import Settings, StoreSettings
from remora.operate.jobs.resources import open_resources
from remora.operate.observe.metrics import Metrics
from remora.stores import open_store
from remora.stores.postgres import writer as postgres_writer
from remora.stores.sqlite import writer as sqlite_writer
from tests.contract.answers import SOURCE, observed, record, story


async def timed_batches(url: str) -> list[float]:
    """How long the batches of a hundred items took, of which the first is written alone."""
    times_s: list[float] = []
    store = open_store(url, on_batch=times_s.append)
    await store.open()
    assert await record(store, 1, story(1), at_s=1) is Outcome.NEW
    assert len(times_s) == 1
    await asyncio.gather(*(record(store, item_id, story(item_id), at_s=1) for item_id in range(2, 101)))
    await store.close()
    return times_s


async def test_sqlite_times_each_batch_and_not_each_write(tmp_path: Path) -> None:
    times_s = await timed_batches(f"sqlite:///{tmp_path}/remora.db")
    assert 1 < len(times_s) < 100
    assert all(time_s > 0 for time_s in times_s)


@pytest.mark.postgres
async def test_postgresql_times_each_batch_and_not_each_write(postgres_url: str) -> None:
    times_s = await timed_batches(postgres_url)
    assert 1 < len(times_s) < 100
    assert all(time_s > 0 for time_s in times_s)


async def test_a_batch_that_failed_is_not_timed(tmp_path: Path) -> None:
    times_s: list[float] = []
    store = open_store(f"sqlite:///{tmp_path}/remora.db", on_batch=times_s.append)
    await store.open()
    (tmp_path / "remora.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreUnavailable):
        await record(store, 1, story(1), at_s=1)
    await store.close()
    assert times_s == []


async def test_the_runtime_shows_the_times_as_a_metric(tmp_path: Path) -> None:
    settings = Settings(store=StoreSettings(url=f"sqlite:///{tmp_path}/remora.db"))
    metrics = Metrics()
    async with open_resources(settings, metrics=metrics) as resources:
        await record(resources.store, 1, story(1), at_s=1)
        assert metrics.registry.get_sample_value("remora_store_batch_seconds_count") == 1


@pytest.fixture
def nine_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine items end a pause that no busy machine outlasts."""
    for writer in (sqlite_writer, postgres_writer):
        monkeypatch.setattr(writer, "ENOUGH", 9)
        monkeypatch.setattr(writer, "PAUSE_S", 60.0)


async def backfilled(url: str) -> int:
    """How many batches are written: one item of a backfill, and then nine more that come one by one."""
    times_s: list[float] = []
    store = open_store(url, on_batch=times_s.append)
    await store.open()

    async def arrive(item_id: int) -> None:
        seen = observed(item_id, Found(story(item_id)), started_s=1, via=Lane.BACKFILL)
        assert await store.record_many(SOURCE, [seen]) == [Outcome.NEW]

    await arrive(1)
    arriving = []
    for item_id in range(2, 11):
        arriving.append(asyncio.ensure_future(arrive(item_id)))
        await asyncio.sleep(0)
    await asyncio.gather(*arriving)
    await store.close()
    return len(times_s)


@pytest.mark.usefixtures("nine_are_enough")
async def test_sqlite_lets_the_items_of_a_backfill_wait_for_each_other(tmp_path: Path) -> None:
    assert await backfilled(f"sqlite:///{tmp_path}/remora.db") == 2


@pytest.mark.postgres
@pytest.mark.usefixtures("nine_are_enough")
async def test_postgresql_lets_the_items_of_a_backfill_wait_for_each_other(postgres_url: str) -> None:
    assert await backfilled(postgres_url) == 2
