"""Is trouble caused by bad items or by the provider? A canary decides.

A canary is a request for something that is known to be good. If it is answered well, the failures are caused by bad
items and say nothing about the provider. Each canary excuses twice as many troubled answers as the last one, within
bounds: a long run of bad items costs few canaries, and an outage in the middle of it is still noticed soon.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

EXCUSED_FIRST: Final = 12
EXCUSED_MOST: Final = 24
GOOD_IN_A_ROW_TO_FORGET: Final = 20
# A canary that takes longer has failed, unless other requests were answered well in the meantime.
CANARY_PATIENCE_S: Final = 2.0


class Lesson(StrEnum):
    """What a troubled answer teaches the law."""

    TEACH = "teach"  # it counts
    HOLD = "hold"  # a canary was sent: its answer decides
    DROP = "drop"  # the item caused it; it does not count


class Attribution(msgspec.Struct, frozen=True):
    """What the last canary showed, and for how many troubled answers that still counts."""

    is_asked: bool = False  # a canary was sent and is not answered yet
    opens: bool = False  # enough answers are bad that the circuit opens if the canary fails
    excused: int = 0  # how many troubled answers the last canary excused
    left: int = 0  # how many more it still excuses
    good: int = 0  # good answers since the last canary
    good_in_a_row: int = 0

    @property
    def is_forgotten(self) -> bool:
        """Whether no canary is remembered: a good answer changes nothing."""
        return self.excused == 0 and not self.is_asked

    @property
    def troubled(self) -> int:
        """Troubled answers since the last canary."""
        return self.excused - self.left


def after_good(before: Attribution) -> Attribution:
    """A good answer. After enough of them in a row, old canaries are forgotten."""
    if before.is_forgotten:
        return before
    in_a_row = before.good_in_a_row + 1
    if in_a_row >= GOOD_IN_A_ROW_TO_FORGET and not before.is_asked:
        return Attribution()
    return replace(before, good=before.good + 1, good_in_a_row=in_a_row)


def after_trouble(before: Attribution) -> Attribution:
    """A troubled answer that the last canary excuses."""
    return replace(before, left=max(0, before.left - 1), good_in_a_row=0)


def asked(before: Attribution, *, opens: bool) -> Attribution:
    """A canary was sent."""
    return replace(before, is_asked=True, opens=opens, good=0, good_in_a_row=0)


def after_canary(before: Attribution, *, is_good: bool) -> Attribution:
    """The canary was answered."""
    if not is_good:
        return Attribution()
    excused = min(max(EXCUSED_FIRST, 2 * before.excused), EXCUSED_MOST)
    return Attribution(excused=excused, left=excused)


def after_lost_canary(before: Attribution) -> Attribution:
    """The canary was given up for a reason of our own: nothing is known."""
    return replace(before, is_asked=False, opens=False)
