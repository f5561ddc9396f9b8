"""How many times the speed of another program? Both run at once on one core, and share whatever it gives just now.

`python -m bench.beside` compares a catch-up into SQLite with the naive program, and with Scrapy where `SCRAPY_PYTHON` names a
Python that has it; with `--other CHECKOUT` it compares two versions of Remora instead. A shared machine may be twice as fast
in one second as in the next. Programs that run one after the other meet different seconds; these meet the same. The provider
has another core. Each program reads as many items as it can in about the same time.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.catchup import (
    NAIVE,
    REMORA,
    SCRAPY,
    WARM,
    Command,
    by_round,
    framework,
    provider,
    remora,
    rival,
    spent,
)
from bench.quiet import PROGRAMS_CORE, PROVIDERS_CORE, ROOT, can_separate

OTHER: Final = "Remora, the other checkout"
# About how much longer than Remora each takes for an item.
SLOWER: Final = {REMORA: 1.0, OTHER: 1.0, NAIVE: 2.5, SCRAPY: 35.0}
START_ROUNDS: Final = 3


def items_for(name: str, items: int) -> int:
    """How many items this program reads while Remora reads so many."""
    return max(1, int(items / SLOWER[name]))


def used_s(programs: Mapping[str, Command], url: str, items: int, other: Path) -> dict[str, float]:
    """Run all at once on the first core; the processor seconds of each."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as place,
        # What a thread starts begins on the thread's core.
        ThreadPoolExecutor(len(programs), initializer=os.sched_setaffinity, initargs=(0, PROGRAMS_CORE)) as pool,
    ):
        running = {}
        for number, (name, command) in enumerate(programs.items()):
            folder = Path(place) / str(number)
            folder.mkdir()
            words = command(url, folder, items_for(name, items))
            if name == OTHER:
                running[name] = pool.submit(spent, [sys.executable, "-m", "remora", *words[1:]], checkout=other)
            else:
                running[name] = pool.submit(spent, words)
        return {name: run.result()[0] for name, run in running.items()}


def measure(programs: Mapping[str, Command], items: int, rounds: int, other: Path) -> dict[str, list[float]]:
    """What an item costs in µs, without the start, in every round."""
    costs: dict[str, list[float]] = {name: [] for name in programs}
    with provider(items, WARM) as url:
        starts = [used_s(programs, url, 1, other) for _ in range(START_ROUNDS)]
        for number in range(rounds):
            used = used_s(programs, url, items, other)
            for name, cost in costs.items():
                start_s = statistics.median(start[name] for start in starts)
                cost.append((used[name] - start_s) / items_for(name, items) * 1e6)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return costs


def table(costs: Mapping[str, Sequence[float]]) -> str:
    """How many times as much as Remora each program takes, in the same seconds."""
    lines = ["| | CPU-µs per item | ÷ Remora (spread) |", "|---|--:|--:|"]
    for name, cost in costs.items():
        ratios = by_round(cost, costs[REMORA])
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
    if not can_separate():
        raise SystemExit("not measured: this needs Linux and two cores")
    programs: dict[str, Command] = {REMORA: remora}
    other = ROOT if arguments.other is None else arguments.other.resolve()
    if arguments.other is None:
        programs[NAIVE] = rival("naive")
        if (scrapy := framework(SCRAPY)) is not None:
            programs[SCRAPY] = scrapy
    elif (other / "src" / "remora").is_dir():
        programs[OTHER] = remora
    else:
        raise SystemExit(f"there is no Remora in {other}; name the folder of a checkout, which has src/remora")
    os.sched_setaffinity(0, PROVIDERS_CORE)
    print(table(measure(programs, arguments.items, arguments.rounds, other)))


if __name__ == "__main__":
    main()
