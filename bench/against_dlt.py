"""What does a first copy cost and lose, with a `kill -9` in its middle? Remora and dlt's `rest_api`, on the same moving fakes.

    DLT_PYTHON=path/to/python python -m bench.against_dlt

names the Python of a virtual environment with `dlt` and `duckdb`. Both get the same world: 400 things in pages of 20, five events
a second (half of them changes, a quarter of them deletions), 50 ms per answer, 25 requests in 5 seconds, then a 429 with
Retry-After (GitHub: a 403). Each is killed after 12 requests and started again until it reports success, at most ten times.
`lost` counts things that were there before the first request and are still there at the end, and that the copy lacks.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.fake_server import FakeServer
from bench.shelf import LISTED, environ, write_configuration
from remora.testing import Fake, World
from tests.shelf.fakes import FAKES

NAMES = ("github-issues", "django-rest", "shopify-orders")
KILLED_AFTER = 12
STARTS_MAX = 10
PAGE_SIZE = 20
Start = Callable[[], "subprocess.Popen[bytes]"]


def main() -> None:
    dlt = os.environ.get("DLT_PYTHON", "")
    has_dlt = bool(dlt) and subprocess.run([dlt, "-c", "import dlt, duckdb"], check=False).returncode == 0  # noqa: S603
    if not has_dlt:
        print("dlt is missing: set DLT_PYTHON to a Python that has dlt and duckdb; only Remora is measured\n")
    print(f"{'':<16}{'':<8}{'lost':>6}{'held':>6}{'requests':>10}{'refusals':>10}{'starts':>8}{'seconds':>9}  ended")
    for name in sys.argv[1:] or NAMES:
        _measure(name, "remora", _remora)
        if has_dlt:
            _measure(name, "dlt", lambda *about: _dlt(dlt, *about))


def _measure(
    name: str, tool: str, prepare: "Callable[[str, Path, FakeServer], tuple[Start, Callable[[], set[str]]]]"
) -> None:
    world = World(things=400, events=1_000, start_s=int(time.time()), moving_s=200)
    fake = FAKES[name](world)
    fake.window.count, fake.window.window_s, fake.pause_s = 25, 5, 5
    with tempfile.TemporaryDirectory() as folder, FakeServer(fake, latency_s=0.05) as server:
        start, held_keys = prepare(name, Path(folder), server)
        before = _keys(fake)
        began = time.monotonic()
        starts, ended = _killed_once_then_to_the_end(start, server)
        seconds = time.monotonic() - began
        held, stable = held_keys(), before & _keys(fake)
    told = f"{name:<16}{tool:<8}{len(stable - held):>6}{len(held):>6}{len(fake.requests):>10}{fake.refusals:>10}"
    print(f"{told}{starts:>8}{seconds:>9.1f}  {ended}", flush=True)


def _killed_once_then_to_the_end(start: Start, server: FakeServer) -> tuple[int, str]:
    process = start()
    server.wait_until(lambda: len(server.fake.requests) >= KILLED_AFTER or process.poll() is not None, within_s=120)
    process.kill()
    process.wait()
    for starts in range(2, STARTS_MAX + 1):
        if start().wait() == 0:
            return starts, "success"
    return STARTS_MAX, "gave up"


def _keys(fake: Fake) -> set[str]:
    """The keys of the first source only: comments are another list."""
    return {key.removeprefix("issues/") for key in fake.truth() if not key.startswith("comments/")}


def _remora(name: str, folder: Path, server: FakeServer) -> tuple[Start, Callable[[], set[str]]]:
    source = write_configuration(name, folder, server, ceiling="20/s", page_size=PAGE_SIZE)[0]
    command = [sys.executable, "-m", "remora", "run", source, "--force"]

    def held() -> set[str]:
        with sqlite3.connect(folder / "mirror.db") as mirror:
            return {str(key) for _, key, body in mirror.execute(LISTED) if body is not None}

    return lambda: _start(command, folder), held


def _dlt(python: str, name: str, folder: Path, server: FakeServer) -> tuple[Start, Callable[[], set[str]]]:
    write_configuration(name, folder, server)  # sets where the fake is
    child, result = Path(__file__).with_name("dlt_child.py"), folder / "keys.json"
    command = [python, str(child), name, f"{server.origin}{server.fake.base}", str(folder), str(result)]
    return lambda: _start(command, folder), lambda: set(json.loads(result.read_text())) if result.exists() else set()


def _start(command: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    null = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environ(), stdout=null, stderr=null)  # noqa: S603


if __name__ == "__main__":
    main()
