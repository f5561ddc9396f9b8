"""Which connection is taken, and does a further one over TLS resume the session of the first without waiting in vain?"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest
import trustme

from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.connection import Connection
from remora.sources.transport.lean import LeanTransport
from remora.sources.transport.origin import Origin
from remora.sources.transport.poller import LoopPoller
from remora.sources.transport.pool import FIRST_AT_ONCE, Pool
from remora.sources.transport.settings import HttpSettings
from tests.sources.permits import Gate, LoopClock


@contextmanager
def connections(count: int) -> Iterator[list[Connection]]:
    """Open connections to nobody in particular."""
    with with_far_ends(count) as made:
        yield [connection for connection, _ in made]


@contextmanager
def with_far_ends(count: int) -> Iterator[list[tuple[Connection, socket.socket]]]:
    """Open connections, each with the end that a provider would hold."""
    loop, clock = asyncio.get_running_loop(), LoopClock()
    ends = [socket.socketpair() for _ in range(count)]
    for near, _ in ends:
        near.setblocking(False)
    made = [
        (Connection(near, LoopPoller(loop), memoryview(bytearray(64)), clock=clock, body_max_bytes=9), far)
        for near, far in ends
    ]
    try:
        yield made
    finally:
        for connection, far in made:
            connection.close()
            far.close()


@asynccontextmanager
async def serving(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port of a server. At the end every connection has ended, too."""
    ended: list[asyncio.Future[None]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(done := asyncio.get_running_loop().create_future())
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            done.set_result(None)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await asyncio.gather(*ended)


def new_pool(*, is_tls: bool = False) -> Pool:
    return Pool(Origin("a.example", 80, is_tls=is_tls, host_header="a.example"))


async def test_the_connection_used_last_is_taken_first_and_a_closed_one_never() -> None:
    with connections(3) as (one, two, three):
        pool = new_pool()
        for at_ns, connection in enumerate((one, two, three)):
            pool.put(connection, now_ns=at_ns)
        three.close()
        assert [pool.take(), pool.take(), pool.take()] == [two, one, None]


async def test_a_connection_on_which_something_came_unasked_is_not_taken() -> None:
    with with_far_ends(3) as ((quiet, _), (talking, tells), (ended, ends)):
        pool = new_pool()
        for at_ns, connection in enumerate((quiet, talking, ended)):
            pool.put(connection, now_ns=at_ns)
        tells.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
        ends.shutdown(socket.SHUT_WR)
        assert pool.take() is quiet
        assert (talking.is_closed, ended.is_closed) == (True, True)


async def test_what_came_while_the_permit_waited_is_not_its_answer() -> None:
    peers: list[socket.socket] = []

    def tell() -> None:
        peers.append(listener.accept()[0])
        peers[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")

    gate = Gate(on_departure=tell)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with LeanTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent) as transport:
            reply = await transport.get(f"http://127.0.0.1:{listener.getsockname()[1]}/", gate.permit())
    peers[0].close()
    assert isinstance(reply, NoReply)
    assert (reply.fault, gate.departures) == (Fault.CONNECTION, 1)


async def test_connections_that_were_idle_for_long_are_closed() -> None:
    with connections(2) as (old, young):
        pool = new_pool()
        pool.put(old, now_ns=1)
        pool.put(young, now_ns=5)
        pool.close_idle(since_before_ns=3)
        assert (old.is_closed, young.is_closed) == (True, False)
        assert pool.take_all() == [young]
        assert not pool.has_idle


async def test_further_connections_over_tls_wait_for_the_first_answer() -> None:
    with connections(1) as (first,):
        pool = new_pool(is_tls=True)
        pool.opening = FIRST_AT_ONCE
        waiting = asyncio.create_task(pool.may_open())
        await asyncio.sleep(0)
        assert not waiting.done()
        pool.put(first, now_ns=1)
        await waiting
        await asyncio.wait_for(pool.may_open(), timeout=None)  # and none waits again


async def test_without_tls_nobody_waits() -> None:
    pool = new_pool()
    pool.opening = FIRST_AT_ONCE
    waiting = asyncio.create_task(pool.may_open())
    await asyncio.sleep(0)
    assert waiting.done()


async def test_connections_that_never_open_do_not_keep_a_further_one_from_being_opened() -> None:
    accepted, gate = asyncio.Semaphore(0), Gate()

    async def say_nothing(reader: asyncio.StreamReader) -> None:
        accepted.release()
        await reader.read()  # so no handshake ends

    async with (
        serving(lambda reader, _writer: say_nothing(reader)) as port,
        LeanTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent) as transport,
    ):
        asking = [
            asyncio.create_task(transport.get(f"https://127.0.0.1:{port}/", gate.permit()))
            for _ in range(FIRST_AT_ONCE + 1)
        ]
        async with asyncio.timeout(30):
            for _ in asking:
                await accepted.acquire()
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    assert gate.departures == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_further_connection_resumes_the_tls_session(version: ssl.TLSVersion) -> None:
    authority, gate, resumed = trustme.CA(), Gate(), list[bool]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with (
        serving(serve, context) as port,
        LeanTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent, tls=trusting) as transport,
    ):
        url = f"https://127.0.0.1:{port}/"
        await transport.get(url, gate.permit())
        replies = await asyncio.gather(*(transport.get(url, gate.permit()) for _ in range(3)))
    assert all(isinstance(reply, Reply) for reply in replies)
    assert resumed == [False, True, True], "the first one is used again, two more are opened"
