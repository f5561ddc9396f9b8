"""Where does an address lead to? Its scheme, host and port, checked and in the form that the wire needs."""

import encodings.idna  # noqa: F401 - loaded now: with no free descriptor it could not be loaded for the first request
import socket
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

_PORTS: Final = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True):
    """Where a connection leads to."""

    host: str
    port: int
    is_tls: bool
    host_header: str


def authority_end(url: str) -> int:
    """Where the path, the query or the fragment of an address begins."""
    start = url.find("://") + 3
    end = url.find("/", start)
    end = len(url) if end < 0 else end
    return min(end, *(at for mark in "?#" if (at := url.find(mark, start, end)) >= 0), end)


def origin_of(scheme: str, authority: str) -> Origin | None:
    """The origin; None if it cannot be used."""
    try:
        parts = urlsplit(f"{scheme}://{authority}")
        host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
    except ValueError:
        return None
    if scheme not in _PORTS or not host or parts.username is not None:
        return None
    shown = f"[{host}]" if ":" in host else host
    return Origin(
        host=host,
        port=port or _PORTS[scheme],
        is_tls=scheme == "https",
        host_header=shown if port is None else f"{shown}:{port}",
    )


def written_as_numbers(host: str, port: int) -> list[Any]:
    """The address of a host that is written as one; empty where a name must be looked up, which takes a thread."""
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        return []
