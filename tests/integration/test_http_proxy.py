"""Does a request through the owner's proxy keep every promise? One permit, one request, verified certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from remora.core.errors import ConfigurationError
from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.settings import HttpSettings
from remora.sources.transport.way_out import Proxy, parse_proxy, trusting
from tests.counting_server import CountingServer
from tests.sources.permits import Gate
from tests.transports import every_transport as every_transport
from tests.transports import new_transport

FOR_THE_TUNNEL = "HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass
class ProxyServer:
    """Opens tunnels, or passes a request on to wherever its target says. Notes what it was asked for."""

    answer: str = FOR_THE_TUNNEL
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.decode().split(" ", 2)
            self.asked.append(f"{method} {target}")
            authority = target if method == "CONNECT" else target.split("/")[2]
            if method == "CONNECT":
                writer.write(self.answer.encode())
                if self.answer != FOR_THE_TUNNEL:
                    return
            host, _, port = authority.rpartition(":")
            there, out = await asyncio.open_connection(host, int(port))
            if method != "CONNECT":
                out.write(head)
            await asyncio.gather(pump(reader, out), pump(there, writer))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while some := await reader.read(4_096):
            writer.write(some)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def running(proxy: ProxyServer) -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield Proxy("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


@asynccontextmanager
async def tls_provider(authority: trustme.CA) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


async def test_a_plain_request_goes_through_the_proxy_with_its_whole_address() -> None:
    gate, proxy = Gate(), ProxyServer()
    async with CountingServer() as server, running(proxy) as way:
        transport = new_transport(HttpSettings(proxy=way), gate.wire_sent)
        async with transport:
            reply = await transport.get(f"{server.url()}item/7", gate.permit())
    assert isinstance(reply, Reply)
    assert (reply.status, gate.departures, gate.wire_sends, len(server.requests)) == (200, 1, 1, 1)
    assert proxy.asked == [f"GET http://127.0.0.1:{server.port}/item/7"]


async def test_a_secure_request_goes_through_a_tunnel_that_serves_the_next_one_too(
    authority: trustme.CA, ca_file: str
) -> None:
    gate, proxy = Gate(), ProxyServer()
    async with tls_provider(authority) as port, running(proxy) as way:
        transport = new_transport(HttpSettings(proxy=way, ca_file=ca_file), gate.wire_sent)
        async with transport:
            replies = [await transport.get(f"https://127.0.0.1:{port}/item/{n}", gate.permit()) for n in (7, 8)]
    assert [reply.status for reply in replies if isinstance(reply, Reply)] == [200, 200]
    assert (gate.departures, gate.wire_sends) == (2, 2)
    assert proxy.asked == [f"CONNECT 127.0.0.1:{port}"]


@pytest.mark.parametrize(
    "answer", ["HTTP/1.1 403 Forbidden\r\n\r\n", "HTTP/1.1 407 Who?\r\n\r\n", "nonsense\r\n\r\n", ""]
)
async def test_a_proxy_that_opens_no_tunnel_is_a_connection_that_failed_and_uses_no_permit(answer: str) -> None:
    gate = Gate()
    async with running(ProxyServer(answer)) as way:
        transport = new_transport(HttpSettings(proxy=way, connect_timeout_s=2.0), gate.wire_sent)
        async with transport:
            reply = await transport.get("https://127.0.0.1:1/item/7", gate.permit())
    assert isinstance(reply, NoReply)
    assert (reply.fault, gate.departures, gate.wire_sends) == (Fault.CONNECTION, 0, 0)


async def test_a_certificate_is_verified_behind_a_proxy_too(authority: trustme.CA) -> None:
    gate = Gate()
    async with tls_provider(authority) as port, running(ProxyServer()) as way:
        transport = new_transport(HttpSettings(proxy=way), gate.wire_sent)
        async with transport:
            reply = await transport.get(f"https://127.0.0.1:{port}/item/7", gate.permit())
    assert isinstance(reply, NoReply)
    assert (gate.departures, gate.wire_sends) == (0, 0)


async def test_an_authority_in_a_file_is_trusted_without_a_proxy(authority: trustme.CA, ca_file: str) -> None:
    gate = Gate()
    async with tls_provider(authority) as port:
        transport = new_transport(HttpSettings(ca_file=ca_file), gate.wire_sent)
        async with transport:
            reply = await transport.get(f"https://127.0.0.1:{port}/item/7", gate.permit())
    assert isinstance(reply, Reply)


@pytest.mark.parametrize(
    "text, told",
    [
        ("proxy.example:3128", "not the address of an HTTP proxy"),
        ("https://proxy.example", "not the address of an HTTP proxy"),
        ("socks5://proxy.example", "not the address of an HTTP proxy"),
        ("http://", "not the address of an HTTP proxy"),
        ("http://proxy.example:port", "not an address"),
        ("http://me:secret@proxy.example", "user name or a password"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_showing_it(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        parse_proxy(text)
    assert "secret" not in f"{refused.value.message} {refused.value.hint}"


def test_a_proxy_without_a_port_has_the_usual_one() -> None:
    assert parse_proxy("http://proxy.example") == Proxy("proxy.example", 3128)
    assert parse_proxy("http://[::1]:8080/").url == "http://[::1]:8080"


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name, told in (("empty.pem", "holds no certificate"), ("missing.pem", "cannot be read")):
        with pytest.raises(ConfigurationError, match=told):
            trusting(str(tmp_path / name))
