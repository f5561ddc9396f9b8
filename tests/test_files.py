"""Is a file that was written still there, and whole, after a power cut?"""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from remora.files import NotAFile, put_in_place, sync_tree, whole_file, write_whole


class Disk:
    """Notes what was synced: the name of each file and folder, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        real = os.fsync

        def fsync(opened: int) -> None:
            real(opened)
            self.synced.append(Path(f"/proc/self/fd/{opened}").readlink().name)

        monkeypatch.setattr(os, "fsync", fsync)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_replaced_file_is_synced_before_it_gets_its_name_and_its_folder_after_it(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert disk.synced == ["token.part", tmp_path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_could_not_be_finished_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with suppress(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("state", b"old")]


def test_a_folder_gets_its_name_when_every_file_in_it_is_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    part = tmp_path / "export.part"
    (part / "month=2026-01").mkdir(parents=True)
    (part / "month=2026-01" / "part-1").write_bytes(b"rows")
    sync_tree(part)
    assert set(disk.synced) == {"part-1", "month=2026-01", "export.part"}
    put_in_place(part, tmp_path / "export")
    assert disk.synced[-1] == tmp_path.name
    assert (tmp_path / "export" / "month=2026-01" / "part-1").read_bytes() == b"rows"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "token", tmp_path / "secrets" / "token"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write_whole(link, content)
        assert link.readlink() == target
        assert target.read_bytes() == content
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["secrets", "token", "token"]


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NotAFile, match="a pipe"):
        write_whole(pipe, b"new")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
