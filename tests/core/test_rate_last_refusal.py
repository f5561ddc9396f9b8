"""What does the law do when the owner's limit on refusals allows only one more?"""

from dataclasses import replace

import pytest

from remora.core.rate.constants import A_FEW, DIP, REST_WITH_ONE_LEFT
from remora.core.rate.last_refusal import is_one_left
from remora.core.rate.law import Answer, Answered, after, cold_start
from remora.core.rate.pace import Pace
from remora.core.rate.probing import price
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

EDGE_PER_S = 10.0
LIMIT = RefusalLimit(4, MINUTE_NS)
COLD = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)


def resting(limit: RefusalLimit | None = LIMIT) -> Pace:
    """At rest below an edge that has been refused before; the account allows probes."""
    rate = EDGE_PER_S * (1 - DIP)
    pace = replace(COLD, rate_per_s=rate, octave_per_s=rate, edges_per_s=(EDGE_PER_S,), chain_ns=0.0, held=1_000)
    return replace(pace, refusal_limit=limit, clean=1_000, latency_ns=5e7, baseline_ns=5e7)


def heard(pace: Pace, answer: Answer, at_s: float, *, sent_s: float | None = None) -> Pace:
    at_ns = int(at_s * SECOND_NS)
    sent_ns = at_ns - 50 * MILLISECOND_NS if sent_s is None else int(sent_s * SECOND_NS)
    return after(pace, Answered(answer, sent_ns, at_ns, pace_bound=True))


def refused_apart(pace: Pace, times: int, *, from_s: float = 1.0, every_s: float = 5.0) -> tuple[Pace, float]:
    """Refused so many times, each time after good answers."""
    at_s = from_s
    for _ in range(times):
        for good in range(20):
            pace = heard(pace, Answer.GOOD, at_s + good * 0.1)
        pace = heard(pace, Answer.REFUSED, at_s + 2.5)
        at_s += every_s
    return heard(pace, Answer.GOOD, at_s - every_s + 3), at_s


def test_with_one_refusal_left_the_rate_rests_well_below_the_edge_and_does_not_climb() -> None:
    pace, at_s = refused_apart(resting(), 3)
    assert is_one_left(pace, now_ns=int(at_s * SECOND_NS))
    rested_per_s = pace.rate_per_s
    assert rested_per_s <= pace.edges_per_s[0] * REST_WITH_ONE_LEFT
    while at_s < 3.5 + 60:  # the first refusal still counts
        pace = heard(pace, Answer.GOOD, at_s)
        at_s += 0.1
        assert pace.rate_per_s <= rested_per_s


def test_it_climbs_again_as_soon_as_an_earlier_refusal_no_longer_counts() -> None:
    pace, _ = refused_apart(resting(), 3)
    rested_per_s, since_s = pace.rate_per_s, 3.5 + 60.1
    for good in range(20):
        pace = heard(pace, Answer.GOOD, since_s + good * 0.1)
    assert rested_per_s < pace.rate_per_s


def test_with_two_refusals_left_it_climbs_as_ever() -> None:
    pace, at_s = refused_apart(resting(), 2)
    assert not is_one_left(pace, now_ns=int(at_s * SECOND_NS))
    assert pace.rate_per_s > pace.edges_per_s[0] * REST_WITH_ONE_LEFT


@pytest.mark.parametrize("limit", [None, RefusalLimit(1, MINUTE_NS), RefusalLimit(A_FEW + 1, MINUTE_NS)])
def test_without_a_limit_and_with_one_that_is_always_or_hardly_ever_near_nothing_is_remembered(
    limit: RefusalLimit | None,
) -> None:
    pace, at_s = refused_apart(resting(limit), 20, every_s=3)
    assert pace.refused_ns == ()
    assert not is_one_left(pace, now_ns=int(at_s * SECOND_NS))


def test_probing_earns_a_refusal_no_sooner_than_an_eighth_of_the_limit_allows() -> None:
    earned_after_s = price(resting()) / resting().rate_per_s
    assert earned_after_s * SECOND_NS >= 8 * LIMIT.within_ns / LIMIT.most


def test_a_refusal_from_before_the_last_cut_counts_but_lowers_nothing() -> None:
    pace = heard(resting(), Answer.REFUSED, 1.0)
    for at_s in (1.1, 1.2):
        pace = heard(pace, Answer.REFUSED, at_s, sent_s=0.9)
    assert is_one_left(pace, now_ns=2 * SECOND_NS)
    assert pace.rate_per_s > EDGE_PER_S * REST_WITH_ONE_LEFT


def test_a_silence_that_the_limit_demands_makes_no_outage_longer() -> None:
    def outage_ns(*, went_on_s: float) -> int:
        pace = heard(resting(), Answer.REFUSED, 1.0)
        pace = heard(pace, Answer.REFUSED, 1.2, sent_s=1.15)
        assert pace.wait_ns
        sent_ns = int(went_on_s * SECOND_NS)
        return after(pace, Answered(Answer.GOOD, sent_ns, sent_ns + 50 * MILLISECOND_NS, pace_bound=False)).outage_ns

    own_s = 1.2 + heard(heard(resting(), Answer.REFUSED, 1.0), Answer.REFUSED, 1.2, sent_s=1.15).wait_ns / SECOND_NS
    assert outage_ns(went_on_s=own_s + 55) == outage_ns(went_on_s=own_s)
