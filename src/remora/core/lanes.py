"""Which lane is next? Strict priority between lanes, with a guaranteed minimum share so that none starves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Lane(StrEnum):
    """How a discovery was made. The order here is the order of priority."""

    LIVE = "live"  # new ids
    UPDATE = "update"  # the change stream
    WALK = "walk"  # list pages
    DETAIL = "detail"  # details of listed entries
    RECOVER = "recover"  # gaps
    RESCAN = "rescan"
    BACKFILL = "backfill"

    __hash__ = str.__hash__  # an enum's own hash runs Python code, and every request looks up its lane


ORDER: Final[tuple[Lane, ...]] = tuple(Lane)

# Lanes in which nobody waits for a single item: their results may wait a moment until many are stored together.
PATIENT: Final = frozenset({Lane.RESCAN, Lane.BACKFILL})

# Guaranteed share of departures, in percent, while a lane waits. The rest goes by priority, so a lane that waits alone
# gets everything. The sum is below 100, or the guarantees could not all be kept.
SHARE_PERCENT: Final[Mapping[Lane, int]] = {
    Lane.LIVE: 40,
    Lane.UPDATE: 10,
    Lane.WALK: 10,
    Lane.DETAIL: 10,
    Lane.RECOVER: 10,
    Lane.RESCAN: 5,
    Lane.BACKFILL: 5,
}
_ONE_TURN: Final = 100

# While a live item waits it earns 40 percent of a turn per departure: the third departure is its own.
LIVE_OVERTAKEN_AT_MOST: Final = -(-_ONE_TURN // SHARE_PERCENT[Lane.LIVE]) - 1


@dataclass(frozen=True, slots=True)
class Turns:
    """What each lane has earned of its guaranteed share, in percent of a turn."""

    credit: Mapping[Lane, int] = field(default_factory=lambda: dict.fromkeys(ORDER, 0))


_NOTHING_SAVED: Final = Turns()


def choose(turns: Turns, waiting: Collection[Lane]) -> tuple[Lane, Turns]:
    """The next lane: one that is owed its share if there is any, else the one with the highest priority.

    Lanes that do not wait save nothing, so that an idle lane cannot burst later.
    """
    assert waiting, "nobody is waiting"
    if len(waiting) == 1:
        return next(iter(waiting)), _NOTHING_SAVED
    credit = {
        lane: min(_ONE_TURN, turns.credit[lane] + SHARE_PERCENT[lane]) if lane in waiting else 0 for lane in ORDER
    }
    candidates = [lane for lane in ORDER if lane in waiting]
    owed = [lane for lane in candidates if credit[lane] >= _ONE_TURN]
    chosen = owed[0] if owed else candidates[0]
    credit[chosen] = max(0, credit[chosen] - _ONE_TURN)
    return chosen, Turns(credit)
