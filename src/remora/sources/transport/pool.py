"""Which connections to one origin are free, and what makes the next one cheap to open?"""

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from remora.sources.transport.connection import Connection
from remora.sources.transport.origin import Origin

# While this many first connections are being opened over TLS, further requests wait for the first answer, but not longer
# than this: from then on a handshake resumes the session, for a fraction of the cost on both sides.
FIRST_AT_ONCE: Final = 16
FIRST_ANSWER_S: Final = 0.25


class Pool:
    """The connections to one origin that no request uses."""

    __slots__ = ("_first_answer", "_idle", "opening", "origin", "session")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.opening = 0  # connections that are being opened
        self.session: ssl.SSLSession | None = None  # of TLS: the next handshake resumes it
        self._first_answer: asyncio.Event | None = asyncio.Event() if origin.is_tls else None  # None: it came
        self._idle: list[tuple[Connection, int]] = []  # most recently used last, each with the moment since when

    @property
    def has_idle(self) -> bool:
        """Whether there is an idle connection."""
        return bool(self._idle)

    def take(self, *, were_looked_at: bool = False) -> Connection | None:
        """An idle connection, if there is one; `were_looked_at`: what came on any of them has just been read."""
        while self._idle:
            connection, _ = self._idle.pop()
            # What came unasked would be taken for the next answer.
            if not connection.is_closed if were_looked_at else connection.is_quiet():
                return connection
        return None

    def put(self, connection: Connection, *, now_ns: int) -> None:
        """No request uses this open connection any more."""
        self._idle.append((connection, now_ns))
        if self.session is None and self.origin.is_tls:
            self.session = connection.tls_session
        if self._first_answer is not None:
            self._first_answer.set()
            self._first_answer = None

    async def may_open(self) -> None:
        """Wait until it makes sense to open one more."""
        if self._first_answer is not None and self.opening >= FIRST_AT_ONCE:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ANSWER_S):
                    await self._first_answer.wait()

    def close_idle(self, *, since_before_ns: int) -> None:
        """Close connections that have been idle since before this moment, and forget closed ones."""
        for connection, since_ns in self._idle:
            if since_ns < since_before_ns:
                connection.close()
        self._idle = [each for each in self._idle if not each[0].is_closed]

    def take_all(self) -> list[Connection]:
        """All idle connections."""
        taken, self._idle = [connection for connection, _ in self._idle], []
        return taken
