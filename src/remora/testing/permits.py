"""What does a source need to be asked in a test? Permits that count themselves, without a gate."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from remora.core.verdict import NoReply, Reply


class CountingGate:
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

    @property
    def is_held(self) -> bool:
        return self._held_s > 0

    async def pass_one(self) -> int:
        if self._held_s:
            await asyncio.sleep(self._held_s)
        return self.pass_now()

    def pass_now(self) -> int:
        self.departures += 1
        self._on_departure()
        return time.monotonic_ns()


class CountedPermit:
    """`contracts.PromptPermit`, for exactly one request."""

    def __init__(self, gate: CountingGate) -> None:
        self._gate = gate
        self.used = False

    async def depart(self) -> int:
        assert not self.used, "one permit, two departures"
        self.used = True
        return await self._gate.pass_one()

    def depart_now(self) -> int | None:
        assert not self.used, "one permit, two departures"
        if self._gate.is_held:
            return None
        self.used = True
        return self._gate.pass_now()

    def sent(self) -> None:
        assert self.used, "on the wire without a departure"


class CountedConnect:
    """`contracts.StreamConnect`."""

    def __init__(self, gate: CountingGate) -> None:
        self._gate = gate
        self.permit = gate.permit()

    def answered(self, reply: Reply | NoReply) -> None:
        self._gate.connects.append(reply)
