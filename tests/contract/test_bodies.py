"""Is a body recognized that is stored without a hash of it, and its content, too?"""

import asyncio
import json

import msgspec
import pytest

from remora.contracts import Outcome, Store
from remora.core.item import Item
from remora.core.verdict import Found
from remora.stores.decisions import HASHED_FROM_BYTES
from tests.contract.answers import SOURCE, observed, record, story

SIZES = pytest.mark.parametrize("more", [0, HASHED_FROM_BYTES], ids=["short", "long"])


def text_of(_item_id: int, body: bytes) -> bytes | None:
    """The content of a story, found in its body."""
    try:
        return str(json.loads(body)["text"]).encode()
    except (ValueError, KeyError):
        return None


def readable(item_id: int, *, text: str = "first", score: int = 1, more: int = 0) -> Item:
    """A story whose content is found in its body, perhaps a long one."""
    told = story(item_id, text=text, score=score)
    body = told.body[:-1] + b',"more":"' + b"x" * more + b'"}'
    return msgspec.structs.replace(told, body=body, content=b"", content_of=text_of)


async def revisions(store: Store, item_id: int) -> list[bytes]:
    return [kept.body for kept in await store.revisions(SOURCE, item_id)]


@SIZES
async def test_the_same_body_is_unchanged_and_another_one_is_changed(store: Store, more: int) -> None:
    assert await record(store, 1, readable(1, more=more), at_s=1) is Outcome.NEW
    assert await record(store, 1, readable(1, more=more), at_s=2) is Outcome.UNCHANGED
    assert await record(store, 1, readable(1, more=more, score=2), at_s=3) is Outcome.CHANGED
    assert await record(store, 1, readable(1, more=more, score=2), at_s=4) is Outcome.UNCHANGED
    assert await revisions(store, 1) == []


@SIZES
async def test_only_new_content_makes_a_revision(store: Store, more: int) -> None:
    bodies = [readable(1, more=more, text=text, score=score) for text in ("a", "b") for score in (1, 2)]
    for at_s, item in enumerate(bodies):
        await record(store, 1, item, at_s=at_s)
    assert await revisions(store, 1) == [bodies[1].body]
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert (held.body, held.revision) == (bodies[3].body, 2)


@SIZES
async def test_answers_that_share_a_batch_are_compared_with_each_other(store: Store, more: int) -> None:
    told = [("a", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 2), ("b", 3)]
    answers = [
        observed(1, Found(readable(1, more=more, text=text, score=score)), started_s=at_s)
        for at_s, (text, score) in enumerate(told)
    ]
    outcomes = await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers))
    new, same, changed = Outcome.NEW, Outcome.UNCHANGED, Outcome.CHANGED
    assert outcomes == [new, same, changed, changed, same, changed]
    assert await revisions(store, 1) == [readable(1, more=more, text="a", score=2).body]


@SIZES
async def test_an_item_that_grows_or_shrinks_is_compared_as_well(store: Store, more: int) -> None:
    await record(store, 1, readable(1, more=more), at_s=1)
    assert await record(store, 1, readable(1, more=HASHED_FROM_BYTES - more), at_s=2) is Outcome.CHANGED
    assert await revisions(store, 1) == []
    assert await record(store, 1, readable(1, more=more), at_s=3) is Outcome.CHANGED
    assert await record(store, 1, readable(1, more=HASHED_FROM_BYTES - more, text="b"), at_s=4) is Outcome.CHANGED
    assert await revisions(store, 1) == [readable(1, more=more).body]


async def test_content_that_came_with_the_item_is_compared_with_content_that_is_found_in_a_body(store: Store) -> None:
    await record(store, 1, story(1), at_s=1)
    assert await record(store, 1, readable(1), at_s=2) is Outcome.CHANGED
    assert await revisions(store, 1) == []
    assert await record(store, 1, readable(1, text="second"), at_s=3) is Outcome.CHANGED
    assert await revisions(store, 1) == [readable(1).body]


async def test_what_cannot_be_compared_is_kept_as_a_revision(store: Store) -> None:
    unread = Item(1, b"not json", content_of=text_of)
    await record(store, 1, unread, at_s=1)
    await record(store, 1, readable(1), at_s=2)
    assert await revisions(store, 1) == [unread.body]
    await record(store, 1, story(1), at_s=3)  # the source no longer tells how to find the content
    assert await revisions(store, 1) == [unread.body, readable(1).body]


@pytest.mark.parametrize("body", [b"", b"\0", b'{"id":1,"odd":"\xff\0\xed\xa0\x80"}', "\ufeff{}".encode()])
async def test_a_body_of_any_bytes_is_recognized(store: Store, body: bytes) -> None:
    assert await record(store, 1, Item(1, body, content_of=text_of), at_s=1) is Outcome.NEW
    assert await record(store, 1, Item(1, body, content_of=text_of), at_s=2) is Outcome.UNCHANGED
    assert await record(store, 1, Item(1, body + b"x", content_of=text_of), at_s=3) is Outcome.CHANGED


async def test_items_that_are_read_again_together_are_each_compared_with_their_own_body(store: Store) -> None:
    sizes = (3, HASHED_FROM_BYTES, 0, 700, HASHED_FROM_BYTES - 200, 1)
    first = [readable(item_id, more=size) for item_id, size in enumerate(sizes, start=1)]
    empty = Item(len(first) + 1, b"", content_of=text_of)
    things = [*first, empty, *(readable(item_id, more=item_id) for item_id in range(empty.item_id + 1, 40))]

    async def told(at_s: int) -> set[Outcome]:
        return set(await asyncio.gather(*(record(store, thing.item_id, thing, at_s=at_s) for thing in things)))

    assert await told(1) == {Outcome.NEW}
    assert await told(2) == {Outcome.UNCHANGED}
    things = [readable(thing.item_id, score=2, more=len(thing.body)) for thing in things]
    assert await told(3) == {Outcome.CHANGED}
    assert await told(4) == {Outcome.UNCHANGED}
    kept = [thing.item_id for thing in things if await store.revisions(SOURCE, thing.item_id)]
    assert kept == [empty.item_id]  # it had no content to compare
