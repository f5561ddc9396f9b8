"""Are update ages measured on the source's own clock, and kept?"""

import json

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.units import DAY_NS, SECOND_NS
from remora.core.verdict import Found
from remora.loops.numbered.update_ages import AgeBook
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore

NAME = "hackernews"
HOUR_S = 3_600


async def mirror_of(clock: SimClock, times_s: dict[int, int]) -> MemoryStore:
    store = MemoryStore()
    for item_id, time_s in times_s.items():
        body = json.dumps({"id": item_id, "time": time_s}).encode()
        found = Found(Item(item_id=item_id, body=body, time=time_s))
        seen = Observation(Discovery.item(item_id, via=Lane.UPDATE), found, clock.wall_ns(), clock.wall_ns())
        await store.record(NAME, seen)
    return store


def test_an_age_is_the_difference_to_the_newest_items_whatever_our_own_clock_says() -> None:
    async def main(clock: SimClock) -> None:
        source_now_s = (clock.wall_ns() - 400 * DAY_NS) // SECOND_NS
        times_s = dict.fromkeys(range(100, 140), source_now_s)
        store = await mirror_of(clock, {50: source_now_s - 2 * HOUR_S, **times_s})
        book = AgeBook(NAME, store, clock=clock)
        await book.changed(50)
        expected = AgeBook(NAME, store, clock=clock).ages.seen(2 * HOUR_S)
        assert book.ages == expected

    run(main)


def test_an_item_far_ahead_of_the_source_or_without_a_time_is_left_out() -> None:
    async def main(clock: SimClock) -> None:
        now_s = clock.wall_ns() // SECOND_NS
        store = await mirror_of(clock, {7: now_s + 40 * HOUR_S, **dict.fromkeys(range(100, 140), now_s)})
        book = AgeBook(NAME, store, clock=clock)
        before = book.ages
        await book.changed(7)
        await book.changed(8)
        assert book.ages == before

    run(main)
