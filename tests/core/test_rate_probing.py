"""How often is the edge asked again, and what does one refusal tell?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.constants import (
    A_FEW,
    BURST_MOST,
    DIP,
    ELSEWHERE,
    MANY,
    MEMORY,
    PRICE_HELD,
    PRICE_MOST,
    REST_MARGIN,
    STRAY_LEAST,
)
from remora.core.rate.law import Answer, Answered, after, cold_start
from remora.core.rate.pace import Pace
from remora.core.rate.probing import (
    accepted_at_most_per_s,
    accepted_per_s,
    filled,
    may_be_a_burst,
    meaning,
    moved,
    price,
    proven_edge,
    with_a_stray,
    without_strays,
)
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

COLD = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
counts = st.integers(0, 10**9)
rates = st.floats(0.01, 3_000)


def at(rate_per_s: float, *, edge_per_s: float, held: int = 0) -> Pace:
    """A pace that has an edge and has been clean for long."""
    pace = replace(COLD, rate_per_s=rate_per_s, octave_per_s=rate_per_s, edges_per_s=(edge_per_s,))
    return replace(pace, clean=500, chain_ns=0.0, held=held)


def refused(pace: Pace, *, asked_to_wait_ns: int = 0) -> Pace:
    now_ns = pace.last_cut_at_ns + SECOND_NS
    return after(pace, Answered(Answer.REFUSED, now_ns, now_ns + 1, pace_bound=True, asked_to_wait_ns=asked_to_wait_ns))


def good(pace: Pace, count: int) -> Pace:
    now_ns = pace.last_cut_at_ns + pace.asked_ns + SECOND_NS
    for _ in range(count):
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + 1, pace_bound=True))
    return pace


def seen_to_move(held: int, lasted: int, *, edge_per_s: float = 5.0, left_per_s: float = 10.0) -> Pace:
    return replace(COLD, held=held, lasted=lasted, edges_per_s=(edge_per_s,), left_per_s=left_per_s)


def test_where_a_wait_was_asked_for_the_rest_lies_a_little_above_what_was_let_through() -> None:
    let_through = replace(COLD, chain_good=3_000, chain_ns=300 * SECOND_NS)
    unasked = proven_edge(let_through) * (1 - DIP)
    asked = proven_edge(replace(let_through, asked_ns=SECOND_NS)) * (1 - DIP)
    long_wait = proven_edge(replace(let_through, asked_ns=1_000 * SECOND_NS)) * (1 - DIP)
    assert unasked < 10.0 < asked <= long_wait <= 10.0 * (1 + REST_MARGIN)


@given(counts, counts, counts)
def test_the_longer_an_edge_has_held_the_more_a_refusal_costs_up_to_a_bound(held: int, more: int, lasted: int) -> None:
    young, old = (seen_to_move(age, lasted) for age in (held, held + more))
    assert MANY <= price(young) <= price(old) <= PRICE_MOST


@given(counts, st.integers(1, 10**9))
def test_where_edges_were_seen_to_move_far_a_refusal_costs_no_more_than_elsewhere(held: int, lasted: int) -> None:
    steady = price(replace(COLD, held=held))
    assert price(seen_to_move(held, lasted)) <= steady
    assert price(seen_to_move(held, lasted, edge_per_s=9.5)) == steady, "that was not far"


@given(counts, st.integers(1, 10**9))
def test_an_edge_that_holds_on_is_asked_the_more_rarely_even_where_edges_were_seen_to_move(
    held: int, lasted: int
) -> None:
    assert price(seen_to_move(held, lasted)) >= min(PRICE_MOST, held * PRICE_HELD)


def test_a_refusal_costs_the_less_the_more_it_would_bring_to_find_the_edge_again_that_was_left() -> None:
    prices = [price(seen_to_move(3_000, 32_000, edge_per_s=edge)) for edge in (1.0, 2.0, 4.0, 8.0, 9.9)]
    assert prices == sorted(prices)
    assert len(set(prices)) == len(prices)
    assert price(seen_to_move(3_000, 32_000, edge_per_s=20.0)) == 1_000.0, "there is nothing to find again"


@given(counts, rates)
def test_an_edge_that_moved_is_asked_again_cheaply_whatever_was_owed(held: int, left: float) -> None:
    pace = moved(replace(COLD, held=held, account=-50_000.0), left)
    assert price(pace) == MANY
    assert pace.account >= -MANY


def test_how_long_an_edge_held_is_remembered_only_if_it_had_settled() -> None:
    settled = moved(replace(COLD, held=MEMORY), 10.0)
    assert (settled.lasted, settled.left_per_s) == (MEMORY, 10.0)
    again = moved(replace(settled, held=MEMORY - 1), 5.0)
    assert (again.lasted, again.left_per_s) == (MEMORY, 10.0)


@given(st.floats(STRAY_LEAST, 0.02), counts, counts)
def test_a_refusal_always_says_something_and_never_more_than_all(share: float, clean: int, before: int) -> None:
    assert 0 < meaning(replace(COLD, stray_share=share, clean=clean, clean_before=before)) <= 1


def test_refusals_after_as_many_answers_each_time_are_no_strays() -> None:
    regular = replace(COLD, clean=100, clean_before=98, alike=1, stray_share=0.01)
    assert with_a_stray(regular) == regular
    assert meaning(regular) == 1.0
    assert meaning(replace(regular, alike=0)) < 0.5, "once may be chance"
    chance = replace(regular, clean_before=310)
    assert with_a_stray(chance).stray_share > chance.stray_share
    assert meaning(chance) < 0.5


def test_what_passed_for_strays_is_doubted_once_refusals_come_regularly_or_at_the_same_rate() -> None:
    usual = replace(COLD, rate_per_s=10.0, clean=100, clean_before=300, stray_share=0.01)
    assert without_strays(usual).stray_share == 0.01
    assert without_strays(replace(usual, clean_before=98)).stray_share == 0.01, "once may be chance"
    assert STRAY_LEAST <= without_strays(replace(usual, clean_before=98, alike=1)).stray_share < 0.01
    assert without_strays(replace(usual, probed=True, met_per_s=10.01)).stray_share < 0.01
    assert without_strays(replace(usual, probed=True, met_per_s=10.5)).stray_share == 0.01


def test_a_provider_that_names_a_wait_has_counted_and_its_refusal_is_no_stray() -> None:
    asked = replace(COLD, clean=100, asked_ns=SECOND_NS)
    assert with_a_stray(asked) == asked


@given(st.integers(MANY, 100_000), rates)
def test_the_proven_edge_rests_just_below_what_was_let_through(answers: int, per_s: float) -> None:
    pace = replace(COLD, chain_good=answers, chain_ns=answers / per_s * SECOND_NS)
    rest = proven_edge(pace) * (1 - DIP)
    assert per_s * (1 - DIP) * (1 - 2 / answers) < rest < per_s < accepted_per_s(pace)


def test_too_few_answers_prove_nothing() -> None:
    assert proven_edge(replace(COLD, chain_good=MANY - 1, chain_ns=1e9)) == 0.0
    assert proven_edge(replace(COLD, chain_good=10 * MANY)) == 0.0, "no refusal yet: nothing began"


def test_a_probe_that_gets_further_than_ever_is_tested_and_becomes_the_edge_if_it_holds() -> None:
    tested = refused(at(12.0, edge_per_s=10.0, held=5_000))
    assert tested.below_per_s == 10.0
    held = good(tested, MANY)
    assert held.edges_per_s[0] == 12.0
    assert held.below_per_s == 0.0
    assert held.held < MANY, "an edge that has moved is a new edge"
    assert held.rate_per_s >= 12.0 * (1 - DIP) * 0.999


def test_where_a_refusal_costs_a_long_wait_only_a_probe_far_above_the_edge_is_tested() -> None:
    near, far = at(11.5, edge_per_s=10.0, held=5_000), at(14.0, edge_per_s=10.0, held=5_000)
    met = refused(near, asked_to_wait_ns=60 * SECOND_NS)
    assert met.below_per_s == 0.0, "a test would cost another minute"
    assert 10.0 <= met.edges_per_s[0] <= 10.0 * (1 + DIP)
    assert refused(near, asked_to_wait_ns=SECOND_NS).below_per_s == 10.0
    assert refused(far, asked_to_wait_ns=60 * SECOND_NS).below_per_s == 10.0, "the limit may have risen far"


def test_a_test_does_not_climb() -> None:
    tested = refused(at(12.0, edge_per_s=10.0))
    assert good(tested, MANY - 1).rate_per_s <= 12.0 * (1 - DIP)


def test_a_test_that_is_refused_goes_half_way_back_until_it_is_near_the_old_edge_and_then_knows_of_bursts() -> None:
    pace = refused(at(16.0, edge_per_s=10.0, held=5_000))
    edges = [pace.edges_per_s[0]]
    while pace.below_per_s:
        pace = refused(good(pace, 3))
        edges.append(pace.edges_per_s[0])
    assert edges == sorted(edges, reverse=True)
    assert edges[-1] == 10.0
    assert len(edges) <= 6
    assert pace.bursts
    assert pace.held > 5_000, "the edge has not moved"


def test_a_test_that_is_refused_after_long_leaves_what_was_let_through_meanwhile() -> None:
    tested = refused(at(10.4, edge_per_s=10.0), asked_to_wait_ns=6 * SECOND_NS)
    assert tested.below_per_s == 10.0
    failed = refused(good(tested, 2_500), asked_to_wait_ns=6 * SECOND_NS)
    assert failed.below_per_s == 0.0
    assert 10.0 < failed.edges_per_s[0] < 10.4


def carried(rate_per_s: float, *, filled: float, bursts: bool = True) -> Pace:
    """A probe above an edge at 10/s, while a burst can still hold so many requests, or was overdrawn by so many."""
    return replace(at(rate_per_s, edge_per_s=10.0, held=20_000), account=100.0, bursts=bursts, filled=filled)


def test_where_bursts_are_known_a_probe_that_one_can_have_carried_costs_one_refusal_and_leaves_the_edge() -> None:
    met = refused(carried(11.0, filled=5.0))
    assert met.below_per_s == 0.0
    assert 10.0 <= met.edges_per_s[0] <= 10.0 * (1 + DIP)


def test_a_probe_is_tested_while_no_burst_is_known_and_whenever_more_was_let_through_than_one_explains() -> None:
    assert refused(carried(11.0, filled=5.0, bursts=False)).below_per_s == 10.0
    assert refused(carried(11.0, filled=-5.0)).below_per_s == 10.0


def test_a_probe_climbs_no_higher_until_more_was_let_through_than_a_burst_explains() -> None:
    height = 10.0 * (1 + ELSEWHERE)
    waiting = carried(height, filled=20.0)
    assert may_be_a_burst(waiting)
    assert good(waiting, 1).rate_per_s == height
    moved_up = carried(height, filled=-5.0)
    assert not may_be_a_burst(moved_up)
    assert good(moved_up, 1).rate_per_s > height


@given(st.floats(0.0, BURST_MOST), st.floats(0.01, 900))
def test_a_probe_that_stays_high_is_always_believed_in_the_end(saved: float, edge: float) -> None:
    pace = replace(at(edge * (1 + ELSEWHERE), edge_per_s=edge), filled=saved)
    assert may_be_a_burst(pace)
    answers = 10 * int(BURST_MOST)
    overdrawn = filled(pace, for_ns=answers * pace.interval_ns, taken=answers)
    assert not may_be_a_burst(replace(pace, filled=overdrawn))


@given(st.floats(-1e6, BURST_MOST), rates, st.integers(0, 30 * 24 * HOUR_NS), st.integers(0, 1))
def test_a_burst_fills_up_to_a_bound_however_long_nothing_was_sent(
    saved: float, edge: float, for_ns: int, taken: int
) -> None:
    pace = replace(at(edge, edge_per_s=edge), filled=saved)
    assert saved - 1 <= filled(pace, for_ns=for_ns, taken=taken) <= BURST_MOST


def test_a_pace_that_is_seldom_used_is_not_believed_to_be_faster_than_the_edge() -> None:
    pace, now_ns = replace(at(9.75, edge_per_s=10.0, held=2_000), account=128.0), SECOND_NS
    for _ in range(1_000):
        for number in range(5):
            now_ns += pace.interval_ns if number else 5 * SECOND_NS
            pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + MILLISECOND_NS, pace_bound=number > 0))
    assert pace.rate_per_s <= 10.0 * (1 + ELSEWHERE + DIP)


def test_a_burst_that_filled_while_nothing_was_sent_passes_no_test() -> None:
    tested = refused(at(12.0, edge_per_s=10.0), asked_to_wait_ns=SECOND_NS)
    assert good(tested, MANY).below_per_s == 10.0
    assert good(tested, 4 * MANY).below_per_s == 0.0
    shut_out = refused(refused(at(20.0, edge_per_s=10.0)))
    waited = good(shut_out, MANY)
    assert waited.below_per_s == 10.0, "its own wait fills a burst just as well"


@given(st.integers(0, 10_000), rates, st.integers(0, 10))
def test_what_is_on_its_way_is_not_held_against_the_provider(answers: int, per_s: float, on_its_way: int) -> None:
    latency_ns = on_its_way / per_s * SECOND_NS
    pace = replace(COLD, rate_per_s=per_s, latency_ns=latency_ns, chain_good=answers, chain_ns=1e9)
    assert accepted_at_most_per_s(pace) >= answers + on_its_way


def test_after_an_outage_that_ended_when_it_was_told_to_the_careful_climb_is_twice_as_fast() -> None:
    shut_out = replace(at(10.8, edge_per_s=10.0), outage_ns=60 * SECOND_NS, account=100.0)

    def climbed(asked_ns: int) -> float:
        return good(replace(shut_out, asked_ns=asked_ns), 1).rate_per_s / shut_out.rate_per_s - 1

    assert climbed(60 * SECOND_NS) == pytest.approx(2 * climbed(0))
    assert climbed(SECOND_NS) == climbed(0), "it lasted far longer than was told"


def test_an_edge_that_a_careful_climb_leaves_behind_has_not_held() -> None:
    climbing = replace(at(12.5, edge_per_s=10.0, held=5_000), outage_ns=2 * SECOND_NS, account=100.0)
    left_behind = good(climbing, 1)
    assert left_behind.edges_per_s[0] > 10.0
    assert left_behind.held == 0


def test_an_edge_far_below_the_rate_has_not_held() -> None:
    assert good(replace(at(11.5, edge_per_s=10.0, held=5_000), account=100.0), 1).held == 5_001
    assert good(replace(at(13.0, edge_per_s=10.0, held=5_000), account=100.0), 1).held == 0


def test_an_outage_at_rest_that_shows_a_lower_edge_is_a_move_and_its_debts_are_small() -> None:
    at_rest = replace(at(9.7, edge_per_s=10.0, held=5_000), chain_good=10, chain_ns=2 * SECOND_NS, account=-2_000.0)
    back = good(refused(refused(at_rest)), 1)
    assert back.edges_per_s[0] < 9.0
    assert back.lasted == 5_000
    assert back.left_per_s > 9.8
    assert back.account > -1_500.0


def test_an_outage_in_a_test_goes_half_way_back_like_any_test_that_fails() -> None:
    tested = good(refused(at(20.0, edge_per_s=10.0)), 10)
    back = good(refused(refused(tested)), 1)
    assert 11.0 < back.edges_per_s[0] < 15.0
    assert back.below_per_s == 10.0


def test_refusals_too_dense_to_be_strays_set_an_edge_even_while_nothing_is_known() -> None:
    pace = replace(COLD, rate_per_s=20.0, octave_per_s=20.0, clean=2, overshot=True, evidence=7.0, chain_ns=0.0)
    assert refused(pace).edges_per_s


def test_one_refusal_moves_the_edge_up_only_clearly_above_it() -> None:
    """Within a dip of the edge it is the edge that refuses; further above it may have moved."""
    assert refused(at(10.0, edge_per_s=10.0)).below_per_s == 0.0
    assert refused(at(10.0, edge_per_s=10.0 / (1 + DIP / 2))).below_per_s == 0.0
    assert refused(at(10.0, edge_per_s=8.0)).below_per_s == 8.0


def test_far_below_an_edge_the_rate_climbs_by_a_small_share_of_itself() -> None:
    assert 1.0 < good(at(1.0, edge_per_s=1_000.0), 1).rate_per_s <= 1.0 + 1.0 / A_FEW
