"""Can another user of the machine read the mirror? No file or folder that we create is open to anybody but its owner."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.demo import demo_provider
from remora.operate.jobs.progress import PlainView
from remora.stores.sqlite import SqliteStore
from tests.contract.answers import record, story
from tests.operate.command_line import CommandLine, command_line_in


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The most careless setting there is: what is created is private only because we ask for it."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.iterdir()}


async def filled(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    return store


async def fill(path: Path) -> None:
    await (await filled(path)).close()


async def test_a_new_store_its_log_and_its_lock_are_private(tmp_path: Path) -> None:
    store = await filled(tmp_path / "remora.db")
    modes = modes_in(tmp_path)
    await store.close()
    names = ("remora.db", "remora.db-wal", "remora.db-shm", "remora.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


async def test_a_store_that_its_owner_opened_to_others_stays_open_to_them(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await fill(path)
    path.chmod(0o640)
    await fill(path)
    assert mode(path) == 0o640


def test_an_export_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(tmp_path / "remora.db"))
    remora: CommandLine = command_line_in(tmp_path, monkeypatch)
    ended = remora("export", "--out", "all.ndjson")
    assert ended.exit_code == 0, ended.output
    assert mode(tmp_path / "all.ndjson") == 0o600


def test_a_copy_of_a_store_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(tmp_path / "remora.db"))
    remora = command_line_in(tmp_path, monkeypatch)
    ended = remora("store", "copy", "sqlite:///remora.db", "sqlite:///copy.db")
    assert ended.exit_code == 0, ended.output
    assert mode(tmp_path / "copy.db") == 0o600


@pytest.mark.slow
async def test_the_demos_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load(Flags(), {}, directory=tmp_path)
    async with demo_provider(settings, PlainView()):
        assert mode(tmp_path / "demo") == 0o700


@pytest.mark.parametrize("address", ["u:hidden@db/x", "db/x?user=u&password=hidden", "u:hidden@[::1]/x"])
def test_a_configuration_is_private_if_its_store_has_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    remora = command_line_in(tmp_path, monkeypatch)
    assert remora("init", "hackernews", "--store", f"postgresql://{address}").exit_code == 0
    assert remora("init", "hackernews", "--store", "postgresql://u@db/x", "--config", "open.toml").exit_code == 0
    assert modes_in(tmp_path) == {"remora.toml": 0o600, "open.toml": 0o666}
