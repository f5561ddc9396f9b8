"""What can fail before anything is written? The tokens, the console's address and the way to the store, tried first."""

import errno
import os
import socket
from collections.abc import Mapping

from remora.contracts import Store
from remora.core.errors import ConfigurationError, StoreUnavailable, StoreUnreachable
from remora.operate.config import Settings
from remora.operate.secrets import read_token, without_credentials
from remora.stores import is_shared


def try_tokens(settings: Settings, environ: Mapping[str, str]) -> None:
    """Refuse to start when a source's token cannot be read."""
    for name, source in settings.sources.items():
        read_token(name, source, environ)


def try_address(address: tuple[str, int]) -> None:
    """Refuse to start when the console's address is taken. Other troubles with it are told when it is opened."""
    host, port = address
    try:
        family, kind, protocol, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return
        raise ConfigurationError(
            f"the console cannot listen on {host}:{port} ({os.strerror(errno.EADDRINUSE)})",
            hint="choose another address with --listen, as --listen 127.0.0.1:8612",
        ) from None


async def open_reachable(store: Store, url: str) -> None:
    """Open the store. A server that does not answer now may never have been there: its address is named."""
    try:
        await store.open()
    except StoreUnavailable as error:
        if not is_shared(url):
            raise
        raise StoreUnreachable(
            f"the store {without_credentials(url)} cannot be reached",
            hint="check that the server runs, and write its address as postgresql://user@host:5432/database",
        ) from error
