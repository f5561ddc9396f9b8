"""Which items changed since the last poll? The log of changes behind `updates.json`, extended as time passes.

Like the real list, it does not contain every change: a share is left out, and changes of items older than the window
of recent ids are never announced.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from remora.core.units import MINUTE_NS
from remora.sim.cast import Role
from remora.sim.world import World

RECENT_IDS: Final = 50_000
LOG_ENTRIES: Final = 200_000
_LISTED_MAX: Final = 100
_LISTED_FOR_NS: Final = 5 * MINUTE_NS
_HASH_MIX: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Change:
    """An item changed at this moment."""

    at_ns: int
    item_id: int


class Feed:
    """The changes of a world, in the order they happen."""

    def __init__(self, world: World, *, since_ns: int, missed_share: float = 0.03) -> None:
        self._world = world
        self._missed_below = int(missed_share * (1 << 32))
        self._coming: list[tuple[int, int]] = []
        self._log: deque[Change] = deque(maxlen=LOG_ENTRIES)
        self._logged = 0
        self._planned_to = max(0, world.max_id(since_ns) - RECENT_IDS)
        self._now_ns = since_ns
        self._plan(since_ns, past_ns=since_ns)

    def advance(self, now_ns: int) -> int:
        """Bring the log up to date and return its end position, for `after`."""
        if now_ns > self._now_ns:
            self._plan(now_ns, past_ns=self._now_ns)
            self._now_ns = now_ns
            while self._coming and self._coming[0][0] <= now_ns:
                self._announce(*heappop(self._coming))
        return self._logged

    @property
    def next_ns(self) -> int | None:
        """When the next change happens, of the ids assigned so far; None: none of them will change."""
        return self._coming[0][0] if self._coming else None

    def after(self, position: int) -> list[int]:
        """The ids changed since a position, each once, oldest first."""
        count = min(self._logged - position, len(self._log))
        recent = islice(self._log, len(self._log) - count, None)
        return list(dict.fromkeys(change.item_id for change in recent))

    def listed(self, now_ns: int) -> list[int]:
        """The rolling list: what changed in the last minutes, newest first, at most a hundred."""
        self.advance(now_ns)
        recent: dict[int, None] = {}
        for change in reversed(self._log):
            if change.at_ns < now_ns - _LISTED_FOR_NS or len(recent) >= _LISTED_MAX:
                break
            recent.setdefault(change.item_id)
        return list(recent)

    def _plan(self, now_ns: int, *, past_ns: int) -> None:
        """Schedule the changes of newly assigned ids, except those before `past_ns`."""
        newest = self._world.max_id(now_ns)
        for item_id in range(self._planned_to + 1, newest + 1):
            if not self._world.is_absent(item_id):
                for moment_ns in self._world.life(item_id).moments():
                    if moment_ns > past_ns:
                        heappush(self._coming, (moment_ns, item_id))
        self._planned_to = max(self._planned_to, newest)

    def _announce(self, at_ns: int, item_id: int) -> None:
        """Log a change. If a comment appears or moves, its parent and story changed, too."""
        changed = [item_id]
        if self._world.role(item_id) is Role.COMMENT:
            life = self._world.life(item_id)
            if at_ns in (life.visible_ns, life.moved_ns):
                changed += self._world.parent_and_story(item_id, at_ns)
            if at_ns == life.moved_ns:
                changed += self._world.parent_and_story(item_id, at_ns - 1)
        for changed_id in dict.fromkeys(changed):
            if not self._is_missed(at_ns, changed_id):
                self._log.append(Change(at_ns, changed_id))
                self._logged += 1

    def _is_missed(self, at_ns: int, item_id: int) -> bool:
        """Decide for each change, always in the same way, without the state of a random generator."""
        return ((at_ns ^ item_id) * _HASH_MIX >> 16) % (1 << 32) < self._missed_below
