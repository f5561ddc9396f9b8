"""Is the other machine's clock always between the bounds, and do many answers tell it better than one?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.clock_offset import DRIFT_ONE_IN, KNOWN_FOR_NS, Ahead, look, narrowed, was_set_forward
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

# One question: how long after the last answer, how long there and back, and where in between the clock was read.
QUESTIONS = st.lists(
    st.tuples(
        st.integers(0, KNOWN_FOR_NS * 2), st.integers(0, 50 * MILLISECOND_NS), st.integers(0, 100), st.integers(-1, 1)
    ),
    min_size=1,
    max_size=30,
)


@given(first_ahead_ns=st.integers(-HOUR_NS, HOUR_NS), questions=QUESTIONS)
def test_the_bounds_hold_the_truth_whatever_the_round_trips_and_never_say_less_than_the_last_answer(
    first_ahead_ns: int, questions: list[tuple[int, int, int, int]]
) -> None:
    now_ns, ahead_ns, known = 0, first_ahead_ns, None
    for pause_ns, round_trip_ns, where_percent, drift in questions:
        ahead_ns += drift * (pause_ns // DRIFT_ONE_IN)
        now_ns += pause_ns
        theirs_ns = now_ns + round_trip_ns * where_percent // 100 + ahead_ns
        seen = look(asked_at_ns=now_ns, answered_at_ns=now_ns + round_trip_ns, theirs_ns=theirs_ns)
        assert not was_set_forward(known, seen)
        known = narrowed(known, seen)
        now_ns += round_trip_ns
        assert known.least_ns <= ahead_ns <= known.most_ns
        assert seen.least_ns <= known.least_ns <= known.most_ns <= seen.most_ns


def test_a_slow_answer_after_a_quick_one_tells_as_much_as_the_quick_one() -> None:
    quick = look(asked_at_ns=0, answered_at_ns=MILLISECOND_NS, theirs_ns=SECOND_NS)
    slow_at_ns = 100 * MILLISECOND_NS
    slow = look(
        asked_at_ns=slow_at_ns, answered_at_ns=slow_at_ns + 40 * MILLISECOND_NS, theirs_ns=SECOND_NS + slow_at_ns
    )
    both = narrowed(quick, slow)
    assert both.most_ns - both.least_ns <= 2 * MILLISECOND_NS


def test_a_clock_that_was_set_is_believed_at_once() -> None:
    known = Ahead(-5, 5, 0)
    for theirs_ns in (-HOUR_NS, HOUR_NS):
        seen = look(asked_at_ns=SECOND_NS, answered_at_ns=SECOND_NS + 10, theirs_ns=theirs_ns)
        assert narrowed(known, seen) == seen


@pytest.mark.parametrize(
    "jump_ns, age_ns, expected", [(1, 0, False), (2, 0, True), (20, 0, True), (20, 60_000, False), (-50, 0, False)]
)
def test_a_jump_ahead_is_noticed_and_drift_is_not(jump_ns: int, age_ns: int, expected: bool) -> None:
    """In milliseconds, with an answer that took five."""
    now_ns = age_ns * MILLISECOND_NS
    seen = look(
        asked_at_ns=now_ns - 5 * MILLISECOND_NS, answered_at_ns=now_ns, theirs_ns=now_ns + jump_ns * MILLISECOND_NS
    )
    assert was_set_forward(Ahead(-5, 5, 0), seen) is expected
    assert not was_set_forward(None, seen)


def test_moments_of_the_other_clock_are_late_as_a_beginning_and_early_as_an_end() -> None:
    known = Ahead(100, 130, 0)
    assert known.surely_from_ns(1_000) == 900
    assert known.surely_until_ns(1_000) == 870


def test_the_longer_the_last_answer_is_ago_the_later_a_beginning_and_the_earlier_an_end_counts() -> None:
    known, moment_ns = Ahead(0, 0, 0), 10 * DRIFT_ONE_IN
    assert known.surely_from_ns(moment_ns) == moment_ns + 10
    assert known.surely_until_ns(moment_ns) == moment_ns - 10
