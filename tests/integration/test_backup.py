"""Is a backup that was taken beside a busy writer whole, of one moment, and a store to resume from?"""

import asyncio
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.files import open_alone
from remora.operate.jobs.stopping import interrupted_by_signals
from remora.sim.checks import compare
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.backup import back_up
from tests.contract.answers import SOURCE, record, story
from tests.fixtures import frozen
from tests.processes import Remora, kill, simulated_provider


def _modes(folder: Path) -> dict[str, int]:
    """What a backup left in the folder, and who may read it."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob("kept*")}


@contextmanager
def closing_descriptor(opened: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(opened)


async def test_every_step_beside_a_writer_belongs_to_the_moment_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await asyncio.gather(*(record(store, item_id, story(item_id), at_s=1) for item_id in range(200)))
    loop = asyncio.get_running_loop()
    steps: list[int] = []

    def writes_between(done: int, whole: int) -> None:
        steps.append(done)
        written = record(store, 1_000 + len(steps), story(1_000 + len(steps)), at_s=2)
        asyncio.run_coroutine_threadsafe(written, loop).result()
        assert len(steps) <= whole, "the copy began again"

    kept = tmp_path / "kept.db"
    assert await asyncio.to_thread(back_up, path, kept, progress=writes_between, pages_per_step=1)
    assert len(steps) > 10
    await store.close()
    copy = SqliteStore(kept, read_only=True)
    await copy.open()
    assert [item_id async for item_id, _ in copy.bodies(SOURCE)] == list(range(200))
    await copy.close()
    assert _modes(tmp_path) == {"kept.db": 0o600}


async def test_an_interrupted_backup_leaves_nothing_and_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    await store.close()

    def interrupted(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "kept.db"
    with pytest.raises(KeyboardInterrupt):
        back_up(path, target, progress=interrupted)
    assert _modes(tmp_path) == {}
    target.write_text("mine")
    with pytest.raises(ConfigurationError, match="already a file"):
        back_up(path, target, progress=lambda done, whole: None)
    assert target.read_text() == "mine"


async def test_what_a_killed_backup_left_behind_is_replaced_but_not_what_another_process_writes(tmp_path: Path) -> None:
    path, target, part = (tmp_path / name for name in ("remora.db", "kept.db", "kept.db.part"))
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    await store.close()
    part.write_bytes(b"half of an earlier one" * 1_000)
    for suffix in ("-journal", "-wal", "-shm"):
        part.with_name(part.name + suffix).write_bytes(b"of that one")
    with closing_descriptor(open_alone(part, os.O_RDWR)), pytest.raises(ConfigurationError, match="another process"):
        back_up(path, target, progress=lambda done, whole: None)
    assert part.exists()
    assert back_up(path, target, progress=lambda done, whole: None)
    assert _modes(tmp_path) == {"kept.db": 0o600}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_backup_that_is_asked_to_end_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    await store.close()
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        back_up(path, tmp_path / "kept.db", progress=lambda done, whole: os.kill(os.getpid(), number))
    assert _modes(tmp_path) == {}
    assert signal.getsignal(number) is before


def test_a_store_of_an_older_version_is_backed_up_as_it_is_before_it_is_migrated(tmp_path: Path) -> None:
    path, target = tmp_path / "remora.db", tmp_path / "kept.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
    assert back_up(path, target, progress=lambda done, whole: None)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as kept:
        assert [*kept.iterdump()] == [*source.iterdump()]
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_backup_taken_while_a_catchup_writes_is_restored_and_resumed_and_nothing_is_missing(tmp_path: Path) -> None:
    with simulated_provider(items=2_500) as provider:
        remora = Remora(tmp_path, provider, ceiling="400/s")
        remora.warm_up(400)
        catchup = remora.start("catchup")
        while provider.arrived() < 600:
            assert catchup.poll() is None, "the catchup ended before the backup began"
            time.sleep(0.02)
        done = remora("store", "backup", "kept.db", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["is_checked"]
        kill(catchup)
        # The disk is lost: only the backup is left.
        for file in tmp_path.glob("remora.db*"):
            file.unlink()
        (tmp_path / "kept.db").rename(tmp_path / "remora.db")
        covered = remora.coverage()
        assert covered["settled"] + covered["owed"] + covered["absent"] >= 300
        before = provider.arrived()
        assert remora("catchup").returncode == 0
        assert provider.arrived() - before < 2_500, "what the backup held was fetched again"
        assert compare(remora.bodies(), provider.dump()) == []
