"""Do the random worlds keep every promise, and can a failing one be replayed and made shorter?"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import msgspec
import pytest

from remora.core.item import Order
from remora.core.units import DAY_NS
from remora.sim.fuzz.dialects import Dialect
from remora.sim.fuzz.forms import Details, Scope, Turning
from remora.sim.fuzz.judge import CANARY, NAME, Judge
from remora.sim.fuzz.many import Totals, try_many
from remora.sim.fuzz.record import keep, read
from remora.sim.fuzz.scenario import Incident, IncidentKind, Scenario, Size, SourceShape, draw
from remora.sim.fuzz.shrink import shrink
from remora.sim.fuzz.stage import Ceiling
from remora.sim.fuzz.world import Spins, Verdict, at_most, judge_world
from remora.sim.limits import Limit

SMALL_SEEDS = (1, 3)
FOUND = Path(__file__).with_name("worlds")
SECONDS = float(os.environ.get("REMORA_FUZZ_SECONDS", "30"))


def first_seed() -> int:
    """Another one every day, unless somebody chooses."""
    return int(os.environ.get("REMORA_FUZZ_SEED", f"{datetime.now(UTC):%Y%m%d}000"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fresh_worlds_keep_every_promise() -> None:
    # A large or a long world may take minutes; `make soak` tries those.
    words = ["--seed", str(first_seed()), "--seconds", f"{SECONDS:g}", "--workers", "1", "--where", "size=small"]
    told = subprocess.run(
        [sys.executable, "-m", "remora.sim.fuzz", *words], capture_output=True, text=True, timeout=540, check=False
    )
    print(told.stdout)
    assert " worlds, " in told.stdout, told.stderr[-2_000:]
    broken = [line for line in told.stdout.splitlines() if line.startswith("  ") and not line.startswith("  replay:")]
    # What takes too much processor time to be judged is told by `make soak`.
    assert [line for line in broken if "did not end within" not in line] == [], told.stdout


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda path: path.stem)
def test_a_world_that_failed_once_keeps_every_promise_now(path: Path) -> None:
    assert judge_world(msgspec.json.decode(path.read_bytes(), type=Scenario)).violations == []


def test_a_world_with_a_list_for_each_channel_keeps_every_promise() -> None:
    scenario = draw(111)
    assert scenario.form.channels == 2
    assert judge_world(scenario).violations == []


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
    assert {(scenario.size, scenario.shape.paging is None) for scenario in scenarios} == set(
        product(Size, (True, False))
    )
    assert {scenario.store for scenario in scenarios} == {"memory", "sqlite"}
    assert {scenario.processes for scenario in scenarios} == {1, 2, 3}
    assert {scenario.limit.kind for scenario in scenarios} >= {"none", "token_bucket", "fixed_window", "heat"}
    assert {scenario.refusal_limit for scenario in scenarios} == {0, 2, 4, 10}
    kinds = {incident.kind for scenario in scenarios for incident in scenario.incidents}
    assert kinds == set(IncidentKind)


def test_a_provider_that_bans_after_the_third_refusal_in_a_minute_never_has_a_reason_to() -> None:
    tight = Limit(kind="fixed_window", count=2, window_s=10.0)
    ban = Incident(IncidentKind.BAN, 600.0, 900.0, detail="429")
    restarts = tuple(Incident(IncidentKind.RESTART, at_s) for at_s in (605.0, 630.0, 660.0))
    scenario = msgspec.structs.replace(
        draw(1534), limit=tight, hours=2.0, incidents=(ban, *restarts), refusal_limit=2, dialect=Dialect.STATUS
    )
    verdict = judge_world(scenario)
    assert verdict.violations == []
    assert verdict.faults > 2, "it was refused"


def test_every_form_of_a_list_is_drawn() -> None:
    forms = [scenario.form for seed in range(900) if (scenario := draw(seed)).shape.paging is not None]
    assert {form.details for form in forms} == set(Details)
    assert {form.scope for form in forms} == set(Scope)
    assert {form.turning for form in forms} == set(Turning)
    assert {form.order for form in forms} == {Order.UPDATED, Order.CREATED, Order.OLDEST}
    assert {form.posts for form in forms} == {True, False}
    assert {form.channels for form in forms} == {0, 2, 3, 4, 5}


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


def judged(workers: int) -> tuple[list[tuple[int, str]], Totals]:
    told: list[tuple[int, str]] = []

    def tell(verdict: Verdict) -> None:
        told.append((verdict.scenario.seed, verdict.trace))

    totals = try_many(SMALL_SEEDS, workers=workers, seconds=None, first=False, tell=tell)
    return sorted(told), totals


def test_two_workers_judge_the_same_worlds_as_this_process() -> None:
    (one, alone), (two, together) = judged(0), judged(2)
    assert one == two
    assert (alone.worlds, alone.requests, alone.days) == (together.worlds, together.requests, together.days)


def test_the_record_adds_up_runs_and_keeps_their_days_apart(tmp_path: Path) -> None:
    totals = Totals(took_s=2.0)
    numbered = Verdict(msgspec.structs.replace(draw(1), shape=SourceShape.NUMBERED), simulated_ns=DAY_NS)
    listed = Verdict(msgspec.structs.replace(draw(2), shape=SourceShape.PAGE), ["broken"], simulated_ns=3 * DAY_NS)
    totals.add(numbered)
    totals.add(listed)
    keep(totals, tmp_path / "record.json", commit="abc")
    keep(totals, tmp_path / "record.json", commit="abd")
    runs = read(tmp_path / "record.json")
    assert [(run.commit, run.worlds, run.numbered_days, run.listed_days, run.failing_seeds) for run in runs] == [
        ("abc", 2, 1.0, 3.0, [2]),
        ("abd", 2, 1.0, 3.0, [2]),
    ]


def test_a_world_may_end_while_a_killed_process_still_holds_its_file() -> None:
    stall = Incident(IncidentKind.STALL, 1.0, 4_000.0)
    crash = Incident(IncidentKind.CRASH, 25.0, amount=1, detail="before")
    verdict = judge_world(
        msgspec.structs.replace(
            draw(1), shape=SourceShape.NUMBERED, store="sqlite", processes=1, hours=1.0, incidents=(stall, crash)
        )
    )
    assert verdict.violations == []


def spin() -> None:
    with at_most(0.05):
        while True:
            pass


def test_a_world_that_spins_without_waiting_is_interrupted() -> None:
    with pytest.raises(Spins, match=r"did not end within 0\.05 s of processor time in test_worlds\.py"):
        spin()
