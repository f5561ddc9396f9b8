"""How does a request wait until a hold ends? To the exact moment, or until a change ends it early."""

import asyncio
from contextlib import suppress
from typing import Final

from remora.contracts import Clock
from remora.core.rate.gate_types import Hold, LimitedBy
from remora.core.units import MILLISECOND_NS, SECOND_NS

# A longer wait listens for changes that may shorten it: the pace may recover long before the next slow slot. The last
# part of the wait is slept without listening, to the exact moment.
LISTEN_FROM_NS: Final = 100 * MILLISECOND_NS
SLEEP_LAST_NS: Final = 50 * MILLISECOND_NS


class HoldTimer:
    """The waits of one gate. Each may end early: the caller checks again, and waits again if necessary."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something changed that waiting requests should know of."""
        self._changed.set()

    async def until_over(self, hold: Hold) -> None:
        """Wait until the hold ends; if its end is unknown, until something changes."""
        if hold.until_ns is None:
            await self._listen(None)
            return
        left_ns = hold.until_ns - self._clock.monotonic_ns()
        if hold.limited_by is LimitedBy.STORE:
            await self._listen(max(0, left_ns))
        elif left_ns > LISTEN_FROM_NS:
            await self._listen(left_ns - SLEEP_LAST_NS)
        else:
            await self._clock.sleep_exactly_until(hold.until_ns)

    async def until_turn(self, hold: Hold, *, least_ns: int) -> None:
        """Wait for a turn, and not less than `least_ns`. It comes before the departure, so a coarse timer is enough."""
        if hold.until_ns is None:
            await self._listen(None)
            return
        left_ns = hold.until_ns - self._clock.monotonic_ns()
        if left_ns > LISTEN_FROM_NS:
            await self._listen(left_ns - SLEEP_LAST_NS)
            return
        await asyncio.sleep(max(left_ns, least_ns) / SECOND_NS)

    async def _listen(self, at_most_ns: int | None) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at_most_ns is None else at_most_ns / SECOND_NS):
                await self._changed.wait()
