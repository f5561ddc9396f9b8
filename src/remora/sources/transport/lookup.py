"""Which addresses does a host name have? The system is asked in a thread that nobody has to wait for.

A name server that is down keeps a lookup for half a minute. The event loop's own threads are waited for at the end of the
process; these are not. Connections that need the same host wait for one lookup.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, Final

# A lookup that takes longer than this may have lost its question: the next connection asks again.
JOINED_FOR_S: Final = 10.0
THREADS_MAX: Final = 8

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
_Wanted = tuple[str, int, int]


class Lookups:
    """The lookups of one event loop."""

    def __init__(self, ask: Callable[..., list[Address]] | None = None, *, joined_for_s: float = JOINED_FOR_S) -> None:
        """`ask` replaces the system's own `getaddrinfo`."""
        self._ask = ask or socket.getaddrinfo
        self._joined_for_s = joined_for_s
        self._latest: dict[_Wanted, tuple[asyncio.Future[list[Address]], float]] = {}  # each with its beginning
        self._threads = 0

    async def addresses(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[Address]:
        """All addresses of the host. Raises `OSError` if it has none."""
        wanted, now_s = (host, port, family), asyncio.get_running_loop().time()
        answer, began_s = self._latest.get(wanted, (None, 0.0))
        if answer is None or (now_s - began_s >= self._joined_for_s and self._threads < THREADS_MAX):
            answer = self._start(wanted)
            self._latest[wanted] = answer, now_s
            self._threads += 1
            answer.add_done_callback(lambda done: self._end(wanted, done))
        return await asyncio.shield(answer)

    def _start(self, wanted: _Wanted) -> asyncio.Future[list[Address]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def look_up() -> None:
            host, port, family = wanted
            try:
                found, error = list[Address](self._ask(host, port, family, socket.SOCK_STREAM)), None
            except Exception as raised:  # noqa: BLE001 - it is raised again where somebody waits
                found, error = list[Address](), raised
            with suppress(RuntimeError):  # the event loop has ended meanwhile
                loop.call_soon_threadsafe(_tell, answer, found, error)

        try:
            Thread(target=look_up, name="lookup", daemon=True).start()
        except RuntimeError:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None  # no more threads
        return answer

    def _end(self, wanted: _Wanted, done: asyncio.Future[list[Address]]) -> None:
        self._threads -= 1
        if self._latest.get(wanted, (None, 0.0))[0] is done:
            del self._latest[wanted]
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more


def _tell(answer: asyncio.Future[list[Address]], found: list[Address], error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(found)
    else:
        answer.set_exception(error)
