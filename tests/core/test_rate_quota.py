"""Is a quota that the provider tells obeyed before anything is refused?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.controllers.table import OURS, attempt_case, cases
from remora.core.rate.keeping import SLOW_ANSWERS
from remora.core.rate.law import Answer, Answered, Pace, Quota, after, cold_start
from remora.core.rate.pace_record import Restore, record_from_json, record_to_json, restore, to_record
from remora.core.rate.quota import is_spread
from remora.core.rate.shared_pace import COMMON, Common, from_common, to_common
from remora.core.rate.signal import slowed_because
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import RETRY_AFTER_MAX_NS

CEILING_NS = 100 * MILLISECOND_NS
WALL_NS = 1_800_000_000 * SECOND_NS


def learned() -> Pace:
    cold = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0)
    return replace(cold, rate_per_s=8.0, octave_per_s=8.0, edges_per_s=(8.2,), learned_at_ns=SECOND_NS, clean=500)


def hear(pace: Pace, remaining: int, reset_in_ns: int, *, answer: Answer = Answer.GOOD, at_ns: int = SECOND_NS) -> Pace:
    quota = Quota(remaining, 5_000, reset_in_ns)
    return after(pace, Answered(answer, at_ns, at_ns + MILLISECOND_NS, pace_bound=True, quota=quota))


def test_what_is_left_is_spread_over_the_time_that_is_left() -> None:
    pace = hear(learned(), 100, 200 * SECOND_NS)
    assert pace.interval_ns == 2 * SECOND_NS


def test_a_quota_never_makes_it_faster_than_what_was_learned_or_the_ceiling() -> None:
    before = learned()
    assert hear(before, 5_000, SECOND_NS).interval_ns >= before.interval_ns * 0.95
    assert hear(replace(before, rate_per_s=10.0), 5_000, SECOND_NS).interval_ns == CEILING_NS


def test_nothing_is_sent_into_a_window_that_was_announced_as_empty() -> None:
    pace = hear(learned(), 0, 40 * MINUTE_NS)
    assert pace.quiet_until_ns == SECOND_NS + MILLISECOND_NS + 40 * MINUTE_NS


def test_what_is_on_its_way_is_counted_against_what_is_left() -> None:
    pace = learned()
    late_ns = 4 * pace.interval_ns
    told = Answered(Answer.GOOD, SECOND_NS, SECOND_NS + late_ns, pace_bound=True, quota=Quota(4, 10, MINUTE_NS))
    assert after(pace, told).quiet_until_ns == SECOND_NS + late_ns + MINUTE_NS


@pytest.mark.parametrize("asked_ns", [0, MINUTE_NS])
def test_a_refusal_because_the_quota_is_used_up_says_nothing_about_the_rate(asked_ns: int) -> None:
    before = learned()
    refused = Answered(Answer.REFUSED, 10, 20, True, asked_ns, Quota(0, 10, MINUTE_NS))
    pace = after(before, refused)
    assert (pace.rate_per_s, pace.edges_per_s, pace.account) == (before.rate_per_s, before.edges_per_s, before.account)
    assert pace.quiet_until_ns == 20 + MINUTE_NS


def test_a_refusal_while_the_quota_is_not_used_up_is_one_like_any_other() -> None:
    before = learned()
    assert hear(before, 10, MINUTE_NS, answer=Answer.REFUSED).rate_per_s < before.rate_per_s


def test_the_learned_rate_does_not_grow_while_the_quota_is_what_holds_requests_back() -> None:
    pace, now_ns = cold_start(ceiling_interval_ns=CEILING_NS, now_ns=0), SECOND_NS
    for _ in range(200):
        now_ns += 10 * SECOND_NS
        pace = hear(pace, 100, 1_000 * SECOND_NS, at_ns=now_ns)
    assert pace.rate_per_s <= 1.2


def test_after_its_end_a_quota_that_is_told_no_more_is_forgotten() -> None:
    pace = hear(learned(), 10, MINUTE_NS)
    early = after(pace, Answered(Answer.GOOD, 2 * SECOND_NS, 3 * SECOND_NS, pace_bound=True))
    assert early.interval_ns == pace.interval_ns
    late = after(pace, Answered(Answer.GOOD, 2 * MINUTE_NS, 2 * MINUTE_NS + 1, pace_bound=True))
    assert late.interval_ns == late.learned_interval_ns


@pytest.mark.parametrize("remaining, reset_in_ns", [(-1, MINUTE_NS), (0, 0), (0, -5), (0, RETRY_AFTER_MAX_NS + 1)])
def test_what_no_quota_can_be_is_not_believed(remaining: int, reset_in_ns: int) -> None:
    pace = hear(learned(), remaining, reset_in_ns)
    assert (pace.quiet_until_ns, pace.quota_until_ns) == (0, 0)


@given(st.integers(0, 10_000), st.integers(1, RETRY_AFTER_MAX_NS), st.integers(0, 100 * SECOND_NS))
def test_no_more_than_what_is_left_can_leave_before_the_end_of_the_quota(
    remaining: int, reset_in_ns: int, latency_ns: int
) -> None:
    pace = learned()
    told = Answered(Answer.GOOD, 0, latency_ns, pace_bound=True, quota=Quota(remaining, 10_000, reset_in_ns))
    pace = after(pace, told)
    if pace.quiet_until_ns:
        assert pace.quiet_until_ns >= latency_ns + reset_in_ns
    else:
        assert reset_in_ns / pace.interval_ns <= remaining


@pytest.mark.parametrize("age_ns", [SECOND_NS, 10 * HOUR_NS])
def test_an_empty_quota_survives_a_restart_however_old_the_rest_has_become(age_ns: int) -> None:
    pace = hear(learned(), 0, 20 * HOUR_NS)
    record = record_from_json(record_to_json(to_record(pace, now_ns=2 * SECOND_NS, now_wall_ns=WALL_NS)))
    again = restore(record, ceiling_interval_ns=CEILING_NS, now_ns=7, now_wall_ns=WALL_NS + age_ns)
    assert again.how is (Restore.WARM if age_ns < HOUR_NS else Restore.COLD_STALE)
    left_ns = pace.quota_until_ns - 2 * SECOND_NS - age_ns
    assert again.pace.quiet_until_ns == again.pace.quota_until_ns == 7 + left_ns


def test_a_quota_that_is_spread_survives_a_restart_and_is_shared() -> None:
    pace = hear(learned(), 100, HOUR_NS)
    record = to_record(pace, now_ns=2 * SECOND_NS, now_wall_ns=WALL_NS)
    again = restore(record, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=WALL_NS + SECOND_NS).pace
    assert again.interval_ns == pace.interval_ns == 36 * SECOND_NS
    shared = {COMMON: to_common(Common(pace), now_ns=2 * SECOND_NS)}
    other = from_common(shared, age_ns=0, quiet_in_ns=0, ceiling_interval_ns=CEILING_NS, now_ns=5)
    assert other is not None
    assert other.pace.interval_ns == pace.interval_ns


@pytest.mark.slow
@pytest.mark.parametrize("row", ["5,000/h told", "5,000/h told, ceiling 1.5/s", "1,000/day told"])
def test_a_quota_that_is_told_is_used_to_the_full_and_nothing_is_refused(row: str) -> None:
    for case in cases([row], [OURS], [1]):
        outcome = attempt_case(case)
        assert outcome.goodput >= 0.98
        assert outcome.refused == 0.0


@pytest.mark.parametrize(
    "quota_ns, expected", [(0, False), (125 * MILLISECOND_NS, False), (126 * MILLISECOND_NS, True)]
)
def test_a_quota_holds_requests_back_only_where_it_is_slower_than_the_learned_rate(
    quota_ns: int, expected: bool
) -> None:
    pace = replace(learned(), quota_interval_ns=quota_ns)
    assert pace.learned_interval_ns == 125 * MILLISECOND_NS
    assert is_spread(pace) is expected


@pytest.mark.parametrize("queue_ns, cut_ns, expected", [(5.0, 2, SLOW_ANSWERS), (5.0, 1, None), (0.0, 2, None)])
def test_slow_answers_are_the_reason_only_where_a_queue_was_just_cut(
    queue_ns: float, cut_ns: int, expected: str | None
) -> None:
    before = replace(learned(), last_cut_at_ns=1)
    assert slowed_because(before, replace(before, queue_ns=queue_ns, last_cut_at_ns=cut_ns), None) == expected
