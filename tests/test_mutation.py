"""Is every small mistake planted where it belongs, and is a planted one noticed?"""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.forks import DID_NOT_END, forked
from tools.mutation import CORE, interval, mutants_of, planted, sample
from tools.mutation_session import exchange
from tools.mutation_tests import Choice, RanTest, is_inside_a_function

CODE = """
LIMIT: Final[int] = 3

def is_due(at_ns: int, now_ns: int = 0) -> bool:
    \"\"\"Whether it is due.\"\"\"
    assert at_ns > 0, "a moment"
    if not at_ns or at_ns == LIMIT and now_ns > 7:
        return at_ns <= now_ns - 1
    return True
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "due.py"
    path.write_text(CODE)
    return path


def test_every_kind_of_change_is_found_and_assertions_and_annotations_are_left_alone(file: Path) -> None:
    changes = {mutant.change for mutant in mutants_of(file)}
    assert changes == {
        "3 -> 4",
        "0 -> 1",
        "not at_ns -> at_ns",
        "not at_ns or (at_ns == LIMIT and now_ns > 7) -> not at_ns and (at_ns == LIMIT and now_ns > 7)",
        "at_ns == LIMIT and now_ns > 7 -> at_ns == LIMIT or now_ns > 7",
        "at_ns == LIMIT -> at_ns != LIMIT",
        "now_ns > 7 -> now_ns >= 7",
        "7 -> 8",
        "at_ns <= now_ns - 1 -> at_ns < now_ns - 1",
        "now_ns - 1 -> now_ns + 1",
        "1 -> 2",
        "return at_ns <= now_ns - 1 -> return None",
        "return True -> return False",
        "True -> False",
    }


def test_a_mutant_changes_one_place_and_nothing_else(file: Path) -> None:
    before = ast.unparse(ast.parse(CODE)).splitlines()
    for mutant in mutants_of(file):
        after = ast.unparse(planted(mutant)).splitlines()
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1, mutant.change


@pytest.mark.slow
def test_the_same_seed_draws_the_same_sample() -> None:
    drawn = sample(300, 7)
    assert drawn == sample(300, 7)
    assert drawn[:20] != sample(20, 8)
    assert len({(mutant.file, mutant.number) for mutant in drawn}) == 300
    assert all(Path(mutant.file).is_relative_to(CORE) for mutant in drawn)


@pytest.mark.parametrize("killed, of, low, high", [(0, 10, 0.0, 0.278), (9, 10, 0.596, 0.982), (300, 300, 0.987, 1.0)])
def test_the_interval_is_wilsons(killed: int, of: int, low: float, high: float) -> None:
    assert interval(killed, of) == pytest.approx((low, high), abs=0.001)


def test_a_large_constant_is_doubled_because_one_more_would_be_the_same(tmp_path: Path) -> None:
    path = tmp_path / "span.py"
    path.write_text("SECOND_NS = 1_000_000_000\nLOOKS = 3\n")
    assert {mutant.change for mutant in mutants_of(path)} == {"1000000000 -> 2000000000", "3 -> 4"}


def test_a_change_inside_a_function_is_exchanged_in_a_module_that_runs_already(file: Path) -> None:
    spec = importlib.util.spec_from_file_location("due", file)
    assert spec is not None
    assert spec.loader is not None
    due = importlib.util.module_from_spec(spec)
    vars(due)["Final"] = tuple
    spec.loader.exec_module(due)
    assert due.is_due(9, 0) is True
    assert not exchange(next(mutant for mutant in mutants_of(file) if mutant.change == "3 -> 4"))
    last = next(mutant for mutant in mutants_of(file) if mutant.change == "return True -> return False")
    assert exchange(last)
    assert due.is_due(9, 0) is False


def test_a_constant_and_a_default_are_outside_and_the_rest_is_inside_a_function(file: Path) -> None:
    outside = {mutant.change for mutant in mutants_of(file) if not is_inside_a_function(mutant)}
    assert outside == {"3 -> 4", "0 -> 1"}


@pytest.mark.slow
def test_a_mutant_gets_the_tests_that_run_its_line_those_with_its_name_first() -> None:
    mutant = next(one for one in sample(10**9, 0) if one.file.endswith("coverage.py") and is_inside_a_function(one))

    def ran(name: str, took_s: float, line: int) -> RanTest:
        return RanTest(name=name, took_s=took_s, lines={mutant.file: [line]})

    tests = [ran("a::slow", 9.0, mutant.line), ran("b::quick", 0.1, mutant.line), ran("b::elsewhere", 0.1, 1)]
    assert Choice([*tests, ran("test_coverage::near", 5.0, mutant.line)]).of(mutant) == [
        "test_coverage::near",
        "b::quick",
        "a::slow",
    ]


@pytest.mark.slow
def test_tests_that_compare_with_a_record_come_first_and_are_never_left_out() -> None:
    mutant = next(one for one in sample(10**9, 0) if one.file.endswith("rate/law.py") and is_inside_a_function(one))
    names = ("a::quick", "test_law_traces.py::whole", "test_law.py::near", "test_decisions_law.py::drawn", "a::slow")
    took_s = (0.1, 99.0, 1.0, 50.0, 30.0)
    tests = [
        RanTest(name=name, took_s=s, lines={mutant.file: [mutant.line]}) for name, s in zip(names, took_s, strict=True)
    ]
    assert Choice(tests).of(mutant) == [
        "test_decisions_law.py::drawn",
        "test_law.py::near",
        "a::quick",
        "test_law_traces.py::whole",
    ]


@pytest.mark.slow
def test_a_constant_gets_the_tests_that_compare_all_figures() -> None:
    mutant = next(
        one for one in sample(10**9, 0) if one.file.endswith("constants.py") and not is_inside_a_function(one)
    )
    tests = [
        RanTest(name=name, took_s=1.0, lines={}) for name in ("test_figures.py::all", "test_values.py::all", "a::b")
    ]
    assert Choice(tests).of(mutant) == ["test_figures.py::all", "test_values.py::all"]


@pytest.mark.slow
def test_a_fork_tells_its_exit_code_and_one_that_never_ends_is_ended() -> None:
    def spin() -> int:
        while True:
            pass

    works: list[Callable[[], int]] = [lambda: 0, lambda: 1, spin]
    assert dict(forked(works, limit_s=0.1, workers=2)) == {0: 0, 1: 1, 2: DID_NOT_END}
