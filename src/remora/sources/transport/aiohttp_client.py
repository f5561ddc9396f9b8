"""How are event streams read, and requests sent, with aiohttp? Streams always; requests where the owner chose it.

One permit is exactly one request on the wire. aiohttp itself would repeat a GET when a connection drops; every exchange
here has a middleware that ends such a request instead. What a provider does is returned as a value. The library's own
errors contain addresses and headers, so none of them leaves this module.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Final, Self

import aiohttp
from yarl import URL

from remora.contracts import Clock, ConnectGate, Permit, StreamBroken
from remora.core.verdict import Fault, Misfit, NoReply, Reply, is_stream_elsewhere, is_stream_here, parse_retry_after
from remora.sources.transport.aiohttp_lookup import LookupResolver
from remora.sources.transport.content_encoding import BadEncoding, TooLarge, decompress, parts_of_stream
from remora.sources.transport.deadline import Deadline, Deadlines
from remora.sources.transport.exhaustion import is_our_exhaustion
from remora.sources.transport.misfit import misfit_of
from remora.sources.transport.settings import HEADERS_JOINED, HEADERS_KEPT, KEEP_ALIVE_S, HttpSettings
from remora.sources.transport.way_out import trusting

STREAM_HOPS_MAX: Final = 3
# Streams have a few connections of their own, so an open stream takes none from the requests.
STREAMS_MAX: Final = 8
EVENT_STREAM: Final = "text/event-stream"


class _Dropped(aiohttp.ClientError):
    """The connection failed. Our own class, because the library repeats requests after some of its own errors."""

    def __init__(self, misfit: Misfit | None = None) -> None:
        super().__init__()
        self.misfit = misfit


class _Exhausted(_Dropped):
    """This machine has no free descriptor, memory or buffer for a connection."""


class _Request(aiohttp.ClientRequest):
    """A request that takes its permit between the ready connection and the first byte."""

    exchange: "_Exchange | None" = None

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Depart, then write at once: nothing between the two yields to the event loop."""
        if self.exchange is None:
            return await super().send(conn)
        await self.exchange.depart()
        self.exchange.leaves()
        response = await super().send(conn)
        self.exchange.sent()
        return response


class _Exchange:
    """One permit on its way to the wire; the middleware of exactly one request."""

    def __init__(self, permit: Permit, deadline: Deadline, total_s: float, wire_sent: Callable[[], None]) -> None:
        self._permit = permit
        self._deadline = deadline
        self._total_s = total_s
        self._attempts = 0
        self._wire_sent = wire_sent
        self.departed_at_ns: int | None = None

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Runs once per attempt on the wire; there is only one."""
        self._attempts += 1
        assert self._attempts == 1, "the library sends a request twice for one permit"
        assert isinstance(request, _Request), "the session makes other requests than ours"
        request.exchange = self
        return await _ended_when_dropped(request, handler)

    async def depart(self) -> None:
        """The connection is ready. The gate may hold back a stale permit, which is not the provider's fault."""
        self._deadline.pause()
        self.departed_at_ns = await self._permit.depart()
        self._deadline.set(self._total_s)

    def leaves(self) -> None:
        """The request is written next. Counted before, because the permit is spent even if the connection has died."""
        self._wire_sent()

    def sent(self) -> None:
        """The request is written."""
        self._permit.sent()


async def _ended_when_dropped(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A dropped connection ends the request; the library would send it again."""
    try:
        return await handler(request)
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        dropped = _Exhausted if is_our_exhaustion(error) else _Dropped
        raise dropped(misfit_of(error.__cause__ or error)) from None


class AiohttpTransport:
    """`contracts.Transport` over HTTP/1.1. Connects when first used; `close` it, or use it as a context manager."""

    def __init__(self, settings: HttpSettings, *, clock: Clock, wire_sent: Callable[[], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._wire_sent = wire_sent
        self._in_flight = asyncio.Semaphore(settings.in_flight_max)
        self._deadlines = Deadlines()
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        sessions, self._requests, self._streams = (self._requests, self._streams), None, None
        for session in sessions:
            if session is not None:
                await session.close()

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send exactly one request and return what came back, or why nothing did. Never raises for the provider."""
        return await self._send(url, permit, headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """The same with a body."""
        return await self._send(url, permit, headers, body)

    async def _send(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Reply | NoReply:
        # Waiting for a free connection is our own limit, so no timeout runs meanwhile.
        misfit: Misfit | None = None
        async with self._in_flight:
            deadline = self._deadlines.within(self._settings.connect_timeout_s)
            exchange = _Exchange(permit, deadline, self._settings.total_timeout_s, self._wire_sent)
            try:
                with deadline:
                    return await self._exchange(url, exchange, headers, body)
            except TooLarge:
                fault = Fault.TOO_LARGE
            except BadEncoding:
                fault = Fault.BAD_ENCODING
            except aiohttp.ClientResponseError:  # the server does not speak HTTP
                fault = Fault.CONNECTION
            except TimeoutError:
                fault = Fault.TIMEOUT
            except (_Exhausted, MemoryError):
                fault = Fault.EXHAUSTED
            except (aiohttp.ClientError, OSError) as error:
                fault = Fault.EXHAUSTED if is_our_exhaustion(error) else Fault.CONNECTION
                misfit = error.misfit if isinstance(error, _Dropped) else None
        return NoReply(fault, exchange.departed_at_ns, self._clock.monotonic_ns(), misfit)

    async def _exchange(
        self, url: str, exchange: _Exchange, headers: Mapping[str, str] | None, body: bytes | None
    ) -> Reply:
        method = "GET" if body is None else "POST"
        address = URL(url, encoded=True)
        request = self._session().request(
            method, address, data=body, headers=headers, allow_redirects=False, middlewares=(exchange,)
        )
        async with request as response:
            wire_body = await _read(response, self._settings.body_max_bytes)
        assert exchange.departed_at_ns is not None, "an answer to a request that took no permit"
        return Reply(
            status=response.status,
            body=decompress(wire_body, response.headers.get("Content-Encoding"), self._settings.body_max_bytes),
            departed_at_ns=exchange.departed_at_ns,
            answered_at_ns=self._clock.monotonic_ns(),
            headers={name: _header(response, name) for name in self._settings.headers_kept if name in response.headers},
        )

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of an event stream until it ends; `StreamBroken` says why it could not be opened, or why it broke.

        The first chunk is empty: the stream is open. Every request, also after a redirect, passes the gate. Close
        the generator (`contextlib.aclosing`) to close the connection at once.
        """
        address = URL(url, encoded=True)
        for _hop in range(STREAM_HOPS_MAX + 1):
            elsewhere = None
            async with aclosing(self._follow(address, connect, headers)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, URL):
                        elsewhere = chunk
                    else:
                        yield chunk
            if elsewhere is None:
                return
            if not _same_provider(address, elsewhere, self._settings.stream_hosts):
                raise StreamBroken("foreign_host")
            if elsewhere.origin() != address.origin():
                headers = None  # a token is only sent to the address that the owner wrote
            address = elsewhere
        raise StreamBroken("too_many_redirects")

    async def _follow(
        self, address: URL, connect: ConnectGate, headers: Mapping[str, str] | None
    ) -> AsyncGenerator[bytes | URL, None]:
        """What one host sends: either its bytes, or the address of a redirect."""
        response = await self._open_stream(address, connect, headers)
        async with response:
            elsewhere = _opened(response, now_wall_ns=self._clock.wall_ns())
            if elsewhere is not None:
                yield elsewhere
                return
            try:
                parts = parts_of_stream(response.headers.get("Content-Encoding"))
                yield b""
                while chunk := await self._next_chunk(response.content):
                    for part in parts(chunk):
                        yield part
            except BadEncoding:
                raise StreamBroken("bad_encoding") from None

    async def _open_stream(
        self, address: URL, connect: ConnectGate, headers: Mapping[str, str] | None
    ) -> aiohttp.ClientResponse:
        """Send one request through the gate, which learns from the answer."""
        async with connect() as connecting:
            deadline = self._deadlines.within(self._settings.connect_timeout_s)
            exchange = _Exchange(connecting.permit, deadline, self._settings.read_timeout_s, self._wire_sent)
            try:
                with deadline:
                    response = await self._stream_session().get(
                        address, headers=headers, allow_redirects=False, middlewares=(exchange,)
                    )
            except TimeoutError:
                fault = Fault.TIMEOUT
            except (_Exhausted, MemoryError):
                fault = Fault.EXHAUSTED
            except (aiohttp.ClientError, OSError) as error:
                fault = Fault.EXHAUSTED if is_our_exhaustion(error) else Fault.CONNECTION
            else:
                assert exchange.departed_at_ns is not None, "a stream was opened without a permit"
                now_ns = self._clock.monotonic_ns()
                kept = {name: response.headers[name] for name in HEADERS_KEPT if name in response.headers}
                connecting.answered(Reply(response.status, b"", exchange.departed_at_ns, now_ns, kept))
                return response
            connecting.answered(NoReply(fault, exchange.departed_at_ns, self._clock.monotonic_ns()))
            raise StreamBroken(str(fault))

    async def _next_chunk(self, content: aiohttp.StreamReader) -> bytes:
        """Some bytes, or none at the end of the stream."""
        try:
            async with asyncio.timeout(self._settings.stream_idle_timeout_s):
                return await content.readany()
        except TimeoutError:
            raise StreamBroken("silent") from None
        except (aiohttp.ClientError, OSError):
            raise StreamBroken("connection") from None

    def _session(self) -> aiohttp.ClientSession:
        if self._requests is None:
            self._requests = _new_session(self._settings, connections_max=self._settings.in_flight_max)
        return self._requests

    def _stream_session(self) -> aiohttp.ClientSession:
        if self._streams is None:
            self._streams = _new_session(self._settings, connections_max=STREAMS_MAX, accept=EVENT_STREAM)
        return self._streams


def _new_session(settings: HttpSettings, *, connections_max: int, accept: str = "*/*") -> aiohttp.ClientSession:
    streams = accept == EVENT_STREAM
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections_max,
            keepalive_timeout=KEEP_ALIVE_S,
            ssl=True if settings.ca_file is None else trusting(settings.ca_file),
            resolver=LookupResolver(),
        ),
        proxy=None if settings.proxy is None else settings.proxy.url,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            # The whole exchange has its own deadline, from the connecting on: these would also run while the gate holds back
            # a permit, or while this process is stopped.
            total=None,
            sock_connect=None,
            sock_read=None if streams else settings.read_timeout_s,
        ),
        headers={"User-Agent": settings.user_agent, "Accept": accept, "Accept-Encoding": "identity"},
        request_class=_Request,
        version=aiohttp.HttpVersion11,
        auto_decompress=False,
        trust_env=False,
    )


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    # Without zeros in front of it: Python refuses to read thousands of them.
    if int(response.headers.get("Content-Length", "").lstrip("0") or "0") > most_bytes:
        raise TooLarge
    chunks: list[bytes] = []
    left = most_bytes
    while chunk := await response.content.readany():
        left -= len(chunk)
        if left < 0:
            raise TooLarge
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _header(response: aiohttp.ClientResponse, name: str) -> str:
    """A list may come in several headers. Of any other header the first counts."""
    return ", ".join(response.headers.getall(name)) if name in HEADERS_JOINED else response.headers[name]


_PRINTABLE: Final = re.compile(r"[!-~]+")


def _opened(response: aiohttp.ClientResponse, *, now_wall_ns: int) -> URL | None:
    """None if the stream is open, else the address it was redirected to."""
    if is_stream_here(response.status):
        if response.content_type != EVENT_STREAM:
            raise StreamBroken("not_an_event_stream")
        return None
    if not is_stream_elsewhere(response.status):
        headers = {name: response.headers[name] for name in HEADERS_KEPT if name in response.headers}
        wait_ns = parse_retry_after(headers, now_wall_ns=now_wall_ns)
        raise StreamBroken(f"status_{response.status}", wait_ns=wait_ns or 0)
    location = response.headers.get("Location", "")
    if not _PRINTABLE.fullmatch(location):
        raise StreamBroken("bad_redirect")
    try:
        elsewhere = response.url.join(URL(location, encoded=True))
        _ = elsewhere.host, elsewhere.port  # read now: the library finds out when first asked that they are none
    except ValueError:
        raise StreamBroken("bad_redirect") from None
    return elsewhere


def _same_provider(origin: URL, target: URL, hosts: tuple[str, ...]) -> bool:
    """Whether a redirect stays with the provider: no other host, no weaker protection, no credentials."""
    if target.scheme not in {"https", origin.scheme} or target.user is not None:
        return False
    name = (target.host or "").lower()
    return name == (origin.host or "").lower() or any(_belongs_to(name, host.lower().lstrip(".")) for host in hosts)


def _belongs_to(name: str, host: str) -> bool:
    """Whether a name is this host or a subdomain of it. IP addresses and top-level domains have no subdomains here."""
    return name == host or ("." in host and not host.rpartition(".")[2].isdigit() and name.endswith(f".{host}"))
