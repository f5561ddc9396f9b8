"""How far is another machine's clock ahead of ours? Between two bounds, which each answer of that machine may narrow.

An answer gives the other clock's time at some moment between question and answer, so a quick answer gives it precisely.
A bound stays true for a while, because clocks drift apart slowly. If two bounds contradict each other, somebody has set
the other clock.
"""

from typing import Final

import msgspec

from remora.core.units import MILLISECOND_NS, SECOND_NS

# Two clocks that are synchronised by slewing, not by steps, drift apart by at most one part in this many.
DRIFT_ONE_IN: Final = 2_000
# An older answer is not trusted: a machine may have been suspended since.
KNOWN_FOR_NS: Final = 10 * SECOND_NS
# A smaller jump counts as drift.
JUMP_LEAST_NS: Final = MILLISECOND_NS
# Databases tell the time in whole microseconds, rounded down.
ROUNDED_NS: Final = 1_000


class Ahead(msgspec.Struct, frozen=True):
    """The other clock minus ours, at the latest answer."""

    least_ns: int
    most_ns: int
    answered_at_ns: int

    def surely_from_ns(self, theirs_ns: int) -> int:
        """When, on our clock, the other clock has certainly reached a moment."""
        at_ns = theirs_ns - self.least_ns
        return at_ns + max(0, at_ns - self.answered_at_ns) // DRIFT_ONE_IN

    def surely_until_ns(self, theirs_ns: int) -> int:
        """Until when, on our clock, the other clock has certainly not passed a moment."""
        at_ns = theirs_ns - self.most_ns
        return at_ns - max(0, at_ns - self.answered_at_ns) // DRIFT_ONE_IN

    def unsure_ns(self, *, now_ns: int) -> int:
        """How far apart the bounds are by now."""
        return self.most_ns - self.least_ns + 2 * max(0, now_ns - self.answered_at_ns) // DRIFT_ONE_IN


def look(*, asked_at_ns: int, answered_at_ns: int, theirs_ns: int) -> Ahead:
    """The bounds that one answer gives."""
    assert asked_at_ns <= answered_at_ns, "answered before it was asked"
    return Ahead(theirs_ns - answered_at_ns, theirs_ns + ROUNDED_NS - asked_at_ns, answered_at_ns)


def narrowed(known: Ahead | None, seen: Ahead) -> Ahead:
    """The bounds from all answers; from the latest alone if they contradict each other or are too far apart in time."""
    if known is None or not 0 <= (age_ns := seen.answered_at_ns - known.answered_at_ns) <= KNOWN_FOR_NS:
        return seen
    drift_ns = age_ns // DRIFT_ONE_IN + 1
    least_ns = max(seen.least_ns, known.least_ns - drift_ns)
    most_ns = min(seen.most_ns, known.most_ns + drift_ns)
    return Ahead(least_ns, most_ns, seen.answered_at_ns) if least_ns <= most_ns else seen


def was_set_forward(known: Ahead | None, seen: Ahead) -> bool:
    """Whether the other clock jumped ahead since the last answer, however long ago that was."""
    if known is None:
        return False
    drift_ns = (seen.answered_at_ns - known.answered_at_ns) // DRIFT_ONE_IN
    return seen.least_ns > known.most_ns + drift_ns + JUMP_LEAST_NS
