"""How often is the edge asked again, and what does one refusal tell?"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from remora.core.pace import Pace
from remora.core.rate_constants import CHAIN_GAP, DIP, PRICE_LEAST, PRICE_MOST, SETTLED, STRAY_LEAST
from remora.core.rate_law import Answer, Answered, after, cold_start
from remora.core.rate_probing import accepted_per_s, meaning, moved, price, proven_edge, with_a_stray, without_strays
from remora.core.units import MILLISECOND_NS, SECOND_NS

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


@given(counts, counts, counts)
def test_the_longer_an_edge_has_held_the_more_a_refusal_costs_up_to_a_bound(held: int, more: int, lasted: int) -> None:
    young, old = (replace(COLD, held=age, lasted=lasted) for age in (held, held + more))
    assert PRICE_LEAST <= price(young) <= price(old) <= PRICE_MOST


@given(counts, st.integers(1, 10**9))
def test_where_edges_were_seen_to_move_a_refusal_costs_no_more_than_elsewhere(held: int, lasted: int) -> None:
    assert price(replace(COLD, held=held, lasted=lasted)) <= price(replace(COLD, held=held))


@given(counts, rates, rates)
def test_an_edge_that_moved_is_asked_again_cheaply_whatever_was_owed(held: int, old: float, new: float) -> None:
    pace = moved(replace(COLD, held=held, account=-50_000.0), old, new)
    assert price(pace) == PRICE_LEAST
    assert pace.account >= -PRICE_LEAST


def test_how_long_an_edge_held_is_remembered_only_if_it_had_settled_and_moved_far() -> None:
    settled = replace(COLD, held=SETTLED)
    assert moved(settled, 10.0, 5.0).lasted == SETTLED
    assert moved(settled, 10.0, 9.5).lasted == 0
    assert moved(replace(COLD, held=SETTLED - 1), 10.0, 5.0).lasted == 0


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


@given(st.integers(CHAIN_GAP, 100_000), rates)
def test_the_proven_edge_rests_just_below_what_was_let_through(answers: int, per_s: float) -> None:
    pace = replace(COLD, chain_good=answers, chain_ns=answers / per_s * SECOND_NS)
    rest = proven_edge(pace) * (1 - DIP)
    assert per_s * (1 - DIP) * (1 - 2 / answers) < rest < per_s < accepted_per_s(pace)


def test_too_few_answers_prove_nothing() -> None:
    assert proven_edge(replace(COLD, chain_good=CHAIN_GAP - 1, chain_ns=1e9)) == 0.0
    assert proven_edge(replace(COLD, chain_good=10 * CHAIN_GAP)) == 0.0, "no refusal yet: nothing began"


def test_a_probe_that_gets_further_than_ever_is_tested_and_becomes_the_edge_if_it_holds() -> None:
    tested = refused(at(12.0, edge_per_s=10.0, held=5_000))
    assert tested.below_per_s == 10.0
    held = good(tested, CHAIN_GAP)
    assert held.edges_per_s[0] == 12.0
    assert held.below_per_s == 0.0
    assert held.held < CHAIN_GAP, "an edge that has moved is a new edge"
    assert held.rate_per_s >= 12.0 * (1 - DIP) * 0.999


def test_a_test_does_not_climb() -> None:
    tested = refused(at(12.0, edge_per_s=10.0))
    assert good(tested, CHAIN_GAP - 1).rate_per_s <= 12.0 * (1 - DIP)


def test_a_test_that_is_refused_goes_half_way_back_until_it_is_near_the_old_edge_and_then_knows_the_burst() -> None:
    pace = refused(at(16.0, edge_per_s=10.0, held=5_000))
    edges = [pace.edges_per_s[0]]
    while pace.below_per_s:
        pace = refused(good(pace, 3))
        edges.append(pace.edges_per_s[0])
    assert edges == sorted(edges, reverse=True)
    assert edges[-1] == 10.0
    assert len(edges) <= 6
    assert pace.reach == 1.6
    assert pace.held > 5_000, "the edge has not moved"


def test_a_probe_that_gets_as_far_as_usual_costs_one_refusal_and_leaves_the_edge() -> None:
    usual = replace(at(16.0, edge_per_s=10.0, held=20_000), reach=1.6)
    met = refused(usual)
    assert met.below_per_s == 0.0
    assert 10.0 <= met.edges_per_s[0] <= 10.0 * (1 + DIP)


def test_a_wait_that_was_asked_for_makes_the_test_longer_because_a_burst_could_fill_meanwhile() -> None:
    tested = refused(at(12.0, edge_per_s=10.0), asked_to_wait_ns=SECOND_NS)
    assert good(tested, CHAIN_GAP).below_per_s == 10.0
    assert good(tested, 4 * CHAIN_GAP).below_per_s == 0.0


def test_refusals_too_dense_to_be_strays_set_an_edge_even_while_nothing_is_known() -> None:
    pace = replace(COLD, rate_per_s=20.0, octave_per_s=20.0, clean=2, overshot=True, evidence=7.0, chain_ns=0.0)
    assert refused(pace).edges_per_s
