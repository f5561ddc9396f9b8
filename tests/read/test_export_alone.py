"""Does an export get its place also where there are no locks, and does it leave alone what another process writes?"""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from remora import files
from remora.read import parquet
from remora.read.export import export_ndjson
from remora.read.mirror import MirrorReader
from remora.read.parquet import export_parquet
from remora.read.resumable import resumable_file
from tests.read.test_export import ITEMS

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
async def test_a_file_system_without_locks_can_be_exported_to(
    mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_locks(_file: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with resumable_file(tmp_path / "all", "all of it") as target:
        assert await export_ndjson(mirror, ITEMS, target) == 9
    assert await export_parquet(mirror, ITEMS, tmp_path / "lake") == 9


async def test_an_export_that_begins_as_another_ends_keeps_its_unfinished_folder(
    mirror: MirrorReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_in_place(part: Path, folder: Path) -> None:
        files.put_in_place(part, folder)
        part.mkdir()  # its name is free again, and the next process takes it

    monkeypatch.setattr(parquet, "put_in_place", put_in_place)
    await export_parquet(mirror, ITEMS, tmp_path / "lake")
    assert (tmp_path / "lake.part").is_dir()
