"""Does the service tell systemd that it is ready, that it lives, and that it stops?"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Remora, simulated_provider

pytestmark = [pytest.mark.slow]


def test_the_service_reports_ready_watchdog_and_stopping_and_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with simulated_provider(items=50) as provider, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        systemd.settimeout(20)
        Remora(tmp_path, provider, ceiling="100/s")
        process = subprocess.Popen(
            [sys.executable, "-m", "remora", "up", "--listen", "127.0.0.1:0"],
            cwd=tmp_path,
            env={**os.environ, "NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "1000000"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            said = [systemd.recv(100) for _ in range(3)]
            assert said[0].startswith(b"READY=1")
            assert any(word.startswith(b"WATCHDOG=1") for word in said)
            process.terminate()
            while not (word := systemd.recv(100)).startswith(b"STOPPING=1"):
                assert word.startswith(b"WATCHDOG=1")
            assert process.wait(timeout=240) == 0
        finally:
            process.kill()
