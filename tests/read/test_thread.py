"""Is a thread shown whole, in the provider's order, bounded, and with every break named?"""

import asyncio

import pytest

from remora.contracts import Store
from remora.read.mirror import MirrorReader
from tests.read.conftest import item, keep


async def test_a_thread_follows_the_order_of_the_provider(mirror: MirrorReader) -> None:
    thread = await mirror.thread(1)
    assert thread is not None
    assert [(depth, node.item.id) for depth, node in thread.walk()] == [(0, 1), (1, 4), (1, 2), (2, 3)]


async def test_a_missing_reply_and_one_below_another_item_are_named(mirror: MirrorReader) -> None:
    thread = await mirror.thread(1)
    assert thread is not None
    assert (thread.missing, thread.elsewhere, thread.cycles, thread.is_cut) == ((9,), (7,), (), False)


async def test_a_cycle_ends_and_is_named(mirror: MirrorReader, store: Store) -> None:
    thread = await mirror.thread(20)
    assert thread is not None
    assert [node.item.id for _, node in thread.walk()] == [20, 21]
    assert thread.replies[0].cycles == (20,)
    await keep(store, item(60, parent=60))
    own = await mirror.thread(60)
    assert own is not None
    assert (own.size, own.cycles) == (1, (60,))


async def test_a_thread_with_too_many_items_is_cut_and_says_so(mirror: MirrorReader) -> None:
    thread = await mirror.thread(1, items_max=2)
    assert thread is not None
    assert thread.size == 2
    assert thread.is_cut
    assert thread.missing == (9,)


async def test_a_thread_of_an_item_that_is_not_held_is_none(mirror: MirrorReader) -> None:
    assert await mirror.thread(999) is None


async def test_a_reply_of_another_source_with_the_same_parent_is_not_shown(mirror: MirrorReader, store: Store) -> None:
    await keep(store, item(99, parent=1), source="other")
    thread = await mirror.thread(1, source="hackernews")
    assert thread is not None
    assert thread.size == 4


@pytest.mark.slow
async def test_a_thread_deeper_than_the_stack_is_read(mirror: MirrorReader, store: Store) -> None:
    await asyncio.gather(*(keep(store, item(1_000 + depth, parent=999 + depth)) for depth in range(1, 1_500)))
    await keep(store, item(1_000))
    thread = await mirror.thread(1_000)
    assert thread is not None
    assert max(depth for depth, _ in thread.walk()) == 1_499
