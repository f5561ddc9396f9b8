"""Is a failure that repeats told rarely, and its end at once?"""

from remora.core.repeats import Repeats
from remora.core.units import MINUTE_NS, SECOND_NS


def test_the_first_failure_is_told_and_then_one_a_minute() -> None:
    repeats = Repeats()
    told = [second for second in range(181) if repeats.is_worth_telling(now_ns=second * SECOND_NS)]
    assert told == [0, 60, 120, 180]
    assert repeats.over() == 181


def test_after_the_end_the_next_failure_is_told_at_once() -> None:
    repeats = Repeats()
    assert repeats.over() == 0
    assert repeats.is_worth_telling(now_ns=MINUTE_NS)
    assert repeats.over() == 1
    assert repeats.is_worth_telling(now_ns=MINUTE_NS + 1)
