"""Does the rate law keep its bounds on long walks through all kinds of answers, restarts and shared records?"""

import math
from collections.abc import Iterator
from dataclasses import astuple, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.core.rate.constants import (
    ACCOUNT_LEAST,
    ACCOUNT_MOST,
    DIP,
    MANY,
    TEST_MOST,
    WAIT_MOST_NS,
)
from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.rate.pace import RATE_LEAST_PER_S
from remora.core.rate.pace_record import PaceRecord, Restore, record_from_json, record_to_json, restore, to_record
from remora.core.rate.shared_pace import COMMON, Common, from_common, heard_on_top, to_common
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

WALL_NS = 1_800_000_000 * SECOND_NS
CEILINGS_NS = [5 * SECOND_NS, SECOND_NS, 100 * MILLISECOND_NS, 4 * MILLISECOND_NS, 333_333]
LATENCIES_NS = [MILLISECOND_NS, 100 * MILLISECOND_NS, SECOND_NS, 5 * SECOND_NS]
WAITS_ASKED_NS = [0, 0, 0, 1, MILLISECOND_NS, SECOND_NS, 10 * SECOND_NS, HOUR_NS, 6 * HOUR_NS]

# The longest rest, which the account bounds, and then the slow climb through all octaves between the slowest and fastest.
MOST_SUCCESSES_TO_RECOVER = 95_000

seeds = st.integers(0, 1 << 32)


def walk(chance: Random, answers: int) -> Iterator[tuple[Pace, Answered, Pace]]:
    """Before, the answer, after: moods of the provider, stale answers, idle hours, restarts and shared paces."""
    ceiling_ns = chance.choice(CEILINGS_NS)
    now_ns, pace = HOUR_NS, cold_start(ceiling_interval_ns=ceiling_ns, now_ns=HOUR_NS)
    weights, latency_ns = [20, 1, 1], chance.choice(LATENCIES_NS)
    for _ in range(answers):
        if chance.random() < 0.01:
            weights = [chance.choice([1, 5, 50, 200]), chance.choice([0, 1, 3]), chance.choice([0, 1, 3])]
            latency_ns = chance.choice(LATENCIES_NS)
        if chance.random() < 0.005:
            now_ns += chance.randrange(5 * HOUR_NS)
            pace = heard_elsewhere(pace, now_ns) if chance.random() < 0.5 else restarted(pace, now_ns)
        now_ns = max(now_ns + int(chance.choice([0, 0.2, 1, 1, 3]) * pace.interval_ns), pace.quiet_until_ns)
        departed_at_ns = now_ns - int(chance.expovariate(1 / latency_ns))
        if chance.random() < 0.05:
            departed_at_ns = now_ns - chance.randrange(-5, 600 * SECOND_NS)
        answer = chance.choices(list(Answer), weights)[0]
        asked_ns = chance.choice(WAITS_ASKED_NS) if answer is Answer.REFUSED else 0
        event = Answered(answer, departed_at_ns, now_ns, chance.random() < 0.85, asked_ns)
        before, pace = pace, after(pace, event)
        yield before, event, pace


def restarted(pace: Pace, now_ns: int) -> Pace:
    record = record_from_json(record_to_json(to_record(pace, now_ns=now_ns, now_wall_ns=WALL_NS)))
    assert isinstance(record, PaceRecord), "what the law leads to is never damage"
    ceiling_ns = pace.ceiling_interval_ns
    warm = restore(record, ceiling_interval_ns=ceiling_ns, now_ns=now_ns, now_wall_ns=WALL_NS)
    assert warm.how is Restore.COLD_STALE or warm.pace.rate_per_s <= pace.rate_per_s
    return warm.pace


def heard_elsewhere(pace: Pace, now_ns: int) -> Pace:
    common = common_of(to_common(Common(pace), now_ns=now_ns), ceiling_ns=pace.ceiling_interval_ns, now_ns=now_ns)
    assert common is not None, "what the law leads to can always be read"
    return heard_on_top(common.pace, pace, [])


def common_of(told: object, *, ceiling_ns: int, now_ns: int) -> Common | None:
    return from_common({COMMON: told}, age_ns=0, quiet_in_ns=0, ceiling_interval_ns=ceiling_ns, now_ns=now_ns)


def numbers(pace: Pace) -> list[float]:
    learned = astuple(replace(pace, refusal_limit=None))  # the owner's limit is no number that the law learns
    fields = [field for field in learned if field is not None]
    return [number for field in fields for number in (field if isinstance(field, tuple) else (field,))]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seeds)
def test_every_bound_holds_on_a_long_walk(seed: int) -> None:
    for _, event, pace in walk(Random(seed), 1_000):
        assert all(map(math.isfinite, numbers(pace)))
        assert min(RATE_LEAST_PER_S, pace.ceiling_per_s) <= pace.rate_per_s <= pace.ceiling_per_s
        assert all(edge >= RATE_LEAST_PER_S for edge in pace.edges_per_s)
        assert list(pace.edges_per_s) == sorted(set(pace.edges_per_s))
        assert ACCOUNT_LEAST <= pace.account <= ACCOUNT_MOST
        assert 0 <= pace.wait_ns <= WAIT_MOST_NS
        assert pace.quiet_until_ns <= event.answered_at_ns + WAIT_MOST_NS


@settings(max_examples=25, deadline=None)
@given(seeds)
@pytest.mark.slow
def test_no_refusal_and_no_fault_ever_raises_the_rate(seed: int) -> None:
    for before, event, pace in walk(Random(seed), 1_000):
        assert event.answer is Answer.GOOD or pace.rate_per_s <= before.rate_per_s


@settings(max_examples=25, deadline=None)
@given(seeds)
@pytest.mark.slow
def test_an_answer_from_before_the_last_cut_changes_no_rate_on_a_long_walk(seed: int) -> None:
    for before, event, pace in walk(Random(seed), 1_000):
        if event.departed_at_ns <= before.last_cut_at_ns:
            assert (pace.rate_per_s, pace.quiet_until_ns) == (before.rate_per_s, before.quiet_until_ns)


def successes_to_recover(pace: Pace, *, now_ns: int) -> int:
    """How many good answers alone lead back to the ceiling, or one more than the bound."""
    for successes in range(MOST_SUCCESSES_TO_RECOVER + 1):
        if pace.rate_per_s >= pace.ceiling_per_s:
            return successes
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + 1, pace_bound=True))
    return MOST_SUCCESSES_TO_RECOVER + 1


@settings(max_examples=10, deadline=None)
@given(seeds)
@pytest.mark.slow
def test_from_any_state_good_answers_alone_lead_back_to_the_ceiling_in_a_bounded_number(seed: int) -> None:
    *_, (_, event, pace) = walk(Random(seed), 300)
    now_ns = max(event.answered_at_ns + pace.asked_ns, pace.quiet_until_ns)
    assert successes_to_recover(pace, now_ns=now_ns) <= MOST_SUCCESSES_TO_RECOVER


@pytest.mark.slow
@pytest.mark.parametrize("ceiling_ns", [CEILINGS_NS[0], CEILINGS_NS[-1]])
@pytest.mark.parametrize("is_tested", [False, True])
def test_the_deepest_debt_after_the_longest_outage_still_leads_back_to_the_ceiling(
    ceiling_ns: int, *, is_tested: bool
) -> None:
    least = min(RATE_LEAST_PER_S, SECOND_NS / ceiling_ns)
    pace = replace(
        cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), rate_per_s=least, octave_per_s=least,
        edges_per_s=(least * 1.01, least * 1.2), account=ACCOUNT_LEAST, outage_ns=30 * 24 * HOUR_NS, held=1_000_000,
        chain_ns=0.0, below_per_s=least * is_tested, asked_ns=30 * 24 * HOUR_NS,
    )  # fmt: skip
    assert successes_to_recover(pace, now_ns=0) <= MOST_SUCCESSES_TO_RECOVER


def pressed_down() -> Pace:
    """An edge at 1,000 requests/s is known, and faults have pushed the rate down to 1."""
    cold = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
    return replace(cold, rate_per_s=1.0, octave_per_s=1.0, edges_per_s=(1_000.0,), clean=500, chain_ns=0.0)


def hear(pace: Pace, answer: Answer, *, asked_to_wait_ns: int = 0) -> Pace:
    now_ns = max(pace.last_cut_at_ns + pace.asked_ns, pace.quiet_until_ns) + SECOND_NS
    return after(pace, Answered(answer, now_ns, now_ns + 1, pace_bound=True, asked_to_wait_ns=asked_to_wait_ns))


@pytest.mark.parametrize("refusals", [1, 2, 3, 6])
@pytest.mark.parametrize("asked_to_wait_ns", [0, SECOND_NS])
def test_a_refusal_far_below_the_edge_does_not_lead_back_to_the_edge_at_once(
    refusals: int, asked_to_wait_ns: int
) -> None:
    pace = pressed_down()
    for _ in range(refusals):
        pace = hear(pace, Answer.REFUSED, asked_to_wait_ns=asked_to_wait_ns)
        assert pace.rate_per_s <= 1.0
    assert hear(pace, Answer.GOOD).rate_per_s <= 2.5


def test_a_wait_is_never_shorter_than_the_time_between_two_requests() -> None:
    pace = hear(hear(pressed_down(), Answer.REFUSED), Answer.REFUSED)
    assert pace.wait_ns >= SECOND_NS


def test_a_provider_that_lets_one_request_through_between_outages_is_asked_once_in_the_longest_wait() -> None:
    pace = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
    for _ in range(300):
        for answer in (Answer.REFUSED, Answer.REFUSED, Answer.GOOD):
            pace = hear(pace, answer)
            assert pace.interval_ns <= WAIT_MOST_NS + 1


def in_a_test() -> Pace:
    """A probe was refused at 16, well above the edge at 10, and the answers at about that rate are to tell."""
    cold = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
    probed = replace(cold, rate_per_s=16.0, octave_per_s=16.0, edges_per_s=(10.0,), clean=500, chain_ns=0.0, held=5_000)
    tested = hear(probed, Answer.REFUSED)
    assert tested.below_per_s == 10.0
    return tested


@given(st.lists(st.sampled_from([Answer.GOOD, Answer.GOOD, Answer.REFUSED]), max_size=40))
def test_a_crash_in_a_test_or_in_its_wait_comes_back_below_the_edge_that_was_known(heard: list[Answer]) -> None:
    pace = in_a_test()
    for answer in heard:
        pace = hear(pace, answer)
    if not pace.below_per_s:
        return
    back = restarted(pace, pace.last_cut_at_ns)
    assert back.rate_per_s <= min(pace.rate_per_s, 10.0 * (1 - DIP))
    assert hear(back, Answer.GOOD).rate_per_s <= 10.0 * (1 - DIP)


def test_a_crash_in_a_test_at_the_slowest_rate_does_not_make_it_slower_still() -> None:
    least = RATE_LEAST_PER_S
    slowest = replace(in_a_test(), rate_per_s=least, edges_per_s=(1.4 * least,), below_per_s=least)
    assert restarted(slowest, slowest.last_cut_at_ns).rate_per_s == least


def test_a_crash_in_a_wait_does_not_come_back_faster_than_without_it() -> None:
    cold = cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0)
    pace = replace(cold, rate_per_s=10.0, octave_per_s=10.0, edges_per_s=(10.0,), clean=500, chain_ns=0.0, held=5_000)
    for _ in range(3):
        pace = hear(pace, Answer.REFUSED)
    assert pace.probed
    crashed = restarted(pace, pace.quiet_until_ns)
    assert crashed.rate_per_s == pace.rate_per_s
    assert hear(crashed, Answer.GOOD).rate_per_s <= hear(pace, Answer.GOOD).rate_per_s


def test_a_test_that_failed_below_the_old_edge_does_not_raise_the_edge_to_it_again() -> None:
    tested = replace(in_a_test(), edges_per_s=(9.0,), rate_per_s=8.0, streak=0, clean=1, evidence=5.0)
    failed = hear(tested, Answer.REFUSED)
    assert failed.rate_per_s <= 8.0
    assert failed.edges_per_s[0] <= 9.0


def test_a_test_ends_however_long_the_provider_had_asked_to_wait() -> None:
    tested = replace(in_a_test(), asked_ns=24 * HOUR_NS, streak=0, clean=TEST_MOST - 1)
    assert TEST_MOST > MANY
    assert not hear(tested, Answer.GOOD).below_per_s


TOLD = sorted(to_common(Common(pressed_down()), now_ns=HOUR_NS))
nonsense = st.sampled_from(
    [0, -1, 1, -(10**9), 10**9, 1 << 63, 10**400, 0.0, -0.5, 1e-320, 1e308, [], [0.0], [3.0, 2.0]]
)
heard_kinds = st.lists(st.sampled_from([*Answer, Answer.REFUSED]), max_size=30)


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(TOLD), nonsense, min_size=1, max_size=3), heard_kinds, st.booleans())
@pytest.mark.slow
def test_whatever_a_tampered_shared_record_holds_the_law_goes_on_within_its_bounds(
    damaged: dict[str, object], heard: list[Answer], is_tested: bool
) -> None:
    now_ns = 30 * HOUR_NS
    told = to_common(Common(in_a_test() if is_tested else pressed_down()), now_ns=now_ns)
    common = common_of({**told, **damaged}, ceiling_ns=MILLISECOND_NS, now_ns=now_ns)
    if common is None:
        return
    pace = common.pace
    assert pace.quiet_until_ns <= now_ns + WAIT_MOST_NS
    for answer in [*heard, Answer.GOOD]:
        now_ns += pace.interval_ns
        pace = after(pace, Answered(answer, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
        assert all(map(math.isfinite, numbers(pace)))
        assert 0 < pace.rate_per_s <= pace.ceiling_per_s
