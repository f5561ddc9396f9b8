"""Does the page about reliability say what was recorded, and nothing else?"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remora.sim.fuzz.record import RecordedRun
from tests.mutants.runner import Caught
from tests.mutants.table import MUTANTS
from tools import prove_faults, prove_kills, prove_parts
from tools.mutation_run import MutationRun, Tried
from tools.prove import page
from tools.prove_faults import Faulted
from tools.prove_kills import Killed
from tools.prove_parts import run_parts
from tools.prove_real import REAL
from tools.real_faults import CASES


def recorded(commit: str, *, days: float, failing: list[int]) -> RecordedRun:
    return RecordedRun(
        date="2026-01-02",
        commit=commit,
        machine="a machine",
        seconds=60,
        processes=2,
        worlds=10,
        numbered_days=days,
        listed_days=2 * days,
        requests=1_000,
        faults=20,
        crashes=3,
        looks=500,
        failing_seeds=failing,
        met={"ban": 4},
        violated={"ban": 1} if failing else {},
    )


def test_the_days_of_all_runs_are_added_up_and_a_failing_seed_is_shown() -> None:
    told = page([recorded("abc", days=1.5, failing=[]), recorded("abd", days=2.0, failing=[77])], [], [])
    assert (
        "So far 20 worlds and 10.5 simulated days, 3.5 of them of numbered sources; 1 worlds with violations." in told
    )
    assert "| 2026-01-02 | abd | a machine | all | 60 | 2 | 10 | 6.0 | 1,000 | 20 | 3 | 77 |" in told
    assert "| ban | requests become rare; nothing is lost | 8 | 1 |" in told


def test_a_planted_bug_that_is_not_caught_is_told_as_such() -> None:
    told = page([], [(MUTANTS[0], None), (MUTANTS[1], Caught(33, 6.2, "it | broke"))], [])
    assert "1 of 2 have been caught" in told
    assert "0 more are harmless" in told
    assert f"| {MUTANTS[0].room} | {MUTANTS[0].breaks} | \N{EN DASH} | \N{EN DASH} | \N{EN DASH} |" in told
    assert f"| {MUTANTS[1].room} | {MUTANTS[1].breaks} | 33 | 6.2 | it / broke |" in told


def test_a_planted_bug_that_another_layer_guards_against_is_counted_apart() -> None:
    guarded = replace(MUTANTS[0], guard="the next layer", seen_by="tests/x.py::test_y")
    told = page([], [(guarded, None), (MUTANTS[1], Caught(33, 6.2, "it broke"))], [])
    assert "1 of 1 have been caught" in told
    assert "1 more are harmless in a world" in told
    assert "guarded: the next layer; `tests/x.py::test_y` |" in told


@pytest.mark.parametrize("test", sorted({test for one in REAL for test in one.shown_by}))
def test_a_fault_of_a_real_machine_is_shown_by_a_test_that_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in Path(file).read_text()
    assert f"`{Path(file).name}::{name}`" in page([], [], [])


def test_kills_are_told_with_what_they_broke() -> None:
    killed = Killed(date="2026-01-02", commit="abc", command="run", store="SQLite", kills=20, violations=["lost"])
    assert "| 2026-01-02 | abc | `run` | SQLite | 20 | 1 |" in page([], [], [killed])


def faulted(fault: str, violations: list[str]) -> Faulted:
    return Faulted(
        date="2026-01-02",
        commit="abc",
        fault=fault,
        store="SQLite",
        expected="it goes on",
        seconds=60.0,
        observed=["status: Unknown", "exit code 0: stopped | on request"],
        violations=violations,
    )


def test_a_fault_is_told_with_what_was_seen_and_broken() -> None:
    told = page([], [], [], None, [faulted("no memory", ["lost"])])
    row = "| no memory | SQLite | 60 | it goes on | status: Unknown; exit code 0: stopped / on request | lost | abc |"
    assert row in told


def test_the_latest_run_of_a_fault_replaces_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_faults, "RECORD", tmp_path / "faults.json")
    prove_faults.keep(faulted("no memory", ["lost"]))
    prove_faults.keep(faulted("full disk", []))
    prove_faults.keep(faulted("no memory", []))
    assert prove_faults.read() == [faulted("no memory", []), faulted("full disk", [])]


def test_every_fault_of_a_running_process_has_its_own_name() -> None:
    assert len({(case.name, case.store) for case in CASES}) == len(CASES)


def test_kills_of_one_commit_are_added_up_as_each_mirror_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_kills, "RECORD", tmp_path / "kills.json")

    def killed(command: str, kills: int, violations: list[str]) -> Killed:
        return Killed(
            date="2026-01-02", commit="abc", command=command, store="SQLite", kills=kills, violations=violations
        )

    prove_kills.keep([killed("up", 20, [])])
    prove_kills.keep([killed("run", 20, []), killed("up", 3, ["lost"])])
    assert prove_kills.read() == [killed("up", 23, ["lost"]), killed("run", 20, [])]


def test_a_sample_of_changes_is_told_with_its_interval_and_its_survivors() -> None:
    def tried(fate: str, change: str) -> Tried:
        return Tried(file="src/remora/core/x.py", line=1, operator="constant", change=change, fate=fate)

    mutants = [tried("killed", "1 -> 2")] * 8 + [tried("too slow", "1 -> 2"), tried("survived", "a | b -> None")]
    run = MutationRun(date="2026-01-02", commit="abc", seed=1, places=3_000, mutants=mutants)
    told = page([], [], [], run)
    assert "10 were drawn (seed 1, commit abc); the tests noticed 9 of them: 90.0%" in told
    assert "from 59.6% to 98.2%" in told
    assert "| core/x.py | `a / b -> None` | unexplained: a test is missing |" in told


def test_a_part_that_ran_on_this_commit_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_parts, "PROGRESS", tmp_path / "prove.json")
    ran: list[str] = []

    def part(name: str, *, ends: str = "well") -> Callable[[], bool]:
        def run() -> bool:
            ran.append(name)
            if ends == "never":
                raise KeyboardInterrupt
            return ends == "well"

        return run

    def prove(of: str | None, **parts: Callable[[], bool]) -> bool:
        return run_parts(parts, of=of, tell=lambda _: None)

    with pytest.raises(KeyboardInterrupt):
        prove("abc", worlds=part("worlds", ends="badly"), kills=part("kills", ends="never"))
    assert not prove("abc", worlds=part("worlds"), kills=part("kills")), "the earlier part was not well"
    assert ran == ["worlds", "kills", "kills"]
    assert prove("abc", worlds=part("worlds"), kills=part("kills")), "it was whole, so it begins anew"
    assert prove(None, worlds=part("worlds")), "a changed package is always tried"
    assert ran == ["worlds", "kills", "kills", "worlds", "kills", "worlds"]
