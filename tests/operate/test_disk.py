"""Is the room on disk told as it is? Size and growth of a file, and nothing for a server."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from remora.operate.cli.status_text import disk_text
from remora.operate.observe.disk import DiskGauge


def test_the_file_and_what_lies_beside_it_count(tmp_path: Path) -> None:
    (tmp_path / "remora.db").write_bytes(b"x" * 700)
    (tmp_path / "remora.db-wal").write_bytes(b"x" * 300)
    (tmp_path / "remora.db-search").write_bytes(b"x" * 200)
    (tmp_path / "other.db").write_bytes(b"x" * 5_000)
    disk = DiskGauge(f"sqlite:///{tmp_path}/remora.db").read(now_ns=0)
    assert disk is not None
    assert disk.size_bytes == 1_200
    assert disk.growth_bytes_per_day is None
    assert disk.free_bytes is not None


def test_a_backup_beside_the_mirror_is_no_growth(tmp_path: Path) -> None:
    file = tmp_path / "remora.db"
    file.write_bytes(b"x" * 700)
    gauge = DiskGauge(f"sqlite:///{file}")
    gauge.read(now_ns=0)
    (tmp_path / "remora.db.backup").write_bytes(b"x" * 5_000)
    disk = gauge.read(now_ns=2 * MINUTE_NS)
    assert disk is not None
    assert (disk.size_bytes, disk.grown_bytes) == (700, 0)


def test_the_room_is_that_of_the_disk_to_which_a_link_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, here = tmp_path / "real", tmp_path / "here"
    real.mkdir()
    here.mkdir()
    (real / "remora.db").write_bytes(b"x" * 700)
    (real / "remora.db-wal").write_bytes(b"x" * 300)
    (here / "remora.db").symlink_to(real / "remora.db")
    free = {real: 9_000, here: 1}
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=free[folder], f_frsize=1))
    disk = DiskGauge(f"sqlite:///{here}/remora.db").read(now_ns=0)
    assert disk is not None
    assert (disk.size_bytes, disk.free_bytes) == (1_000, 9_000)


def test_a_minute_is_not_extrapolated_to_a_day(tmp_path: Path) -> None:
    file = tmp_path / "remora.db"
    gauge = DiskGauge(f"sqlite:///{file}")
    file.write_bytes(b"x" * 1_000)
    gauge.read(now_ns=0)
    file.write_bytes(b"x" * 3_500)
    disk = gauge.read(now_ns=2 * MINUTE_NS)
    assert disk is not None
    assert (disk.growth_bytes_per_day, disk.grown_bytes, disk.grown_over_ns) == (None, 2_500, 2 * MINUTE_NS)
    assert "grew 2.5 kB in 2 min" in disk_text(disk)


def test_after_an_hour_the_growth_is_told_by_the_day(tmp_path: Path) -> None:
    file = tmp_path / "remora.db"
    gauge = DiskGauge(f"sqlite:///{file}")
    for minute in range(91):
        file.write_bytes(b"x" * (1_000 + 10 * minute))
        gauge.read(now_ns=minute * MINUTE_NS)
    disk = gauge.read(now_ns=90 * MINUTE_NS)
    assert disk is not None
    assert disk.growth_bytes_per_day == 10 * DAY_NS // MINUTE_NS
    assert disk.grown_over_ns == HOUR_NS
    assert "grows 14.4 kB a day" in disk_text(disk)


def test_a_server_and_a_missing_folder_are_not_measured() -> None:
    assert DiskGauge("postgresql://user@host/database").read(now_ns=0) is None
    assert DiskGauge("sqlite:///no/such/folder/remora.db").read(now_ns=0) is None
