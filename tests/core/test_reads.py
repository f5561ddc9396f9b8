"""Do ranges of ids tell when each id was last read?"""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.reads import BLOCK_IDS, ReadRange, blocks, merged, whole_second
from remora.core.units import SECOND_NS

WALKS = st.lists(
    st.tuples(st.integers(-250, 350), st.integers(0, 150), st.integers(0, 3)).map(
        lambda walk: dict.fromkeys(range(walk[0], walk[0] + walk[1] + 1), walk[2])
    ),
    max_size=6,
)


def told(ranges: Iterable[ReadRange]) -> dict[int, int]:
    return {item_id: second for first, last, second in ranges for item_id in range(first, last + 1)}


@given(WALKS)
def test_every_id_has_the_second_of_its_last_read_and_no_other_id_has_one(walks: list[dict[int, int]]) -> None:
    kept: list[ReadRange] = []
    truth: dict[int, int] = {}
    for walk in walks:
        touched = blocks(walk)
        known = [piece for piece in kept if piece.first_id - piece.first_id % BLOCK_IDS in touched]
        kept = [piece for piece in kept if piece not in known] + merged(known, walk)
        truth.update(walk)
        assert told(kept) == truth
        assert sum(piece.last_id - piece.first_id + 1 for piece in kept) == len(truth)
        assert all(first // BLOCK_IDS == last // BLOCK_IDS for first, last, _ in kept)


def test_a_walk_over_unchanged_items_needs_one_range_per_hundred() -> None:
    assert merged([], dict.fromkeys(range(1_000, 1_300), 7)) == [
        ReadRange(1_000, 1_099, 7),
        ReadRange(1_100, 1_199, 7),
        ReadRange(1_200, 1_299, 7),
    ]


def test_a_single_read_in_the_middle_splits_a_range() -> None:
    assert merged([ReadRange(10, 30, 7)], {20: 9}) == [ReadRange(10, 19, 7), ReadRange(20, 20, 9), ReadRange(21, 30, 7)]


def test_a_read_is_never_told_later_than_it_was() -> None:
    assert whole_second(7 * SECOND_NS - 1) == 6
    assert whole_second(7 * SECOND_NS) == 7
