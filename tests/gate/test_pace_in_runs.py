"""Does the law hear good answers that came together in one go, with the same result as one by one?"""

from dataclasses import replace

from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Verdict
from remora.gate.pace_in_runs import PaceInRuns


class Heard(PaceInRuns):
    """Counts how often the law was asked."""

    def __init__(self) -> None:
        start = cold_start(ceiling_interval_ns=SECOND_NS // 100, now_ns=0)
        super().__init__(replace(start, rate_per_s=100.0, octave_per_s=100.0))
        self.calls = 0
        self.waits = False

    def _waits_for_good_answers(self) -> bool:
        return self.waits

    def _learn(self, event: Answered, learned: Pace, verdict: Verdict | None = None) -> None:
        self.calls += 1
        self.pace = learned


def answers(count: int) -> list[Answered]:
    """Good answers, each a little slower than the one before."""
    return [
        Answered(Answer.GOOD, each * 10 * MILLISECOND_NS, (each * 10 + 30 + each // 4) * MILLISECOND_NS, each % 3 > 0)
        for each in range(count)
    ]


def one_by_one(pace: Pace, events: list[Answered]) -> Pace:
    for event in events:
        pace = after(pace, event)
    return pace


def test_answers_that_came_together_are_heard_in_one_call_with_the_same_result() -> None:
    heard = Heard()
    expected = one_by_one(heard.pace, answers(60))
    assert heard.hear_run(answers(60))
    assert heard.calls == 1
    assert heard.pace == expected


def test_no_run_is_heard_while_somebody_waits_for_each_good_answer() -> None:
    heard = Heard()
    heard.waits = True
    before = heard.pace
    assert not heard.hear_run(answers(3))
    assert (heard.calls, heard.pace) == (0, before)
