"""Do the inbox, the pace, the notes and the heartbeat keep what they were given?"""

from math import nan

from remora.contracts import Json, Store
from remora.core.ledger.discovery import Kind
from remora.core.rate.pace_record import Damaged, record_from_json
from remora.stores.decisions import HEARTBEATS_KEPT, HEARTBEATS_KEPT_OF_ALL
from tests.contract.answers import ARCHIVE, SOURCE, at


async def test_announced_keys_wait_in_order_and_none_twice(store: Store) -> None:
    assert await store.announce(SOURCE, [(Kind.ITEM, "5"), (Kind.USER, "ada"), (Kind.ITEM, "4")], now_ns=at(0)) == 3
    waiting = await store.waiting(SOURCE, limit=10)
    assert [(entry.kind, entry.key) for entry in waiting] == [
        (Kind.ITEM, "5"),
        (Kind.USER, "ada"),
        (Kind.ITEM, "4"),
    ]
    assert await store.inbox_depth(SOURCE) == 3


async def test_a_key_announced_again_gets_a_new_ticket_and_no_second_place(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1"), (Kind.ITEM, "2")], now_ns=at(0))
    before = await store.waiting(SOURCE, limit=10)
    assert await store.announce(SOURCE, [(Kind.ITEM, "1"), (Kind.ITEM, "1")], now_ns=at(1)) == 2
    after = await store.waiting(SOURCE, limit=10)
    assert sorted(entry.key for entry in after) == ["1", "2"]
    again = next(entry for entry in after if entry.key == "1")
    assert again.ticket > max(entry.ticket for entry in before)


async def test_waiting_begins_beyond_a_ticket_and_ends_at_the_limit(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, str(key)) for key in range(10)], now_ns=at(0))
    first = await store.waiting(SOURCE, limit=4)
    rest = await store.waiting(SOURCE, limit=10, after_ticket=first[-1].ticket)
    assert [entry.key for entry in (*first, *rest)] == [str(key) for key in range(10)]


async def test_tickets_never_come_back(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(0))
    (before,) = await store.waiting(SOURCE, limit=1)
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(0))
    (after,) = await store.waiting(SOURCE, limit=1)
    assert after.ticket > before.ticket


async def test_each_source_has_an_inbox_of_its_own(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(0))
    assert await store.announce(ARCHIVE, [(Kind.ITEM, "1")], now_ns=at(0)) == 1
    assert await store.announce(SOURCE, [], now_ns=at(0)) == 1


async def test_the_pace_that_was_saved_last_is_loaded(store: Store) -> None:
    assert await store.load_pace(SOURCE) is None
    await store.save_pace(SOURCE, {"rate_per_s": 1.5, "edges_per_s": [2.0, 3.0]})
    await store.save_pace(SOURCE, {"rate_per_s": 2.5, "edges_per_s": []})
    assert await store.load_pace(SOURCE) == {"rate_per_s": 2.5, "edges_per_s": []}
    assert await store.load_pace(ARCHIVE) is None


async def test_a_pace_that_makes_no_sense_is_kept_and_judged_damaged_by_its_reader(store: Store) -> None:
    await store.save_pace(SOURCE, {"rate_per_s": nan, "edges_per_s": []})
    assert isinstance(record_from_json(await store.load_pace(SOURCE)), Damaged)


async def test_a_note_keeps_any_json(store: Store) -> None:
    values: list[Json] = [None, True, 7, 1.25, "text \0 \ud800 é", [1, "two"], {"newest": 47_000_000}]
    for value in values:
        await store.keep_note(SOURCE, "fact", value)
        assert await store.note(SOURCE, "fact") == value


async def test_a_note_is_swapped_only_if_nobody_changed_it_meanwhile(store: Store) -> None:
    first: Json = {"paused": None, "text": "\0 é"}
    assert not await store.swap_note(SOURCE, "fact", old=first, new=2)
    assert await store.note(SOURCE, "fact") is None
    assert await store.swap_note(SOURCE, "fact", old=None, new=first)
    assert not await store.swap_note(SOURCE, "fact", old=None, new=2)
    assert not await store.swap_note(SOURCE, "fact", old=1, new=2)
    assert await store.note(SOURCE, "fact") == first
    assert await store.swap_note(SOURCE, "fact", old=first, new=2)
    assert await store.note(SOURCE, "fact") == 2


async def test_notes_are_told_apart_by_source_and_name(store: Store) -> None:
    await store.keep_note(SOURCE, "newest", 1)
    assert await store.note(SOURCE, "other") is None
    assert await store.note(ARCHIVE, "newest") is None


async def test_every_runtime_has_one_heartbeat_and_the_newest_comes_first(store: Store) -> None:
    assert await store.heartbeats() == ()
    await store.beat("one", {"items": 1}, now_ns=at(1))
    await store.beat("two", {"items": 2}, now_ns=at(2))
    await store.beat("one", {"items": 3}, now_ns=at(3))
    assert await store.heartbeats() == (("one", at(3), {"items": 3}), ("two", at(2), {"items": 2}))


async def test_of_processes_that_follow_one_another_only_the_latest_heartbeats_are_kept(store: Store) -> None:
    await store.beat("worker:here:7", {}, now_ns=at(0))
    await store.beat("service:there:7", {}, now_ns=at(0))
    for number in range(HEARTBEATS_KEPT + 20):
        await store.beat(f"service:here:{number}", {}, now_ns=at(100 * number))
    kept = [runtime for runtime, _, _ in await store.heartbeats()]
    assert len(kept) == HEARTBEATS_KEPT + 2
    assert kept[0] == f"service:here:{HEARTBEATS_KEPT + 19}"
    assert {"worker:here:7", "service:there:7"} <= set(kept)


async def test_of_containers_that_follow_one_another_only_the_latest_heartbeats_are_kept(store: Store) -> None:
    await store.beat("worker:here:7", {}, now_ns=at(0))
    await store.beat("run:chats:here:7", {}, now_ns=at(0))
    for number in range(HEARTBEATS_KEPT_OF_ALL + 5):
        await store.beat(f"run:notes:container-{number}:1", {}, now_ns=at(100 * number))
    kept = [runtime for runtime, _, _ in await store.heartbeats()]
    assert len(kept) == HEARTBEATS_KEPT_OF_ALL + 2
    assert {"worker:here:7", "run:chats:here:7"} <= set(kept)


async def test_no_living_process_loses_its_heartbeat_to_many_others(store: Store) -> None:
    for number in range(3 * HEARTBEATS_KEPT):
        await store.beat(f"worker:here:{number}", {}, now_ns=at(number / 10))
    assert len(await store.heartbeats()) == 3 * HEARTBEATS_KEPT
