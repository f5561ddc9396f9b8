"""Is what the law waits by itself ever taken for the provider's doing?"""

from dataclasses import replace

import pytest

from bench.controllers.table import OURS, attempt_case, cases
from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.units import MILLISECOND_NS, SECOND_NS

CEILING_NS = 25 * MILLISECOND_NS


def next_departure_ns(pace: Pace) -> int:
    waited_ns = max(pace.last_cut_at_ns + pace.asked_ns, pace.quiet_until_ns, pace.left_at_ns)
    return waited_ns + pace.learned_interval_ns


def hear(pace: Pace, answer: Answer, *, asked_ns: int = 0) -> Pace:
    left_ns = next_departure_ns(pace)
    return after(pace, Answered(answer, left_ns, left_ns + MILLISECOND_NS, pace_bound=True, asked_to_wait_ns=asked_ns))


def resting() -> Pace:
    cold = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0)
    return replace(cold, rate_per_s=10.0, octave_per_s=10.0, edges_per_s=(10.2,), clean=500, chain_ns=0.0, held=5_000)


@pytest.mark.parametrize("asked_ns", [0, SECOND_NS])
def test_a_wait_of_our_own_does_not_make_the_next_one_longer(asked_ns: int) -> None:
    pace, waits_ns = resting(), []
    for _ in range(8):
        pace = hear(hear(pace, Answer.REFUSED, asked_ns=asked_ns), Answer.REFUSED, asked_ns=asked_ns)
        waits_ns.append(pace.wait_ns * pace.edges_per_s[0])
        for _ in range(600):
            pace = hear(pace, Answer.GOOD)
    assert max(waits_ns) <= 3 * waits_ns[0], "in requests' time: the provider let us in at the first probe each time"
    assert waits_ns[-1] <= 1.01 * waits_ns[0], "the rate has grown, and the wait has not"


def test_a_retry_after_that_was_kept_is_the_length_of_the_outage() -> None:
    pace = hear(hear(resting(), Answer.REFUSED, asked_ns=30 * SECOND_NS), Answer.GOOD)
    assert 29 * SECOND_NS < pace.outage_ns < 31 * SECOND_NS


def test_after_a_long_retry_after_in_discovery_the_climb_begins_well_below_and_is_slow() -> None:
    cold = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0)
    pace = replace(cold, rate_per_s=20.0, octave_per_s=20.0, clean=500)
    shut = hear(hear(pace, Answer.REFUSED, asked_ns=60 * SECOND_NS), Answer.GOOD)
    assert shut.rate_per_s < 5.0
    short = hear(hear(pace, Answer.REFUSED, asked_ns=SECOND_NS), Answer.GOOD)
    assert short.rate_per_s >= 10.0
    for _ in range(100):
        shut = hear(shut, Answer.GOOD)
    assert shut.rate_per_s < 7.5, "the next refusal costs another minute"


def test_a_retry_after_that_was_too_short_is_not_believed() -> None:
    pace = hear(resting(), Answer.REFUSED, asked_ns=SECOND_NS)
    pace = hear(pace, Answer.REFUSED, asked_ns=SECOND_NS)
    own_wait_ns = pace.wait_ns
    assert hear(pace, Answer.GOOD).outage_ns <= 2 * SECOND_NS + own_wait_ns // 2


def test_a_block_that_discovery_ran_into_is_not_paid_for() -> None:
    pace = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0)
    for _ in range(300):
        pace = hear(pace, Answer.GOOD)
    for _ in range(5):
        pace = hear(pace, Answer.REFUSED)
    back = hear(pace, Answer.GOOD)
    assert back.account >= -100.0
    climbing = back
    for _ in range(1_000):
        climbing = hear(climbing, Answer.GOOD)
    assert climbing.rate_per_s > 1.5 * back.rate_per_s


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", ["Retry-After 1 s on 600/min", "5,000/h", "sliding 600/min", "10/s b=20 and 300/min fixed", "fixed 600/min"]
)
def test_windows_of_a_minute_or_an_hour_are_used_well_without_a_true_hint(row: str) -> None:
    for case in cases([row], [OURS], [1]):
        outcome = attempt_case(case)
        assert outcome.goodput >= 0.85
        assert outcome.refused <= 0.01


def test_a_long_outage_is_remembered_for_many_answers_and_then_fades() -> None:
    shut = replace(resting(), outage_ns=60 * SECOND_NS)
    waits_ns = [
        hear(hear(replace(shut, clean=clean), Answer.REFUSED), Answer.REFUSED).wait_ns for clean in (0, 50, 10**6)
    ]
    assert waits_ns[0] >= waits_ns[1] > 30 * SECOND_NS > waits_ns[2]


def test_after_a_row_of_refusals_during_discovery_the_rate_comes_back_at_half_the_edge() -> None:
    found = replace(resting(), provisional=True)
    back = hear(hear(hear(found, Answer.REFUSED), Answer.REFUSED), Answer.GOOD)
    assert back.rate_per_s <= found.rate_per_s * 0.6
