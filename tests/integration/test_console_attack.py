"""Does collecting go on while somebody opens hundreds of connections to the console and sends nothing?"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.processes import Remora, SimulatedProvider, simulated_provider

pytestmark = [pytest.mark.slow]

ITEMS = 2_000
DESCRIPTORS = 256
HALF_OPEN = 300
# More than a busy machine needs for 2,000 items at 200/s; only reached when collecting stops.
PATIENCE_S = 45.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def service(folder: Path, provider: SimulatedProvider, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """`remora up` with few descriptors; what it says is kept in the folder."""
    remora = Remora(folder, provider, ceiling="200/s")
    remora.warm_up(200)
    words = [sys.executable, "-m", "remora", "up", "--listen", f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(timeout=10)


def status(port: int) -> dict[str, Any] | None:
    """What the console says; None while it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/status", timeout=5) as answer:
            source: dict[str, Any] = json.loads(answer.read())["sources"]["hackernews"]
            return source
    except (URLError, OSError):
        return None


def settled(port: int) -> int:
    said = status(port)
    return 0 if said is None or not said["coverage"].get("known", True) else said["coverage"]["settled"]


def until(port: int, count: int) -> int:
    """How many items are settled, once there are so many or patience ends."""
    ends_s = time.monotonic() + PATIENCE_S
    while (found := settled(port)) < count and time.monotonic() < ends_s:
        time.sleep(0.1)
    return found


def test_half_open_connections_neither_stop_collecting_nor_blame_the_provider(tmp_path: Path) -> None:
    port = free_port()
    with simulated_provider(items=ITEMS) as provider, service(tmp_path, provider, port) as process, ExitStack() as held:
        assert until(port, 50) >= 50
        for _ in range(HALF_OPEN):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.send(b"GET / HTTP/1.1\r\nHost: ")
        begun = settled(port)  # the owner's own visit is answered meanwhile
        found = until(port, ITEMS * 9 // 10)
        said = status(port)
        assert begun > 0
        assert found >= ITEMS * 9 // 10
        assert said is not None
        assert said["rate"]["circuit"] == "closed"
        process.terminate()
        assert process.wait(timeout=20) == 0
    told = (tmp_path / "log").read_text()
    assert "Traceback" not in told
    assert len(told) < 100_000
    for blame in ("circuit_changed", "backed_off", "connection_refused", '"reason": "connection"'):
        assert blame not in told
