"""What does each rule of the law earn? It is switched off by its constants, and the rows are run again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
    "probe height": {"PROBE_HEIGHT": 1e9},
    "acceleration above the edge": {"ACCELERATION": 1e9},
    "round trips limit growth": {"ROUND_TRIPS_PER_DOUBLING": 0},
    "bound on the debt of refusals": {"ACCOUNT_AFTER_REFUSALS": -75_000.0},
    "memory of an outage fades": {"OUTAGE_MEMORY": 1e9},
    "queue cut": {"QUEUE_LONG_NS": 1e18},
}
ROWS_ABLATED = ("b=10", "fixed 600/min", "sliding 600/min", "steps x5", "stray 429 1 %", "penalty doubles")
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


def ablate(seeds: list[int]) -> str:
    """A Markdown table: goodput in % of an oracle with all rules, and the points that are lost without each."""
    wanted = [*cases(ROWS_ABLATED, [OURS], seeds, in_flight=1), *cases(ROWS_ABLATED_CROWDED, [OURS], seeds)]
    names = list(dict.fromkeys(case.row for case in wanted))

    def goodput() -> dict[str, float]:
        outcomes = [attempt_case(case) for case in wanted]
        return {name: sum(100 * o.goodput for o in outcomes if o.case.row == name) / len(seeds) for name in names}

    whole = goodput()
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines.append(f"| all rules | {' | '.join(f'{whole[name]:.1f}' for name in names)} |")
    for rule in RULES:
        with without(rule):
            part = goodput()
        lines.append(f"| without: {rule} | {' | '.join(f'{part[name] - whole[name]:+.1f}' for name in names)} |")
    return "\n".join(lines) + "\n"
