"""What does each rule of the law earn? It is switched off by its constants, and the rows are run again."""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial

from bench.controllers.table import OURS, attempt_case, cases

# A rule, and the values of its constants that switch it off.
RULES: dict[str, dict[str, float]] = {
    "careful climb after a block": {"CAREFUL": 1e18},
    "memory of a block": {"OUTAGE_KEPT": 0.0},
    "growth of waits": {"WAIT_GROWTH": 1},
    "price grows with the age of the edge": {"PRICE_AGE": 0.0},
    "price of a lost time": {"OUTAGE_BUDGET": 1e9, "OUTAGE_BUDGET_UNSETTLED": 1e9},
    "cheap probes where edges move": {"PRICE_LASTED": 1e9},
    "forgiveness after a change": {"ACCOUNT_AFTER_A_CHANGE": -1e9},
    "stray test": {"STRAY_WEIGHT": 0.0},
    "acceleration above the edge": {"ACCELERATION": 1e9},
    "round trips limit growth": {"ROUND_TRIPS_PER_DOUBLING": 0},
    "few more in flight with each round trip": {"MORE_PER_ROUND_TRIP": 1e9},
    "bound on the debt of refusals": {"ACCOUNT_AFTER_REFUSALS": -75_000.0},
    "queue cut": {"QUEUE_LONG_NS": 1e18},
    "climb from far below": {"FAR_BELOW": 1e18},
    "second edge": {"EDGES_KEPT": 1},
    "doubt of a new edge": {"DOUBT_LEAST": 0.0},
    "margin at rest": {"REST_MARGIN": 0.0},
    "wait where the provider counts earlier requests": {"HARDLY_ANY": 0},
    "regular refusals are no strays": {"REGULAR": 0.0, "SAME_PLACE": 0.0},
    "credit where strays are usual": {"STRAYS_CREDIT": 0.0},
    "doubt in discovery": {"DISCOVERY_DOUBT": 0.0},
    "cheaper refusals at rest": {"REST_CHARGE": 1.0},
}
ROWS_ABLATED = (
    *("b=10", "fixed 600/min", "sliding 600/min", "shared, 5 min on and off", "steps x5"),
    *("stray 429 1 %", "penalty doubles", "bad items, 0.2/s"),
)
ROWS_ABLATED_CROWDED = ("latency collapse, 30 % background",)


@contextmanager
def without(rule: str) -> Iterator[None]:
    """The law with this rule switched off."""
    modules = [module for name, module in sys.modules.items() if name.startswith("remora.core.rate.")]
    changed = [(module, name) for module in modules for name in RULES[rule] if hasattr(module, name)]
    before = [getattr(module, name) for module, name in changed]
    for module, name in changed:
        setattr(module, name, RULES[rule][name])
    try:
        yield
    finally:
        for (module, name), value in zip(changed, before, strict=True):
            setattr(module, name, value)


def ablate(seeds: list[int], *, workers: int = 1) -> str:
    """A Markdown table: goodput in % of an oracle with all rules, then the points and refusals that change without each.

    The last column is the share of requests refused, in % and as the mean of all rows.
    """
    with ProcessPoolExecutor(workers) as pool:
        whole, *parts = pool.map(partial(_measure, seeds=seeds), [None, *RULES])
    names = list(whole)
    lines = [f"| | {' | '.join(names)} | refused |", f"|---|{'---|' * len(names)}---|"]
    cells = [f"{goodput:.1f}" for goodput, _ in whole.values()]
    lines.append(f"| all rules | {' | '.join(cells)} | {_mean_refused(whole):.2f} |")
    for rule, part in zip(RULES, parts, strict=True):
        cells = [f"{part[name][0] - whole[name][0]:+.1f}" for name in names]
        more = _mean_refused(part) - _mean_refused(whole)
        lines.append(f"| without: {rule} | {' | '.join(cells)} | {more:+.2f} |")
    return "\n".join(lines) + "\n"


def _measure(rule: str | None, *, seeds: list[int]) -> dict[str, tuple[float, float]]:
    """Goodput and refused requests of each row, in %, without this rule."""
    wanted = [*cases(ROWS_ABLATED, [OURS], seeds, in_flight=1), *cases(ROWS_ABLATED_CROWDED, [OURS], seeds)]
    with without(rule) if rule else nullcontext():
        outcomes = [attempt_case(case) for case in wanted]
    measured = {}
    for name in dict.fromkeys(case.row for case in wanted):
        of_row = [outcome for outcome in outcomes if outcome.case.row == name]
        goodput, refused = sum(o.goodput for o in of_row), sum(o.refused for o in of_row)
        measured[name] = (100 * goodput / len(of_row), 100 * refused / len(of_row))
    return measured


def _mean_refused(measured: dict[str, tuple[float, float]]) -> float:
    return sum(refused for _, refused in measured.values()) / len(measured)
