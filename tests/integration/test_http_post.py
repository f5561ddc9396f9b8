"""Does a request with a body arrive as it was written, once, over every transport?"""

import asyncio

from remora.core.verdict import Reply
from remora.sources.transport.settings import HttpSettings
from tests.sources.permits import Gate
from tests.transports import every_transport, new_transport

__all__ = ["every_transport"]

BODY = '{"query":"{ a { b } }","after":"ü"}'.encode()


async def test_a_posted_body_arrives_byte_for_byte_and_takes_one_permit() -> None:
    arrived: list[tuple[bytes, bytes]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        arrived.append((head, await reader.readexactly(len(BODY))))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    gate = Gate()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, new_transport(HttpSettings(), gate.wire_sent) as transport:
        headers = {"Content-Type": "application/json"}
        reply = await transport.post(f"http://127.0.0.1:{port}/search", gate.permit(), BODY, headers=headers)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (200, b"{}")
    ((head, body),) = arrived
    assert body == BODY
    assert head.startswith(b"POST /search HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\n" in head
    assert gate.departures == gate.wire_sends == 1
