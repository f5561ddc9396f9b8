"""How does the law hear good answers that came together? In one go: a run costs little more than one.

Nobody sees a pace that has not heard them: whoever reads it makes the law hear them first.
"""

from abc import ABC, abstractmethod

from remora.core.rate.law import Answered, Pace, after_many
from remora.core.verdict import Verdict


class PaceInRuns(ABC):
    """A pace, and the good answers that it has not heard yet."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._run: list[tuple[Answered, Verdict]] = []

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

    def settle(self) -> None:
        """Let the law hear the good answers so far. Does nothing if there are none."""
        if self._run:
            run, self._run = self._run, []
            event, verdict = run[-1]
            self._learn(event, after_many(self._pace, [event for event, _ in run]), verdict)

    def _hear_later(self, event: Answered, verdict: Verdict) -> None:
        """Keep a good answer for `settle`."""
        self._run.append((event, verdict))

    @abstractmethod
    def _learn(self, event: Answered, learned: Pace, verdict: Verdict) -> None:
        """The pace becomes `learned`; the last answer was `event`."""
