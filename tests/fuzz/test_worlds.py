"""Do the random worlds keep every promise, and can a failing one be replayed and made shorter?"""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import msgspec
import pytest

from remora.sim.fuzz.judge import CANARY, NAME, Judge
from remora.sim.fuzz.scenario import Incident, IncidentKind, Scenario, SourceShape, draw
from remora.sim.fuzz.shrink import shrink
from remora.sim.fuzz.stage import Ceiling
from remora.sim.fuzz.world import judge_world

SECONDS = float(os.environ.get("REMORA_FUZZ_SECONDS", "60"))


def first_seed() -> int:
    """Another one every day, unless somebody chooses."""
    return int(os.environ.get("REMORA_FUZZ_SEED", f"{datetime.now(UTC):%Y%m%d}000"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fresh_worlds_keep_every_promise() -> None:
    seed, started = first_seed(), time.monotonic()
    while time.monotonic() - started < SECONDS:
        verdict = judge_world(draw(seed))
        assert not verdict.violations, f"replay: python -m remora.sim.fuzz --seed {seed}: {verdict.violations}"
        seed += 1
    print(f"seeds {first_seed()} to {seed - 1}")


@pytest.mark.parametrize("seed", [3, 12])
def test_a_seed_gives_the_same_world_every_time(seed: int) -> None:
    one, two = judge_world(draw(seed)), judge_world(draw(seed))
    assert (one.trace, one.simulated_ns, one.violations) == (two.trace, two.simulated_ns, two.violations)


@pytest.mark.slow
def test_a_seed_gives_the_same_world_in_another_interpreter() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-m", "remora.sim.fuzz", "--seed", "12"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1]


def test_every_kind_of_world_is_drawn() -> None:
    scenarios = [draw(seed) for seed in range(300)]
    assert {scenario.shape for scenario in scenarios} == set(SourceShape)
    assert {scenario.store for scenario in scenarios} == {"memory", "sqlite"}
    assert {scenario.processes for scenario in scenarios} == {1, 2, 3}
    assert {scenario.limit.kind for scenario in scenarios} >= {"none", "token_bucket", "fixed_window", "heat"}
    kinds = {incident.kind for scenario in scenarios for incident in scenario.incidents}
    assert kinds == set(IncidentKind)


def test_a_scenario_can_be_kept_in_a_file() -> None:
    scenario = draw(4)
    assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario


def test_the_shrinker_leaves_only_what_makes_the_world_fail() -> None:
    guilty = Incident(IncidentKind.BAN, 10.0, 5.0, detail="403")
    scenario = msgspec.structs.replace(draw(4), incidents=(*draw(4).incidents, guilty), hours=8.0, processes=3)
    short = shrink(scenario, lambda one: guilty in one.incidents)
    assert (short.incidents, short.processes, short.items) == ((guilty,), 1, 20)


def test_one_arrival_too_many_is_seen_when_it_arrives() -> None:
    ceiling = Ceiling(100, 2)
    assert [ceiling.excess_ns(at_ns) > 0 for at_ns in (0, 0, 100, 150, 250)] == [False, False, False, True, True]


def test_a_secret_in_the_log_is_a_violation() -> None:
    judge = Judge(lambda _id, body: body)
    judge.told(f"authorization: Bearer {CANARY}", where="the log")
    judge.told(f"source: {NAME}", where="the log")
    assert judge.violations == ["a secret is in the log"]
