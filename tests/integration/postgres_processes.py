"""How does a test run several real processes against one database, and what did they do together?"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from remora.core.rate.pacing import burst_allowance

START_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True, order=True)
class Event:
    at_ns: int  # the monotonic clock, which all processes of a machine share
    what: str
    worker: int


@dataclass
class Fleet:
    """Workers that write what they do into files; whoever is left is killed at the end."""

    url: str
    folder: Path
    workers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self.workers):
            self.kill(number)

    def start(self, what: str, *options: str) -> int:
        """One more worker; returns its number once it is ready."""
        number = len(list(self.folder.glob("*.events"))) + 1
        command = [sys.executable, "-m", "tests.integration.postgres_workers", what, self.url]
        with self._file(number).open("wb") as events:
            self.workers[number] = subprocess.Popen([*command, "--seed", str(number), *options], stdout=events)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.events("ready", worker=number):
            assert time.monotonic() < deadline_s, "a worker did not start"
            time.sleep(0.02)
        return number

    def kill(self, number: int) -> None:
        """The way a power cut does."""
        process = self.workers.pop(number)
        process.kill()
        process.wait()

    def freeze(self, number: int) -> None:
        """It stands still and knows nothing of it."""
        os.kill(self.workers[number].pid, signal.SIGSTOP)

    def wake(self, number: int) -> None:
        """It goes on as if nothing had happened."""
        os.kill(self.workers[number].pid, signal.SIGCONT)

    def events(self, what: str = "", *, worker: int | None = None) -> list[Event]:
        """What happened so far, in the order of time."""
        found = []
        for path in self.folder.glob("*.events") if worker is None else [self._file(worker)]:
            for line in path.read_text().splitlines():
                name, _, moment = line.partition(" ")
                if name.startswith(what) and moment.isdigit():
                    found.append(Event(int(moment), name, int(path.stem)))
        return sorted(found)

    def wait_for(self, what: str, *, after_ns: int, timeout_s: float) -> Event:
        """The first such event after a moment."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for event in self.events(what):
                if event.at_ns > after_ns:
                    return event
            time.sleep(0.05)
        raise AssertionError(f"no {what} within {timeout_s} s")

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.events"


def earliest_by_ns(departures: list[int], interval_ns: int) -> int:
    """By how much the ceiling was broken at worst: 0 when any time T holds at most burst + T / F departures."""
    worst_ns = 0
    tolerance_ns = (burst_allowance(interval_ns) - 1) * interval_ns
    next_ns = departures[0]
    for moment_ns in departures:
        worst_ns = max(worst_ns, next_ns - tolerance_ns - moment_ns)
        next_ns = max(next_ns, moment_ns) + interval_ns
    return worst_ns
