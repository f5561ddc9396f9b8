"""Which way leads to the provider? Directly or through the owner's proxy, trusting the machine's authorities or one more."""

import asyncio
import re
import socket
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from remora.core.errors import ConfigurationError

PROXY_PORT: Final = 3128
TUNNEL_HEAD_MAX_BYTES: Final = 16 * 1024
_OPENED: Final = re.compile(rb"HTTP/1\.[01] 2[0-9][0-9]")


class Proxy(NamedTuple):
    """The owner's HTTP proxy."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_proxy(text: str) -> Proxy:
    """The proxy at this address, as http://proxy.example:3128."""
    example = 'write it as proxy = "http://proxy.example:3128"'
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigurationError("proxy is not an address", hint=example) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "proxy holds a user name or a password, which would be readable in this file",
            hint="run a local proxy that adds them, and write its address",
        )
    if parts.scheme != "http" or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError("proxy is not the address of an HTTP proxy", hint=example)
    return Proxy(host, port or PROXY_PORT)


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """The machine's own trust store, and the authorities in this file."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:  # not there, not readable, or not a certificate
            why = "cannot be read" if not isinstance(error, ssl.SSLError) else "holds no certificate"
            raise ConfigurationError(
                f"ca_file {ca_file} {why}", hint="write the path of a file with certificates in PEM form"
            ) from None
    return context


async def open_tunnel(link: socket.socket, host: str, port: int) -> None:
    """Ask the proxy for a tunnel to the provider. This is no request to the provider, so it needs no permit."""
    loop = asyncio.get_running_loop()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    await loop.sock_sendall(link, f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("ascii"))
    head = b""
    while b"\r\n\r\n" not in head:
        some = await loop.sock_recv(link, 4_096)
        head += some
        if not some or len(head) > TUNNEL_HEAD_MAX_BYTES:
            raise ConnectionError
    if not _OPENED.match(head) or not head.endswith(b"\r\n\r\n"):
        raise ConnectionError
