"""How does the law hear good answers that came together? In one go: a run costs little more than one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from remora.core.rate.law import Answered, Pace, after_many
from remora.core.rate.shared_pace import UnsharedAnswers
from remora.core.rate.signal import WellAnswered
from remora.core.verdict import Verdict


class PaceInRuns(ABC):
    """A pace that good answers teach one by one or many at a time, with the same result."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._well_answered = WellAnswered()
        self._unshared = UnsharedAnswers()

    def hear_run(self, events: Sequence[Answered]) -> bool:
        """Let the law hear ordinary good answers. False: somebody waits for each of them."""
        if self._waits_for_good_answers():
            return False
        self._well_answered.add(*[event.departed_at_ns for event in events])
        self._unshared.add(*events)
        self._learn(events[-1], after_many(self.pace, events))
        return True

    @abstractmethod
    def _waits_for_good_answers(self) -> bool:
        """Whether each good answer must be heard at once, because it may change more than the pace."""

    @abstractmethod
    def _learn(self, event: Answered, learned: Pace, verdict: Verdict | None = None) -> None:
        """The pace becomes `learned`; the last answer was `event`, and its verdict is given unless it was good."""
