"""How are many worlds tried? One seed after another, on several cores, and what they met is added up."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from remora.core.units import DAY_NS
from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.workers import Workers
from remora.sim.fuzz.world import Verdict, judge_world


@dataclass(slots=True)
class Totals:
    """What many worlds met, added up."""

    worlds: int = 0
    numbered_ns: int = 0  # simulated time of numbered sources
    listed_ns: int = 0
    requests: int = 0
    faults: int = 0
    crashes: int = 0
    looks: int = 0
    took_s: float = 0.0
    workers: int = 1
    met: Counter[str] = field(default_factory=Counter)  # kinds of incidents, and what was done with the mirror
    violated: Counter[str] = field(default_factory=Counter)
    failing_seeds: list[int] = field(default_factory=list)

    @property
    def days(self) -> float:
        """Simulated days of all worlds."""
        return (self.numbered_ns + self.listed_ns) / DAY_NS

    def add(self, verdict: Verdict) -> None:
        """One more world."""
        scenario = verdict.scenario
        kinds = {incident.kind.value for incident in scenario.incidents} | set(scenario.uses.words())
        self.worlds += 1
        self.numbered_ns += verdict.simulated_ns if scenario.shape.paging is None else 0
        self.listed_ns += verdict.simulated_ns if scenario.shape.paging is not None else 0
        self.requests += verdict.requests
        self.faults += verdict.faults
        self.crashes += verdict.crashes
        self.looks += verdict.looks
        self.met.update(kinds)
        if verdict.violations:
            self.failing_seeds.append(scenario.seed)
            self.violated.update(kinds)

    def __str__(self) -> str:
        return (
            f"{self.worlds} worlds, {self.days:.1f} simulated days ({self.numbered_ns / DAY_NS:.1f} of numbered sources, "
            f"{self.listed_ns / DAY_NS:.1f} of lists), {self.requests} requests, {self.faults} faults, "
            f"{self.crashes} crashes, {self.looks} looks, {len(self.failing_seeds)} worlds with violations, "
            f"{self.worlds / max(self.took_s, 0.001):.2f} seeds per second, {self.took_s:.0f} s, "
            f"{self.workers} {'process' if self.workers == 1 else 'processes'}"
        )


def try_many(
    seeds: Iterable[int], *, workers: int, seconds: float | None, first: bool, tell: Callable[[Verdict], None]
) -> Totals:
    """Judge the worlds of these seeds, for so long or until none is left; with `first`, until one is violated.

    Each worker is a process that is killed when its world hangs. With no workers, the worlds run in this process.
    """
    totals, started = Totals(workers=workers), time.monotonic()

    def in_time() -> Iterator[int]:
        for seed in seeds:
            if seconds is not None and time.monotonic() - started >= seconds:
                return
            yield seed

    for verdict in _verdicts(in_time(), workers):
        totals.add(verdict)
        tell(verdict)
        if verdict.violations and first:
            break
    totals.took_s = time.monotonic() - started
    return totals


def _verdicts(seeds: Iterator[int], workers: int) -> Iterator[Verdict]:
    if workers == 0:
        yield from (judge_world(draw(seed)) for seed in seeds)
        return
    pool = Workers(workers)
    try:
        yield from pool.verdicts(seeds)
    finally:
        pool.close()
