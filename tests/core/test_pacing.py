"""Does the pacer keep the ceiling, whatever the pace, idle time, restarts and turns do? Properties over whole schedules."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.pacing import (
    BURST_NS,
    SEND_NS,
    TURN_LEAD_NS,
    Pacer,
    burst_allowance,
    heard_within_ns,
    interval_for,
    new_pacer,
    turns_every_ns,
)
from remora.core.rate.stretches import Stretch
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

intervals = st.one_of(
    st.integers(1, BURST_NS),
    st.sampled_from([333_334, 1_000_000, 4_000_000, BURST_NS // 2, BURST_NS, 250_000_000, SECOND_NS]),
    st.integers(BURST_NS, HOUR_NS),
)


@dataclass(frozen=True)
class Leave:
    """A request leaves as soon as it may, after this idle time and this much later than it could."""

    idle_ns: int
    late_ns: int


@dataclass(frozen=True)
class Change:
    interval_ns: int


@dataclass(frozen=True)
class Restart:
    after_ns: int
    interval_ns: int


delays = st.one_of(st.just(0), st.integers(0, 3 * BURST_NS), st.integers(0, MINUTE_NS))
steps = st.one_of(
    st.builds(Leave, idle_ns=st.one_of(st.just(0), delays), late_ns=st.one_of(st.just(0), delays)),
    st.builds(Change, interval_ns=intervals),
    st.builds(Restart, after_ns=delays, interval_ns=intervals),
)


def departures(ceiling_interval_ns: int, moves: list[Leave | Change | Restart]) -> list[int]:
    now_ns = 0
    pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=ceiling_interval_ns, now_ns=now_ns)
    left: list[int] = []
    for move in moves:
        match move:
            case Leave(idle_ns, late_ns):
                now_ns = max(now_ns + idle_ns, pacer.earliest_ns()) + late_ns
                pacer = pacer.departed(now_ns=now_ns)
                left.append(now_ns)
            case Change(interval_ns):
                pacer = pacer.at_interval(interval_ns)
            case Restart(after_ns, interval_ns):
                now_ns += after_ns
                pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=now_ns)
    return left


def worst_excess(left: list[int], interval_ns: int) -> int:
    """By how many departures the fullest window exceeds `burst + T / F`, as an exact integer comparison; <= 0 is kept."""
    worst = 0
    for first in range(len(left)):
        for last in range(first, len(left)):
            over = (last - first + 1 - burst_allowance(interval_ns)) * interval_ns - (left[last] - left[first])
            worst = max(worst, over)
    return worst


@given(intervals, st.lists(steps, max_size=60))
def test_no_window_holds_more_than_the_bunch_and_its_share_whatever_the_pace_does(
    ceiling_interval_ns: int, moves: list[Leave | Change | Restart]
) -> None:
    assert worst_excess(departures(ceiling_interval_ns, moves), ceiling_interval_ns) == 0


@given(st.integers(BURST_NS, HOUR_NS), st.lists(steps, max_size=60))
def test_up_to_a_hundred_per_second_every_gap_is_at_least_the_ceiling_interval(
    ceiling_interval_ns: int, moves: list[Leave | Change | Restart]
) -> None:
    left = departures(ceiling_interval_ns, moves)
    assert all(later - earlier >= ceiling_interval_ns for earlier, later in pairwise(left))


@given(intervals, st.integers(0, HOUR_NS), st.integers(1, 200))
def test_idle_time_never_accumulates_beyond_one_bunch(interval_ns: int, idle_ns: int, asked: int) -> None:
    pacer = new_pacer(ceiling_interval_ns=interval_ns, interval_ns=interval_ns, now_ns=0)
    now_ns = interval_ns + idle_ns
    at_once = 0
    while pacer.earliest_ns() <= now_ns and at_once < asked:
        pacer = pacer.departed(now_ns=now_ns)
        at_once += 1
    assert at_once <= burst_allowance(interval_ns)


@given(intervals, intervals, st.lists(st.integers(0, 2 * SECOND_NS), min_size=1, max_size=30))
def test_restarting_over_and_over_is_no_faster_than_the_learned_pace(
    ceiling_interval_ns: int, interval_ns: int, uptimes_ns: list[int]
) -> None:
    interval_ns = max(interval_ns, ceiling_interval_ns)
    now_ns = 0
    left: list[int] = []
    for uptime_ns in uptimes_ns:
        pacer = new_pacer(
            ceiling_interval_ns=ceiling_interval_ns,
            interval_ns=interval_ns,
            now_ns=now_ns,
            idle_ns=now_ns - left[-1] if left else 0,
        )
        until_ns = now_ns + uptime_ns
        for _ in range(20):
            if pacer.earliest_ns() > until_ns:
                break
            now_ns = max(now_ns, pacer.earliest_ns())
            pacer = pacer.departed(now_ns=now_ns)
            left.append(now_ns)
        now_ns = until_ns
    assert worst_excess(left, interval_ns) == 0
    assert not left or left[0] >= interval_ns


@given(intervals, st.lists(intervals, min_size=1, max_size=20))
def test_a_change_of_pace_is_never_earlier_than_the_ceiling_nor_later_than_one_new_interval(
    ceiling_interval_ns: int, changes_ns: list[int]
) -> None:
    pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=ceiling_interval_ns, now_ns=0)
    for interval_ns in changes_ns:
        for _ in range(3):
            pacer = pacer.departed(now_ns=pacer.earliest_ns())
        ceiling_ns = _ceiling_alone(pacer)
        pacer = pacer.at_interval(interval_ns)
        assert pacer.earliest_ns() >= ceiling_ns
        assert pacer.earliest_ns() <= max(ceiling_ns, pacer.last_departure_ns + pacer.interval_ns)


def _ceiling_alone(pacer: Pacer) -> int:
    return Pacer(
        pacer.ceiling_interval_ns,
        pacer.ceiling_interval_ns,
        pacer.ceiling_next_ns,
        pacer.ceiling_next_ns,
        pacer.last_departure_ns,
    ).earliest_ns()


def test_a_bunch_that_left_at_a_fast_pace_is_not_paid_back_one_by_one_at_a_slow_one() -> None:
    pacer = new_pacer(ceiling_interval_ns=333_334, interval_ns=333_334, now_ns=0)
    for _ in range(burst_allowance(333_334)):
        pacer = pacer.departed(now_ns=SECOND_NS)
    assert pacer.at_interval(15 * MINUTE_NS).earliest_ns() == SECOND_NS + 15 * MINUTE_NS


def test_after_a_restart_a_slow_pace_counts_on_from_the_last_departure() -> None:
    pacer = new_pacer(
        ceiling_interval_ns=SECOND_NS, interval_ns=15 * MINUTE_NS, now_ns=100 * MINUTE_NS, idle_ns=10 * MINUTE_NS
    )
    assert pacer.earliest_ns() == 105 * MINUTE_NS
    assert pacer.at_interval(30 * MINUTE_NS).earliest_ns() == 120 * MINUTE_NS
    assert pacer.at_interval(SECOND_NS).earliest_ns() == 100 * MINUTE_NS + SECOND_NS


def test_a_faster_pace_shortens_the_wait_in_proportion() -> None:
    pacer = new_pacer(ceiling_interval_ns=250 * MILLISECOND_NS, interval_ns=4 * SECOND_NS, now_ns=0)
    pacer = pacer.departed(now_ns=10 * SECOND_NS)
    assert pacer.earliest_ns() == 14 * SECOND_NS
    assert pacer.at_interval(2 * SECOND_NS).earliest_ns() == 12 * SECOND_NS
    assert pacer.at_interval(1).earliest_ns() == 10 * SECOND_NS + 250 * MILLISECOND_NS


@given(intervals, intervals, st.lists(st.tuples(st.booleans(), delays), max_size=40))
def test_a_turn_comes_a_little_before_the_departure_and_never_a_slot_too_many(
    ceiling_interval_ns: int, interval_ns: int, moves: list[tuple[bool, int]]
) -> None:
    pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=0)
    turns: list[int] = []
    now_ns = 0
    for _, delay_ns in moves:
        if burst_allowance(ceiling_interval_ns) == 1:
            assert pacer.earliest_ns() - pacer.turn_ns() <= TURN_LEAD_NS
        now_ns = max(now_ns, pacer.turn_ns()) + delay_ns
        pacer = pacer.took_turns(1, now_ns=now_ns)
        turns.append(now_ns)
    slack_ns = max(TURN_LEAD_NS, BURST_NS)
    for first in range(len(turns)):
        for last in range(first + 1, len(turns)):
            assert turns[last] - turns[first] + slack_ns >= (last - first) * ceiling_interval_ns


def one_by_one(pacer: Pacer, *, free_ns: int, now_ns: int) -> Iterator[bool]:
    """For each turn that is due at this moment: did only the schedule hold it back?"""
    while pacer.turn_ns() <= now_ns:
        yield pacer.earliest_ns() > free_ns or pacer.turn_ns() > free_ns
        pacer = pacer.took_turns(1, now_ns=now_ns)


@given(
    st.integers(BURST_NS // 300, SECOND_NS), st.integers(BURST_NS // 300, SECOND_NS), delays, delays, st.integers(0, 99)
)
def test_turns_that_are_given_together_are_as_many_as_one_by_one_and_are_held_back_alike(
    ceiling_interval_ns: int, interval_ns: int, delay_ns: int, before_ns: int, taken: int
) -> None:
    pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=0)
    now_ns = pacer.turn_ns() + delay_ns
    pacer = pacer.took_turns(min(taken, pacer.turns_due(now_ns=now_ns)), now_ns=now_ns)
    now_ns += delay_ns // 2
    free_ns = now_ns - before_ns % (3 * BURST_NS)
    held_back = list(one_by_one(pacer, free_ns=free_ns, now_ns=now_ns))
    assert pacer.turns_due(now_ns=now_ns) == len(held_back)
    paced_from = pacer.paced_from(free_ns, now_ns=now_ns)
    assert held_back == [number >= paced_from for number in range(len(held_back))]


@given(
    st.integers(BURST_NS // 300, SECOND_NS),
    st.integers(BURST_NS // 300, SECOND_NS),
    delays,
    st.integers(0, SECOND_NS // 2),
)
def test_a_stretch_has_room_for_as_many_turns_at_once_as_one_by_one(
    ceiling_interval_ns: int, interval_ns: int, delay_ns: int, left_ns: int
) -> None:
    pacer = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=0)
    now_ns = pacer.turn_ns() + delay_ns
    stretch = Stretch(0, 0, last_ns=now_ns + SEND_NS + left_ns)
    if not stretch.has_room(pacer, now_ns=now_ns):
        return
    room, one_more = 0, pacer
    while stretch.has_room(one_more, now_ns=now_ns) and one_more.turn_ns() <= now_ns:
        room, one_more = room + 1, one_more.took_turns(1, now_ns=now_ns)
    assert min(stretch.room(pacer, now_ns=now_ns), pacer.turns_due(now_ns=now_ns)) == room


@given(st.integers(100_000, BURST_NS), st.lists(st.floats(0, 1), min_size=20, max_size=20))
def test_turns_that_are_given_in_bursts_lose_no_slot_unless_a_timer_is_late_by_two_thirds_of_the_lead(
    interval_ns: int, late: list[float]
) -> None:
    pacer = new_pacer(ceiling_interval_ns=interval_ns, interval_ns=interval_ns, now_ns=0)
    first_ns, every_ns = pacer.ceiling_next_ns, turns_every_ns(interval_ns)
    now_ns = turns = 0
    for share in late:
        now_ns = max(pacer.turn_ns(), now_ns + every_ns) + int(share * 2 * every_ns)
        while pacer.turn_ns() <= now_ns:
            pacer = pacer.took_turns(1, now_ns=now_ns)
            turns += 1
    assert pacer.ceiling_next_ns == first_ns + turns * interval_ns


@pytest.mark.parametrize("rate_per_s, every_ms", [(0.5, 0), (100, 0), (250, 1.25), (2_600, 2.9), (100_000, 3.1)])
def test_without_bursts_each_turn_has_its_own_moment_and_with_bursts_a_timer_serves_several(
    rate_per_s: float, every_ms: float
) -> None:
    assert turns_every_ns(interval_for(rate_per_s)) == pytest.approx(every_ms * MILLISECOND_NS, rel=0.02)


@pytest.mark.parametrize(
    "rate_per_s, places, within_ms",
    [(100, 256, 0), (199, 256, 0), (200, 2, 0), (200, 3, 5), (2_600, 25, 0), (2_600, 26, 9.23)],
)
def test_answers_wait_for_others_where_bursts_are_sent_and_the_next_one_has_free_places(
    rate_per_s: float, places: int, within_ms: float
) -> None:
    within_ns = heard_within_ns(interval_for(rate_per_s), places=places)
    assert within_ns == pytest.approx(within_ms * MILLISECOND_NS, rel=0.01)
    assert within_ns < BURST_NS


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_the_interval_for_a_rate_is_never_faster_than_the_rate(rate_per_s: float) -> None:
    interval_ns = interval_for(rate_per_s)
    assert interval_ns >= 1
    assert interval_ns >= SECOND_NS / rate_per_s
    assert interval_ns - SECOND_NS / rate_per_s <= 1


@pytest.mark.parametrize("rate_per_s, burst", [(0.5, 1), (4, 1), (100, 1), (250, 2), (1_000, 10), (3_000, 29)])
def test_the_burst_is_ten_milliseconds_worth_and_one_up_to_a_hundred_per_second(rate_per_s: float, burst: int) -> None:
    assert burst_allowance(interval_for(rate_per_s)) == burst


def test_leaving_early_is_our_own_mistake() -> None:
    pacer = new_pacer(ceiling_interval_ns=SECOND_NS, interval_ns=SECOND_NS, now_ns=0)
    with pytest.raises(AssertionError, match="1 ns too early"):
        pacer.departed(now_ns=SECOND_NS - 1)
    with pytest.raises(AssertionError, match="1 turns at once, 0 are due"):
        pacer.took_turns(1, now_ns=pacer.turn_ns() - 1)


@given(intervals, intervals, st.integers(0, SECOND_NS), st.integers(0, SECOND_NS))
def test_the_later_of_two_pacers_is_no_earlier_than_either(
    ceiling_interval_ns: int, interval_ns: int, first_ns: int, second_ns: int
) -> None:
    one = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=first_ns)
    other = new_pacer(ceiling_interval_ns=ceiling_interval_ns, interval_ns=interval_ns, now_ns=second_ns)
    assert one.no_earlier_than(other).earliest_ns() == max(one.earliest_ns(), other.earliest_ns())


def test_a_wait_at_a_fast_pace_stretches_in_proportion_and_not_to_a_whole_bunch() -> None:
    pacer = new_pacer(ceiling_interval_ns=MILLISECOND_NS, interval_ns=MILLISECOND_NS, now_ns=0).departed(
        now_ns=SECOND_NS
    )
    assert pacer.pace_next_ns - pacer.last_departure_ns == MILLISECOND_NS
    slower = pacer.at_interval(2 * MILLISECOND_NS)
    assert slower.pace_next_ns - slower.last_departure_ns == 2 * MILLISECOND_NS
