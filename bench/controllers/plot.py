"""What does the goodput look like over time, when the capacity falls and rises?"""

from bisect import bisect_left
from pathlib import Path

import matplotlib as mpl

from bench.controllers.scenarios import LEVEL_REQUESTS
from bench.controllers.trials import OTHERS, OURS, Trial, build
from bench.controllers.world import run
from remora.core.units import SECOND_NS

mpl.use("agg")

from matplotlib import pyplot as plt

WINDOW_S = 10
MODEL = "capacity steps x2"


def draw(path: Path) -> None:
    """One line per controller: accepted requests per second, and marks where it was refused."""
    names = (OURS, *OTHERS)
    figure, axes = plt.subplots(len(names), 1, figsize=(10, 12), sharex=True)
    for axis, name in zip(axes, names, strict=True):
        trial = Trial(name, MODEL, 10.0, 1, 1)
        scenario = trial.scenario()
        provider = scenario.provider(1)
        until_ns = int(2.5 * scenario.request_times(LEVEL_REQUESTS))
        controller = build(name, scenario, 1)
        ceiling_ns = scenario.ceiling_interval_ns
        trace = run(controller, provider, in_flight=1, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)
        starts_s = range(0, until_ns // SECOND_NS - WINDOW_S, WINDOW_S)
        rates = [_count(trace.good_at_ns, start_s) / WINDOW_S for start_s in starts_s]
        refusals = [_count(trace.refused_at_ns, start_s) / WINDOW_S for start_s in starts_s]
        axis.plot(
            starts_s, [provider.capacity_per_s(start_s * SECOND_NS) for start_s in starts_s], "k--", label="limit"
        )
        axis.plot(starts_s, rates, label="accepted/s")
        axis.plot(starts_s, refusals, "r", label="refused/s")
        axis.set_title(name)
        axis.set_ylim(0, 14)
    axes[0].legend(loc="upper right")
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _count(at_ns: list[int], start_s: int) -> int:
    return bisect_left(at_ns, (start_s + WINDOW_S) * SECOND_NS) - bisect_left(at_ns, start_s * SECOND_NS)
