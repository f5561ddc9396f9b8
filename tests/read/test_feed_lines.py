"""Does the change feed say in order what happened to a thing, and last what it is now?"""

import asyncio

import pytest

from remora.contracts import Store
from remora.core.item import Document, Entry
from remora.core.ledger.list_walk import WalkState
from remora.core.reasons import GapReason
from remora.core.verdict import Found, Missing
from remora.read.mirror import MirrorReader
from tests.contract.answers import ARCHIVE, SOURCE, observed, record, record_document, story
from tests.contract.answers import at as at_ns

GONE = Missing(GapReason.GONE)
HOUR_S = 3_600


async def lines(mirror: MirrorReader, key: str) -> list[str]:
    """What the feed says about one thing."""
    return [change.change async for change in mirror.changes() if change.key == key]


async def lose(store: Store, item_id: int, *, at_s: float) -> None:
    """The provider says three times that it is gone."""
    for look in range(3):
        await record(store, item_id, GONE, at_s=at_s + look * HOUR_S)


async def test_an_item_that_was_gone_and_comes_back_as_it_was_is_told(store: Store, mirror: MirrorReader) -> None:
    await record(store, 700, story(700), at_s=10)
    await lose(store, 700, at_s=20)
    assert await lines(mirror, "700") == ["new", "gone"]
    await record(store, 700, story(700), at_s=4 * HOUR_S)
    assert await lines(mirror, "700") == ["new", "gone", "changed"]


@pytest.mark.parametrize("failure", [None, Missing(GapReason.NOT_FOUND)], ids=["found at once", "missing once more"])
async def test_an_item_that_comes_back_by_a_replay_is_told(
    store: Store, mirror: MirrorReader, failure: Missing | None
) -> None:
    await record(store, 700, story(700), at_s=10)
    await lose(store, 700, at_s=20)
    await store.replay_gaps(SOURCE, key="700", now_ns=at_ns(4 * HOUR_S))
    if failure is not None:
        await record(store, 700, failure, at_s=5 * HOUR_S)
    await record(store, 700, story(700), at_s=6 * HOUR_S)
    assert (await lines(mirror, "700"))[-1] == "changed"


async def test_a_document_that_was_gone_and_comes_back_as_it_was_is_told(store: Store, mirror: MirrorReader) -> None:
    chat = Document("chat-9", b'{"id":"chat-9"}', "2")
    await store.record_page(ARCHIVE, [Entry("chat-9", "2")], WalkState(walk=1), now_ns=at_ns(10))
    await record_document(store, "chat-9", chat, at_s=11)
    await record_document(store, "chat-9", GONE, at_s=12)
    await record_document(store, "chat-9", chat, at_s=13)
    assert await lines(mirror, "chat-9") == ["new", "gone", "changed"]


async def test_what_was_read_again_and_did_not_change_is_not_told(store: Store, mirror: MirrorReader) -> None:
    await record(store, 700, story(700), at_s=10)
    await record(store, 700, story(700), at_s=20)
    assert await lines(mirror, "700") == ["new"]


async def test_what_happens_to_an_item_within_one_batch_is_told_in_order(store: Store, mirror: MirrorReader) -> None:
    await record(store, 1, story(1, text="before"), at_s=10)
    await record(store, 700, story(700), at_s=10)
    for look in range(2):
        await record(store, 700, GONE, at_s=20 + look * HOUR_S)
    await asyncio.gather(
        store.record(SOURCE, observed(1, Found(story(1, text="after")), started_s=3 * HOUR_S)),
        store.record(SOURCE, observed(700, GONE, started_s=3 * HOUR_S)),
        store.record(SOURCE, observed(700, Found(story(700, text="back")), started_s=3 * HOUR_S + 1)),
        store.record(SOURCE, observed(701, Found(story(701)), started_s=3 * HOUR_S)),
        store.record(SOURCE, observed(701, Found(story(701, text="edited")), started_s=3 * HOUR_S + 1)),
    )
    assert await lines(mirror, "700") == ["new", "gone", "changed"]
    assert await lines(mirror, "701") == ["new", "changed"]
