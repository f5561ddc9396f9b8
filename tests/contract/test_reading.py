"""Can the mirror be read in order, by time, and without being fooled by absurd times?"""

import asyncio

import pytest

from remora.contracts import Store
from tests.contract.answers import NOW_S, SOURCE, at, record, story


async def fill(store: Store, times: dict[int, int | None]) -> None:
    await asyncio.gather(
        *(record(store, item_id, story(item_id, time=time), at_s=1) for item_id, time in times.items())
    )


async def test_bodies_come_by_id_whatever_order_they_were_recorded_in(store: Store) -> None:
    await fill(store, dict.fromkeys((30, 10, 20)))
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == [10, 20, 30]
    assert [body async for _, body in store.bodies(SOURCE, first_id=20, last_id=20)] == [story(20, time=None).body]
    assert [item_id async for item_id, _ in store.bodies(SOURCE, first_id=11)] == [20, 30]
    assert [item_id async for item_id, _ in store.bodies(SOURCE, last_id=19)] == [10]


async def test_no_body_is_lost_or_doubled_between_two_pages(store: Store) -> None:
    await fill(store, dict.fromkeys(range(1, 2_003, 2)))
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == list(range(1, 2_003, 2))


async def test_the_current_body_is_read_not_an_earlier_revision(store: Store) -> None:
    await record(store, 1, story(1, text="first"), at_s=1)
    await record(store, 1, story(1, text="second"), at_s=2)
    assert [body async for _, body in store.bodies(SOURCE)] == [story(1, text="second").body]


async def test_times_are_given_only_for_held_items_that_have_one(store: Store) -> None:
    await fill(store, {1: 100, 2: None, 3: 300})
    assert await store.item_times(SOURCE, [1, 2, 3, 4]) == {1: 100, 3: 300}
    assert await store.item_times(SOURCE, []) == {}


async def test_an_empty_mirror_knows_no_time(store: Store) -> None:
    assert await store.newest_time(SOURCE) is None
    assert await store.first_id_since(SOURCE, 0) is None


async def test_the_newest_time_is_read_from_the_newest_ids(store: Store) -> None:
    await fill(store, {item_id: NOW_S + item_id for item_id in range(200)})
    newest = await store.newest_time(SOURCE)
    assert newest is not None
    assert NOW_S + 180 <= newest <= NOW_S + 199


async def test_absurd_and_missing_times_do_not_move_the_source_clock(store: Store) -> None:
    times: dict[int, int | None] = {item_id: NOW_S + item_id for item_id in range(200)}
    times |= {199: NOW_S + 10**9, 198: 0, 197: None, 190: 10**12}
    await fill(store, times)
    newest = await store.newest_time(SOURCE)
    assert newest is not None
    assert NOW_S + 180 <= newest <= NOW_S + 199


@pytest.mark.parametrize("wanted", [1, 63, 64, 500, 991, 999])
@pytest.mark.slow
async def test_the_first_id_since_a_moment_is_exact_where_times_are_sane(store: Store, wanted: int) -> None:
    await fill(store, {item_id: NOW_S + 10 * item_id for item_id in range(1, 1_000)})
    assert await store.first_id_since(SOURCE, NOW_S + 10 * wanted) == wanted
    assert await store.first_id_since(SOURCE, NOW_S + 10 * wanted - 9) == wanted


async def test_a_moment_before_everything_gives_the_lowest_id_and_one_after_it_none(store: Store) -> None:
    await fill(store, {item_id: NOW_S + item_id for item_id in range(5, 105)})
    assert await store.first_id_since(SOURCE, 0) == 5
    assert await store.first_id_since(SOURCE, NOW_S + 1_000) is None


async def test_one_old_id_with_a_time_in_the_future_does_not_stretch_the_answer_back_to_it(store: Store) -> None:
    times: dict[int, int | None] = {item_id: NOW_S + item_id for item_id in range(1, 1_000)}
    times |= {3: NOW_S + 10**9, 400: 10**12, 950: None, 960: 0}
    await fill(store, times)
    assert await store.first_id_since(SOURCE, NOW_S + 900) == 900


async def test_a_mirror_with_wide_holes_is_searched_all_the_same(store: Store) -> None:
    times: dict[int, int | None] = {item_id: NOW_S - 10_000 + item_id for item_id in range(1, 100)}
    times |= {40_000_000 + item_id: NOW_S + item_id for item_id in range(100)}
    await fill(store, times)
    assert await store.first_id_since(SOURCE, NOW_S + 30) == 40_000_030
    assert await store.first_id_since(SOURCE, NOW_S) == 40_000_000


async def test_the_newest_items_come_highest_first_with_when_they_were_first_seen(store: Store) -> None:
    await fill(store, dict.fromkeys((10, 20, 30, 40)))
    found = await store.newest_items(SOURCE, first_id=20, limit=2, body_max_bytes=1_000)
    assert [item.item_id for item in found] == [40, 30]
    assert found[0].body == story(40, time=None).body
    assert found[0].first_seen_ns == at(1)
    assert [item.item_id for item in await store.newest_items(SOURCE, first_id=35, limit=9, body_max_bytes=1)] == [40]
    assert list(await store.newest_items("another", first_id=0, limit=9, body_max_bytes=1_000)) == []


async def test_a_body_above_the_bound_is_left_out_of_the_newest_items(store: Store) -> None:
    size = len(story(1, text="é" * 50).body)
    await record(store, 1, story(1, text="é" * 50), at_s=1)
    bodies = [
        (await store.newest_items(SOURCE, first_id=1, limit=1, body_max_bytes=most))[0].body
        for most in (size, size - 1)
    ]
    assert bodies == [story(1, text="é" * 50).body, b""]
