"""Does a sample say no more about the whole than it can?"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.sampling import as_percent, draw_ids, share_at_most

pieces = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 20)), max_size=6)


@given(pieces, st.integers(0, 60), st.integers(0, 2**32))
def test_a_draw_has_different_covered_ids_and_as_many_as_there_can_be(
    ranges: list[tuple[int, int]], count: int, seed: int
) -> None:
    covered = Coverage.of(IdRange(start, start + more) for start, more in ranges)
    drawn = draw_ids(covered, count, below=random.Random(seed).randrange)
    assert len(set(drawn)) == len(drawn) == min(count, len(covered))
    assert drawn == sorted(drawn)
    assert all(item_id in covered for item_id in drawn)


def test_every_id_is_drawn_about_equally_often() -> None:
    covered = Coverage.of([IdRange(1, 3), IdRange(10, 11), IdRange(50, 54)])
    chance = random.Random(4)
    seen = [item_id for _ in range(3_000) for item_id in draw_ids(covered, 3, below=chance.randrange)]
    assert all(800 <= seen.count(item_id) <= 1_000 for item_id in (1, 3, 10, 11, 50, 54))


@pytest.mark.parametrize(
    "bad, sample, most",
    [(0, 10_000, 0.0002995), (0, 100, 0.029513), (1, 100, 0.046559), (10, 1_000, 0.016905), (5, 5, 1.0)],
)
def test_the_bound_is_that_of_clopper_and_pearson(bad: int, sample: int, most: float) -> None:
    assert share_at_most(bad, sample, population=10**7) == pytest.approx(most, rel=1e-3)


def test_whoever_has_read_everything_knows_the_share() -> None:
    assert share_at_most(3, 12, population=12) == 0.25
    assert share_at_most(0, 0, population=0) == 0.0


@pytest.mark.slow
def test_a_mirror_at_the_bound_is_seldom_judged_better_than_it_is() -> None:
    """Of many mirrors with 2 % stale, at most about one in twenty gets a bound below 2 %."""
    chance = random.Random(9)
    too_good = sum(
        share_at_most(sum(chance.random() < 0.02 for _ in range(200)), 200, population=10**6) < 0.02 for _ in range(400)
    )
    assert too_good <= 400 * 0.08


@pytest.mark.parametrize(
    "share, told", [(0.0002995, "0.030 %"), (0.0, "0 %"), (0.0169, "1.69 %"), (1.0, "100 %"), (0.00001234, "0.0013 %")]
)
def test_a_bound_is_rounded_up(share: float, told: str) -> None:
    assert as_percent(share) == told
