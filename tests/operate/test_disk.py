"""Is the room on disk told as it is? Size and growth of a file, and nothing for a server."""

from pathlib import Path

from remora.core.units import DAY_NS, MINUTE_NS
from remora.operate.observe.disk import DiskGauge


def test_the_file_and_what_lies_beside_it_count(tmp_path: Path) -> None:
    (tmp_path / "remora.db").write_bytes(b"x" * 700)
    (tmp_path / "remora.db-wal").write_bytes(b"x" * 300)
    (tmp_path / "other.db").write_bytes(b"x" * 5_000)
    disk = DiskGauge(f"sqlite:///{tmp_path}/remora.db").read(now_ns=0)
    assert disk is not None
    assert disk.size_bytes == 1_000
    assert disk.growth_bytes_per_day is None
    assert disk.free_bytes is not None


def test_growth_is_told_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "remora.db"
    gauge = DiskGauge(f"sqlite:///{file}")
    file.write_bytes(b"x" * 100)
    gauge.read(now_ns=0)
    file.write_bytes(b"x" * 350)
    disk = gauge.read(now_ns=2 * MINUTE_NS)
    assert disk is not None
    assert disk.growth_bytes_per_day == 250 * DAY_NS // (2 * MINUTE_NS)


def test_a_server_and_a_missing_folder_are_not_measured() -> None:
    assert DiskGauge("postgresql://user@host/database").read(now_ns=0) is None
    assert DiskGauge("sqlite:///no/such/folder/remora.db").read(now_ns=0) is None
