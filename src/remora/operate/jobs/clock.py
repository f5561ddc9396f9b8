"""What time is it? The machine's clocks, behind the contract that everything else uses."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from remora.contracts import Clock
from remora.core.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS

# One sleep is never longer, so that a machine that was suspended checks its clocks soon after it wakes.
SLEEP_MAX_NS: Final = 60 * SECOND_NS
# An event loop's timer is up to a millisecond off, so we sleep whole milliseconds only; asyncio wakes this much later.
WAKE_LATE_NS: Final = 150 * MICROSECOND_NS


def ahead_ns(clock: Clock, *, system_wall_ns: Callable[[], int] = time.time_ns) -> int:
    """How far this clock is ahead of the system clock: one that was set back leaves it ahead."""
    return max(0, clock.wall_ns() - system_wall_ns())


class SystemClock:
    """Implements `contracts.Clock` on the system's clocks."""

    def __init__(self, *, system_wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._system_wall_ns = system_wall_ns
        self._wall_ahead_ns = system_wall_ns() - time.monotonic_ns()

    # Never goes back; not related to dates. It is read several times for each request, so nothing is around it.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def wall_ns(self) -> int:
        """Nanoseconds since 1970. When the system clock is set back, this one runs on: waits and leases still end."""
        # The wall clock is read first: an interruption between the two must not push it forward for good.
        wall_ns = self._system_wall_ns()
        monotonic_ns = time.monotonic_ns()
        # Runs for each request: a call of `max` would cost as much as reading a clock.
        if wall_ns - monotonic_ns > self._wall_ahead_ns:  # noqa: PLR1730
            self._wall_ahead_ns = wall_ns - monotonic_ns
        return monotonic_ns + self._wall_ahead_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment, up to two milliseconds late."""
        while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110  a timer may be too early
            await asyncio.sleep(min(left_ns, SLEEP_MAX_NS) / SECOND_NS)

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment, and within a few microseconds of it if the loop has nothing else to do.

        It sleeps whole milliseconds. For the rest of the last one the event loop runs without waiting.
        """
        while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:
            whole_ms = (min(left_ns, SLEEP_MAX_NS) - WAKE_LATE_NS) // MILLISECOND_NS
            await asyncio.sleep(max(0, whole_ms) / 1_000)
