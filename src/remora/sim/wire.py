"""How does the provider speak HTTP/1.1 on a socket? A bare protocol: one write per answer, and real broken connections.

Requests on one connection are answered in order, also when they are pipelined. A slow answer delays those after it.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from remora.core.units import SECOND_NS
from remora.sim.provider import Provider
from remora.sim.replies import Answer, Hang, Reset
from remora.sim.streams import EventStream

_HEAD_BYTES_MAX: Final = 64 * 1024
_BODY_BYTES_MAX: Final = 16 * 1024 * 1024
_HANG_S: Final = 600.0  # even a hanging connection is closed eventually
_END_OF_HEAD: Final = b"\r\n\r\n"
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b"
_REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 410: "Gone"}
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
ADMIN: Final = "/_sim/"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was read from the connection."""

    method: str
    target: str
    headers: dict[str, str]  # lower-case names
    body: bytes = b""


Admin = Callable[[Request], Answer]


class ProviderProtocol(asyncio.Protocol):
    """One connection to the provider."""

    def __init__(self, provider: Provider, admin: Admin, connections: "set[ProviderProtocol]") -> None:
        self._provider = provider
        self._admin = admin
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = b""
        self._busy = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        """End the connection now."""
        self._closing = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._answer_what_came()

    def _answer_what_came(self) -> None:
        while self._buffer and not self._busy and not self._closing:
            end = self._buffer.find(_END_OF_HEAD)
            if end < 0:
                if len(self._buffer) > _HEAD_BYTES_MAX:
                    self.abort()
                return
            head, rest = self._buffer[:end], self._buffer[end + 4 :]
            if head.startswith(b"GET /v0/item/") and b"event-stream" not in head:
                self._buffer = rest
                self._item(head[4 : head.index(b" ", 4)].decode("latin-1"))
            elif not self._general(head, rest):
                return

    def _item(self, target: str) -> None:
        """Fast path: answer an item without parsing headers that are not needed."""
        response = self._provider.respond(target)
        if type(response) is Answer and response.status == 200 and not response.delay_ns and response.cut_at is None:
            self._transport.write(_OK % (len(response.body), response.body))
        else:
            self._respond(response)

    def _general(self, head: bytes, rest: bytes) -> bool:
        """Answer any other request; False while its body is incomplete."""
        request = _read_head(head)
        if request is None:
            self._buffer = b""
            self._respond(Answer(400, b'{"error":"Bad request"}', {"connection": "close"}))
            self._transport.close()
            return False
        length = int(request.headers.get("content-length") or 0)
        if length > _BODY_BYTES_MAX:
            self.abort()
            return False
        if len(rest) < length:
            return False
        self._buffer = rest[length:]
        self._dispatch(Request(request.method, request.target, request.headers, rest[:length]))
        return True

    def _dispatch(self, request: Request) -> None:
        if request.target.startswith(ADMIN):
            self._respond(self._admin(request))
        elif "text/event-stream" in request.headers.get("accept", ""):
            self._open_stream(request.target)
        else:
            self._respond(self._provider.respond(request.target, request.headers))

    def _respond(self, response: Answer | Hang | Reset) -> None:
        match response:
            case Hang():
                self._busy = True
                self._timer = self._loop.call_later(_HANG_S, self._reset)
            case Reset():
                self._reset()
            case Answer(delay_ns=0):
                self._write(response)
            case Answer():
                self._busy = True
                self._timer = self._loop.call_later(response.delay_ns / SECOND_NS, self._write_late, response)

    def _write_late(self, answer: Answer) -> None:
        self._busy = False
        self._write(answer)
        self._answer_what_came()

    def _write(self, answer: Answer) -> None:
        head = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Trouble')}"]
        headers = {"content-type": "application/json; charset=utf-8", **answer.headers}
        head += [f"{name.title()}: {value}" for name, value in headers.items()]
        head.append(f"Content-Length: {len(answer.body)}\r\n\r\n")
        body = answer.body if answer.cut_at is None else answer.body[: answer.cut_at]
        self._transport.write("\r\n".join(head).encode() + body)
        if answer.cut_at is not None:
            self._closing = True
            self._transport.close()

    def _reset(self) -> None:
        """A real reset: the peer's kernel reports a broken connection, not an orderly end."""
        self._closing = True
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def _open_stream(self, target: str) -> None:
        stream = self._provider.open_stream(target)
        if isinstance(stream, Answer):
            self._write(stream)
            return
        self._busy = True
        if stream is None:
            self._reset()
            return
        self._transport.write(_STREAM_HEAD)
        self._continue_stream(stream)

    def _continue_stream(self, stream: EventStream) -> None:
        if self._closing:
            return
        if data := stream.take():
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if stream.ended:
            self._closing = True
            self._transport.close()
            return
        wait_s = max(0.0, (stream.wake_ns - self._provider.ticks()) / SECOND_NS)
        self._timer = self._loop.call_later(wait_s, self._continue_stream, stream)


def _read_head(head: bytes) -> Request | None:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            return None
        headers[name.strip().lower()] = value.strip()
    if not headers.get("content-length", "0").isdecimal():
        return None
    return Request(words[0], words[1], headers)
