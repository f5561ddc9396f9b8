"""Is every small mistake planted where it belongs, and is a planted one noticed?"""

import ast
from pathlib import Path

import pytest

from tools.mutation import CORE, interval, mutants_of, planted, sample

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


def test_the_same_seed_draws_the_same_sample() -> None:
    assert sample(20, 7) == sample(20, 7) != sample(20, 8)
    assert len({(mutant.file, mutant.number) for mutant in sample(300, 7)}) == 300
    assert all(Path(mutant.file).is_relative_to(CORE) for mutant in sample(20, 7))


@pytest.mark.parametrize("killed, of, low, high", [(0, 10, 0.0, 0.278), (9, 10, 0.596, 0.982), (300, 300, 0.987, 1.0)])
def test_the_interval_is_wilsons(killed: int, of: int, low: float, high: float) -> None:
    assert interval(killed, of) == pytest.approx((low, high), abs=0.001)
