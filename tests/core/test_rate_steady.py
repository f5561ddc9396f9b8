"""Is a run of good answers heard the same way in one call, one by one, and by the general way?"""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.core.quota import Quota
from remora.core.rate.constants import QUEUE_LONG_NS
from remora.core.rate.law import Answer, Answered, Pace, after, after_any, after_many, cold_start
from remora.core.rate.pace import changed
from remora.core.rate.steady import after_steady
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

CEILING_NS = 40 * MILLISECOND_NS
START_NS = HOUR_NS


def starts() -> list[Pace]:
    """Cold, at the ceiling, at rest in debt, at rest with an overdrawn account that is nearly paid, and probing."""
    cold = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=START_NS)
    known = changed(cold, latency_ns=1e8, baseline_ns=1e8, gap_ns=1e8, answered_at_ns=START_NS, left_at_ns=START_NS)
    rest = changed(known, rate_per_s=9.75, octave_per_s=9.75, edges_per_s=(10.0,), chain_ns=0.0, chain_good=5)
    return [
        cold,
        changed(known, rate_per_s=cold.ceiling_per_s, octave_per_s=cold.ceiling_per_s),
        changed(rest, account=-500.0),
        changed(rest, account=-3.0),
        changed(rest, account=-500.0, chain_ns=-1.0, filled=4.0),
        changed(rest, rate_per_s=10.2, account=-500.0),
    ]


def answers(seed: int, count: int) -> list[Answered]:
    """Mostly good answers, at times slow, late, refused, troubled, idle or with a quota."""
    chance, now_ns, heard = Random(seed), START_NS, []
    slow_for, slowness = 0, 1.0
    odd, usual_ns = chance.choice([0.0, 0.02, 0.2]), chance.choice([1e8, 3e7])
    for _ in range(count):
        now_ns += int(chance.choice([40, 100, 100, 103]) * MILLISECOND_NS)
        latency_ns = int(chance.uniform(0.8, 1.3) * usual_ns)
        answer, is_bound, quota = Answer.GOOD, chance.random() < 0.9, None
        slow_for -= 1
        latency_ns = int(latency_ns * (slowness if slow_for > 0 else 1))
        if chance.random() < odd:
            answer = chance.choice([Answer.GOOD, Answer.GOOD, Answer.REFUSED, Answer.TROUBLED])
            slow_for, slowness = chance.choice([1, 1, 3, 12]), chance.choice([1, 1.6, 3, 10])
            quota = chance.choice([None, None, Quota(5, 10, SECOND_NS)])
            latency_ns = int(latency_ns * slowness)
            now_ns += chance.choice([0, 0, SECOND_NS, HOUR_NS])
        heard.append(Answered(answer, now_ns - latency_ns, now_ns, is_bound, quota=quota))
    return heard


def one_by_one(pace: Pace, heard: Sequence[Answered]) -> Pace:
    for event in heard:
        pace = after(pace, event)
    return pace


def by_the_general_way(pace: Pace, heard: Sequence[Answered]) -> Pace:
    for event in heard:
        pace = after_any(pace, event)
    return pace


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(starts()), st.integers(0, 1 << 32), st.integers(0, 200))
def test_a_run_of_answers_gives_the_same_pace_in_one_call_one_by_one_and_by_the_general_way(
    start: Pace, seed: int, count: int
) -> None:
    heard = answers(seed, count)
    together = after_many(start, heard)
    assert together == one_by_one(start, heard)
    assert together == by_the_general_way(start, heard)


def test_at_the_ceiling_and_at_rest_in_debt_the_whole_run_takes_the_fast_path() -> None:
    heard = [Answered(Answer.GOOD, at, at + 10**8, pace_bound=True) for at in range(START_NS, START_NS + 10**10, 10**8)]
    _, ceiling, rest, nearly_paid, warm, probing = starts()
    assert [after_steady(pace, heard)[1] for pace in (ceiling, rest, warm)] == [len(heard)] * 3
    assert after_steady(nearly_paid, heard)[1] == 3, "then the rate may grow"
    assert after_steady(probing, heard)[1] == 0


def test_answers_that_are_slow_now_and_then_stay_on_the_fast_path_until_there_may_be_a_queue() -> None:
    ceiling, at_ns = starts()[1], range(START_NS, START_NS + 5 * 10**9, 10**8)
    now_and_then = [
        Answered(Answer.GOOD, at, at + (10**9 if n % 9 == 0 else 10**8), True) for n, at in enumerate(at_ns)
    ]
    always = [Answered(Answer.GOOD, at, at + 10**9, pace_bound=True) for at in at_ns]
    assert after_steady(ceiling, now_and_then)[1] == len(now_and_then)
    assert after_steady(ceiling, always)[1] < len(always)
    assert after_many(ceiling, always) == by_the_general_way(ceiling, always)


def test_a_short_queue_stays_on_the_fast_path_and_a_long_one_is_judged_by_the_law() -> None:
    quick = changed(starts()[1], ceiling_interval_ns=MILLISECOND_NS, rate_per_s=1_000.0, octave_per_s=1_000.0)
    quick = changed(quick, latency_ns=1e6, baseline_ns=1e6, gap_ns=1e6)
    at_ns = range(START_NS, START_NS + 200 * MILLISECOND_NS, MILLISECOND_NS)
    short, long = (
        [Answered(Answer.GOOD, at, at + latency_ns, pace_bound=True) for at in at_ns]
        for latency_ns in (QUEUE_LONG_NS // 2, 4 * QUEUE_LONG_NS)
    )
    assert after_steady(quick, short)[1] == len(short)
    assert after_steady(quick, long)[1] < len(long)
    for heard in (short, long):
        assert after_many(quick, heard) == by_the_general_way(quick, heard)


def test_a_refusal_ends_the_run_and_is_heard_by_the_law() -> None:
    rest = starts()[2]
    good = [
        Answered(Answer.GOOD, START_NS + n * 10**8, START_NS + n * 10**8 + 10**8, pace_bound=True) for n in range(9)
    ]
    refused = Answered(Answer.REFUSED, START_NS + 10**9, START_NS + 11 * 10**8, pace_bound=True)
    assert after_steady(rest, [*good, refused])[1] == 9
    assert after_many(rest, [*good, refused]).streak == 1
