"""Does `record` keep its promise? Item, revision, gap and origin move together, in the order of departures."""

import asyncio
import json

import msgspec

from remora.contracts import Outcome, Store
from remora.core.item import Item, User
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromGap, FromInbox, Kind
from remora.core.ledger.gap import GapState
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, NotYet
from tests.contract.answers import (
    MISSING,
    PRESSURE,
    REFUSED,
    SOURCE,
    TIMEOUT,
    at,
    keys,
    lease,
    observed,
    record,
    record_user,
    story,
)


async def test_a_found_item_is_new_and_held_as_it_came(store: Store) -> None:
    assert await record(store, 1, story(1), at_s=5) is Outcome.NEW
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == story(1).body
    assert (held.revision, held.first_seen_ns, held.last_fetched_ns, held.changed_ns) == (1, at(5), at(5), at(5))


async def test_an_unknown_item_is_none(store: Store) -> None:
    assert await store.item(SOURCE, 1) is None
    assert await store.revisions(SOURCE, 1) == ()


async def test_an_unchanged_read_changes_nothing_but_the_second_in_which_the_item_was_last_read(store: Store) -> None:
    await record(store, 1, story(1), at_s=1)
    before = await store.item(SOURCE, 1)
    assert before is not None
    assert await record(store, 1, story(1), at_s=50.7) is Outcome.UNCHANGED
    assert await store.item(SOURCE, 1) == msgspec.structs.replace(before, last_fetched_ns=at(50))


async def test_an_unchanged_read_in_the_same_second_never_moves_the_last_read_back(store: Store) -> None:
    await record(store, 1, story(1), at_s=1.5)
    assert await record(store, 1, story(1), at_s=1.9) is Outcome.UNCHANGED
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.last_fetched_ns == at(1.5)


async def test_a_walk_over_unchanged_items_tells_each_items_last_read_and_nobody_elses(store: Store) -> None:
    ids = range(50, 350)
    await asyncio.gather(*(record(store, item_id, story(item_id), at_s=1) for item_id in ids))
    walked = range(120, 330)
    outcomes = await asyncio.gather(*(record(store, item_id, story(item_id), at_s=1_000) for item_id in walked))
    assert set(outcomes) == {Outcome.UNCHANGED}
    for item_id in (150, 152, 299):
        assert await record(store, item_id, story(item_id), at_s=2_000) is Outcome.UNCHANGED
    assert await record(store, 200, story(200, text="second"), at_s=3_000) is Outcome.CHANGED
    alone = {150: 2_000, 152: 2_000, 299: 2_000, 200: 3_000}
    for item_id in ids:
        held = await store.item(SOURCE, item_id)
        assert held is not None
        assert held.last_fetched_ns == at(alone.get(item_id, 1_000 if item_id in walked else 1))


async def test_a_changed_score_is_stored_but_is_no_new_revision(store: Store) -> None:
    await record(store, 1, story(1, score=1), at_s=1)
    assert await record(store, 1, story(1, score=9), at_s=2) is Outcome.CHANGED
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert (held.body, held.revision) == (story(1, score=9).body, 1)
    assert (held.first_seen_ns, held.last_fetched_ns, held.changed_ns) == (at(1), at(2), at(2))
    assert await store.revisions(SOURCE, 1) == ()


async def test_changed_content_keeps_every_earlier_revision_oldest_first(store: Store) -> None:
    await record(store, 1, story(1, text="first"), at_s=1)
    await record(store, 1, story(1, text="second"), at_s=2)
    await record(store, 1, story(1, text="third"), at_s=3)
    held = await store.item(SOURCE, 1)
    earlier = await store.revisions(SOURCE, 1)
    assert held is not None
    assert held.revision == 3
    assert [(kept.body, kept.revision) for kept in earlier] == [
        (story(1, text="first").body, 1),
        (story(1, text="second").body, 2),
    ]
    assert [kept.changed_ns for kept in earlier] == [at(1), at(2)]


async def test_the_kept_revision_is_the_latest_body_with_that_content(store: Store) -> None:
    await record(store, 1, story(1, text="first", score=1), at_s=1)
    await record(store, 1, story(1, text="first", score=7), at_s=2)
    await record(store, 1, story(1, text="second", score=7), at_s=3)
    assert [kept.body for kept in await store.revisions(SOURCE, 1)] == [story(1, text="first", score=7).body]


async def test_an_item_that_dies_or_is_deleted_keeps_what_it_said(store: Store) -> None:
    await record(store, 1, story(1, text="precious"), at_s=1)
    dead = Item(1, b'{"dead":true,"id":1,"type":"story"}', type="story", dead=True, content=b"")
    deleted = Item(1, b'{"deleted":true,"id":1,"type":"story"}', type="story", deleted=True, content=b"")
    assert await record(store, 1, dead, at_s=2) is Outcome.CHANGED
    assert await record(store, 1, deleted, at_s=3) is Outcome.CHANGED
    assert [kept.body for kept in await store.revisions(SOURCE, 1)] == [story(1, text="precious").body]


async def test_an_older_fetch_that_arrives_later_overwrites_nothing(store: Store) -> None:
    await record(store, 1, story(1, text="newer"), at_s=10)
    late = observed(1, Found(story(1, text="older")), started_s=5, done_s=12)
    assert await store.record(SOURCE, late) is Outcome.STALE
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == story(1, text="newer").body
    assert await store.revisions(SOURCE, 1) == ()


async def test_an_older_fetch_is_refused_also_after_an_unchanged_newer_one(store: Store) -> None:
    await record(store, 1, story(1, text="now"), at_s=1)
    await record(store, 1, story(1, text="now"), at_s=10)
    late = observed(1, Found(story(1, text="older")), started_s=5, done_s=12)
    assert await store.record(SOURCE, late) is Outcome.STALE
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == story(1, text="now").body


async def test_an_older_failure_that_arrives_after_a_newer_find_owes_nothing(store: Store) -> None:
    await record(store, 1, story(1), at_s=10)
    assert await store.record(SOURCE, observed(1, TIMEOUT, started_s=5, done_s=12)) is Outcome.STALE
    assert await store.gaps(SOURCE) == ()


async def test_an_older_find_is_kept_when_the_newer_look_found_nothing(store: Store) -> None:
    await record(store, 1, MISSING, at_s=10)
    assert await store.record(SOURCE, observed(1, Found(story(1)), started_s=5, done_s=12)) is Outcome.NEW
    assert await store.item(SOURCE, 1) is not None


async def test_a_departure_from_the_future_does_not_freeze_an_item_after_the_clock_stepped_back(store: Store) -> None:
    await record(store, 1, story(1, text="from tomorrow"), at_s=90_000)
    assert await record(store, 1, story(1, text="today"), at_s=5) is Outcome.CHANGED
    assert await record(store, 1, story(1, text="today, later"), at_s=6) is Outcome.CHANGED


async def test_a_failure_opens_a_gap_with_its_reason(store: Store) -> None:
    assert await record(store, 7, TIMEOUT, at_s=3) is Outcome.OWED
    (gap,) = await store.gaps(SOURCE)
    assert (gap.kind, gap.key, gap.state, gap.reason) == (Kind.ITEM, "7", GapState.OWED, TIMEOUT.reason)
    assert (gap.attempts, gap.null_count, gap.first_seen_ns, gap.last_seen_ns) == (1, 0, at(3), at(3))
    assert gap.not_before_ns == at(8)


async def test_pressure_leaves_the_item_owed_and_a_later_find_settles_it(store: Store) -> None:
    assert await record(store, 7, PRESSURE, at_s=1) is Outcome.OWED
    assert await record(store, 7, story(7), at_s=2) is Outcome.NEW
    assert await store.gaps(SOURCE) == ()
    assert keys(await store.gaps(SOURCE, state=GapState.SETTLED)) == ["7"]


async def test_a_settled_gap_opens_again_and_starts_counting_anew(store: Store) -> None:
    await record(store, 7, TIMEOUT, at_s=1)
    await record(store, 7, story(7), at_s=2)
    assert await record(store, 7, TIMEOUT, at_s=3) is Outcome.OWED
    (gap,) = await store.gaps(SOURCE)
    assert (gap.attempts, gap.first_seen_ns) == (1, at(3))


async def test_a_find_without_a_gap_leaves_none(store: Store) -> None:
    await record(store, 7, story(7), at_s=1)
    assert await store.gaps(SOURCE, state=GapState.SETTLED) == ()


async def test_a_failed_look_at_a_held_item_keeps_the_item(store: Store) -> None:
    await record(store, 7, story(7), at_s=1)
    assert await record(store, 7, MISSING, at_s=2) is Outcome.OWED
    held = await store.item(SOURCE, 7)
    assert held is not None
    assert held.body == story(7).body


async def test_three_spaced_looks_make_an_old_id_absent(store: Store) -> None:
    outcomes = [await record(store, 7, MISSING, at_s=100 * look) for look in range(3)]
    assert outcomes == [Outcome.OWED, Outcome.OWED, Outcome.ABSENT]


async def test_an_item_that_is_always_refused_dies_and_heals_when_the_provider_does(store: Store) -> None:
    outcomes = [await record(store, 7, REFUSED, at_s=1000 * attempt) for attempt in range(6)]
    assert outcomes == [Outcome.OWED] * 5 + [Outcome.DEAD]
    assert await record(store, 7, story(7), at_s=9000) is Outcome.NEW
    assert await store.gaps(SOURCE) == ()


async def test_a_placeholder_is_stored_and_still_owed(store: Store) -> None:
    assert await record(store, 7, msgspec.structs.replace(story(7), delayed=True), at_s=1) is Outcome.NEW
    assert [gap.reason for gap in await store.gaps(SOURCE)] == ["not_yet"]
    assert await record(store, 7, story(7, text="at last"), at_s=2) is Outcome.CHANGED
    assert await store.gaps(SOURCE) == ()


async def test_a_young_id_is_owed_as_not_yet(store: Store) -> None:
    await record(store, 7, NotYet(), at_s=1)
    (gap,) = await store.gaps(SOURCE)
    assert (gap.reason, gap.near_newest, gap.null_count) == ("not_yet", True, 1)


async def test_a_recorded_answer_leaves_the_inbox(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1"), (Kind.ITEM, "2"), (Kind.ITEM, "3")], now_ns=at(0))
    one, two, _ = await store.waiting(SOURCE, limit=10)
    await record(store, 1, story(1), at_s=1, origin=FromInbox(one.ticket))
    await record(store, 2, TIMEOUT, at_s=1, origin=FromInbox(two.ticket))
    assert [entry.key for entry in await store.waiting(SOURCE, limit=10)] == ["3"]
    assert keys(await store.gaps(SOURCE)) == ["2"]


async def test_a_key_that_was_announced_again_during_its_fetch_stays_in_the_inbox(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(0))
    (first,) = await store.waiting(SOURCE, limit=10)
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(1))
    await record(store, 1, story(1), at_s=0, origin=FromInbox(first.ticket))
    (trailing,) = await store.waiting(SOURCE, limit=10)
    assert trailing.ticket > first.ticket
    await record(store, 1, story(1), at_s=2, origin=FromInbox(trailing.ticket))
    assert await store.inbox_depth(SOURCE) == 0


async def test_a_stale_answer_leaves_the_inbox_too(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(0))
    (entry,) = await store.waiting(SOURCE, limit=10)
    await record(store, 1, story(1), at_s=10)
    late = observed(1, Found(story(1, text="older")), started_s=5, done_s=11, origin=FromInbox(entry.ticket))
    assert await store.record(SOURCE, late) is Outcome.STALE
    assert await store.inbox_depth(SOURCE) == 0


async def test_the_same_id_waiting_under_another_source_or_kind_stays(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.USER, "1")], now_ns=at(0))
    await store.announce("other", [(Kind.ITEM, "1")], now_ns=at(0))
    (entry,) = await store.waiting("other", limit=10)
    await record(store, 1, story(1), at_s=1, origin=FromInbox(entry.ticket))
    assert (await store.inbox_depth(SOURCE), await store.inbox_depth("other")) == (1, 1)


async def test_an_answer_to_a_leased_gap_ends_the_lease(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 2, TIMEOUT, at_s=0)
    assert await lease(store, at_s=100) == ["1", "2"]
    assert await record(store, 1, story(1), at_s=101, origin=FromGap("one")) is Outcome.NEW
    assert await record(store, 2, TIMEOUT, at_s=101, origin=FromGap("one")) is Outcome.OWED
    (gap,) = await store.gaps(SOURCE)
    assert (gap.key, gap.state, gap.attempts) == ("2", GapState.OWED, 2)
    assert await store.release_gaps(SOURCE, owner="one") == 0


async def test_a_stale_answer_gives_the_leased_gap_back_without_an_attempt(store: Store) -> None:
    await record(store, 1, story(1), at_s=10)
    await record(store, 1, TIMEOUT, at_s=20)
    assert await lease(store, at_s=100) == ["1"]
    late = observed(1, Found(story(1, text="older")), started_s=5, done_s=101, origin=FromGap("one"))
    assert await store.record(SOURCE, late) is Outcome.STALE
    (gap,) = await store.gaps(SOURCE)
    assert (gap.state, gap.attempts) == (GapState.OWED, 1)


async def test_many_answers_about_one_item_at_once_are_judged_one_after_the_other(store: Store) -> None:
    texts = ["first", "second", "second", "third"]
    outcomes = await asyncio.gather(
        *(record(store, 1, story(1, text=text), at_s=moment) for moment, text in enumerate(texts)),
        record(store, 2, TIMEOUT, at_s=1),
        record(store, 2, TIMEOUT, at_s=2),
        record(store, 2, story(2), at_s=3),
    )
    assert outcomes[:4] == [Outcome.NEW, Outcome.CHANGED, Outcome.UNCHANGED, Outcome.CHANGED]
    assert outcomes[4:] == [Outcome.OWED, Outcome.OWED, Outcome.NEW]
    assert [kept.body for kept in await store.revisions(SOURCE, 1)] == [story(1, text=text).body for text in texts[:2]]
    assert await store.gaps(SOURCE) == ()


async def test_a_thousand_answers_at_once_all_become_durable(store: Store) -> None:
    outcomes = await asyncio.gather(*(record(store, item_id, story(item_id), at_s=1) for item_id in range(1_000)))
    assert set(outcomes) == {Outcome.NEW}
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == list(range(1_000))


async def test_gaps_belong_to_their_source(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    assert await store.gaps("other") == ()
    assert await store.gap_counts("other") == ()


async def test_a_profile_is_kept_replaced_and_ordered_like_an_item(store: Store) -> None:
    assert await store.user(SOURCE, "ada") is None
    assert await record_user(store, "ada", User("ada", b'{"id":"ada","karma":1}'), at_s=1) is Outcome.NEW
    assert await record_user(store, "ada", User("ada", b'{"id":"ada","karma":1}'), at_s=2) is Outcome.UNCHANGED
    assert await record_user(store, "ada", User("ada", b'{"id":"ada","karma":2}'), at_s=3) is Outcome.CHANGED
    late = Discovery(Kind.USER, "ada", Lane.UPDATE)
    older = msgspec.structs.replace(observed(1, Found(User("ada", b"{}")), started_s=2, done_s=9), discovery=late)
    assert await store.record(SOURCE, older) is Outcome.STALE
    assert await store.user(SOURCE, "ada") == b'{"id":"ada","karma":2}'


async def test_a_profile_that_fails_is_owed_by_name_and_settled_when_found(store: Store) -> None:
    assert await record_user(store, "ada", TIMEOUT, at_s=1) is Outcome.OWED
    assert [(gap.kind, gap.key) for gap in await store.gaps(SOURCE)] == [(Kind.USER, "ada")]
    await record_user(store, "ada", User("ada", b"{}"), at_s=2)
    assert await store.gaps(SOURCE) == ()


async def test_an_item_with_five_thousand_kids_comes_back_whole(store: Store) -> None:
    body = json.dumps({"id": 1, "kids": list(range(2, 5_002)), "type": "story"}).encode()
    await record(store, 1, Item(1, body, type="story"), at_s=1)
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == body


async def test_nul_and_lone_surrogates_are_kept_in_the_body_and_break_no_column(store: Store) -> None:
    body = b'{"by":"a\\u0000b","id":1,"text":"\\ud800 half \\u0000","type":"st\\udfffry"}'
    odd = Item(1, body, type="st\udfffry", by="a\0b", title="\ud800", url="\0", content=body)
    assert await record(store, 1, odd, at_s=1) is Outcome.NEW
    assert await record(store, 1, odd, at_s=2) is Outcome.UNCHANGED
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == body


async def test_bytes_that_are_no_text_at_all_come_back_as_they_went(store: Store) -> None:
    body = b'{"id":1,"text":"\xff\xfe \xed\xa0\x80"}'
    await record(store, 1, Item(1, body, content=b"\xff"), at_s=1)
    held = await store.item(SOURCE, 1)
    assert held is not None
    assert held.body == body


async def test_absurd_numbers_break_no_column(store: Store) -> None:
    absurd = Item(1, b'{"id":1}', time=10**30, parent=-(10**30), score=2**63, descendants=2**70)
    assert await record(store, 1, absurd, at_s=1) is Outcome.NEW
    assert await store.item_times(SOURCE, [1]) in ({}, {1: 10**30})


async def test_what_was_recorded_is_there_after_the_store_was_closed_and_opened(store: Store) -> None:
    await record(store, 1, story(1), at_s=1)
    await record(store, 2, TIMEOUT, at_s=1)
    await store.announce(SOURCE, [(Kind.ITEM, "3")], now_ns=at(1))
    await store.close()
    await store.open()
    assert await store.item(SOURCE, 1) is not None
    assert keys(await store.gaps(SOURCE)) == ["2"]
    assert [entry.key for entry in await store.waiting(SOURCE, limit=9)] == ["3"]
    assert await store.lease_gaps(SOURCE, owner="x", limit=9, lease_ns=SECOND_NS, now_ns=at(100))


async def test_many_observations_get_their_outcomes_in_order_as_if_each_was_recorded_alone(store: Store) -> None:
    await record(store, 150, story(150), at_s=1)
    await record(store, 250, TIMEOUT, at_s=1)
    found = [observed(each, Found(story(each)), started_s=2) for each in range(101, 301)]
    many = [*found[:99], observed(200, MISSING, started_s=2), *found[100:], observed(301, PRESSURE, started_s=2)]
    outcomes = await store.record_many(SOURCE, many)
    assert {seen.discovery.key: outcome for seen, outcome in zip(many, outcomes, strict=True)} == {
        **{str(each): Outcome.NEW for each in range(101, 301)},
        "150": Outcome.UNCHANGED,
        "200": Outcome.OWED,
        "301": Outcome.OWED,
    }
    assert sorted(keys(await store.gaps(SOURCE, state=GapState.OWED))) == ["200", "301"]
    assert [await store.item(SOURCE, each) is not None for each in (101, 200, 250, 300)] == [True, False, True, True]


async def test_no_observations_are_recorded_at_once(store: Store) -> None:
    assert list(await store.record_many(SOURCE, [])) == []


async def test_many_observations_answer_their_inbox_entries_together(store: Store) -> None:
    await store.announce(SOURCE, [(Kind.ITEM, "7"), (Kind.ITEM, "8")], now_ns=at(1))
    entries = await store.waiting(SOURCE, limit=10)
    many = [
        observed(int(entry.key), Found(story(int(entry.key))), started_s=2, origin=FromInbox(entry.ticket))
        for entry in entries
    ]
    assert list(await store.record_many(SOURCE, many)) == [Outcome.NEW, Outcome.NEW]
    assert await store.inbox_depth(SOURCE) == 0
