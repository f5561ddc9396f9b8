"""What does a transport need around it? Permits that count themselves, and a clock, without a governor."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from remora.contracts import Permit
from remora.core.verdict import NoReply, Reply


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


class Gate:
    """Hands out permits and counts departures; `on_departure` sees the moment itself."""

    def __init__(self, *, held_s: float = 0.0, on_departure: Callable[[], None] = lambda: None) -> None:
        self.departures = 0
        self.wire_sends = 0
        self.connects: list[Reply | NoReply] = []  # what they were answered
        self._held_s = held_s
        self._on_departure = on_departure

    def permit(self) -> "CountedPermit":
        return CountedPermit(self)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["CountedConnect"]:
        """`contracts.ConnectGate`."""
        yield CountedConnect(self)

    def wire_sent(self) -> None:
        self.wire_sends += 1

    async def pass_one(self) -> int:
        if self._held_s:
            await asyncio.sleep(self._held_s)
        self.departures += 1
        self._on_departure()
        return time.monotonic_ns()


class CountedPermit:
    """`contracts.Permit`, for exactly one request."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.used = False

    async def depart(self) -> int:
        assert not self.used, "one permit, two departures"
        self.used = True
        return await self._gate.pass_one()

    def sent(self) -> None:
        assert self.used, "on the wire without a departure"


class CountedConnect:
    """`contracts.StreamConnect`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.permit = gate.permit()

    def answered(self, reply: Reply | NoReply) -> None:
        self._gate.connects.append(reply)
