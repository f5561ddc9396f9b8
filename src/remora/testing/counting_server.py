"""How many requests really arrived? A bare loopback server that counts them on the wire and misbehaves as it is told."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

HEAD_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as it arrived."""

    number: int  # 1 for the first on this server
    connection: int  # 1 for the first connection
    target: str
    headers: dict[str, str]


class Wire:
    """The server's end of one connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._half_closed = False

    async def send(self, data: bytes) -> None:
        if self._half_closed:
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes = b"null", *, status: str = "200 OK", headers: str = "") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        await self.send(head.encode() + body)

    async def open_event_stream(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")

    def reset(self) -> None:
        """Drop the connection the hard way, so that the other side gets an error and not an end."""
        link = self._writer.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self._half_closed = True
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


Behaviour = Callable[[WireRequest, Wire], Awaitable[None]]


async def polite(_request: WireRequest, wire: Wire) -> None:
    await wire.answer()


async def hang(_request: WireRequest, _wire: Wire) -> None:
    await asyncio.Event().wait()


@dataclass
class CountingServer:
    """Counts what arrives, then behaves as told."""

    behaviour: Behaviour = polite
    host: str = "127.0.0.1"
    requests: list[WireRequest] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0, limit=HEAD_MAX_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}:{self.port}{path}"

    @property
    def count(self) -> int:
        return len(self.requests)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def counted(self, count: int) -> None:
        """Return when so many requests have arrived."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: self.count >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        wire = Wire(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while not writer.is_closing():
                    head = await reader.readuntil(b"\r\n\r\n")
                    request = _parse(head, number=self.count + 1, connection=connection)
                    self.requests.append(request)
                    async with self._arrival:
                        self._arrival.notify_all()
                    await self.behaviour(request, wire)
        finally:
            writer.transport.abort()


def _parse(head: bytes, *, number: int, connection: int) -> WireRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    return WireRequest(number, connection, first.split(" ")[1], headers)
