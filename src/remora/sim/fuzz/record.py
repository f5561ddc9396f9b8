"""How much has been tried so far? The totals of every recorded run, with commit and machine, in one JSON file."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from remora.core.units import DAY_NS
from remora.sim.fuzz.many import Totals


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run over many worlds."""

    date: str
    commit: str
    which: str = ""  # only such worlds, as "size=long"; empty: as they are drawn
    machine: str
    seconds: int
    processes: int
    worlds: int
    numbered_days: float
    listed_days: float
    requests: int
    faults: int
    crashes: int
    looks: int
    failing_seeds: list[int]
    met: dict[str, int]  # in how many worlds each kind of incident, and each use of the mirror, was
    violated: dict[str, int]  # and in how many of those a promise was broken


def read(path: Path) -> list[RecordedRun]:
    """All runs so far, oldest first."""
    return msgspec.json.decode(path.read_bytes(), type=list[RecordedRun]) if path.exists() else []


def keep(totals: Totals, path: Path, *, commit: str, which: str = "") -> None:
    """Add a run."""
    run = RecordedRun(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=commit,
        which=which,
        machine=machine(),
        seconds=round(totals.took_s),
        processes=totals.workers,
        worlds=totals.worlds,
        numbered_days=round(totals.numbered_ns / DAY_NS, 1),
        listed_days=round(totals.listed_ns / DAY_NS, 1),
        requests=totals.requests,
        faults=totals.faults,
        crashes=totals.crashes,
        looks=totals.looks,
        failing_seeds=totals.failing_seeds,
        met=dict(sorted(totals.met.items())),
        violated=dict(sorted(totals.violated.items())),
    )
    path.write_bytes(msgspec.json.format(msgspec.json.encode([*read(path), run]), indent=1) + b"\n")


def machine() -> str:
    """What the run was on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
