"""Does a process that is frozen, or that runs out of descriptors or memory, lose anything or send too fast?"""

import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from remora.sim.checks import compare
from tests.processes import WAIT_S, Remora, SimulatedProvider, kill, simulated_provider, too_early_ns

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("processes")]

ITEMS = 400
PER_S = 100
FROZEN_S = 10.0
HARMED_S = 20.0  # a harmed process may stop sending; then it is killed
DESCRIPTORS = 3
Harm = Callable[["subprocess.Popen[bytes]"], None]


def freeze(process: "subprocess.Popen[bytes]") -> None:
    """As a suspended machine: longer than a lease and than the provider waits."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(FROZEN_S)
    os.kill(process.pid, signal.SIGCONT)


def no_descriptors(process: "subprocess.Popen[bytes]") -> None:
    """Nothing more can be opened."""
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def no_memory(process: "subprocess.Popen[bytes]") -> None:
    """Not a byte more than it has."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE")
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))


def until_it_sends(
    provider: SimulatedProvider, process: "subprocess.Popen[bytes]", requests: int, *, within_s: float
) -> None:
    until_s = time.monotonic() + within_s
    while provider.arrived() < requests and process.poll() is None and time.monotonic() < until_s:
        time.sleep(0.05)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit a running process")
@pytest.mark.parametrize("harm", [freeze, no_descriptors, no_memory], ids=lambda harm: harm.__name__)
def test_a_harmed_process_loses_nothing_and_the_next_one_completes_the_mirror(harm: Harm, tmp_path: Path) -> None:
    with simulated_provider(items=ITEMS) as provider:
        remora = Remora(tmp_path, provider, ceiling=f"{PER_S}/s")
        remora.warm_up(PER_S)
        process = remora.start("catchup")
        try:
            until_it_sends(provider, process, 40, within_s=WAIT_S)
            assert provider.arrived() >= 40
            harm(process)
            until_it_sends(provider, process, 80, within_s=HARMED_S)
        finally:
            kill(process)
        last = remora("catchup", timeout_s=WAIT_S)
        assert last.returncode == 0, last.stderr
        assert "Traceback" not in last.stdout + last.stderr
        with closing(sqlite3.connect(tmp_path / "remora.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert compare(remora.bodies(), provider.dump()) == [], remora("gaps", "--json").stdout
        assert too_early_ns(provider.arrivals()[0], 1_000_000_000 // PER_S) <= 0
