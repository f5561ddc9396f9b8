"""Which controller meets which world, and what came of it? Every trial is independent and seeded."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from bench.controllers.measure import Measured, seconds_to_enough, steady
from bench.controllers.others import AimdRate, AutoThrottle, AwsAdaptive, FixedDelay
from bench.controllers.ours import Remora
from bench.controllers.providers import Banning
from bench.controllers.scenarios import LEVEL_REQUESTS, LIMITS, MODELS, Scenario
from bench.controllers.world import Controller, run
from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import restore, to_record
from remora.core.units import MINUTE_NS, SECOND_NS

OURS = "Remora"
WARM = "Remora, warm"
OTHERS: dict[str, Callable[[int], Controller]] = {
    "fixed delay + back-off": FixedDelay,
    "AutoThrottle": AutoThrottle,
    "AWS adaptive": AwsAdaptive,
    "plain AIMD": AimdRate,
}
STEPS = ("capacity steps x2", "capacity steps x5")
EVERYWHERE = tuple(name for name in MODELS if name.startswith(("token", "fixed", "sliding", "flaky 5xx 5", "stray")))
# Not those that the law was tuned on.
SEEDS = (701, 702, 703, 704, 705)
# A queue grows where the bound on in-flight requests was meant for a faster provider.
COLLAPSE, COLLAPSE_IN_FLIGHT = "latency collapse", 64
# A penalty per refused request is a matter of accounts, which have one request in flight.
SERIAL_ONLY = ("penalty doubles, forgiven", "penalty doubles, never forgiven")


@dataclass(frozen=True, slots=True)
class Trial:
    controller: str
    model: str
    limit_per_s: float
    in_flight: int
    seed: int

    def scenario(self) -> Scenario:
        return Scenario(
            self.model,
            self.limit_per_s,
            COLLAPSE_IN_FLIGHT if self.model == COLLAPSE else self.in_flight,
            MODELS[self.model],
            # Without a limit the ceiling is what the oracle reaches.
            ceiling_factor=1.0 if self.model == "no limit" else 4.0,
            requests=4 * LEVEL_REQUESTS if self.model in STEPS else 10_000,
        )


@dataclass(frozen=True, slots=True)
class Result:
    trial: Trial
    measured: Measured
    seconds_to_90: float | None
    seconds_after_drop: float | None
    seconds_after_rise: float | None
    banned: bool


def trials() -> list[Trial]:
    """All comparisons at 10/s, then ours at every limit, then ours with eight in flight."""
    compared = [
        Trial(name, model, 10.0, 1, seed) for name in (OURS, *OTHERS) for model in MODELS for seed in _seeds(name)
    ]
    warm = [Trial(WARM, "token bucket b=10", 10.0, 1, seed) for seed in SEEDS]
    scaled = [
        Trial(OURS, model, limit, 1, seed)
        for model in EVERYWHERE
        for limit in LIMITS
        if _is_fair(model, limit)
        for seed in SEEDS[:2]
    ]
    crowded = [
        Trial(OURS, model, 10.0, 8, seed) for model in MODELS if model not in (*SERIAL_ONLY, COLLAPSE) for seed in SEEDS
    ]
    return [*compared, *warm, *scaled, *crowded]


def _is_fair(model: str, limit_per_s: float) -> bool:
    """Can any client do well there? 10/s is in the comparison already.

    Above 100/s departures leave in bursts of up to 10 ms worth, so a burst of 1 or 10 is too small for 2,000/s; a
    Retry-After of a whole second costs 2,000 requests there, a fifth of the trial; and nobody counts in windows of 50 ms.
    """
    tight = ("b=1" in model and "b=100" not in model) or "window" in model
    return limit_per_s != 10.0 and (limit_per_s <= 100.0 or not (tight or "Retry-After" in model or "5xx" in model))


def _seeds(name: str) -> tuple[int, ...]:
    return SEEDS if name == OURS else SEEDS[:1]


def run_all(*, workers: int) -> list[Result]:
    # The longest first, so that no worker is left alone with one at the end.
    ordered = sorted(trials(), key=lambda trial: (trial.model not in STEPS, -trial.limit_per_s))
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(attempt, ordered, chunksize=1))


def attempt(trial: Trial) -> Result:
    scenario = trial.scenario()
    provider = scenario.provider(trial.seed)
    controller = build(trial.controller, scenario, trial.seed)
    trace = run(
        controller,
        provider,
        in_flight=scenario.in_flight,
        ceiling_interval_ns=scenario.ceiling_interval_ns,
        until_ns=scenario.until_ns,
    )
    level_ns = scenario.request_times(LEVEL_REQUESTS)
    steps = trial.model in STEPS
    return Result(
        trial,
        steady(trace, provider, since_ns=scenario.settled_ns),
        seconds_to_enough(trace, provider),
        seconds_to_enough(trace, provider, since_ns=level_ns) if steps else None,
        seconds_to_enough(trace, provider, since_ns=2 * level_ns) if steps else None,
        banned=provider.banned if isinstance(provider, Banning) else False,
    )


def build(name: str, scenario: Scenario, seed: int) -> Controller:
    ceiling_ns = scenario.ceiling_interval_ns
    cold = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    if name == OURS:
        return cold
    if name != WARM:
        return OTHERS[name](ceiling_ns)
    # A run of its own, ten minutes of rest, and its record.
    until_ns = scenario.settled_ns
    run(cold, scenario.provider(seed + 100), in_flight=1, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)
    wall_ns = 10**9 * SECOND_NS
    record = to_record(cold.pace, now_ns=until_ns, now_wall_ns=wall_ns)
    restored = restore(record, ceiling_interval_ns=ceiling_ns, now_ns=0, now_wall_ns=wall_ns + 10 * MINUTE_NS)
    return Remora(restored.pace)
