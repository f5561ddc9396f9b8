"""Does one item that hangs say nothing about the source, and a source that answers nobody say all?"""

from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.circuit_breaker import RECENT_ANSWERS
from remora.core.rate.signal import WellAnswered, in_words
from remora.core.reasons import GapReason
from remora.core.verdict import Reply, Trouble

MOMENTS = st.lists(st.integers(0, 1_000), max_size=3 * RECENT_ANSWERS)


def well_answered(left_at_ns: list[int]) -> WellAnswered:
    answered = WellAnswered()
    for at_ns in left_at_ns:
        answered.add(at_ns)
    return answered


@given(MOMENTS, st.integers(0, 1_000))
def test_a_request_is_overtaken_when_all_that_were_answered_of_late_left_after_it(
    moments: list[int], at_ns: int
) -> None:
    of_late = moments[-RECENT_ANSWERS:]
    expected = len(of_late) == RECENT_ANSWERS and all(moment > at_ns for moment in of_late)
    assert well_answered(moments).have_overtaken(at_ns) == expected


def test_what_left_since_the_last_answer_is_never_overtaken() -> None:
    answered = well_answered(list(range(100)))
    assert not answered.have_overtaken(99)
    assert answered.have_overtaken(0)


def test_a_web_page_in_the_place_of_an_answer_is_not_called_an_error_of_the_server() -> None:
    page = Reply(status=200, body=b"<html>", departed_at_ns=0, answered_at_ns=1)
    assert in_words(page, Trouble(GapReason.SERVER_ERROR)) == "it answers HTTP 200, but not with what was asked for"
