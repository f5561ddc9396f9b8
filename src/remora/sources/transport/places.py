"""How many requests may be on their way at once? As many as there are places; the others wait in order."""

import asyncio
from collections import deque
from types import TracebackType


class Places:
    """Like a semaphore, but a free place can also be taken without waiting: `async with places`, or `take_free`."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether a place is free and nobody waits for it."""
        return self._free > 0 and not self._waiting

    def take_free(self) -> None:
        """Take a place that is free."""
        assert self._free > 0, "no place is free"
        self._free -= 1

    def give_back(self) -> None:
        """Free a place; the first that waits gets it."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    async def __aenter__(self) -> None:
        if self.is_free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back()  # it was given and never used
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
