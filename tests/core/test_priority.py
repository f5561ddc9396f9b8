"""Does every lane get its share, and does a live item wait for nobody for long? Properties over sequences of turns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.lanes import LIVE_OVERTAKEN_AT_MOST, ORDER, SHARE_PERCENT, Lane, Turns, choose

lane_sets = st.sets(st.sampled_from(ORDER), min_size=1)

# Every lane is owed a turn after 20 departures at most; six others may be owed one before it, and while those are
# served the others save 85 percent of a turn per departure.
NOBODY_WAITS_LONGER_THAN = 64


def served(rounds: list[set[Lane]]) -> list[Lane]:
    turns, chosen = Turns(), []
    for waiting in rounds:
        lane, turns = choose(turns, waiting)
        chosen.append(lane)
    return chosen


@given(st.lists(lane_sets, max_size=200))
def test_only_a_lane_that_waits_is_chosen_and_what_it_saved_stays_bounded(rounds: list[set[Lane]]) -> None:
    turns = Turns()
    for waiting in rounds:
        lane, turns = choose(turns, waiting)
        assert lane in waiting
        assert all(0 <= saved <= 100 for saved in turns.credit.values())
        assert all(turns.credit[idle] == 0 for idle in ORDER if idle not in waiting)


@given(st.lists(lane_sets, max_size=120), st.lists(lane_sets, min_size=3, max_size=3))
def test_a_live_item_is_overtaken_by_at_most_the_stated_number_of_others(
    before: list[set[Lane]], others: list[set[Lane]]
) -> None:
    earlier = [waiting - {Lane.LIVE} or {Lane.UPDATE} for waiting in before]
    then = [waiting | {Lane.LIVE} for waiting in others]
    chosen = served(earlier + then)[len(earlier) :]
    assert Lane.LIVE in chosen
    assert chosen.index(Lane.LIVE) <= LIVE_OVERTAKEN_AT_MOST


@pytest.mark.slow
@given(st.sampled_from(ORDER), st.lists(lane_sets, max_size=100), st.data())
def test_nothing_starves_whatever_the_other_lanes_do(
    patient: Lane, before: list[set[Lane]], data: st.DataObject
) -> None:
    then = data.draw(st.lists(lane_sets, min_size=NOBODY_WAITS_LONGER_THAN, max_size=NOBODY_WAITS_LONGER_THAN))
    chosen = served(before + [waiting | {patient} for waiting in then])[len(before) :]
    assert patient in chosen


@given(st.sets(st.sampled_from(ORDER), min_size=1), st.integers(400, 1_000))
def test_every_saturated_lane_gets_at_least_its_guaranteed_share(lanes: set[Lane], departures: int) -> None:
    counts = Counter(served([lanes] * departures))
    for lane in lanes:
        # The first turn comes only once a whole one is saved, and others may be owed theirs first.
        assert counts[lane] >= SHARE_PERCENT[lane] * departures // 100 - 3


def test_with_all_lanes_saturated_what_is_left_over_goes_to_the_live_lane() -> None:
    counts = Counter(served([set(ORDER)] * 10_000))
    assert counts[Lane.LIVE] >= 5_000
    assert all(abs(counts[lane] - SHARE_PERCENT[lane] * 100) <= 5 for lane in ORDER if lane is not Lane.LIVE)


@pytest.mark.parametrize("lane", ORDER)
def test_a_lone_lane_gets_every_turn(lane: Lane) -> None:
    assert served([{lane}] * 50) == [lane] * 50


def test_without_debts_the_order_of_the_lanes_decides() -> None:
    for index, lane in enumerate(ORDER):
        assert choose(Turns(), ORDER[index:])[0] is lane


def test_an_idle_lane_saves_nothing_for_a_later_burst() -> None:
    _, after_idle = choose(Turns({**dict.fromkeys(ORDER, 0), Lane.BACKFILL: 95}), {Lane.LIVE})
    assert choose(after_idle, {Lane.LIVE, Lane.BACKFILL})[0] is Lane.LIVE


def test_the_guarantees_can_all_be_kept_at_once() -> None:
    assert set(SHARE_PERCENT) == set(ORDER)
    assert sum(SHARE_PERCENT.values()) < 100
    assert all(share > 0 for share in SHARE_PERCENT.values())


def test_choosing_among_nobody_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="nobody is waiting"):
        choose(Turns(), ())
