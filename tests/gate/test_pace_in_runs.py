"""Does the law hear good answers that came together in one go, with the same result as one by one?"""

from dataclasses import replace

import pytest

from remora.core.item import Newest
from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, Found, Missing, NoReply, Reply, Verdict
from remora.gate.pace_in_runs import PaceInRuns

GOOD = Found(Newest(1))


class Heard(PaceInRuns):
    """Counts how often the law was asked."""

    def __init__(self) -> None:
        start = cold_start(ceiling_interval_ns=SECOND_NS // 100, now_ns=0)
        super().__init__(replace(start, rate_per_s=100.0, octave_per_s=100.0))
        self.calls = 0
        self.waits = False

    def hear(self, event: Answered) -> None:
        reply = Reply(200, b"", event.departed_at_ns, event.answered_at_ns)
        assert self.hear_in_run(reply, GOOD, pace_bound=event.pace_bound)

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
    for event in answers(60):
        heard.hear(event)
    assert heard.calls == 0
    heard.settle()
    assert heard.calls == 1
    assert heard.pace == expected


def test_whoever_reads_the_pace_sees_every_answer_so_far() -> None:
    heard = Heard()
    expected = one_by_one(heard.pace, answers(5))
    for event in answers(5):
        heard.hear(event)
    assert heard.pace == expected
    assert heard.calls == 1
    heard.settle()
    assert heard.calls == 1


@pytest.mark.parametrize(
    "reply, verdict",
    [
        (Reply(200, b"null", 1, 2), Missing(GapReason.NOT_FOUND)),
        (Reply(200, b"", 1, 2, {"x-ratelimit-remaining": "3"}), GOOD),
        (NoReply(Fault.TOO_LARGE, 1, 2), GOOD),
    ],
)
def test_an_answer_that_says_more_than_good_is_not_heard_in_a_run(reply: Reply | NoReply, verdict: Verdict) -> None:
    heard = Heard()
    assert not heard.hear_in_run(reply, verdict, pace_bound=True)
    heard.settle()
    assert heard.calls == 0


def test_no_run_begins_while_somebody_waits_for_a_good_answer() -> None:
    heard = Heard()
    heard.waits = True
    assert not heard.hear_in_run(Reply(200, b"", 1, 2), GOOD, pace_bound=True)
