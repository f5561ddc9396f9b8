"""How close to a hidden limit does each controller come, and how often is it refused? Tables and a plot.

python -m bench.controllers                            the first edition's tables and plot
python -m bench.controllers --rows                     every provider the law is held to, with the peers
python -m bench.controllers --rows ban shared --ours   only rows whose name contains one of these words, only our law
"""

import argparse
import time
from pathlib import Path

from bench.controllers.ablate import ablate
from bench.controllers.plot import draw
from bench.controllers.report import render
from bench.controllers.rows import ROWS
from bench.controllers.svg import draw_all
from bench.controllers.table import OURS, PEERS, SEEDS, cases, render_rows, run_cases
from bench.controllers.trials import run_all

RESULTS = Path(__file__).parent.parent / "results"
DOCS = Path(__file__).parent.parent.parent / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes that share the trials")
    parser.add_argument("--rows", nargs="*", metavar="WORD", help="the table of providers; all, or those that match")
    parser.add_argument("--ours", action="store_true", help="only our law, not the peers")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS, help="seeds of the table of providers")
    parser.add_argument("--in-flight", type=int, default=0, help="only this bound on requests in flight")
    parser.add_argument("--ablate", action="store_true", help="switch off one rule after the other")
    parser.add_argument("--drawings", action="store_true", help="draw the pictures of the docs")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    RESULTS.mkdir(exist_ok=True)
    if arguments.drawings:
        draw_all(DOCS)
        return
    if arguments.ablate:
        print(ablate(list(arguments.seeds), workers=arguments.workers))
        return
    if arguments.rows is not None:
        names = [name for name in ROWS if not arguments.rows or any(word in name for word in arguments.rows)]
        controllers = [OURS] if arguments.ours else [OURS, *PEERS]
        wanted = cases(names, controllers, arguments.seeds, arguments.in_flight)
        text = render_rows(run_cases(wanted, workers=arguments.workers))
        (RESULTS / "rows.md").write_text(text)
        print(text)
        print(f"{len(wanted)} trials in {time.monotonic() - began_s:.0f} s")
        return
    results = run_all(workers=arguments.workers)
    text = render(results)
    (RESULTS / "controllers.md").write_text(text)
    draw(RESULTS / "controllers.png")
    print(text)
    print(f"{len(results)} trials in {time.monotonic() - began_s:.0f} s; plot in bench/results/controllers.png")


if __name__ == "__main__":
    main()
