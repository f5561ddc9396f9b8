"""How do we talk to a provider? Timeouts, limits and what a request says about us."""

from enum import StrEnum
from typing import Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.quota_headers import POLICY, QUOTA_HEADERS, STANDARD, WAIT_IN_MS_HEADERS
from remora.sources.transport.way_out import Proxy
from remora.version import __version__

BODY_MAX_BYTES: Final = 16 * 1024 * 1024
KEEP_ALIVE_S: Final = 15.0
# What a token may do, and what was needed, as some providers tell it; `remora try` shows it.
PERMISSION_HEADERS: Final = ("x-oauth-scopes", "x-accepted-oauth-scopes", "x-accepted-github-permissions")
# The few headers that are used.
HEADERS_KEPT: Final = (
    "retry-after",
    *WAIT_IN_MS_HEADERS,
    "date",
    "link",
    "location",
    "content-range",
    *sorted(QUOTA_HEADERS),
    *PERMISSION_HEADERS,
)
# Those of them that are lists and may come in several headers.
HEADERS_JOINED: Final = frozenset({"link", STANDARD, POLICY})


class Client(StrEnum):
    """Which client sends the requests of a source."""

    LEAN = "lean"
    AIOHTTP = "aiohttp"


class HttpSettings(msgspec.Struct, frozen=True):
    """How we talk to a provider. None of these makes anything faster than the ceiling."""

    in_flight_max: int = 128
    contact: str | None = None  # an address the provider may write to; part of the User-Agent
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 20.0  # without a byte
    total_timeout_s: float = 60.0  # from departure to the last byte; waiting in the gate does not count
    body_max_bytes: int = BODY_MAX_BYTES
    stream_idle_timeout_s: float = 60.0
    further_headers: tuple[str, ...] = ()  # of a reply: those that rules look at, in lower case
    proxy: Proxy | None = None  # None: directly
    ca_file: str | None = None  # authorities to trust besides the machine's own
    stream_hosts: tuple[str, ...] = ()  # the provider's host names; their subdomains belong to it too

    def __post_init__(self) -> None:
        if self.contact and not (self.contact.isascii() and self.contact.isprintable()):
            raise ConfigurationError(
                "contact holds characters that no header can carry",
                hint="write a mail address or a web address in plain ASCII",
            )

    @property
    def headers_kept(self) -> tuple[str, ...]:
        """The headers of a reply that are used."""
        return tuple(dict.fromkeys((*HEADERS_KEPT, *self.further_headers)))

    @property
    def user_agent(self) -> str:
        """The tool, its version and a contact."""
        return f"remora/{__version__} (+{self.contact})" if self.contact else f"remora/{__version__}"
