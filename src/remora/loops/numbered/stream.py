"""How does an event stream stay open for a year? Connect, read, notice silence, wait a little, connect again.

Two times are kept: every read shows that the stream is alive, but only an event shows that it announces something. A
broken stream is reopened; that is never an error. `core.ledger.freshness.back_off_ns` says how long to wait.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from remora.contracts import Announcement, Clock, StreamBroken, StreamPart
from remora.core.ledger.freshness import SILENT_NS, back_off_ns
from remora.core.units import SECOND_NS

log = structlog.get_logger()

# A provider starts every connection with the current state. That proves the connection, not that changes are announced:
# a stream that always breaks right after it must not be opened twice a second.
EVENTS_THAT_PROVE_A_STREAM: Final = 2

# Says whether this was a real event; raises `Reconnect` when the stream should be closed.
Hear = Callable[[Announcement], Awaitable[bool]]


class Reconnect(Exception):
    """The stream is open but of no use."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Stream:
    """One event stream, kept open. Nothing is read while `hear` works: this is the back-pressure on the provider."""

    def __init__(
        self,
        source: str,
        name: str,
        connect: Callable[[], AsyncIterator[StreamPart]],
        hear: Hear,
        *,
        clock: Clock,
        on_open: Callable[[], None] | None = None,
        on_heard: Callable[[], None] | None = None,
        every_ns: int = 0,
    ) -> None:
        """`every_ns`: the minimum time between two connects."""
        self._source = source
        self._name = name
        self._connect = connect
        self._hear = hear
        self._clock = clock
        self._on_open = on_open
        self._on_heard = on_heard  # called when everything that was read has been handled
        self._every_ns = every_ns
        self._connects = 0
        self._failures = 0
        self._opened = 0
        self._asked_to_wait_ns = 0  # by the provider, before the next connect
        self.connected = False
        self.last_byte_at_ns: int | None = None

    @property
    def reconnects(self) -> int:
        """How often it was reopened."""
        return max(0, self._opened - 1)

    async def run(self) -> None:
        """Stay connected, for ever."""
        while True:
            # After a good connection, reconnect soon but not at once: the stream may break after every event.
            failures = max(self._failures, min(1, self._opened))
            wait_ns = max(back_off_ns(failures), self._asked_to_wait_ns, self._every_ns if self._connects else 0)
            await self._clock.sleep_until(self._clock.monotonic_ns() + wait_ns)
            reason = await self.run_once()
            (log.warning if self._failures > 1 else log.debug)(
                "stream_ended", source=self._source, stream=self._name, reason=reason, failures=self._failures
            )

    async def run_once(self) -> str:
        """One connection, until it ends; returns why it ended."""
        self._asked_to_wait_ns = 0
        self._connects += 1
        self._failures += 1  # events reset it, so that an end before them counts as a failure
        try:
            async with _closing(self._connect()) as parts:
                await self._read(parts)
                return "ended"
        except TimeoutError:
            return "silent"
        except StreamBroken as broken:
            self._asked_to_wait_ns = max(self._asked_to_wait_ns, broken.wait_ns)
            return broken.reason
        except Reconnect as left:
            return left.reason
        finally:
            self.connected = False

    async def _read(self, parts: AsyncIterator[StreamPart]) -> None:
        events, silent_s = 0, None  # waiting in the gate is not silence: the transport bounds what comes after it
        while True:
            async with asyncio.timeout(silent_s):
                part = await anext(parts, None)
            if part is None:
                return
            silent_s = SILENT_NS / SECOND_NS
            self.last_byte_at_ns = self._clock.wall_ns()
            if not self.connected:
                self.connected = True
                self._opened += 1
                if self._on_open is not None:
                    self._on_open()
            self._asked_to_wait_ns = part.reconnect_after_ns
            for announcement in part.announcements:
                events += await self._hear(announcement)
                if events >= EVENTS_THAT_PROVE_A_STREAM:
                    self._failures = 0
            if self._on_heard is not None:
                self._on_heard()


@asynccontextmanager
async def _closing(parts: AsyncIterator[StreamPart]) -> AsyncIterator[AsyncIterator[StreamPart]]:
    """Close the connection at once when done with it."""
    try:
        yield parts
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()
