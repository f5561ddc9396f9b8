"""Who of those that had their turn and stand ready leaves next? The most important lane, then whoever came first.

After a stall of the network many connections are ready at once. Only the first of them waits for the next slot, and the
others wait for it: so an item that matters more is not overtaken by all of them, and nobody is woken for nothing.
"""

import asyncio
from bisect import insort
from dataclasses import dataclass, field
from typing import Final

from remora.core.lanes import ORDER
from remora.gate.permit import GovernedPermit

RANK: Final = {lane: rank for rank, lane in enumerate(ORDER)}


@dataclass(order=True, slots=True)
class ReadyRequest:
    """One request that is ready to leave. A probe or a canary comes first: the others may depend on its answer."""

    key: tuple[bool, int, int]
    is_first: asyncio.Future[None] | None = field(default=None, compare=False)


class DepartureQueue:
    """The requests of one source that are ready to leave."""

    def __init__(self) -> None:
        self._standing: list[ReadyRequest] = []
        self._came = 0

    def join(self, permit: GovernedPermit) -> ReadyRequest:
        """Stand ready."""
        self._came += 1
        standing = ReadyRequest((not (permit.is_probe or permit.is_canary), RANK[permit.lane], self._came))
        insort(self._standing, standing)
        return standing

    async def until_first(self, standing: ReadyRequest) -> None:
        """Until nobody stands before this one; somebody may come to stand there later."""
        while self._standing[0] is not standing:
            standing.is_first = asyncio.get_running_loop().create_future()
            await standing.is_first

    def leave(self, standing: ReadyRequest) -> None:
        """It left, or will not: whoever is first now is told."""
        self._standing.remove(standing)
        if self._standing and (told := self._standing[0].is_first) is not None and not told.done():
            told.set_result(None)
