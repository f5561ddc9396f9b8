"""How many times the speed of another program? Both run at once on one core, and share whatever it gives just now.

`python -m bench.beside [--other CHECKOUT]` compares a catch-up into SQLite with the naive program, with Scrapy where
`SCRAPY_PYTHON` names a Python that has it, and with another checkout of Remora. A shared machine may be twice as fast in one
second as in the next. Programs that run one after the other meet different seconds; these meet the same. The provider has
another core. Each program reads as many items as it can in about the same time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.catchup import NAIVE, REMORA, ROOT, SCRAPY, WARM, Command, compiling, framework, provider, remora, rival

OTHER: Final = "Remora, the other checkout"
# About how much longer than Remora each takes for an item.
SLOWER: Final = {REMORA: 1.0, OTHER: 1.0, NAIVE: 2.5, SCRAPY: 35.0}
START_ROUNDS: Final = 3
PROGRAMS_CORE: Final = frozenset({0})
PROVIDERS_CORE: Final = frozenset({1})


@dataclass(frozen=True)
class Program:
    """What is started, in which checkout."""

    command: Command
    checkout: Path

    def start(self, url: str, folder: Path, items: int) -> "subprocess.Popen[bytes]":
        """Start it on the first core."""
        words = self.command(url, folder, items)
        if self.checkout != ROOT:
            words = [sys.executable, "-m", "remora", *words[1:]]
        environment = {**compiling(), "PYTHONPATH": f"{self.checkout / 'src'}{os.pathsep}{self.checkout}"}
        os.sched_setaffinity(0, PROGRAMS_CORE)  # a child begins with it
        try:
            return subprocess.Popen(  # noqa: S603
                words, cwd=self.checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        finally:
            os.sched_setaffinity(0, PROVIDERS_CORE)


def items_for(name: str, items: int) -> int:
    """How many items this program reads while Remora reads so many."""
    return max(1, int(items / SLOWER[name]))


def used_s(programs: Mapping[str, Program], url: str, items: int) -> dict[str, float]:
    """Run all at once; the processor seconds of each."""
    used: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        for number, (name, program) in enumerate(programs.items()):
            folder = Path(place) / str(number)
            folder.mkdir()
            process = program.start(url, folder, items_for(name, items))
            running[process.pid] = name, process
        while running:
            pid, status, usage = os.wait3(0)
            if pid not in running:
                continue
            name, process = running.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{name} failed with exit code {process.returncode}")
            used[name] = usage.ru_utime + usage.ru_stime
    return used


def measure(programs: Mapping[str, Program], items: int, rounds: int) -> dict[str, list[float]]:
    """What an item costs in µs, without the start, in every round."""
    costs: dict[str, list[float]] = {name: [] for name in programs}
    with provider(items, WARM) as url:
        starts = [used_s(programs, url, 1) for _ in range(START_ROUNDS)]
        for number in range(rounds):
            used = used_s(programs, url, items)
            for name, cost in costs.items():
                start_s = statistics.median(start[name] for start in starts)
                cost.append((used[name] - start_s) / items_for(name, items) * 1e6)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return costs


def table(costs: Mapping[str, Sequence[float]]) -> str:
    """How many times as much as Remora each program takes, in the same seconds."""
    lines = ["| | CPU-µs per item | ÷ Remora (spread) |", "|---|--:|--:|"]
    for name, cost in costs.items():
        ratios = [other / ours for other, ours in zip(cost, costs[REMORA], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(f"| {name} | {statistics.median(cost):,.0f} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument(
        "--other", type=Path, help="another checkout of Remora to compare with, instead of other programs"
    )
    arguments = parser.parse_args()
    if not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2:
        raise SystemExit("not measured: this needs Linux and two cores")
    programs = {REMORA: Program(remora, ROOT)}
    if arguments.other is not None:
        if not (arguments.other / "src" / "remora").is_dir():
            raise SystemExit(
                f"there is no Remora in {arguments.other}; name the folder of a checkout, which has src/remora"
            )
        programs[OTHER] = Program(remora, arguments.other.resolve())
    else:
        programs[NAIVE] = Program(rival("naive"), ROOT)
        if (scrapy := framework(SCRAPY)) is not None:
            programs[SCRAPY] = Program(scrapy, ROOT)
    os.sched_setaffinity(0, PROVIDERS_CORE)
    print(table(measure(programs, arguments.items, arguments.rounds)))


if __name__ == "__main__":
    main()
