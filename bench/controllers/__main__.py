"""How close to a hidden limit does each controller come, and how often is it refused? A table, a plot, under two minutes."""

import argparse
import time
from pathlib import Path

from bench.controllers.plot import draw
from bench.controllers.report import render
from bench.controllers.trials import run_all

RESULTS = Path(__file__).parent.parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="processes that share the trials")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    results = run_all(workers=arguments.workers)
    RESULTS.mkdir(exist_ok=True)
    text = render(results)
    (RESULTS / "controllers.md").write_text(text)
    draw(RESULTS / "controllers.png")
    print(text)
    print(f"{len(results)} trials in {time.monotonic() - began_s:.0f} s; plot in bench/results/controllers.png")


if __name__ == "__main__":
    main()
