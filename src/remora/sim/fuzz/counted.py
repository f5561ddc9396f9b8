"""How many requests of one process are under way? More than its bound, or fewer than its gate believes, is a mistake."""

from collections.abc import Callable, Mapping
from typing import Final

from remora.contracts import Permit
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.sim.clock import SimClock
from remora.sim.transport import Answering, SimTransport

SILENCE_NS: Final = 55 * SECOND_NS
# A request that has just been admitted is counted by the gate and is not here yet: one look proves nothing.
LOOKS_BEFORE_LOST: Final = 4


class CountedWire(SimTransport):
    """The simulated transport of one process."""

    def __init__(self, provider: Answering, clock: SimClock, *, in_flight: int, fail: Callable[[str], None]) -> None:
        super().__init__(provider, clock, silence_ns=SILENCE_NS)
        self._in_flight = in_flight
        self._fail = fail
        self._active = 0
        self._looks_too_many = 0

    async def _send(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Reply | NoReply:
        self._active += 1
        try:
            if self._active > self._in_flight:
                self._fail(f"{self._active} requests are in flight, {self._in_flight} are allowed")
            return await super()._send(url, permit, headers, body)
        finally:
            self._active -= 1

    def look(self, believed: int) -> None:
        """Compare with what the gate believes. Streams that are being opened have a place, too, but not for long."""
        self._looks_too_many = self._looks_too_many + 1 if believed > self._active else 0
        if self._looks_too_many == LOOKS_BEFORE_LOST:
            self._fail(f"the gate counts {believed} requests in flight, and {self._active} are")
