"""Is coverage the same set of ids as a plain set would be, and does the frontier stop at the first hole?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.coverage import Coverage, IdRange, newest_first

ranges = st.builds(lambda start, length: IdRange(start, start + length), st.integers(-50, 200), st.integers(0, 40))
many = st.lists(ranges, max_size=12)


def ids(*pieces: IdRange) -> set[int]:
    return {item_id for piece in pieces for item_id in range(piece.start, piece.end + 1)}


@given(many)
def test_the_union_of_ranges_holds_exactly_their_ids_in_few_disjoint_pieces(pieces: list[IdRange]) -> None:
    coverage = Coverage.of(pieces)
    assert ids(*coverage.ranges) == ids(*pieces)
    assert len(coverage) == len(ids(*pieces))
    assert all(
        later.start > earlier.end + 1 for earlier, later in zip(coverage.ranges, coverage.ranges[1:], strict=False)
    )
    assert all((item_id in coverage) == (item_id in ids(*pieces)) for item_id in range(-60, 250))


@given(many, ranges)
def test_adding_one_range_is_the_same_as_starting_with_it(pieces: list[IdRange], added: IdRange) -> None:
    assert Coverage.of(pieces).with_range(added) == Coverage.of([*pieces, added])


@given(many)
def test_the_order_in_which_ranges_arrive_does_not_matter(pieces: list[IdRange]) -> None:
    assert Coverage.of(pieces) == Coverage.of(reversed(pieces))


@given(many, ranges)
def test_inside_a_window_every_id_is_either_covered_or_in_a_hole(pieces: list[IdRange], wanted: IdRange) -> None:
    coverage = Coverage.of(pieces)
    holes = coverage.uncovered(wanted)
    assert ids(*holes) == ids(wanted) - ids(*pieces)
    assert ids(*coverage.within(wanted).ranges) == ids(wanted) & ids(*pieces)
    assert list(holes) == sorted(holes)
    assert newest_first(holes) == tuple(reversed(holes))


@given(many, st.integers(-20, 100))
def test_the_frontier_is_the_last_id_before_the_first_hole(pieces: list[IdRange], first_id: int) -> None:
    covered = ids(*pieces)
    frontier = Coverage.of(pieces).frontier(first_id=first_id)
    assert frontier >= first_id - 1
    assert all(item_id in covered for item_id in range(first_id, frontier + 1))
    assert frontier + 1 not in covered


@given(many, ranges, st.integers(-20, 100))
def test_more_coverage_never_moves_the_frontier_back(pieces: list[IdRange], added: IdRange, first_id: int) -> None:
    before = Coverage.of(pieces)
    assert before.with_range(added).frontier(first_id=first_id) >= before.frontier(first_id=first_id)


def test_a_range_knows_its_ids_and_refuses_to_end_before_it_starts() -> None:
    assert len(IdRange(3, 5)) == 3
    assert 5 in IdRange(3, 5)
    assert 6 not in IdRange(3, 5)
    with pytest.raises(AssertionError, match="ends before it starts"):
        IdRange(5, 3)


def test_nothing_covered_is_one_hole_and_a_frontier_before_the_first_id() -> None:
    assert Coverage().uncovered(IdRange(1, 9)) == (IdRange(1, 9),)
    assert Coverage().frontier(first_id=1) == 0
