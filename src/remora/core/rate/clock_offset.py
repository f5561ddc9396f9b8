"""How far is another machine's clock ahead of ours? Between two bounds, which every answer of that machine may narrow.

An answer tells the other clock's time at some moment between question and answer: a quick one tells it well. A bound
stays true for a while, because clocks drift apart slowly. Where bounds contradict each other the other clock was set.
"""

from dataclasses import dataclass
from typing import Final

from remora.core.units import MILLISECOND_NS, SECOND_NS

# No clock that is only disciplined, not set, runs faster or slower than another by more than one part in this many.
DRIFT_ONE_IN: Final = 2_000
# An older answer is not worth trusting: a machine may have slept meanwhile.
KNOWN_FOR_NS: Final = 10 * SECOND_NS

# A smaller jump is taken for drift.
JUMP_LEAST_NS: Final = 5 * MILLISECOND_NS


@dataclass(frozen=True, slots=True)
class Ahead:
    """The other clock minus ours, at the latest answer."""

    least_ns: int
    most_ns: int
    answered_at_ns: int

    def surely_from_ns(self, theirs_ns: int) -> int:
        """When, on our clock, the other clock has surely come to a moment."""
        return theirs_ns - self.least_ns

    def surely_until_ns(self, theirs_ns: int) -> int:
        """Until when, on our clock, the other clock has surely not passed a moment."""
        return theirs_ns - self.most_ns


def look(*, asked_at_ns: int, answered_at_ns: int, theirs_ns: int) -> Ahead:
    """What one answer tells."""
    assert asked_at_ns <= answered_at_ns, "answered before it was asked"
    return Ahead(theirs_ns - answered_at_ns, theirs_ns - asked_at_ns, answered_at_ns)


def narrowed(known: Ahead | None, seen: Ahead) -> Ahead:
    """What all answers tell together; the latest one alone when they contradict each other, or are too far apart."""
    if known is None or not 0 <= (age_ns := seen.answered_at_ns - known.answered_at_ns) <= KNOWN_FOR_NS:
        return seen
    drift_ns = age_ns // DRIFT_ONE_IN + 1
    least_ns = max(seen.least_ns, known.least_ns - drift_ns)
    most_ns = min(seen.most_ns, known.most_ns + drift_ns)
    return Ahead(least_ns, most_ns, seen.answered_at_ns) if least_ns <= most_ns else seen


def was_set_forward(known: Ahead | None, seen: Ahead) -> bool:
    """Whether the other clock jumped ahead since it was last looked at, however long ago that was."""
    if known is None:
        return False
    drift_ns = (seen.answered_at_ns - known.answered_at_ns) // DRIFT_ONE_IN
    return seen.least_ns > known.most_ns + drift_ns + JUMP_LEAST_NS
