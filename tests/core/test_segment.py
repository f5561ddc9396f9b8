"""Does a walk repeat at most one batch, skip nothing and cut ranges the same way every time?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.segment import (
    BATCH_MAX,
    LATER_ONES_ANSWERED,
    SEGMENT_IDS,
    STRETCH_IDS,
    Segment,
    SegmentKind,
    Walk,
    next_piece,
    top_piece,
)

ranges = st.builds(
    lambda start, length: IdRange(start, start + length), st.integers(0, 50_000_000), st.integers(0, 5_000)
)


@pytest.mark.parametrize(
    "kind, lane",
    [
        (SegmentKind.BACKFILL, Lane.BACKFILL),
        (SegmentKind.REPLAY, Lane.BACKFILL),
        (SegmentKind.BLIND_WINDOW, Lane.UPDATE),
        (SegmentKind.RESCAN, Lane.RESCAN),
    ],
)
def test_every_kind_travels_in_its_lane(kind: SegmentKind, lane: Lane) -> None:
    assert kind.lane is lane


def pieces_of(wanted: IdRange, *, size: int) -> list[IdRange]:
    """What claims take of a range, one after the other: the newest ids first."""
    pieces = [top_piece(wanted, size=size)]
    while pieces[-1].start > wanted.start:
        pieces.append(top_piece(IdRange(wanted.start, pieces[-1].start - 1), size=size))
    return pieces


@given(ranges, st.integers(1, 2_000))
def test_pieces_hold_every_id_once_newest_first_and_none_is_too_long(wanted: IdRange, size: int) -> None:
    pieces = pieces_of(wanted, size=size)
    assert all(len(piece) <= size for piece in pieces)
    assert (pieces[0].end, pieces[-1].start) == (wanted.end, wanted.start)
    assert all(lower.end == upper.start - 1 for upper, lower in pairwise(pieces))
    assert all(piece.start % size == 0 for piece in pieces[:-1])


def test_what_is_new_since_the_last_stretch_is_walked_downwards_and_every_stretch_below_it_upwards() -> None:
    free, seen = [IdRange(1, 2 * STRETCH_IDS + 2_500)], []
    while free:
        left = free.pop()  # the newest of them
        piece = next_piece(left)
        seen.append((piece.start, piece.end))
        if piece.start > left.start:
            free.append(IdRange(left.start, piece.start - 1))
        if piece.end < left.end:
            free.append(IdRange(piece.end + 1, left.end))
    newest = [(66_000, 66_500), (65_000, 65_999), (64_000, 64_999)]
    middle = [(first, first + 999) for first in range(32_000, 64_000, 1_000)]
    oldest = [(1, 999), *((first, first + 999) for first in range(1_000, 32_000, 1_000))]
    assert seen == [*newest, *middle, *oldest]


@given(st.integers(0, 50_000_000), st.integers(0, 90_000), st.booleans())
def test_the_next_piece_of_a_range_is_never_too_long_and_what_fits_is_taken_whole(
    first: int, length: int, ends_a_stretch: bool
) -> None:
    last = first + length
    wanted = IdRange(first, last + -(last + 1) % STRETCH_IDS if ends_a_stretch else last)
    piece = next_piece(wanted)
    assert wanted.start <= piece.start <= piece.end <= wanted.end
    assert len(piece) <= SEGMENT_IDS
    assert piece == wanted or len(wanted) > SEGMENT_IDS


def test_a_piece_of_all_ids_there_can_ever_be_is_as_small_as_any() -> None:
    assert top_piece(IdRange(1, 2**53)) == IdRange(2**53 - 2**53 % SEGMENT_IDS, 2**53)


@pytest.mark.slow
@given(st.integers(0, 1_000), st.integers(1, 400), st.randoms(use_true_random=False), st.integers(1, 60))
def test_a_walk_takes_every_id_once_and_never_more_than_a_batch_beyond_what_is_stored(
    start: int, length: int, chance: object, store_every: int
) -> None:
    walk = Walk(IdRange(start, start + length - 1))
    taken: list[int] = []
    under_way: list[int] = []
    stored = start - 1
    while walk.stored_cursor < start + length - 1:
        most = chance.choice([1, 2, 50])  # type: ignore[attr-defined]
        ids = walk.take(most)
        assert len(ids) == min(most, max(0, min(length, stored + BATCH_MAX - start + 1) - len(taken)))
        taken.extend(ids)
        under_way.extend(ids)
        assert all(item_id - stored <= BATCH_MAX for item_id in ids)
        if under_way and (not ids or chance.random() < 0.5):  # type: ignore[attr-defined]
            chance.shuffle(under_way)  # type: ignore[attr-defined]
            count = chance.randint(1, len(under_way))  # type: ignore[attr-defined]
            walk.complete(*[under_way.pop() for _ in range(count)])
        assert all(later > walk.cursor for later in under_way)
        if walk.cursor - stored >= store_every or (not ids and not under_way):
            stored = walk.cursor
            walk.stored(stored)
    assert taken == list(range(start, start + length))
    assert walk.all_taken
    assert walk.cursor == start + length - 1


def test_a_store_that_is_slow_holds_the_walk_instead_of_letting_it_run_ahead() -> None:
    walk = Walk(IdRange(0, 999))
    for item_id in range(BATCH_MAX):
        assert list(walk.take(1)) == [item_id]
        walk.complete(item_id)
    assert walk.cursor == BATCH_MAX - 1
    assert not walk.take(1)
    walk.stored(49)
    assert list(walk.take(100)) == list(range(BATCH_MAX, BATCH_MAX + 50))


@given(recorded=st.sets(st.integers(1, BATCH_MAX)), length=st.integers(1, 2 * BATCH_MAX))
def test_a_walk_never_takes_an_id_that_an_earlier_owner_recorded(recorded: set[int], length: int) -> None:
    recorded = {item_id for item_id in recorded if item_id <= length}
    walk = Walk(IdRange(1, length), recorded)
    taken: list[int] = []
    while not walk.all_taken:
        walk.stored(walk.cursor)
        ids = walk.take(7)
        assert ids
        taken.extend(ids)
        walk.complete(*ids)
    assert taken == [item_id for item_id in range(1, length + 1) if item_id not in recorded]
    assert walk.cursor == length


@pytest.mark.parametrize("last", [BATCH_MAX, 1_000])
def test_a_walk_is_held_up_by_the_few_ids_that_are_left_of_a_batch_when_later_ones_were_answered(last: int) -> None:
    walk = Walk(IdRange(1, last))
    assert list(walk.take(1_000)) == list(range(1, BATCH_MAX + 1))
    for item_id in range(1, BATCH_MAX + 1):
        if item_id not in {3, 170}:
            walk.complete(item_id)
    assert list(walk.held_up_by) == [3, 170]
    walk.complete(3)
    walk.stored(walk.cursor)
    # In the middle of a segment the walk is near its cursor now; at its end all wait for the last one.
    assert list(walk.held_up_by) == ([170] if last == BATCH_MAX else [])


def test_a_walk_is_not_held_up_by_one_id_when_all_of_them_are_late() -> None:
    walk = Walk(IdRange(1, 1_000))
    walk.take(1_000)
    for item_id in range(2, LATER_ONES_ANSWERED + 1):
        walk.complete(item_id)
    assert list(walk.held_up_by) == []
    walk.complete(LATER_ONES_ANSWERED + 1)
    assert 1 in walk.held_up_by


def test_an_id_is_completed_once_and_only_after_it_was_taken() -> None:
    walk = Walk(IdRange(5, 9))
    with pytest.raises(AssertionError, match="was not taken"):
        walk.complete(5)
    assert list(walk.take(1)) == [5]
    walk.complete(5)
    with pytest.raises(AssertionError, match="done already"):
        walk.complete(5)


def test_a_cursor_that_was_never_reached_cannot_be_stored() -> None:
    walk = Walk(IdRange(5, 9))
    with pytest.raises(AssertionError, match="not one we had"):
        walk.stored(6)


def test_what_is_left_begins_after_the_cursor_and_ends_with_the_segment() -> None:
    segment = Segment(1, SegmentKind.BACKFILL, IdRange(10, 19), 14, fence=1, owner="a")
    assert segment.left == IdRange(15, 19)
    assert Segment(1, SegmentKind.BACKFILL, IdRange(10, 19), 19, fence=1, owner="a").left is None
