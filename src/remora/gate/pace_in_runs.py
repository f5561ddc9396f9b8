"""How does the law hear good answers that came together? In one go: a run costs little more than one.

Nobody sees a pace that has not heard them: whoever reads it makes the law hear them first.
"""

from abc import ABC, abstractmethod

from remora.core.quota_headers import has_quota
from remora.core.rate.law import Answer, Answered, Pace, after_many
from remora.core.rate.shared_pace import UnsharedAnswers
from remora.core.rate.signal import WellAnswered, came_at_ns
from remora.core.verdict import Found, NoReply, Reply, Verdict


class PaceInRuns(ABC):
    """A pace, and the good answers that it has not heard yet."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._run: list[Answered] = []
        self._well_answered = WellAnswered()
        self._unshared = UnsharedAnswers()

    @property
    def pace(self) -> Pace:
        """The pace after all answers so far."""
        if self._run:
            self.settle()
        return self._pace

    @pace.setter
    def pace(self, pace: Pace) -> None:
        assert not self._run, "answers that the law never heard"
        self._pace = pace

    def hear_in_run(self, reply: Reply | NoReply, verdict: Verdict, *, pace_bound: bool) -> bool:
        """Keep an ordinary good answer for `settle`. False: the answer is not ordinary, or somebody waits for it."""
        if not isinstance(verdict, Found) or isinstance(reply, NoReply) or has_quota(reply.headers):
            return False
        if not self._run and self._waits_for_good_answers():
            return False
        self._run.append(Answered(Answer.GOOD, reply.departed_at_ns, came_at_ns(reply), pace_bound))
        return True

    def settle(self) -> None:
        """Let the law hear the good answers so far. Does nothing if there are none."""
        if self._run:
            run, self._run = self._run, []
            self._well_answered.add(*[event.departed_at_ns for event in run])
            self._unshared.add(*run)
            self._learn(run[-1], after_many(self._pace, run))

    @abstractmethod
    def _waits_for_good_answers(self) -> bool:
        """Whether each good answer must be heard at once, because it may change more than the pace."""

    @abstractmethod
    def _learn(self, event: Answered, learned: Pace, verdict: Verdict | None = None) -> None:
        """The pace becomes `learned`; the last answer was `event`, and its verdict is given unless it was good."""
