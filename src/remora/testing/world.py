"""What is there to mirror in a test? Things that are added, changed and removed while somebody reads them.

A world is made from a seed, and everything that will happen to it is known from the start. Its time is the time of the
test's clock; after `moving_s` seconds nothing happens any more, so a mirror can be compared with it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from remora.core.units import SECOND_NS

TOGETHER: Final = 3  # this many things share a second, so that marks are not unique
HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing as it is now."""

    number: int
    created_s: int  # since 1970
    updated_s: int
    revision: int = 0  # how often it was changed
    is_removed: bool = False

    @property
    def parts(self) -> int:
        """How many comments, replies or posts belong to it. Each change adds one."""
        return self.number % 4 + self.revision

    @property
    def text(self) -> str:
        """Some words that change with every revision."""
        return f"thing {self.number} as of revision {self.revision}: blå, “quoted” & <odd>"


def iso(seconds: int) -> str:
    """A moment as most APIs write it: 2026-01-06T12:00:00Z."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """The things of one provider. `now_ns` gives the wall clock; whoever runs the test sets it."""

    def __init__(
        self,
        things: int = 40,
        *,
        seed: int = 1,
        start_s: int = 1_767_700_800,
        moving_s: int = 900,
        events: int = 30,
        adds: bool = True,
        removes: bool = True,
    ) -> None:
        self.now_ns: Callable[[], int] = lambda: start_s * SECOND_NS
        self.start_s = start_s
        self.quiet_from_s = start_s + moving_s
        self._things = {
            number: Thing(number, created_s, created_s)
            for number in range(1, things + 1)
            for created_s in [start_s - (things - number) // TOGETHER * HOUR_S - HOUR_S]
        }
        self._coming = _events(random.Random(seed), things, events, start_s, moving_s, adds=adds, removes=removes)

    def things(self) -> list[Thing]:
        """Everything that is there now, the first created first."""
        self._move()
        return [thing for thing in self._things.values() if not thing.is_removed]

    def everything(self) -> list[Thing]:
        """Everything that ever was there, also what is removed."""
        self._move()
        return list(self._things.values())

    def find(self, number: int) -> Thing | None:
        """One thing, also a removed one; None if there never was one."""
        self._move()
        return self._things.get(number)

    def newest_change_first(self) -> list[Thing]:
        """Everything that is there now, the last changed first; ties by number."""
        return sorted(self.things(), key=lambda thing: (-thing.updated_s, thing.number))

    def newest_first(self) -> list[Thing]:
        """Everything that is there now, the last created first."""
        return self.things()[::-1]

    def _move(self) -> None:
        now_s = self.now_ns() // SECOND_NS
        while self._coming and self._coming[0][0] <= now_s:
            at_s, what, number = self._coming.pop(0)
            known = self._things.get(number)
            if what == "add":
                number = len(self._things) + 1
                self._things[number] = Thing(number, at_s, at_s)
            elif known is not None and not known.is_removed:
                changed = replace(known, updated_s=at_s, revision=known.revision + 1)
                self._things[number] = changed if what == "change" else replace(changed, is_removed=True)


def _events(
    chance: random.Random, things: int, count: int, start_s: int, moving_s: int, *, adds: bool, removes: bool
) -> list[tuple[int, str, int]]:
    """When what happens to which thing, in order. Events share seconds as things do."""
    kinds = ["change", "change", *(["add"] if adds else []), *(["remove"] if removes else [])]
    moments = sorted(chance.randrange(max(1, moving_s // TOGETHER)) * TOGETHER for _ in range(count))
    return [(start_s + at, kinds[each % len(kinds)], chance.randint(1, things)) for each, at in enumerate(moments)]
