"""Which connections have something to read? One callback for all of them, and no more often than is useful."""

import asyncio
import select
from collections.abc import Callable
from typing import Final, Protocol

from remora.core.units import MILLISECOND_NS, SECOND_NS

# While many answers are awaited, all that came is read together this often.
LOOK_AFTER_NS: Final = 4 * MILLISECOND_NS
LOOK_AFTER_S: Final = LOOK_AFTER_NS / SECOND_NS
# Requests that are sent together, within less than this, share one look at the connections that they may take.
LOOKED_FOR_NS: Final = 2 * MILLISECOND_NS


class Poller(Protocol):
    """Reports which sockets have something to read."""

    late_ns: int  # how much earlier the reported sockets may have become readable

    def add(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever there is something to read."""

    def remove(self, descriptor: int) -> None:
        """Stop calling."""

    def look_now(self, now_ns: int) -> bool:
        """Report what came until now, unless it looked a moment ago; False: it cannot, so each socket must be asked."""

    def close(self) -> None:
        """Free what the poller itself holds."""


class LoopPoller:
    """One callback of the event loop per ready socket: works wherever the loop can watch descriptors."""

    late_ns = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, are_many_awaited: Callable[[], bool] = lambda: False) -> None:
        del are_many_awaited  # each socket is reported at once
        self._loop = loop

    def add(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever there is something to read."""
        self._loop.add_reader(descriptor, on_readable)

    def remove(self, descriptor: int) -> None:
        """Stop calling."""
        self._loop.remove_reader(descriptor)

    def look_now(self, now_ns: int) -> bool:
        """Only the loop can look."""
        del now_ns
        return False

    def close(self) -> None:
        """Nothing is held."""


class EpollPoller:
    """One callback of the event loop for all ready sockets: they are registered in an epoll of our own (Linux).

    While many answers are awaited, it looks every few milliseconds instead of being woken for each of them, and before
    requests are sent: then the process is awake anyway.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, are_many_awaited: Callable[[], bool] = lambda: False) -> None:
        self._loop = loop
        self._are_many_awaited = are_many_awaited
        self._epoll = select.epoll()
        self._on_readable: dict[int, Callable[[], None]] = {}
        self._next_look: asyncio.TimerHandle | None = None
        self._looked_at_ns: int | None = None  # before requests were sent
        self.late_ns = 0
        loop.add_reader(self._epoll.fileno(), self._on_ready)

    def add(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever there is something to read."""
        self._on_readable[descriptor] = on_readable
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """Stop calling."""
        if self._on_readable.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def look_now(self, now_ns: int) -> bool:
        """Report what came until now, unless it looked a moment ago."""
        if self._looked_at_ns is not None and now_ns - self._looked_at_ns < LOOKED_FOR_NS:
            return True
        self._looked_at_ns = now_ns
        try:
            if self._next_look is None:
                self._serve()
            else:
                self._look()
        except Exception as error:  # noqa: BLE001 - our own mistake with one connection is not about the request to be sent
            self._looked_at_ns = None
            self._loop.call_exception_handler({"message": "a connection could not be read", "exception": error})
            return False
        return True

    def close(self) -> None:
        """Close the epoll."""
        self._on_readable.clear()  # closing the epoll has removed them all
        if self._next_look is None:
            self._loop.remove_reader(self._epoll.fileno())
        else:
            self._next_look.cancel()
        self._epoll.close()

    def _on_ready(self) -> None:
        self._serve()
        if self._are_many_awaited() and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._next_look = self._loop.call_later(LOOK_AFTER_S, self._look)

    def _look(self) -> None:
        self.late_ns = LOOK_AFTER_NS
        try:
            self._serve()
        finally:  # whatever mistake we make in serving one connection, the others are served
            self.late_ns = 0
            self._look_again()

    def _look_again(self) -> None:
        if self._epoll.closed:
            return
        if self._next_look is not None:
            self._next_look.cancel()  # it looked earlier
        if self._are_many_awaited():
            self._next_look = self._loop.call_later(LOOK_AFTER_S, self._look)
        else:
            self._next_look = None
            self._loop.add_reader(self._epoll.fileno(), self._on_ready)

    def _serve(self) -> None:
        for descriptor, _ in self._epoll.poll(0):
            # A callback may have closed another connection that was also ready.
            if (on_readable := self._on_readable.get(descriptor)) is not None:
                on_readable()


def poller_for(loop: asyncio.AbstractEventLoop, are_many_awaited: Callable[[], bool]) -> Poller:
    """The cheapest poller this machine offers."""
    return (EpollPoller if hasattr(select, "epoll") else LoopPoller)(loop, are_many_awaited)
