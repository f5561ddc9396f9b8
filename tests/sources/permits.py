"""What does a transport need around it? Permits that count themselves, and a clock, without a governor."""

import time
from collections.abc import Mapping

from remora.contracts import Permit
from remora.core.verdict import NoReply, Reply
from remora.testing.permits import CountedConnect as CountedConnect
from remora.testing.permits import CountedPermit as CountedPermit
from remora.testing.permits import CountingGate as Gate

__all__ = ["CountedConnect", "CountedPermit", "Gate", "LoopClock", "OnlyGets"]


class OnlyGets:
    """A part of a transport for sources that send no bodies."""

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        raise AssertionError("nothing is posted here")


class LoopClock:
    """`contracts.Clock` on the real clock."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    async def sleep_until(self, monotonic_ns: int) -> None:
        raise AssertionError("a transport waits for nothing but its server")

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await self.sleep_until(monotonic_ns)
