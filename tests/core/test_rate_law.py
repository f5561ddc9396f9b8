"""Does the rate law keep its promises for every sequence of answers?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.constants import DIP, EDGES_KEPT, MANY, MORE_PER_ROUND_TRIP, WAIT_MOST_NS
from remora.core.rate.law import Answer, Answered, ChangeKind, Pace, after, cold_start, describe
from remora.core.rate.pace import changed
from remora.core.rate.pace_record import Restore, restore, to_record
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

WALL_NS = 1_800_000_000 * SECOND_NS


@dataclass(frozen=True)
class Step:
    """One answer: what it says, how long after the last one, how old its request was, and what held it back."""

    answer: Answer
    gap: float
    age: float
    pace_bound: bool


answers = st.sampled_from(list(Answer)) | st.just(Answer.GOOD)
steps = st.lists(
    st.builds(Step, answers, st.floats(0.2, 3.0), st.floats(0.01, 4.0), st.booleans() | st.just(value=True)),
    max_size=80,
)
ceilings_ns = st.sampled_from([5 * SECOND_NS, SECOND_NS, 100 * MILLISECOND_NS, 4 * MILLISECOND_NS, 333_333])


def walk(pace: Pace, taken: Sequence[Step], *, start_ns: int = 0) -> list[Pace]:
    """Every pace on the way. Gaps and ages are in intervals of the pace; a wait is waited out."""
    paces, now_ns = [pace], start_ns
    for step in taken:
        now_ns = max(now_ns + int(step.gap * pace.interval_ns), pace.quiet_until_ns)
        departed_at_ns = now_ns - int(step.age * min(pace.interval_ns, SECOND_NS))
        pace = after(pace, Answered(step.answer, departed_at_ns, now_ns, step.pace_bound))
        paces.append(pace)
    return paces


def good_answers(pace: Pace, count: int, *, now_ns: int) -> Pace:
    """So many good answers in a row, at the pace."""
    for _ in range(count):
        now_ns = max(now_ns + pace.interval_ns, pace.quiet_until_ns)
        pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
    return pace


def numbers(pace: Pace) -> list[float]:
    return [
        pace.rate_per_s, pace.octave_per_s, *pace.edges_per_s, pace.below_per_s, pace.best_per_s, pace.left_per_s, pace.filled,
        pace.account, pace.chain_ns, pace.evidence, pace.stray_share, pace.trouble_share, pace.trouble_evidence, pace.latency_ns, pace.baseline_ns,
    ]  # fmt: skip


@given(steps, ceilings_ns)
def test_no_sequence_of_answers_leads_above_the_ceiling(taken: list[Step], ceiling_ns: int) -> None:
    for pace in walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), taken):
        assert pace.interval_ns >= ceiling_ns
        assert pace.rate_per_s <= SECOND_NS / ceiling_ns


@given(steps, ceilings_ns)
def test_every_number_stays_finite_and_every_bound_holds(taken: list[Step], ceiling_ns: int) -> None:
    for pace in walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), taken):
        assert all(math.isfinite(number) for number in numbers(pace))
        assert pace.rate_per_s > 0
        assert 0 <= pace.wait_ns <= WAIT_MOST_NS
        assert len(pace.edges_per_s) <= EDGES_KEPT
        assert list(pace.edges_per_s) == sorted(pace.edges_per_s)


@given(steps, ceilings_ns)
def test_no_answer_raises_the_rate_unless_the_pace_was_what_held_requests_back(
    taken: list[Step], ceiling_ns: int
) -> None:
    unbound = [replace(step, pace_bound=False) for step in taken]
    paces = walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), unbound)
    # The end of a wait returns below the edge; that is no increase over what was learned before it.
    assert all(pace.rate_per_s <= paces[0].rate_per_s for pace in paces)


@given(steps, ceilings_ns, answers)
def test_an_answer_to_a_request_from_before_the_last_cut_changes_no_rate(
    taken: list[Step], ceiling_ns: int, answer: Answer
) -> None:
    pace = walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), taken)[-1]
    now_ns = pace.last_cut_at_ns + SECOND_NS
    late = after(pace, Answered(answer, pace.last_cut_at_ns - 1, now_ns, pace_bound=True))
    assert (late.rate_per_s, late.quiet_until_ns) == (pace.rate_per_s, pace.quiet_until_ns)


@given(steps, st.sampled_from([1 / 8, 4, 16]))
def test_scaling_time_scales_the_rates_and_nothing_else(taken: list[Step], factor: float) -> None:
    def paces(scale: float) -> list[Pace]:
        interval_ns = int(100 * MILLISECOND_NS * scale)
        # The first rate of a cold start is a constant; it scales with the rest only because it is set here.
        cold, first = cold_start(ceiling_interval_ns=interval_ns, now_ns=0), 2 / scale
        start = replace(cold, rate_per_s=first, octave_per_s=first, best_per_s=first)
        found, now_ns, pace = [start], 0, start
        for step in taken:
            now_ns = max(now_ns + int(step.gap * pace.interval_ns), pace.quiet_until_ns)
            # A constant latency: what counts as noise of the machine is a time, and does not scale.
            # Nor does the rate below which faults never push.
            answer = Answer.REFUSED if step.answer is Answer.REFUSED else Answer.GOOD
            pace = after(pace, Answered(answer, now_ns, now_ns + int(interval_ns / 50), step.pace_bound))
            now_ns += int(interval_ns / 50)
            found.append(pace)
        return found

    for one, other in zip(paces(1.0), paces(factor), strict=True):
        if one.wait_ns > WAIT_MOST_NS / 64 or other.wait_ns > WAIT_MOST_NS / 64 or min(one.rate_per_s, 1) < 1 / 64:
            return  # beyond here the longest wait, which is a time, takes part
        assert math.isclose(one.rate_per_s, other.rate_per_s * factor, rel_tol=1e-3)


@pytest.mark.slow
@given(steps, steps, ceilings_ns, st.integers(0, 6 * HOUR_NS))
def test_a_restored_pace_is_never_faster_than_the_record_or_the_ceiling(
    taken: list[Step], more: list[Step], ceiling_ns: int, age_ns: int
) -> None:
    pace = walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), [*taken, *more])[-1]
    now_ns = max(0, pace.learned_at_ns)
    record = to_record(pace, now_ns=now_ns, now_wall_ns=WALL_NS)
    again = restore(record, ceiling_interval_ns=2 * ceiling_ns, now_ns=7, now_wall_ns=WALL_NS + age_ns)
    assert again.how is Restore.WARM
    assert again.pace.rate_per_s <= min(pace.rate_per_s, SECOND_NS / (2 * ceiling_ns))
    left_ns = max(0, pace.quiet_until_ns - now_ns - age_ns)
    assert max(0, again.pace.quiet_until_ns - 7) == left_ns


def test_ten_runs_that_each_ended_deep_in_a_throttle_do_not_poison_the_eleventh() -> None:
    ceiling_ns = 100 * MILLISECOND_NS
    pace = good_answers(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), 400, now_ns=0)
    healthy = pace.rate_per_s
    wall_ns = WALL_NS
    for _ in range(10):
        now_ns = pace.learned_at_ns + SECOND_NS
        for _ in range(6):
            now_ns = max(now_ns + pace.interval_ns, pace.quiet_until_ns)
            pace = after(pace, Answered(Answer.REFUSED, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
        record = to_record(pace, now_ns=now_ns, now_wall_ns=wall_ns)
        wall_ns += HOUR_NS
        pace = restore(record, ceiling_interval_ns=ceiling_ns, now_ns=0, now_wall_ns=wall_ns).pace
    recovered = good_answers(pace, 2_000, now_ns=0)
    assert recovered.rate_per_s >= 0.9 * healthy


def test_a_stray_refusal_at_rest_costs_less_than_a_dip() -> None:
    pace = replace(
        cold_start(ceiling_interval_ns=10 * MILLISECOND_NS, now_ns=0), rate_per_s=19.5, octave_per_s=19.5,
        edges_per_s=(20.0,), account=-1.0, clean=500, chain_ns=0.0,
    )  # fmt: skip
    hit = after(pace, Answered(Answer.REFUSED, 10, 20, pace_bound=True))
    assert pace.rate_per_s * (1 - DIP) <= hit.rate_per_s < pace.rate_per_s


def test_idleness_after_a_refusal_is_not_taken_for_an_outage() -> None:
    pace = replace(
        cold_start(ceiling_interval_ns=10 * MILLISECOND_NS, now_ns=0), rate_per_s=19.5, octave_per_s=19.5,
        edges_per_s=(20.0,), clean=500, chain_ns=0.0,
    )  # fmt: skip
    hit = after(pace, Answered(Answer.REFUSED, 10, 20, pace_bound=False))
    idle = after(hit, Answered(Answer.GOOD, HOUR_NS, HOUR_NS + MILLISECOND_NS, pace_bound=False))
    assert idle.rate_per_s == hit.rate_per_s
    assert idle.account >= pace.account - MANY
    told = after(pace, Answered(Answer.REFUSED, 10, 20, pace_bound=False, asked_to_wait_ns=30 * SECOND_NS))
    waited = after(told, Answered(Answer.GOOD, HOUR_NS, HOUR_NS + MILLISECOND_NS, pace_bound=False))
    assert waited.account < idle.account
    assert 10 * SECOND_NS < waited.outage_ns <= 31 * SECOND_NS


def test_refusals_of_what_left_right_after_a_wait_do_not_lower_the_rate_found_by_its_end() -> None:
    pace = replace(
        cold_start(ceiling_interval_ns=10 * MILLISECOND_NS, now_ns=0), rate_per_s=10.8, octave_per_s=10.8,
        edges_per_s=(8.0,), clean=500, chain_ns=0.0, latency_ns=3e8, baseline_ns=3e8,
    )  # fmt: skip
    told = after(pace, Answered(Answer.REFUSED, 10, SECOND_NS, pace_bound=True, asked_to_wait_ns=SECOND_NS))
    back = after(told, Answered(Answer.GOOD, 2 * SECOND_NS, 2 * SECOND_NS + 300 * MILLISECOND_NS, pace_bound=False))
    assert 8.0 * 0.97 < back.rate_per_s <= told.rate_per_s
    # It left after the wait, at the rate of before; the provider's answer to it says nothing about the new one.
    left_ns = 2 * SECOND_NS + 93 * MILLISECOND_NS
    late = after(back, Answered(Answer.REFUSED, left_ns, left_ns + 300 * MILLISECOND_NS, pace_bound=True))
    assert (late.rate_per_s, late.edges_per_s) == (back.rate_per_s, back.edges_per_s)


def test_what_comes_back_during_a_wait_does_not_make_the_provider_look_slower() -> None:
    pace = replace(
        cold_start(ceiling_interval_ns=10 * MILLISECOND_NS, now_ns=0), rate_per_s=19.5, octave_per_s=19.5,
        edges_per_s=(20.0,), clean=10, chain_good=100, chain_ns=5e9,
    )  # fmt: skip
    for departed_ns in (SECOND_NS, 2 * SECOND_NS):
        pace = after(pace, Answered(Answer.REFUSED, departed_ns, departed_ns + MILLISECOND_NS, pace_bound=True))
    assert pace.wait_ns
    for answer in (Answer.REFUSED, Answer.GOOD):
        late = after(pace, Answered(answer, SECOND_NS, 3 * SECOND_NS, pace_bound=True))
        assert (late.chain_good, late.chain_ns) == (pace.chain_good, pace.chain_ns)


@given(steps, ceilings_ns, st.floats(0.1, 100.0), st.integers(0, 9))
def test_a_changed_pace_is_the_same_as_a_replaced_one(
    taken: list[Step], ceiling_ns: int, rate: float, clean: int
) -> None:
    pace = walk(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0), taken)[-1]
    before = replace(pace)
    assert changed(pace, rate_per_s=rate, clean=clean) == replace(pace, rate_per_s=rate, clean=clean)
    assert pace == before


def test_refusals_in_a_row_stop_sending_and_each_wait_is_longer_than_the_last_up_to_a_bound() -> None:
    pace = good_answers(cold_start(ceiling_interval_ns=100 * MILLISECOND_NS, now_ns=0), 400, now_ns=0)
    now_ns, waits_ns = pace.learned_at_ns + SECOND_NS, []
    for _ in range(12):
        now_ns = max(now_ns + pace.interval_ns, pace.quiet_until_ns)
        pace = after(pace, Answered(Answer.REFUSED, now_ns, now_ns, pace_bound=False))
        waits_ns.append(pace.wait_ns)
    assert waits_ns == sorted(waits_ns)
    assert waits_ns[-1] == WAIT_MOST_NS
    assert pace.quiet_until_ns == now_ns + WAIT_MOST_NS


def test_the_usual_faults_are_no_pressure_and_a_sudden_many_are_one_cut() -> None:
    pace = good_answers(cold_start(ceiling_interval_ns=100 * MILLISECOND_NS, now_ns=0), 400, now_ns=0)
    now_ns = pace.learned_at_ns + SECOND_NS
    for number in range(400):
        now_ns += pace.interval_ns
        answer = Answer.TROUBLED if number % 20 == 0 else Answer.GOOD
        pace = after(pace, Answered(answer, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
    assert pace.rate_per_s == pace.ceiling_per_s
    rates = set()
    for _ in range(20):
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.TROUBLED, now_ns, now_ns + MILLISECOND_NS, pace_bound=True))
        rates.add(pace.rate_per_s)
    assert pace.ceiling_per_s / 2 in rates
    assert pace.rate_per_s >= 1.0


def test_a_longer_queue_at_the_provider_stops_the_climb() -> None:
    pace = replace(cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0), rate_per_s=20.0, octave_per_s=20.0)
    now_ns = 0
    for _ in range(50):
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + 10 * MILLISECOND_NS, pace_bound=True))
    for _ in range(10):
        now_ns += pace.interval_ns
        pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + 900 * MILLISECOND_NS, pace_bound=True))
    slow = after(pace, Answered(Answer.GOOD, now_ns + 1, now_ns + 900 * MILLISECOND_NS, pace_bound=True))
    assert slow.rate_per_s == pace.rate_per_s


def test_a_change_of_pace_is_described_by_its_direction() -> None:
    slow = cold_start(ceiling_interval_ns=100 * MILLISECOND_NS, now_ns=0)
    fast = replace(slow, rate_per_s=2.0)
    quiet = replace(slow, rate_per_s=0.1, quiet_until_ns=5)
    kinds = [change.kind for change in map(describe, (slow, fast, fast), (fast, slow, quiet)) if change is not None]
    assert kinds == [ChangeKind.SPED_UP, ChangeKind.BACKED_OFF, ChangeKind.QUIETED]
    assert describe(slow, slow) is None


def test_with_many_in_flight_a_round_trip_adds_few_requests() -> None:
    """What is sent above the edge until the first refusal is heard may all be refused."""
    latency_ns, now_ns = 2 * SECOND_NS, 0
    pace = replace(
        cold_start(ceiling_interval_ns=MILLISECOND_NS, now_ns=0),
        rate_per_s=20.0, octave_per_s=20.0, latency_ns=float(latency_ns), baseline_ns=float(latency_ns),
    )  # fmt: skip
    for _ in range(10):
        before_per_s = pace.rate_per_s
        for _ in range(int(before_per_s * latency_ns / SECOND_NS)):
            now_ns += pace.interval_ns
            pace = after(pace, Answered(Answer.GOOD, now_ns, now_ns + latency_ns, pace_bound=True))
        assert 0 < (pace.rate_per_s - before_per_s) * latency_ns / SECOND_NS <= MORE_PER_ROUND_TRIP
