"""Which connections to the console stay open? A bounded number, each for a bounded time, and never at the gate's cost.

A visitor who opens connections and sends nothing must not use up the descriptors that collecting needs. The table below
decides; `Watched` is between the socket and the HTTP server and acts.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from remora.contracts import Clock
from remora.core.units import SECOND_NS

CONNECTIONS_MAX: Final = 256
# Enough for one browser and one scrape, even with few descriptors.
CONNECTIONS_LEAST: Final = 8
VIEWERS_MAX: Final = 64
# The system accepts this many connections at once before any of them can be refused.
BACKLOG: Final = 16
# Descriptors for the store, name lookups, the notify command and whatever else a process has open.
DESCRIPTORS_SPARE: Final = 64
DESCRIPTORS_PER_SOURCE: Final = 8  # streams and name lookups, besides the requests in flight


class Phase(StrEnum):
    """What a connection is doing."""

    SILENT = "silent"  # has not sent a whole request yet
    ANSWERING = "answering"
    IDLE = "idle"  # was answered and may ask again
    WATCHING = "watching"  # an event stream, which has its own limit


# How long a connection may stay in each phase. A viewer is closed when it stops reading, see the server.
PATIENCE_NS: Final = {Phase.SILENT: 10 * SECOND_NS, Phase.ANSWERING: 60 * SECOND_NS, Phase.IDLE: 60 * SECOND_NS}
# Which connections are closed when there is no room: first idle ones, then those that never sent a request.
CLOSED_FIRST: Final = (Phase.IDLE, Phase.SILENT)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections may be open, and how many of them may watch."""

    connections: int = CONNECTIONS_MAX
    viewers: int = VIEWERS_MAX


def bounds_for(descriptors: int, *, in_flight: int, sources: int) -> Bounds:
    """How many descriptors the console may use, after everything that collecting may need."""
    free = descriptors - reserved_descriptors(in_flight=in_flight, sources=sources)
    connections = max(CONNECTIONS_LEAST, min(CONNECTIONS_MAX, free))
    return Bounds(connections, min(VIEWERS_MAX, connections // 2))


def reserved_descriptors(*, in_flight: int, sources: int) -> int:
    """How many descriptors visitors never get."""
    return in_flight + sources * DESCRIPTORS_PER_SOURCE + BACKLOG + DESCRIPTORS_SPARE


class ConnectionTable:
    """All open connections, by their transport, and what each is doing since when."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._open: dict[Hashable, tuple[Phase, int]] = {}
        self._ended = 0  # closed because they were late or to make room, or refused for lack of room

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, newcomer: Hashable, *, now_ns: int) -> tuple[bool, Hashable | None]:
        """Whether it may stay, and which connection must be closed for it."""
        victim = None
        if len(self._open) >= self._bounds.connections:
            victim = self._closed_first()
            if victim is None:
                self._ended += 1
                return False, None
            self._ended += 1
            del self._open[victim]
        self._open[newcomer] = (Phase.SILENT, now_ns)
        return True, victim

    def move(self, connection: Hashable, phase: Phase, *, now_ns: int) -> None:
        """A connection changes its phase. One that was closed meanwhile stays closed."""
        if connection in self._open:
            self._open[connection] = (phase, now_ns)

    def heard(self, connection: Hashable, *, now_ns: int) -> None:
        """Bytes came. On an idle connection they begin a request, which must be complete in time."""
        if self._open.get(connection, (None, 0))[0] is Phase.IDLE:
            self.move(connection, Phase.SILENT, now_ns=now_ns)

    def forget(self, connection: Hashable) -> None:
        """It is closed."""
        self._open.pop(connection, None)

    def take_ended(self) -> int:
        """How many connections were closed or refused since the last call."""
        ended, self._ended = self._ended, 0
        return ended

    def may_watch(self) -> bool:
        """Whether there is room for one more viewer."""
        return sum(phase is Phase.WATCHING for phase, _ in self._open.values()) < self._bounds.viewers

    def overdue(self, *, now_ns: int) -> list[Hashable]:
        """Those that have been in their phase for too long; they are forgotten here and must be closed."""
        late = [
            connection
            for connection, (phase, since_ns) in self._open.items()
            if phase in PATIENCE_NS and now_ns - since_ns >= PATIENCE_NS[phase]
        ]
        for connection in late:
            del self._open[connection]
        self._ended += len(late)
        return late

    def _closed_first(self) -> Hashable | None:
        for wanted in CLOSED_FIRST:
            found = [(since_ns, each) for each, (phase, since_ns) in self._open.items() if phase is wanted]
            if found:
                return min(found, key=lambda pair: pair[0])[1]
        return None


class Watched(asyncio.Protocol):
    """One connection: passes everything on to the HTTP server's protocol and updates the table."""

    def __init__(self, make: Callable[[], asyncio.Protocol], table: ConnectionTable, *, clock: Clock) -> None:
        self._make = make
        self._inner: asyncio.Protocol | None = None
        self._table = table
        self._clock = clock
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection if there is room."""
        assert isinstance(transport, asyncio.Transport), "the console speaks over sockets"
        may_stay, victim = self._table.admit(transport, now_ns=self._clock.monotonic_ns())
        if isinstance(victim, asyncio.Transport):
            victim.abort()
        if not may_stay:
            transport.abort()
            return
        self._transport, self._inner = transport, self._make()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes from the visitor."""
        if self._inner is not None:
            self._table.heard(self._transport, now_ns=self._clock.monotonic_ns())
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The visitor will send nothing more."""
        return None if self._inner is None else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._inner is not None:
            self._table.forget(self._transport)
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The visitor reads slower than we write."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The visitor has caught up."""
        if self._inner is not None:
            self._inner.resume_writing()
