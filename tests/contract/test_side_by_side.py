"""Do sources that share a store keep apart, even when they use the same ids, names and keys?"""

import asyncio

import pytest

from remora.contracts import Observation, Outcome, Store, WalkState
from remora.core.item import Document, Entry, Item, User
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery, FromInbox, Kind
from remora.core.ledger.segment import SegmentKind
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Verdict
from tests.contract.answers import NOW_S, TIMEOUT, at, story

NUMBERED = ("left", "right")
LISTED = ("letters", "papers")
IDS = range(1, 301)
LEASE_NS = 60 * SECOND_NS


def item_of(source: str, item_id: int, *, text: str = "first") -> Item:
    """The same id means another thing in each source, with another time."""
    later = 1_000_000 * NUMBERED.index(source)
    return story(item_id, text=f"{source} {text}", time=NOW_S + later + item_id)


async def record(
    store: Store, source: str, discovery: Discovery, verdict: Verdict | Item | User | Document, at_s: float
) -> Outcome:
    answer = Found(verdict) if isinstance(verdict, Item | User | Document) else verdict
    return await store.record(source, Observation(discovery, answer, at(at_s), at(200)))


async def record_item(store: Store, source: str, verdict: Verdict | Item, item_id: int, at_s: float = 1) -> Outcome:
    return await record(store, source, Discovery.item(item_id, via=Lane.LIVE), verdict, at_s)


@pytest.fixture
async def shared(store: Store) -> Store:
    """Two numbered sources with the same ids, recorded in the same batches."""
    pairs = [(source, item_id) for item_id in IDS for source in NUMBERED]
    outcomes = await asyncio.gather(*(record_item(store, source, item_of(source, n), n) for source, n in pairs))
    assert set(outcomes) == {Outcome.NEW}
    return store


async def test_two_numbered_sources_keep_their_own_bodies_under_the_same_ids(shared: Store) -> None:
    for source in NUMBERED:
        own = [(item_id, item_of(source, item_id).body) for item_id in IDS]
        assert [pair async for pair in shared.bodies(source)] == own
        held = await shared.item(source, 7)
        assert held is not None
        assert held.body == item_of(source, 7).body
    assert await shared.item("nobody", 7) is None
    assert [pair async for pair in shared.bodies("nobody")] == []


async def test_a_change_in_one_source_leaves_the_other_as_it_was(shared: Store) -> None:
    before = await shared.item("right", 7)
    assert await record_item(shared, "left", item_of("left", 7, text="second"), 7, at_s=2) is Outcome.CHANGED
    assert await shared.item("right", 7) == before
    assert await shared.revisions("right", 7) == ()
    assert [kept.body for kept in await shared.revisions("left", 7)] == [item_of("left", 7).body]
    assert await record_item(shared, "right", item_of("right", 7), 7, at_s=3) is Outcome.UNCHANGED


async def test_a_fetch_is_stale_only_beside_a_newer_one_of_its_own_source(shared: Store) -> None:
    assert await record_item(shared, "left", item_of("left", 7, text="new"), 7, at_s=100) is Outcome.CHANGED
    assert await record_item(shared, "right", item_of("right", 7, text="new"), 7, at_s=50) is Outcome.CHANGED
    assert await record_item(shared, "left", item_of("left", 7, text="old"), 7, at_s=50) is Outcome.STALE


async def test_each_source_has_its_own_clock(shared: Store) -> None:
    for source in NUMBERED:
        newest = await shared.newest_time(source)
        assert newest is not None
        assert item_of(source, 280).time <= newest <= item_of(source, 300).time  # type: ignore[operator]
        assert await shared.first_id_since(source, item_of(source, 200).time or 0) == 200
        assert await shared.item_times(source, [5]) == {5: item_of(source, 5).time}


async def test_users_of_the_same_name_are_two_people(store: Store) -> None:
    for source in NUMBERED:
        user = User("ada", f'{{"id":"ada","of":"{source}"}}'.encode())
        assert await record(store, source, Discovery(Kind.USER, "ada", Lane.UPDATE), user, 1) is Outcome.NEW
    assert [await store.user(source, "ada") for source in NUMBERED] == [
        b'{"id":"ada","of":"left"}',
        b'{"id":"ada","of":"right"}',
    ]


async def test_what_one_numbered_source_owes_plans_covers_and_announces_is_not_the_others(store: Store) -> None:
    await record_item(store, "left", TIMEOUT, 7)
    await store.plan("left", SegmentKind.BACKFILL, [IdRange(1, 50)], now_ns=at(0))
    await store.cover("left", IdRange(60, 70))
    await store.announce("left", [(Kind.ITEM, "9")], now_ns=at(0))
    for source, count in (("left", 1), ("right", 0)):
        assert len(await store.gaps(source)) == len(await store.gap_counts(source)) == count
        assert len(await store.open_segments(source)) == len((await store.coverage(source)).ranges) == count
        assert await store.inbox_depth(source) == len(await store.waiting(source, limit=9)) == count
    assert await store.replay_gaps("right", now_ns=at(1)) == 0
    kinds = [SegmentKind.BACKFILL]
    assert await store.claim("right", kinds, owner="one", lease_ns=LEASE_NS, now_ns=at(1)) is None
    assert await store.lease_gaps("right", owner="one", limit=9, lease_ns=LEASE_NS, now_ns=at(10**6)) == ()


async def test_an_answer_settles_the_gap_and_the_inbox_of_its_own_source_only(store: Store) -> None:
    for source in NUMBERED:
        await record_item(store, source, TIMEOUT, 7)
        await store.announce(source, [(Kind.ITEM, "7")], now_ns=at(1))
    (entry,) = await store.waiting("left", limit=1)
    found = Discovery.item(7, via=Lane.UPDATE, origin=FromInbox(entry.ticket))
    assert await record(store, "left", found, item_of("left", 7), 2) is Outcome.NEW
    assert [(len(await store.gaps(source)), await store.inbox_depth(source)) for source in NUMBERED] == [(0, 0), (1, 1)]


async def test_two_listed_sources_keep_their_own_documents_walks_and_debts_under_the_same_keys(store: Store) -> None:
    entries = [Entry(f"key {number}", str(number)) for number in range(5)]
    for source in LISTED:
        state = WalkState(walking_from="4", position=source)
        assert (await store.record_page(source, entries, state, now_ns=at(0))).owed == 5
        document = Document("key 1", f'{{"of":"{source}"}}'.encode(), "1")
        wanted = Discovery(Kind.DOCUMENT, "key 1", Lane.DETAIL)
        assert await record(store, source, wanted, document, 1) is Outcome.NEW
    await record(store, "letters", Discovery(Kind.DOCUMENT, "key 2", Lane.DETAIL), TIMEOUT, 1)
    for source, owed in (("letters", 3), ("papers", 4)):
        assert [held.body async for held in store.documents(source)] == [f'{{"of":"{source}"}}'.encode()]
        assert (await store.walk_state(source)).position == source
        assert await store.count_owed_details(source) == len(await store.owed_details(source, limit=9)) == owed
        assert len(await store.gaps(source)) == 4 - owed


async def test_a_numbered_and_a_listed_source_of_one_store_do_not_meet(store: Store) -> None:
    await record_item(store, "left", item_of("left", 7), 7)
    await record(store, "letters", Discovery(Kind.DOCUMENT, "7", Lane.DETAIL), Document("7", b"{}", None), 1)
    assert await store.item("letters", 7) is None
    assert await store.document("left", "7") is None
