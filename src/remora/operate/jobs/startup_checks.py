"""What is checked before anything is written? Tokens, the console's address and the connection to the store."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from remora.core.errors import ConfigurationError, StoreForeign, StoreRefused, StoreUnavailable
from remora.operate.config.secrets import without_credentials
from remora.stores import is_shared, steps_behind

log = structlog.get_logger()


def check_address(address: tuple[str, int]) -> None:
    """Refuse to start if the console's address is in use. Other errors are reported when the console opens."""
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


def tell_upgrade(url: str) -> None:
    """Say that the store's tables are brought up to date: on a large file this takes minutes in which nothing else happens."""
    if steps := steps_behind(url):
        log.warning("schema_upgraded", store=without_credentials(url), steps=steps)


@contextmanager
def naming_store(url: str) -> Iterator[None]:
    """Add the store's address, without its password, to errors of a database server."""
    try:
        yield
    except (StoreUnavailable, StoreRefused, StoreForeign) as error:
        if not is_shared(url):
            raise
        raise type(error)(f"{error.message} ({without_credentials(url)})", hint=error.hint) from None
