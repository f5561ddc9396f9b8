"""Is what is owed served fairly, leased safely, listed, counted and replayed?"""

import pytest

from remora.contracts import Outcome, Store
from remora.core.ledger.discovery import FromGap, Kind
from remora.core.ledger.gap import CLOCK_SLACK_NS, NOT_BEFORE_MAX_NS, GapState
from remora.core.reasons import GapReason
from remora.core.units import DAY_NS, SECOND_NS
from tests.contract.answers import (
    MISSING,
    PRESSURE,
    REFUSED,
    SOURCE,
    TIMEOUT,
    at,
    keys,
    lease,
    record,
    record_user,
    story,
)

WEEK_S = 8 * DAY_NS // SECOND_NS


async def test_a_gap_is_not_served_before_its_time(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    assert await lease(store, at_s=4) == []
    assert await lease(store, at_s=5) == ["1"]


async def test_a_gap_whose_time_was_written_by_a_clock_that_stepped_back_is_due(store: Store) -> None:
    far_s = 2 * NOT_BEFORE_MAX_NS // SECOND_NS
    await record(store, 1, TIMEOUT, at_s=far_s)
    assert await lease(store, at_s=0) == ["1"]


async def test_a_gap_last_asked_for_in_the_future_is_due_and_a_little_drift_between_clocks_is_not_enough(
    store: Store,
) -> None:
    slack_s = CLOCK_SLACK_NS // SECOND_NS
    await record(store, 1, PRESSURE, at_s=slack_s)
    await record(store, 2, PRESSURE, at_s=slack_s + 1)
    assert await lease(store, at_s=0) == ["2"]


async def test_a_lease_that_ends_later_than_it_could_if_the_clock_had_not_stepped_back_has_ended(store: Store) -> None:
    slack_s = CLOCK_SLACK_NS // SECOND_NS
    await record(store, 1, TIMEOUT, at_s=0)
    await lease(store, at_s=1_000, owner="one")
    assert await lease(store, at_s=1_000 - slack_s, owner="two") == []
    assert await lease(store, at_s=999 - slack_s, owner="two") == ["1"]


async def test_a_leased_gap_is_served_by_one_owner_only(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    assert await lease(store, at_s=10, owner="one") == ["1"]
    assert await lease(store, at_s=11, owner="two") == []
    (gap,) = await store.gaps(SOURCE, state=GapState.LEASED)
    assert gap.key == "1"


async def test_an_expired_lease_counts_as_owed(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await lease(store, at_s=10, owner="one")
    assert await lease(store, at_s=69, owner="two") == []
    assert await lease(store, at_s=70, owner="two") == ["1"]
    assert await store.release_gaps(SOURCE, owner="one") == 0


async def test_a_lease_is_not_an_attempt(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    (before,) = await store.gaps(SOURCE)
    await lease(store, at_s=10)
    assert await store.release_gaps(SOURCE, owner="one") == 1
    assert await store.gaps(SOURCE) == (before,)


async def test_an_owner_gives_back_only_its_own(store: Store) -> None:
    for item_id in (1, 2):
        await record(store, item_id, TIMEOUT, at_s=0)
    await lease(store, at_s=10, owner="one", limit=1)
    await lease(store, at_s=10, owner="two", limit=1)
    assert await store.release_gaps(SOURCE, owner="one") == 1
    assert len(await store.gaps(SOURCE, state=GapState.LEASED)) == 1


@pytest.mark.slow
async def test_eighty_gaps_in_pages_of_twenty_are_each_served_before_any_is_served_twice(store: Store) -> None:
    for item_id in range(80):
        await record(store, item_id, TIMEOUT, at_s=0)
    served: list[str] = []
    for page in range(8):
        leased = await lease(store, at_s=10_000 * (page + 1), limit=20)
        served += leased
        for key in leased:
            await record(store, int(key), TIMEOUT, at_s=10_000 * (page + 1), origin=FromGap("one"))
    assert len(set(served[:80])) == 80
    assert sorted(served[80:]) == sorted(served[:80])


async def test_pages_given_back_unserved_at_the_same_moment_go_to_the_end_of_the_line(store: Store) -> None:
    for item_id in range(80):
        await record(store, item_id, TIMEOUT, at_s=0)
    served: list[str] = []
    for _ in range(4):
        served += await lease(store, at_s=10, limit=20)
        await store.release_gaps(SOURCE, owner="one")
    assert len(set(served)) == 80


async def test_a_new_gap_does_not_overtake_one_that_waits_longer(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 2, TIMEOUT, at_s=0)
    assert await lease(store, at_s=10, limit=1) == ["1"]
    await store.release_gaps(SOURCE, owner="one")
    await record(store, 0, TIMEOUT, at_s=11)
    assert await lease(store, at_s=100, limit=1) == ["2"]


async def test_gaps_of_some_reasons_can_be_left_out(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 2, PRESSURE, at_s=0)
    without = (GapReason.RATE_LIMITED, GapReason.UPSTREAM_PRESSURE)
    assert await lease(store, at_s=1_000, without=without) == ["1"]
    assert await lease(store, at_s=1_000) == ["2"]


async def test_dead_gaps_are_served_on_their_slow_schedule_and_absent_ones_never(store: Store) -> None:
    for attempt in range(6):
        await record(store, 1, REFUSED, at_s=attempt)
        await record(store, 2, MISSING, at_s=attempt)
    assert {gap.key: gap.state for gap in await store.gaps(SOURCE)} == {"1": GapState.DEAD, "2": GapState.ABSENT}
    assert await lease(store, at_s=DAY_NS // SECOND_NS) == []
    assert await lease(store, at_s=WEEK_S) == ["1"]


async def test_settled_gaps_are_never_served(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 1, story(1), at_s=1)
    assert await lease(store, at_s=WEEK_S) == []


async def test_gaps_are_listed_oldest_first_and_settled_ones_only_when_asked_for(store: Store) -> None:
    for moment, item_id in enumerate((3, 1, 2)):
        await record(store, item_id, TIMEOUT, at_s=moment)
    await record(store, 1, story(1), at_s=9)
    assert keys(await store.gaps(SOURCE)) == ["3", "2"]
    assert keys(await store.gaps(SOURCE, state=GapState.SETTLED)) == ["1"]
    assert keys(await store.gaps(SOURCE, limit=1)) == ["3"]


async def test_gaps_are_listed_by_state_and_reason(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 2, PRESSURE, at_s=0)
    await lease(store, at_s=6)
    assert keys(await store.gaps(SOURCE, state=GapState.LEASED)) == ["1"]
    assert keys(await store.gaps(SOURCE, state=GapState.OWED)) == ["2"]
    assert keys(await store.gaps(SOURCE, reason=GapReason.TIMEOUT)) == ["1"]
    assert await store.gaps(SOURCE, state=GapState.OWED, reason=GapReason.TIMEOUT) == ()


async def test_open_gaps_are_counted_by_kind_state_and_reason(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await record(store, 2, TIMEOUT, at_s=1)
    await record(store, 3, story(3), at_s=1)
    await record(store, 4, TIMEOUT, at_s=1)
    await record(store, 4, story(4), at_s=2)
    await record_user(store, "ada", PRESSURE, at_s=3)
    counts = {(count.kind, count.state, count.reason): count for count in await store.gap_counts(SOURCE)}
    timeouts = counts[Kind.ITEM, GapState.OWED, GapReason.TIMEOUT]
    assert (timeouts.count, timeouts.oldest_ns, timeouts.next_ns) == (2, at(0), at(5))
    assert counts[Kind.USER, GapState.OWED, GapReason.RATE_LIMITED].count == 1
    assert len(counts) == 2


async def test_replay_makes_dead_and_absent_gaps_owed_and_owed_ones_due_now(store: Store) -> None:
    for attempt in range(6):
        await record(store, 1, REFUSED, at_s=attempt)
        await record(store, 2, MISSING, at_s=attempt)
    await record(store, 3, PRESSURE, at_s=5)
    await record(store, 4, TIMEOUT, at_s=5)
    await record(store, 4, story(4), at_s=6)
    assert await store.replay_gaps(SOURCE, now_ns=at(7)) == 3
    assert {gap.state for gap in await store.gaps(SOURCE)} == {GapState.OWED}
    assert sorted(await lease(store, at_s=7)) == ["1", "2", "3"]


async def test_replay_by_reason_or_by_key_touches_nothing_else(store: Store) -> None:
    for attempt in range(6):
        await record(store, 1, REFUSED, at_s=attempt)
        await record(store, 2, MISSING, at_s=attempt)
    assert await store.replay_gaps(SOURCE, reason=GapReason.UNAUTHORIZED, now_ns=at(9)) == 1
    assert await store.replay_gaps(SOURCE, key="2", now_ns=at(9)) == 1
    assert await store.replay_gaps(SOURCE, key="3", now_ns=at(9)) == 0
    assert await store.replay_gaps("other", now_ns=at(9)) == 0


async def test_replay_leaves_a_gap_alone_that_is_being_served(store: Store) -> None:
    await record(store, 1, TIMEOUT, at_s=0)
    await lease(store, at_s=10)
    assert await store.replay_gaps(SOURCE, now_ns=at(11)) == 0
    assert await lease(store, at_s=11, owner="two") == []


async def test_a_replayed_dead_gap_is_settled_by_a_find(store: Store) -> None:
    for attempt in range(6):
        await record(store, 1, REFUSED, at_s=attempt)
    await store.replay_gaps(SOURCE, now_ns=at(10))
    await lease(store, at_s=10)
    assert await record(store, 1, story(1), at_s=11, origin=FromGap("one")) is Outcome.NEW
    assert await store.gaps(SOURCE) == ()


async def test_items_that_are_held_although_their_last_answer_was_not_good_are_counted(store: Store) -> None:
    for item_id in (1, 2, 3):
        await record(store, item_id, story(item_id), at_s=0)
    assert await store.count_held_gaps(SOURCE) == 0
    await record(store, 1, MISSING, at_s=10)
    await record(store, 2, TIMEOUT, at_s=10)
    await record(store, 4, TIMEOUT, at_s=10)
    await record_user(store, "3", TIMEOUT, at_s=10)
    assert await store.count_held_gaps(SOURCE) == 2, "item 4 was never held, and user 3 is no item"
    await record(store, 2, story(2), at_s=20)
    assert await store.count_held_gaps(SOURCE) == 1
    assert await store.count_held_gaps("another") == 0
