"""May half a copy be taken for a mirror, or a mirror in use be overwritten by the copy that it began as? Neither."""

import asyncio
from pathlib import Path

import pytest

from remora.core.errors import StoreForeign
from remora.core.ledger.gap import GapState
from remora.operate.config.settings import Settings, StoreSettings
from remora.operate.jobs.resources import open_resources
from remora.stores import open_store
from remora.stores.copy import copy_store, open_portable
from remora.stores.tables import Portable
from tests.contract.answers import SOURCE, TIMEOUT, record, story
from tests.operate.command_line import command_line_in

pytestmark = pytest.mark.postgres

OWED_ID = 9


@pytest.fixture
def source_url(tmp_path: Path) -> str:
    """A mirror with an item that is held, and one that is owed."""
    url = f"sqlite:///{tmp_path}/first.db"

    async def fill() -> None:
        store = open_store(url)
        await store.open()
        await record(store, 1, story(1), at_s=0)
        await record(store, OWED_ID, TIMEOUT, at_s=0)
        await store.close()

    asyncio.run(fill())
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def target_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = (
        f"sqlite:///{tmp_path}/copy.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    return found


def copy(source_url: str, target_url: str, *, killed_after: str | None = None) -> None:
    """Copy one store into another, until the rows of this table are there."""

    def told(table: str, _rows: int) -> None:
        if table == killed_after:
            raise ConnectionError("killed")

    async def both(source: Portable, target: Portable) -> None:
        await source.open()
        await target.open()
        try:
            await copy_store(source, target, progress=told)
        finally:
            await target.close()
            await source.close()

    asyncio.run(both(open_portable(source_url, read_only=True), open_portable(target_url, read_only=False)))


def half_copied(source_url: str, target_url: str) -> None:
    """Every item is there, and nothing of what is owed."""
    with pytest.raises(ConnectionError):
        copy(source_url, target_url, killed_after="changes")


COLLECTING = ("catchup", "up --listen 127.0.0.1:0", "status", "check", "store repair", "import first.ndjson", "gaps")
READING = ("show 1", "export", "query SELECT(1)", "changes", "search word", "search --build")


@pytest.mark.parametrize("words", [*COLLECTING, *READING])
def test_an_unfinished_copy_is_refused_with_what_to_do(
    source_url: str, target_url: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_copied(source_url, target_url)
    (tmp_path / "first.ndjson").write_bytes(story(2).body)
    remora = command_line_in(tmp_path, monkeypatch)
    result = remora(*words.split(), "--store", target_url)
    assert result.exit_code != 0
    assert "holds an unfinished copy" in result.output
    assert "remora store copy" in result.output


def test_an_unfinished_copy_goes_on_and_then_owes_what_was_owed(source_url: str, target_url: str) -> None:
    half_copied(source_url, target_url)
    copy(source_url, target_url)

    async def owed() -> list[tuple[int | str, GapState]]:
        async with open_resources(Settings(store=StoreSettings(url=target_url))) as resources:
            return [(gap.key, gap.state) for gap in await resources.store.gaps(SOURCE)]

    assert asyncio.run(owed()) == [(str(OWED_ID), GapState.OWED)]


def test_half_a_copy_is_not_copied_on(source_url: str, target_url: str, tmp_path: Path) -> None:
    half_copied(source_url, target_url)
    with pytest.raises(StoreForeign, match="holds an unfinished copy"):
        copy(target_url, f"sqlite:///{tmp_path}/third.db")


def test_a_copy_that_was_collected_into_is_not_overwritten(source_url: str, target_url: str) -> None:
    copy(source_url, target_url)
    copy(source_url, target_url)  # nobody has used it yet

    async def collect() -> None:
        async with open_resources(Settings(store=StoreSettings(url=target_url))) as resources:
            await record(resources.store, 1, story(1, text="newer"), at_s=100)

    async def held() -> bytes:
        store = open_store(target_url, read_only=True)
        await store.open()
        try:
            item = await store.item(SOURCE, 1)
        finally:
            await store.close()
        assert item is not None
        return item.body

    asyncio.run(collect())
    with pytest.raises(StoreForeign, match="not empty"):
        copy(source_url, target_url)
    assert asyncio.run(held()) == story(1, text="newer").body
