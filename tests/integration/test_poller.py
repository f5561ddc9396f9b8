"""Does the poller read together what came together, and go on after a mistake with one connection?"""

import asyncio
import socket
from functools import partial

from remora.core.units import SECOND_NS
from remora.sources.transport.poller import LOOK_AFTER_NS, LOOKED_FOR_NS, EpollPoller, LoopPoller, Poller


class _Sockets:
    """Connected pairs of sockets on a poller, and what it reported."""

    def __init__(self, poller: Poller, count: int) -> None:
        self._poller = poller
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.reported: list[tuple[int, int]] = []  # which socket, and how late
        self._news = asyncio.Event()
        self.breaks_on: int | None = None
        for number, (near, _) in enumerate(self.pairs):
            poller.add(near.fileno(), partial(self._read, number))

    def _read(self, number: int) -> None:
        self.pairs[number][0].recv(1)
        self.reported.append((number, self._poller.late_ns))
        self._news.set()
        if number == self.breaks_on:
            raise ValueError("our own mistake")

    def write(self, *numbers: int) -> None:
        for number in numbers:
            self.pairs[number][1].send(b"x")

    async def until_reported(self, count: int) -> None:
        while len(self.reported) < count:
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        self._poller.close()
        for near, far in self.pairs:
            near.close()
            far.close()


async def test_while_many_answers_are_awaited_they_are_read_together_and_say_how_late() -> None:
    many = True
    sockets = _Sockets(EpollPoller(asyncio.get_running_loop(), lambda: many), 3)
    sockets.write(0)
    await sockets.until_reported(1)
    sockets.write(1, 2)
    await sockets.until_reported(2)
    assert sorted(sockets.reported) == [(0, 0), (1, LOOK_AFTER_NS), (2, LOOK_AFTER_NS)]
    many = False
    sockets.write(0)
    await sockets.until_reported(4)  # the last look
    sockets.write(1)
    await sockets.until_reported(5)
    assert sockets.reported[4] == (1, 0)
    sockets.close()


async def test_after_a_mistake_of_our_own_the_next_answers_are_still_read() -> None:
    loop, mistakes = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: mistakes.append(context["exception"]))
    sockets = _Sockets(EpollPoller(loop, lambda: True), 2)
    for times in range(1, 3):  # of the first, the event loop told; of the second, a look
        sockets.breaks_on = 0
        sockets.write(0)
        await sockets.until_reported(2 * times - 1)
        sockets.breaks_on = None
        sockets.write(1)
        await sockets.until_reported(2 * times)
        assert len(mistakes) == times
    sockets.close()


async def test_a_look_before_requests_are_sent_reads_what_came_and_replaces_the_next_one() -> None:
    loop = asyncio.get_running_loop()
    poller = EpollPoller(loop, lambda: True)
    sockets = _Sockets(poller, 2)
    sockets.write(0)
    await sockets.until_reported(1)  # from now on it looks by a timer
    sockets.write(0, 1)
    assert poller.look_now(SECOND_NS)
    assert sorted(sockets.reported[1:]) == [(0, LOOK_AFTER_NS), (1, LOOK_AFTER_NS)]
    sockets.write(0)
    assert poller.look_now(SECOND_NS + LOOKED_FOR_NS - 1)  # it has just looked
    assert len(sockets.reported) == 3
    assert poller.look_now(SECOND_NS + LOOKED_FOR_NS)
    sockets.write(1)
    await sockets.until_reported(5)
    assert [number for number, _ in sockets.reported[3:]] == [0, 1]
    sockets.close()


async def test_our_own_mistake_with_one_connection_is_not_about_the_request_to_be_sent() -> None:
    loop, mistakes = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: mistakes.append(context["exception"]))
    poller = EpollPoller(loop, lambda: True)
    sockets = _Sockets(poller, 1)
    sockets.breaks_on = 0
    sockets.write(0)
    assert not poller.look_now(SECOND_NS)  # each connection is asked
    assert len(mistakes) == 1
    sockets.breaks_on = None
    assert poller.look_now(SECOND_NS + 1)
    sockets.close()


async def test_a_poller_of_the_event_loop_itself_cannot_look() -> None:
    assert not LoopPoller(asyncio.get_running_loop()).look_now(SECOND_NS)


async def test_a_poller_that_is_closed_between_two_looks_reports_nothing_more() -> None:
    loop = asyncio.get_running_loop()
    closed, other = (_Sockets(EpollPoller(loop, lambda: True), 1) for _ in range(2))
    for sockets in (closed, other):
        sockets.write(0)
        await sockets.until_reported(1)
        sockets.write(0)
    closed.close()
    await other.until_reported(2)  # its look is later than that of the closed one would have been
    assert len(closed.reported) == 1
    other.close()
