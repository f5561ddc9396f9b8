"""When was the machine quiet? A shared one may be half as fast in one second as in the next; this tells them apart.

A process on the core of what is measured times a short loop ten times a second: `with timed_beside(...)`. A moment was quiet
if the loops around it were nearly as quick as the quickest of the whole run, and the host took no processor away meanwhile.
"""

import os
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from remora.core.units import MILLISECOND_NS, SECOND_NS

ROOT: Final = Path(__file__).parent.parent
PROGRAMS_CORE: Final = frozenset({0})
PROVIDERS_CORE: Final = frozenset({1})
LOOP: Final = 10_000  # about a millisecond
EVERY_S: Final = 0.1
# A loop between two looks at what was measured may be just outside of them.
AROUND_NS: Final = 100 * MILLISECOND_NS
QUICKEST: Final = 0.01  # this part of all loops shows how quick the machine can be
QUIET: Final = 1.08  # times as long as those
# Of the time of all processors. The system counts in hundredths of a second, so a look of a quarter may show one of them.
QUIET_STOLEN: Final = 0.02
_STOLEN: Final = 8  # the column of `/proc/stat`


class Loop(NamedTuple):
    """One loop: when, and how long it took of the processor."""

    at_ns: int
    took_ns: int


class Look(NamedTuple):
    """What was done and used until this moment."""

    at_ns: int
    done: int
    used_s: float
    stolen_s: float


class Share(NamedTuple):
    """What was done and used in some of the time."""

    seconds: float
    done: int
    used_s: float


def can_separate() -> bool:
    """Whether a program and its provider can have a core each."""
    return hasattr(os, "sched_setaffinity") and os.sched_getaffinity(0) >= PROGRAMS_CORE | PROVIDERS_CORE


def stolen_s() -> float:
    """How long processors of this machine had work while the host ran something else on them; 0 where nobody counts it."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return 0.0
    return int(fields[_STOLEN]) / os.sysconf("SC_CLK_TCK")


def stolen_share(stolen_s: float, took_s: float) -> float:
    """The part of the time of all processors."""
    return stolen_s / (took_s * (os.cpu_count() or 1))


@contextmanager
def timed_beside(log: Path) -> Iterator[None]:
    """Time loops on the programs' core meanwhile, into this file."""
    with (
        log.open("wb") as out,
        subprocess.Popen([sys.executable, "-m", "bench.quiet"], stdout=out, cwd=ROOT) as timing,
    ):
        try:
            yield
        finally:
            timing.terminate()


def loops_in(log: Path) -> list[Loop]:
    """What was timed; the last line may be unfinished."""
    lines = log.read_text(encoding="ascii").split("\n")[:-1]
    return [Loop(*map(int, line.split())) for line in lines]


def while_quiet(looks: Sequence[Look], loops: Sequence[Loop]) -> Share:
    """What was done and used between those looks around which all loops were quick and the host took nothing."""
    if not loops:
        return Share(0.0, 0, 0.0)
    quickest_ns = sorted(loop.took_ns for loop in loops)[int(len(loops) * QUICKEST)]
    at_ns = [loop.at_ns for loop in loops]
    seconds, done, used_s = 0.0, 0, 0.0
    for before, after in pairwise(looks):
        first = bisect_left(at_ns, before.at_ns - AROUND_NS)
        around = loops[first : bisect_right(at_ns, after.at_ns + AROUND_NS)]
        took_s = (after.at_ns - before.at_ns) / SECOND_NS
        stolen = stolen_share(after.stolen_s - before.stolen_s, took_s)
        if around and max(loop.took_ns for loop in around) <= QUIET * quickest_ns and stolen <= QUIET_STOLEN:
            seconds += took_s
            done += after.done - before.done
            used_s += after.used_s - before.used_s
    return Share(seconds, done, used_s)


def main() -> None:
    """Time loops until somebody ends this process, or the one that started it ends."""
    os.sched_setaffinity(0, PROGRAMS_CORE)
    parent = os.getppid()
    while os.getppid() == parent:
        began_ns, total = time.thread_time_ns(), 0
        for number in range(LOOP):
            total += number * number % 7
        print(time.monotonic_ns(), time.thread_time_ns() - began_ns, flush=True)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
