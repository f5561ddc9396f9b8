"""What time is it, really? The clocks of the machine, behind the one contract that everything else knows."""

import asyncio
import time
from typing import Final

from remora.core.units import SECOND_NS

# One sleep is never longer: a machine that was suspended looks at its clocks again soon after it wakes.
SLEEP_MAX_S: Final = 60.0


class SystemClock:
    """Implements `contracts.Clock` on the system's clocks."""

    def __init__(self) -> None:
        self._latest_wall_ns = 0

    def monotonic_ns(self) -> int:
        """Never goes back, knows nothing of dates."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Nanoseconds since 1970; stands still while the system clock is set back."""
        self._latest_wall_ns = max(self._latest_wall_ns, time.time_ns())
        return self._latest_wall_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment. Timers lie, so the clock is read again after every sleep."""
        while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:  # noqa: ASYNC110 - time is what is waited for
            await asyncio.sleep(min(left_ns / SECOND_NS, SLEEP_MAX_S))
