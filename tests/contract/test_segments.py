"""Are ranges walked once, by one owner at a time, and remembered as covered?"""

import asyncio
from itertools import pairwise

from remora.contracts import Store
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.segment import SEGMENT_IDS, STRETCH_IDS, Segment, SegmentKind
from remora.core.units import SECOND_NS
from remora.stores.decisions import CLOCK_SLACK_NS
from tests.contract.answers import MISSING, SOURCE, at, record, story

BACKFILL, RESCAN, REPLAY, BLIND = (
    SegmentKind.BACKFILL,
    SegmentKind.RESCAN,
    SegmentKind.REPLAY,
    SegmentKind.BLIND_WINDOW,
)
LEASE_NS = 60 * SECOND_NS


async def plan(store: Store, *pieces: tuple[int, int], kind: SegmentKind = BACKFILL) -> int:
    return await store.plan(SOURCE, kind, [IdRange(*piece) for piece in pieces], now_ns=at(0))


async def try_claim(
    store: Store, *kinds: SegmentKind, owner: str = "one", at_s: float = 0, source: str = SOURCE
) -> Segment | None:
    return await store.claim(source, kinds or (BACKFILL,), owner=owner, lease_ns=LEASE_NS, now_ns=at(at_s))


async def claim(store: Store, *kinds: SegmentKind, owner: str = "one", at_s: float = 0) -> Segment:
    segment = await try_claim(store, *kinds, owner=owner, at_s=at_s)
    assert segment is not None
    return segment


async def advance(store: Store, segment: Segment, cursor: int, *, at_s: float = 0) -> bool:
    return await store.advance(SOURCE, segment, cursor, lease_ns=LEASE_NS, now_ns=at(at_s))


async def covered(store: Store) -> list[tuple[int, int]]:
    return [(piece.start, piece.end) for piece in (await store.coverage(SOURCE)).ranges]


async def test_a_planned_piece_can_be_claimed_from_its_beginning(store: Store) -> None:
    assert await plan(store, (1, 100)) == 1
    segment = await claim(store)
    assert (segment.kind, segment.ids, segment.cursor, segment.owner) == (BACKFILL, IdRange(1, 100), 0, "one")


async def test_nothing_is_claimed_where_nothing_is_planned(store: Store) -> None:
    assert await try_claim(store) is None
    await plan(store, (1, 100))
    assert await try_claim(store, RESCAN) is None
    assert await try_claim(store, source="other") is None


async def test_a_backfill_leaves_out_what_was_covered_since_its_holes_were_found(store: Store) -> None:
    await store.cover(SOURCE, IdRange(10, 20))
    assert await plan(store, (1, 30)) == 2
    assert (await store.open_segments(SOURCE))[BACKFILL] == 19
    assert await plan(store, (1, 30), kind=REPLAY) == 1, "what is replayed is covered"


async def test_a_plan_leaves_out_what_an_unfinished_segment_of_its_kind_has(store: Store) -> None:
    await plan(store, (10, 20), (40, 50))
    assert await plan(store, (1, 60)) == 3
    assert await store.open_segments(SOURCE) == {BACKFILL: 60}
    assert await plan(store, (1, 60)) == 0
    assert await plan(store, (1, 60), kind=RESCAN) == 1


async def test_a_plan_that_repeats_itself_is_planned_once(store: Store) -> None:
    assert await plan(store, (1, 10), (5, 15)) == 2
    assert await store.open_segments(SOURCE) == {BACKFILL: 15}


async def test_finished_ids_can_be_planned_again(store: Store) -> None:
    await plan(store, (1, 10), kind=RESCAN)
    await advance(store, await claim(store, RESCAN), 10)
    assert await plan(store, (1, 10), kind=RESCAN) == 1


async def test_the_walked_part_of_an_unfinished_segment_can_be_planned_again(store: Store) -> None:
    await plan(store, (1, 10), kind=RESCAN)
    await advance(store, await claim(store, RESCAN), 4)
    await plan(store, (1, 10), kind=RESCAN)
    assert await store.open_segments(SOURCE) == {RESCAN: 10}


async def test_the_newest_ids_are_claimed_first(store: Store) -> None:
    await plan(store, (1, 10), (21, 30), (11, 20))
    assert [(await claim(store)).ids.start for _ in range(3)] == [21, 11, 1]


async def test_the_order_of_kinds_comes_before_the_order_of_ids(store: Store) -> None:
    await plan(store, (100, 110))
    await plan(store, (1, 10), kind=BLIND)
    assert [(await claim(store, BLIND, BACKFILL)).kind for _ in range(2)] == [BLIND, BACKFILL]


async def test_one_segment_never_has_two_owners(store: Store) -> None:
    await plan(store, *((start, start + 9) for start in range(0, 200, 10)))
    claimed = await asyncio.gather(*(try_claim(store, owner=str(number)) for number in range(30)))
    starts = [segment.ids.start for segment in claimed if segment is not None]
    assert sorted(starts) == list(range(0, 200, 10))


async def test_a_live_lease_is_never_stolen_and_an_expired_one_is_with_a_higher_fence(store: Store) -> None:
    await plan(store, (1, 10))
    first = await claim(store, owner="one")
    await advance(store, first, 3, at_s=30)
    assert await try_claim(store, owner="two", at_s=89) is None
    second = await claim(store, owner="two", at_s=90)
    assert second.segment_id == first.segment_id
    assert second.fence > first.fence
    assert second.cursor == 3


async def test_a_lease_that_ends_later_than_it_could_if_the_clock_had_not_stepped_back_has_ended(store: Store) -> None:
    slack_s = CLOCK_SLACK_NS // SECOND_NS
    await plan(store, (1, 10))
    first = await claim(store, owner="one", at_s=1_000)
    assert await try_claim(store, owner="two", at_s=1_000 - slack_s) is None
    second = await claim(store, owner="two", at_s=999 - slack_s)
    assert second.fence > first.fence
    assert not await advance(store, first, 5, at_s=999)


async def test_an_outdated_fence_is_refused_and_changes_nothing(store: Store) -> None:
    await plan(store, (1, 10))
    first = await claim(store, owner="one")
    second = await claim(store, owner="two", at_s=61)
    assert not await advance(store, first, 10, at_s=62)
    assert not await store.release(SOURCE, first)
    assert await covered(store) == []
    assert await advance(store, second, 10, at_s=63)
    assert await covered(store) == [(1, 10)]


async def test_an_expired_lease_that_nobody_took_over_still_counts(store: Store) -> None:
    await plan(store, (1, 10))
    segment = await claim(store)
    assert await advance(store, segment, 10, at_s=500)


async def test_a_finished_segment_is_neither_advanced_nor_released_nor_claimed(store: Store) -> None:
    await plan(store, (1, 10))
    segment = await claim(store)
    assert await advance(store, segment, 10)
    assert not await advance(store, segment, 10)
    assert not await store.release(SOURCE, segment)
    assert await try_claim(store, at_s=1_000) is None
    assert await store.open_segments(SOURCE) == {}


async def test_a_released_segment_can_be_claimed_at_once_where_it_stopped(store: Store) -> None:
    await plan(store, (1, 10))
    segment = await claim(store)
    await advance(store, segment, 4)
    assert await store.release(SOURCE, segment)
    again = await claim(store, owner="two")
    assert (again.cursor, again.left) == (4, IdRange(5, 10))


async def test_a_heartbeat_without_progress_extends_the_lease(store: Store) -> None:
    await plan(store, (1, 10))
    segment = await claim(store)
    assert await advance(store, segment, segment.cursor, at_s=50)
    assert await try_claim(store, owner="two", at_s=100) is None
    assert await covered(store) == []


async def test_a_cursor_never_moves_back(store: Store) -> None:
    await plan(store, (1, 10))
    segment = await claim(store)
    await advance(store, segment, 7)
    assert await advance(store, segment, 5)
    assert await store.open_segments(SOURCE) == {BACKFILL: 3}


async def test_walked_ids_are_covered_and_ranges_that_touch_are_one(store: Store) -> None:
    await plan(store, (1, 10), (11, 20), (31, 40))
    for end in (40, 20):
        segment = await claim(store)
        assert segment.ids.end == end
        await advance(store, segment, segment.ids.start + 4)
        await advance(store, segment, end)
    assert await covered(store) == [(11, 20), (31, 40)]
    await advance(store, await claim(store), 10)
    assert await covered(store) == [(1, 20), (31, 40)]
    await store.cover(SOURCE, IdRange(21, 30))
    assert await covered(store) == [(1, 40)]


async def test_a_rescan_covers_nothing_and_every_other_kind_does(store: Store) -> None:
    for number, kind in enumerate((BACKFILL, BLIND, REPLAY, RESCAN)):
        await plan(store, (100 * number, 100 * number + 9), kind=kind)
        await advance(store, await claim(store, kind), 100 * number + 9)
    assert await covered(store) == [(0, 9), (100, 109), (200, 209)]


async def test_covering_again_or_inside_changes_nothing(store: Store) -> None:
    await store.cover(SOURCE, IdRange(1, 100))
    await store.cover(SOURCE, IdRange(1, 100))
    await store.cover(SOURCE, IdRange(40, 50))
    assert await covered(store) == [(1, 100)]


async def test_one_range_can_swallow_many(store: Store) -> None:
    for start in range(10, 100, 10):
        await store.cover(SOURCE, IdRange(start, start + 3))
    await store.cover(SOURCE, IdRange(15, 82))
    assert await covered(store) == [(10, 13), (15, 83), (90, 93)]


async def test_the_frontier_is_the_end_of_the_unbroken_beginning(store: Store) -> None:
    await store.cover(SOURCE, IdRange(1, 5))
    await store.cover(SOURCE, IdRange(7, 9))
    assert (await store.coverage(SOURCE)).frontier(first_id=1) == 5
    await store.cover(SOURCE, IdRange(6, 6))
    assert (await store.coverage(SOURCE)).frontier(first_id=1) == 9


async def test_coverage_belongs_to_its_source(store: Store) -> None:
    await store.cover("other", IdRange(1, 5))
    assert await store.coverage(SOURCE) == Coverage()


async def test_open_segments_count_what_is_left_by_kind(store: Store) -> None:
    await plan(store, (1, 10))
    await plan(store, (1, 5), kind=RESCAN)
    await advance(store, await claim(store), 4)
    assert await store.open_segments(SOURCE) == {BACKFILL: 6, RESCAN: 5}


def first_id(segment: Segment) -> int:
    return segment.ids.start


async def test_a_wide_segment_is_claimed_in_pieces_from_its_newest_ids_and_costs_few_rows(store: Store) -> None:
    assert await plan(store, (1, 2**53)) == 1
    claimed = [await claim(store, owner=str(number)) for number in range(5)]
    assert all(len(segment.ids) <= SEGMENT_IDS for segment in claimed)
    assert claimed[0].ids.end == 2**53, "the newest ids first"
    assert min(segment.ids.start for segment in claimed) > 2**53 - 2 * STRETCH_IDS
    assert all(lower.ids.end < upper.ids.start for lower, upper in pairwise(sorted(claimed, key=first_id)))
    assert await store.open_segments(SOURCE) == {BACKFILL: 2**53}
    assert await plan(store, (1, 2**53)) == 0
    first = claimed[0].ids
    await advance(store, claimed[0], first.end)
    assert await store.open_segments(SOURCE) == {BACKFILL: 2**53 - len(first)}
    assert await covered(store) == [(first.start, first.end)]


async def test_a_wide_segment_comes_to_its_end(store: Store) -> None:
    await plan(store, (1, 2_500))
    seen = []
    while (segment := await try_claim(store)) is not None:
        seen.append((segment.ids.start, segment.ids.end))
        await advance(store, segment, segment.ids.end)
    assert seen == [(2_000, 2_500), (1_000, 1_999), (1, 999)]
    assert await store.open_segments(SOURCE) == {}
    assert await covered(store) == [(1, 2_500)]


async def test_many_claim_from_one_wide_segment_at_once_and_each_gets_a_piece_of_its_own(store: Store) -> None:
    await plan(store, (0, 19_999))
    claimed = await asyncio.gather(*(try_claim(store, owner=str(number)) for number in range(20)))
    assert sorted(segment.ids.start for segment in claimed if segment is not None) == list(range(0, 20_000, 1_000))


async def test_what_is_above_an_id_that_never_was_is_forgotten_and_everything_below_stays(store: Store) -> None:
    await plan(store, (1, 2**53))
    far = await claim(store)
    await advance(store, far, far.ids.start + 5)
    await store.cover(SOURCE, IdRange(90, 110))
    for item_id in (50, 2**53 - 7):
        await record(store, item_id, MISSING, at_s=0)
    assert await store.retract(SOURCE, above=100) > 0
    assert not await advance(store, far, far.ids.end)
    assert await store.open_segments(SOURCE) == {BACKFILL: 100}
    assert await covered(store) == [(90, 100)]
    assert [gap.key for gap in await store.gaps(SOURCE)] == ["50"]
    assert (await claim(store)).ids == IdRange(1, 100)
    assert await store.retract(SOURCE, above=100) == 0


async def test_what_one_source_never_had_is_forgotten_of_that_source_alone(store: Store) -> None:
    await store.plan("other", BACKFILL, [IdRange(1, 300)], now_ns=at(0))
    await store.cover("other", IdRange(1, 300))
    await store.retract(SOURCE, above=100)
    assert await store.open_segments("other") == {BACKFILL: 300}
    assert (await store.coverage("other")).ranges == (IdRange(1, 300),)


async def test_whoever_walks_over_the_end_of_the_truth_loses_the_lease(store: Store) -> None:
    await plan(store, (1, 200))
    mine = await claim(store)
    await store.retract(SOURCE, above=100)
    assert not await advance(store, mine, 150)
    assert (await claim(store, at_s=1)).ids == IdRange(1, 100)


async def test_the_recorded_ids_of_a_range_are_those_with_an_item_or_a_gap(store: Store) -> None:
    for item_id in (2, 5, 9):
        await record(store, item_id, story(item_id), at_s=0)
    await record(store, 4, MISSING, at_s=0)
    assert set(await store.recorded_ids(SOURCE, IdRange(2, 5))) == {2, 4, 5}
    assert set(await store.recorded_ids(SOURCE, IdRange(6, 8))) == set()
    assert set(await store.recorded_ids("other", IdRange(1, 9))) == set()


async def test_a_finished_segment_is_forgotten_with_the_next_plan_and_its_ids_stay_covered(store: Store) -> None:
    await plan(store, (1, 100))
    finished = await claim(store)
    assert await advance(store, finished, 100)
    await plan(store, (41, 60), kind=RESCAN)
    late = await claim(store, RESCAN)
    assert not await advance(store, finished, 100)
    assert await covered(store) == [(1, 100)]
    assert await plan(store, (1, 100)) == 0
    assert await advance(store, late, 50)
    assert await store.retract(SOURCE, above=0) == 2  # the segment of the rescan and the coverage; nothing else is left
