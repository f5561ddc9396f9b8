"""Is what a command writes by name put where the name leads, and is nothing replaced that is not a file?"""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from remora.core.errors import ConfigurationError, Exit, RemoraError
from remora.read.parquet import complete_folder
from remora.read.resumable import Progress, resumable_file
from tests.full_disk import files_limited_to
from tests.operate.command_line import CommandLine, with_mirror

EXPORTS = ("ndjson", "csv", "singer")


@pytest.fixture
def mirror(remora: CommandLine) -> CommandLine:
    return with_mirror(remora)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize("file_format", EXPORTS)
@pytest.mark.parametrize(
    "make, sort",
    [
        pytest.param(os.mkfifo, "a pipe", id="pipe"),
        pytest.param(listening, "a socket", id="socket"),
        pytest.param(Path.mkdir, "a folder", id="folder"),
    ],
)
def test_an_export_to_what_is_no_file_is_refused_and_it_stays(
    mirror: CommandLine, file_format: str, make: Callable[[Path], None], sort: str
) -> None:
    path, link = mirror.folder / "out", mirror.folder / "link"
    make(path)
    link.symlink_to("out")
    before = stat.S_IFMT(path.stat().st_mode)
    for name in ("out", "link"):
        said = mirror.refused("export", "--source", "hackernews", "--format", file_format, "--out", name)
        assert f"{name} is {sort}, not a file" in said
        assert "leave out --out" in said
    assert stat.S_IFMT(path.stat().st_mode) == before
    assert link.readlink() == Path("out")


@pytest.mark.parametrize("file_format", EXPORTS)
def test_an_export_follows_a_link_to_a_file_or_to_nothing_yet(mirror: CommandLine, file_format: str) -> None:
    words = ("export", "--source", "hackernews", "--format", file_format, "--out")
    (mirror.folder / "real").mkdir()
    link = mirror.folder / "link"
    link.symlink_to("real/rows")
    assert mirror(*words, "plain").exit_code == 0
    for _ in ("to nothing yet", "to a file"):
        assert mirror(*words, "link").exit_code == 0
        assert link.readlink() == Path("real/rows")
        assert [path.name for path in (mirror.folder / "real").iterdir()] == ["rows"]
        assert (mirror.folder / "real" / "rows").read_bytes() == (mirror.folder / "plain").read_bytes()


def test_a_link_that_leads_to_itself_or_into_no_folder_is_refused(mirror: CommandLine) -> None:
    (mirror.folder / "loop").symlink_to("loop")
    (mirror.folder / "nowhere").symlink_to("no/folder")
    words = ("export", "--source", "hackernews", "--out")
    assert "loop cannot be written" in mirror.refused(*words, "loop")
    assert "nowhere cannot be written (there is no such folder)" in mirror.refused(*words, "nowhere")


def test_a_parquet_export_follows_a_link_to_an_earlier_one_or_to_nothing_yet(mirror: CommandLine) -> None:
    words = ("export", "--source", "hackernews", "--format", "parquet", "--out", "link")
    (mirror.folder / "real").mkdir()
    link = mirror.folder / "link"
    link.symlink_to("real/lake")
    for _ in ("to nothing yet", "to an earlier export"):
        assert mirror(*words).exit_code == 0
        assert link.readlink() == Path("real/lake")
        assert [path.name for path in (mirror.folder / "real").iterdir()] == ["lake"]
        assert list((mirror.folder / "real" / "lake").rglob("*.parquet"))
    assert sorted(mirror.folder.glob("link*")) == [link]


def test_a_parquet_export_to_what_is_no_folder_is_refused(mirror: CommandLine) -> None:
    os.mkfifo(mirror.folder / "out")
    for words in (("--format", "parquet", "--out", "out"), ("--follow", "out")):
        refused = mirror("export", "--source", "hackernews", *words)
        assert refused.exit_code == 2
        assert "out exists and is not an earlier export" in refused.stderr
        assert [path.name for path in mirror.folder.glob("out*") if path.is_fifo()] == ["out"]
    assert mirror("changes", "--readers").stdout == ""


def test_a_backup_follows_a_link_to_nothing_yet_and_overwrites_nothing(mirror: CommandLine) -> None:
    (mirror.folder / "real").mkdir()
    link = mirror.folder / "link"
    link.symlink_to("real/kept.db")
    assert mirror("store", "backup", "link").exit_code == 0
    assert link.readlink() == Path("real/kept.db")
    assert (mirror.folder / "real" / "kept.db").is_file()
    os.mkfifo(mirror.folder / "pipe")
    for name in ("link", "pipe"):
        assert "name a new file" in mirror.refused("store", "backup", name)


@pytest.mark.parametrize(
    "words",
    [("status",), ("export",), ("changes",), ("store", "stats"), ("store", "migrate"), ("store", "backup", "copy.db")],
    ids=" ".join,
)
def test_a_store_that_is_no_file_is_refused_and_nothing_is_written_beside_it(
    remora: CommandLine, words: tuple[str, ...]
) -> None:
    os.mkfifo(remora.folder / "pipe")
    said = remora.refused(*words, "--source", "hackernews", "--store", "sqlite:///pipe")
    assert "pipe is a pipe, not a file" in said
    assert (remora.folder / "pipe").is_fifo()


@pytest.mark.parametrize("of_this_store", [True, False])
def test_an_unfinished_export_is_resumed_only_for_the_store_it_came_from(
    mirror: CommandLine, *, of_this_store: bool
) -> None:
    store = mirror.folder / "remora.db" if of_this_store else mirror.folder / "another.db"
    asked = f"ndjson hackernews 0 None 0 sqlite {store.resolve()}"
    words = ("export", "--source", "hackernews", "--format", "ndjson", "--out")
    assert mirror(*words, "plain").exit_code == 0
    (mirror.folder / "rows.part").write_bytes(b"{}\n")
    (mirror.folder / "rows.progress").write_bytes(msgspec.json.encode(Progress(asked, 1, 3, 1)))
    assert mirror(*words, "rows").exit_code == 0
    plain = (mirror.folder / "plain").read_bytes()
    assert (mirror.folder / "rows").read_bytes() == (b"{}\n" if of_this_store else b"") + plain


def write_file(path: Path) -> None:
    with resumable_file(path, "everything") as target:
        target.file.write(b"x" * 10_000)


def write_folder(path: Path) -> None:
    with complete_folder(path) as part:
        (part / "rows.parquet").write_bytes(b"x" * 10_000)


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_an_export_that_meets_a_full_disk_failed_and_one_to_a_wrong_path_is_refused(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    with pytest.raises(RemoraError, match="out cannot be written") as full, files_limited_to(5_000):
        write(tmp_path / "out")
    assert full.value.exit_code is Exit.FAILED, "the same command works when there is room"
    write(tmp_path / "out")
    with pytest.raises(ConfigurationError, match="out cannot be written"):
        write(tmp_path / "absent" / "out")
