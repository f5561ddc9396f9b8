"""Which admitted request departs next? The one in the most important lane, then the one that came first.

After a network stall many connections are ready at once. Only the first request waits for the next slot, and the others
wait for it: so they do not overtake a more important item, and no task is woken for nothing.
"""

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from remora.core.lanes import ORDER
from remora.gate.permit import GovernedPermit

# With one, a long queue departs one request per tick of the event loop, as slowly as new requests join it, and never ends.
# With two, twice as many depart in each tick as in the one before, as long as nothing holds them back.
WAKE_AT_ONCE: Final = 2
RANK: Final = {lane: rank for rank, lane in enumerate(ORDER)}


@dataclass(order=True, slots=True)
class ReadyRequest:
    """One request that is ready to depart. A probe or a canary comes first: the others may depend on its answer."""

    key: tuple[bool, int, int]
    is_first: asyncio.Future[None] | None = field(default=None, compare=False)


class DepartureQueue:
    """The requests of one source that are ready to depart."""

    def __init__(self, *, on_empty: Callable[[], None] = lambda: None) -> None:
        """`on_empty` is called when the last request has left."""
        self._on_empty = on_empty
        self.standing: list[ReadyRequest] = []  # who is first, first
        self._came = 0

    def join(self, permit: GovernedPermit) -> ReadyRequest:
        """Add a request that is ready."""
        self._came += 1
        standing = ReadyRequest((not (permit.is_probe or permit.is_canary), RANK[permit.lane], self._came))
        insort(self.standing, standing)
        return standing

    async def until_first(self, standing: ReadyRequest) -> None:
        """Wait until this request is first; another may still get ahead of it later."""
        while self.standing[0] is not standing:
            standing.is_first = asyncio.get_running_loop().create_future()
            await standing.is_first

    def leave(self, standing: ReadyRequest) -> None:
        """The request departed or was given up: wake the one that is first now, and one more."""
        self.standing.remove(standing)
        asleep = (each.is_first for each in self.standing if each.is_first is not None and not each.is_first.done())
        for told in islice(asleep, WAKE_AT_ONCE):
            told.set_result(None)
        if not self.standing:
            self._on_empty()
