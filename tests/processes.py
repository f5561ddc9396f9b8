"""How do tests run the real thing? `remora` and its simulated provider as processes of their own, on loopback."""

import asyncio
import json
import signal
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from remora.core.rate.pacing import burst_allowance
from remora.sim.checks import worst_window
from tests.warm_start import warm_up

WAIT_S = 240.0  # only guards against a process that hangs


# Between leaving and being read a request passes two processes on a shared machine; this much may be lost on the way.
ON_THE_WAY_NS = 60_000_000
# A provider's process that did not get the processor reads what waited all at once. Its silence shows for how long.
READ_LATE_MAX_NS = 500_000_000


def too_early_ns(times_ns: list[int], ceiling_interval_ns: int) -> int:
    """By how much the fullest window breaks the ceiling, apart from what a provider that reads late explains."""
    times_ns = sorted(times_ns)
    worst = worst_window(times_ns, ceiling_interval_ns, burst_allowance(ceiling_interval_ns))
    # What waited may be read in several goes, and the fullest window may begin in the middle of them.
    since = max(1, bisect_left(times_ns, worst.first_ns - READ_LATE_MAX_NS))
    until = bisect_left(times_ns, worst.first_ns) + 1
    silence_ns = max((later - earlier for earlier, later in pairwise(times_ns[since - 1 : until])), default=0)
    return worst.excess_ns - ON_THE_WAY_NS - min(silence_ns, READ_LATE_MAX_NS)


class SimulatedProvider:
    """A simulated Hacker News in another process, and what its own log says."""

    def __init__(self, process: subprocess.Popen[str], origin: str, url: str) -> None:
        self._process = process
        self.origin = origin
        self.url = url

    @property
    def process_id(self) -> int:
        return self._process.pid

    def arrivals(self) -> tuple[list[int], list[str]]:
        """When every request arrived (monotonic), and for which path."""
        log = json.loads(self._get("/_sim/arrivals"))
        return log["times_ns"], log["paths"]

    def arrived(self) -> int:
        """How many requests arrived so far."""
        count: int = json.loads(self._get("/_sim/world"))["arrivals"]
        return count

    def dump(self, last_id: int | None = None) -> list[tuple[int, bytes]]:
        """The world's own truth."""
        query = "" if last_id is None else f"?last={last_id}"
        bodies = self._get(f"/_sim/dump{query}").splitlines()
        return [(int(json.loads(body)["id"]), body) for body in bodies]

    def set_faults(self, faults: dict[str, Any]) -> None:
        """Let these things go wrong from now on."""
        self._post("/_sim/faults", json.dumps(faults).encode())

    def heal(self, key: str | None = None) -> None:
        """Let nothing go wrong any more, or not with this key."""
        self._post("/_sim/heal" + ("" if key is None else f"?key={key}"), b"")

    def _get(self, path: str) -> bytes:
        with urlopen(self.origin + path, timeout=WAIT_S) as answer:
            body: bytes = answer.read()
            return body

    def _post(self, path: str, body: bytes) -> None:
        with urlopen(Request(self.origin + path, data=body, method="POST"), timeout=WAIT_S) as answer:
            answer.read()


@contextmanager
def simulated_provider(
    *, items: int, faults: Path | None = None, speed: float = 0.0, seed: int = 0
) -> Iterator[SimulatedProvider]:
    """A provider whose time stands still unless told otherwise: its dump is then the whole truth."""
    words = [sys.executable, "-m", "remora.sim.server", "--until-eof", "--items", str(items), "--speed", str(speed)]
    words += ["--seed", str(seed)] if seed else []
    words += [] if faults is None else ["--faults", str(faults)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield SimulatedProvider(process, said["origin"], said["url"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=WAIT_S)
        assert process.stdout is not None
        process.stdout.close()


class Remora:
    """`remora` in one folder, with one mirror of one provider."""

    def __init__(self, folder: Path, provider: SimulatedProvider, *, ceiling: str, timeout: str = "10s") -> None:
        self.folder = folder
        config = f'[sources.hackernews]\nurl = "{provider.url}"\nceiling = "{ceiling}"\ntimeout = "{timeout}"\n'
        (folder / "remora.toml").write_text(config, encoding="utf-8")

    def warm_up(self, rate_per_s: float) -> None:
        """As if an earlier backfill had learned this pace a moment ago: a cold start takes its time."""
        asyncio.run(warm_up(self.folder / "remora.db", "hackernews", rate_per_s))

    def __call__(self, *words: str, timeout_s: float = WAIT_S) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "remora", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, "-m", "remora", *words],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def bodies(self) -> list[tuple[int, bytes]]:
        """What the mirror gives back, by id."""
        exported = self("export", "--format", "ndjson")
        assert exported.returncode == 0, exported.stderr
        lines = exported.stdout.encode("utf-8", "surrogatepass").splitlines()
        return [(int(json.loads(line)["id"]), line) for line in lines]

    def gaps(self) -> list[dict[str, Any]]:
        """What is owed."""
        listed = self("gaps", "--json")
        assert listed.returncode == 0, listed.stderr
        rows: list[dict[str, Any]] = json.loads(listed.stdout)
        return rows

    def coverage(self) -> dict[str, Any]:
        """The coverage section of the status."""
        status = self("status", "--json")
        section: dict[str, Any] = json.loads(status.stdout)["sources"]["hackernews"]["coverage"]
        return section


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End it as a power cut would."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=WAIT_S)
