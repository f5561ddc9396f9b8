"""Whose fault are troubled answers: the items' own, or the provider's? A canary decides.

A canary is a request for something that is known to be good. While it is answered well, the failures are the items' own:
they teach nothing about the provider. Each canary excuses twice as many troubled answers as the last one, within bounds,
so that a long run of bad items costs few canaries and an outage in the middle of it is still noticed soon.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

EXCUSED_FIRST: Final = 12
EXCUSED_MOST: Final = 24
GOOD_IN_A_ROW_TO_FORGET: Final = 20
# A canary that takes longer has failed, unless others were answered well meanwhile.
CANARY_PATIENCE_S: Final = 2.0


class Lesson(StrEnum):
    """What a troubled answer teaches the law."""

    TEACH = "teach"  # it counts
    HOLD = "hold"  # a canary is on its way: its answer decides
    DROP = "drop"  # it is the item's own


@dataclass(frozen=True, slots=True)
class Attribution:
    """What the last canary said, and how long its word is good for."""

    is_asked: bool = False  # a canary is on its way
    opens: bool = False  # if it fails, so many answers are bad that the circuit opens
    excused: int = 0  # how many troubled answers the last canary excused
    left: int = 0  # of those
    good: int = 0  # good answers since the last canary
    good_in_a_row: int = 0

    @property
    def troubled(self) -> int:
        """Troubled answers since the last canary."""
        return self.excused - self.left


def after_good(before: Attribution) -> Attribution:
    """A good answer. When they flow again the next suspicion begins anew."""
    if before.excused == 0 and not before.is_asked:
        return before
    in_a_row = before.good_in_a_row + 1
    if in_a_row >= GOOD_IN_A_ROW_TO_FORGET and not before.is_asked:
        return Attribution()
    return replace(before, good=before.good + 1, good_in_a_row=in_a_row)


def after_trouble(before: Attribution) -> Attribution:
    """A troubled answer that the last canary excuses."""
    return replace(before, left=max(0, before.left - 1), good_in_a_row=0)


def asked(before: Attribution, *, opens: bool) -> Attribution:
    """A canary is on its way."""
    return replace(before, is_asked=True, opens=opens, good=0, good_in_a_row=0)


def after_canary(before: Attribution, *, is_good: bool) -> Attribution:
    """The canary was answered."""
    if not is_good:
        return Attribution()
    excused = min(max(EXCUSED_FIRST, 2 * before.excused), EXCUSED_MOST)
    return Attribution(excused=excused, left=excused)


def after_lost_canary(before: Attribution) -> Attribution:
    """The canary was not answered, for a reason of our own: nothing is known."""
    return replace(before, is_asked=False, opens=False)
