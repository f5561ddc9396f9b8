"""Does a pace that fell far below what was once accepted come back, and does a limit that really fell stay respected?"""

from dataclasses import replace
from random import Random

import pytest

from bench.controllers.hard_providers import BadItems, Varying
from bench.controllers.ours import Remora
from bench.controllers.providers import Latency, Provider, TokenBucket
from bench.controllers.world import Trace, run
from remora.core.rate.constants import A_FEW, FAR, FAR_BELOW, MANY
from remora.core.rate.law import Answer, Answered, after, cold_start
from remora.core.rate.pace import RATE_LEAST_PER_S, Pace
from remora.core.rate.probing import charged, is_far_below
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

COLD = cold_start(ceiling_interval_ns=100 * MILLISECOND_NS, now_ns=0)


def latency() -> Latency:
    return Latency(50 * MILLISECOND_NS, Random(1))


def meet(provider: Provider, *, ceiling_per_s: float, until_ns: int) -> tuple[Pace, Trace]:
    ceiling_ns = int(SECOND_NS / ceiling_per_s)
    ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    trace = run(ours, provider, in_flight=1, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)
    return ours.pace, trace


def fallen(*, edge_per_s: float, best_per_s: float) -> Pace:
    """A pace at rest below an edge that many refusals left far below what was accepted before."""
    rate = edge_per_s * 0.975
    pace = replace(COLD, rate_per_s=rate, octave_per_s=rate, edges_per_s=(edge_per_s,), best_per_s=best_per_s)
    return replace(pace, chain_ns=0.0, filled=512.0, account=-A_FEW, outage_ns=HOUR_NS, latency_ns=50e6)


def good(pace: Pace, count: int) -> Pace:
    now_ns = max(pace.last_cut_at_ns, pace.answered_at_ns)
    for _ in range(count):
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, now_ns - 1, now_ns, pace_bound=True))
    return pace


def refused(pace: Pace) -> Pace:
    now_ns = max(pace.last_cut_at_ns, pace.answered_at_ns) + pace.interval_ns
    return after(pace, Answered(Answer.REFUSED, now_ns - 1, now_ns, pace_bound=True))


@pytest.mark.slow
@pytest.mark.parametrize("per_s", [2.0, 0.1])
def test_after_a_spell_of_bad_items_the_pace_comes_back_within_a_bounded_number_of_answers(per_s: float) -> None:
    per_request_ns = SECOND_NS / per_s
    from_ns, until_ns = int(200 * per_request_ns), int(1_200 * per_request_ns)

    def after_ns(at_ns: int) -> Pace:
        provider = BadItems(TokenBucket(per_s, 10, latency()), 0.43, from_ns, until_ns, Random(1))
        return meet(provider, ceiling_per_s=per_s, until_ns=at_ns)[0]

    slow = after_ns(until_ns)
    assert slow.rate_per_s < per_s / FAR_BELOW
    assert after_ns(until_ns + slow.wait_ns + 100 * slow.interval_ns).rate_per_s > per_s / 4


def test_refusals_of_items_at_the_very_start_do_not_keep_the_pace_down() -> None:
    pace = good(COLD, 8)
    for _ in range(12):  # single items are refused, whatever the rate
        pace = refused(good(refused(pace), 3))
    assert pace.rate_per_s < 1 / FAR_BELOW
    assert good(pace, 200).rate_per_s > 1.0


def test_a_limit_far_below_the_first_rate_is_found_within_few_refusals() -> None:
    provider = TokenBucket(0.02, 10, latency())
    pace, trace = meet(provider, ceiling_per_s=4.0, until_ns=24 * HOUR_NS)
    assert 0.018 < pace.rate_per_s < 0.022
    assert not is_far_below(pace)
    assert len(trace.refused_at_ns) <= 24


@pytest.mark.parametrize("edge_per_s", [0.3, 0.01, RATE_LEAST_PER_S])
def test_far_below_an_accepted_rate_sixteen_good_answers_allow_a_climb_and_sixteen_more_double_the_rate(
    edge_per_s: float,
) -> None:
    pace = fallen(edge_per_s=edge_per_s, best_per_s=10.0)
    assert good(pace, A_FEW - 1).rate_per_s == pace.rate_per_s
    assert good(pace, 2 * A_FEW).rate_per_s >= 1.9 * pace.rate_per_s


def test_refusals_far_below_an_accepted_rate_never_cost_more_than_sixteen_good_answers() -> None:
    pace = replace(fallen(edge_per_s=0.1, best_per_s=10.0), account=0.0, held=100_000)
    assert charged(pace, 1.0).account == -A_FEW
    near = replace(pace, best_per_s=0.1)
    assert charged(near, 1.0).account < -A_FEW


def test_what_was_accepted_for_long_is_remembered_when_it_is_refused() -> None:
    pace = replace(COLD, rate_per_s=8.0, octave_per_s=8.0, edges_per_s=(8.2,), clean=MANY)
    assert refused(pace).best_per_s == 8.0
    assert refused(replace(pace, edges_per_s=())).best_per_s == 4.0, "a burst may have carried discovery"
    assert refused(replace(pace, clean=MANY - 1)).best_per_s == COLD.best_per_s
    assert refused(replace(pace, best_per_s=9.0)).best_per_s == 9.0


def test_each_probe_from_far_below_that_is_refused_halves_what_is_believed_of_the_past() -> None:
    pace = fallen(edge_per_s=1.0, best_per_s=10.0)
    assert is_far_below(pace)
    assert refused(pace).best_per_s == 10.0, "at rest"
    probe = refused(replace(pace, rate_per_s=1.1))
    assert probe.best_per_s == 5.0
    assert not is_far_below(probe)


def test_an_edge_that_a_climb_has_left_behind_follows_the_rate() -> None:
    pace = good(fallen(edge_per_s=0.1, best_per_s=10.0), 80)
    assert pace.rate_per_s > 1.0
    assert pace.edges_per_s[0] >= pace.rate_per_s / FAR * 0.99


@pytest.mark.slow
def test_a_limit_that_fell_to_a_hundredth_is_found_and_hardly_ever_refuses_from_then_on() -> None:
    provider = Varying(((0, 10.0), (10 * MINUTE_NS, 0.1)), 10, latency())
    _, trace = meet(provider, ceiling_per_s=20.0, until_ns=7 * HOUR_NS)
    late = [at_ns for at_ns in trace.refused_at_ns if at_ns > HOUR_NS]
    sent = [at_ns for at_ns in trace.sent_at_ns if at_ns > HOUR_NS]
    assert len(late) <= 0.02 * len(sent)
