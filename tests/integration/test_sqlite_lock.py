"""Does the writer lock follow the file? No second name, link or move lets a second writer in."""

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remora.core.errors import StoreBusy
from remora.operate.jobs.keeping import housekeeping
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import steps_behind
from remora.stores.sqlite.writer_lock import SPARE_MAX, WriterLock
from tests.contract.answers import SOURCE, record, story

Rename = Callable[[Path], Path]

HOLDER = """
import sys; from pathlib import Path; from remora.stores.sqlite.writer_lock import SPARE_MAX, WriterLock
lock = WriterLock(Path(sys.argv[1])); lock.take(); print("held", flush=True); sys.stdin.read()
"""


@contextmanager
def another_writer(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the right to write this store until it is told to end."""
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def store_with_one_item(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    await store.close()


def symbolic_link(path: Path) -> Path:
    name = path.with_name("link.db")
    name.symlink_to(path)
    return name


def chain_of_links(path: Path) -> Path:
    name = path.with_name("chain.db")
    name.symlink_to(symbolic_link(path).name)
    return name


def link_to_the_folder(path: Path) -> Path:
    folder = path.parent.parent / "other"
    folder.symlink_to(path.parent)
    return folder / path.name


def hard_link(path: Path) -> Path:
    name = path.with_name("hard.db")
    name.hardlink_to(path)
    return name


def hard_link_in_another_folder(path: Path) -> Path:
    folder = path.parent / "elsewhere"
    folder.mkdir()
    (folder / "remora.db").hardlink_to(path)
    return folder / "remora.db"


def moved(path: Path) -> Path:
    return path.rename(path.with_name("moved.db"))


def moved_with_its_folder(path: Path) -> Path:
    return path.parent.rename(path.parent.with_name("renamed")) / path.name


def deleted(path: Path) -> Path:
    path.unlink()
    return path


def deleted_and_made_again(path: Path) -> Path:
    path.unlink()
    path.touch()
    return path


def lock_file_deleted(path: Path) -> Path:
    path.with_name(f"{path.name}.lock").unlink()
    return path


@pytest.mark.parametrize(
    "other_name",
    [
        symbolic_link,
        chain_of_links,
        link_to_the_folder,
        hard_link,
        hard_link_in_another_folder,
        moved,
        moved_with_its_folder,
        deleted,
        deleted_and_made_again,
        lock_file_deleted,
    ],
)
@pytest.mark.parametrize("holder", ["another process", "this process"])
async def test_no_other_name_lets_a_second_writer_in(tmp_path: Path, other_name: Rename, holder: str) -> None:
    path = tmp_path / "home" / "remora.db"
    path.parent.mkdir()
    await store_with_one_item(path)
    if holder == "another process":
        with another_writer(path), pytest.raises(StoreBusy, match="use PostgreSQL"):
            await SqliteStore(other_name(path)).open()
        return
    first = SqliteStore(path)
    await first.open()
    with pytest.raises(StoreBusy, match="use PostgreSQL"):
        await SqliteStore(other_name(path)).open()
    await first.close()


@pytest.mark.parametrize("name", [symbolic_link, hard_link])
async def test_a_writer_that_came_by_another_name_keeps_out_the_first_name(tmp_path: Path, name: Rename) -> None:
    path = tmp_path / "remora.db"
    await store_with_one_item(path)
    with another_writer(name(path)), pytest.raises(StoreBusy):
        await SqliteStore(path).open()


async def test_a_link_to_a_file_that_does_not_exist_yet_locks_that_file(tmp_path: Path) -> None:
    link, path = tmp_path / "link.db", tmp_path / "remora.db"
    link.symlink_to(path)
    with another_writer(link), pytest.raises(StoreBusy):
        await SqliteStore(path).open()


async def test_kill_9_frees_the_store_for_every_name(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await store_with_one_item(path)
    other = hard_link(path)
    with another_writer(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        store = SqliteStore(other)
        await store.open()
        assert await store.item(SOURCE, 1) is not None
        await store.close()


async def test_a_copy_is_another_store(tmp_path: Path) -> None:
    path, copy = tmp_path / "remora.db", tmp_path / "copy.db"
    await store_with_one_item(path)
    copy.write_bytes(path.read_bytes())
    with another_writer(path):
        await store_with_one_item(copy)
        assert copy.with_name("copy.db.lock").exists()


async def test_readers_need_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    await store_with_one_item(path)
    with another_writer(path):
        for name in (path, symbolic_link(path)):
            reader = SqliteStore(name, read_only=True)
            await reader.open()
            assert await reader.item(SOURCE, 1) is not None
            await reader.close()


def test_a_refused_lock_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    held = WriterLock(path)
    held.take()
    other = hard_link(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in (path, other) * 3:
        with pytest.raises(StoreBusy):
            WriterLock(name).take()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1, "one descriptor serves every later attempt"
    held.free()


def test_many_stores_one_after_another_leave_few_descriptors_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3 * SPARE_MAX):
        lock = WriterLock(tmp_path / f"{number}.db")
        lock.take()
        lock.free()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + SPARE_MAX


# What `remora changes --reader` of another process does, and anyone with the program sqlite3. The last connection to close
# deletes the log of recent writes, unless somebody else holds a lock.
VISITOR = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1]); print(connection.execute("SELECT count(*) FROM items").fetchone()[0])
"""


def visited_by_another_process(path: Path) -> int:
    """How many items a process sees that opens the file and closes it again."""
    return int(subprocess.run([sys.executable, "-c", VISITOR, path], check=True, capture_output=True).stdout)


async def test_readers_of_the_writers_own_process_leave_it_its_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remora.stores.sqlite.keeping.WALKED_PAGES_MAX", 0)  # as if it were large
    path = tmp_path / "remora.db"
    store = SqliteStore(path)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    log = path.with_name("remora.db-wal").stat().st_ino
    reader = SqliteStore(path, read_only=True)  # as the console opens one for each page
    await reader.open()
    await reader.close()
    assert steps_behind(path) == 0
    async with housekeeping(f"sqlite:///{path}") as keeping:
        assert len(await keeping.estimated_sizes()) > 0
    assert visited_by_another_process(path) == 1
    await record(store, 2, story(2), at_s=2)
    assert path.with_name("remora.db-wal").stat().st_ino == log, "the log was deleted under its writer"
    assert visited_by_another_process(path) == 2
    await store.close()


async def compacted(path: Path) -> None:
    async with housekeeping(f"sqlite:///{path}") as keeping:
        await keeping.compact()


async def closed_and_opened_again(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def refused(path: Path) -> None:
    with another_writer(hard_link(path)), pytest.raises(StoreBusy):
        await closed_and_opened_again(path)


@pytest.mark.parametrize("before", [closed_and_opened_again, compacted, refused])
async def test_a_writer_has_its_locks_although_an_earlier_one_ended_while_a_reader_stayed_open(
    before: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    """SQLite counts the locks of a process. What frees them behind its back leaves the next writer without any."""
    path = tmp_path / "remora.db"
    await store_with_one_item(path)
    reader = SqliteStore(path, read_only=True)
    await reader.open()
    assert len([body async for body in reader.bodies(SOURCE)]) == 1
    await before(path)
    store = SqliteStore(path)
    await store.open()
    await record(store, 2, story(2), at_s=2)
    log = path.with_name("remora.db-wal").stat().st_ino
    assert visited_by_another_process(path) == 2
    assert path.with_name("remora.db-wal").stat().st_ino == log, "the log was deleted under its writer"
    await store.close()
    await reader.close()
