"""Who may see the console? On loopback everybody on this machine; elsewhere everybody who knows the token.

A web page that the owner happens to visit is not the owner. Foreign host names and origins are always refused, so that
no page gets in through a name that it points at this machine (DNS rebinding).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from remora.operate.config.settings import LOOPBACK_NAMES
from remora.sources.secret import Secret

COOKIE: Final = "remora_session"
SESSION_S: Final = 30 * 86_400
BEARER: Final = "bearer"
_SESSION: Final = b"remora console session "


@dataclass(frozen=True, slots=True)
class Access:
    """What the console was told to serve, and to whom."""

    listens_on: str = "127.0.0.1"
    hosts: frozenset[str] = field(default_factory=frozenset)  # further host names of the console
    token: Secret | None = None  # None: no login; only ever on loopback

    def __post_init__(self) -> None:
        assert self.token is not None or self.listens_on in LOOPBACK_NAMES, "off loopback the console needs a token"

    def is_our_name(self, host_header: str) -> bool:
        """Whether the Host header names us. Off loopback any IP address is accepted: only names can be rebound."""
        try:
            name = (urlsplit(f"//{host_header}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if name in LOOPBACK_NAMES or name in self.hosts or name == self.listens_on.lower():
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.listens_on not in LOOPBACK_NAMES

    def is_our_page(self, headers: Mapping[str, str], *, reads: bool) -> bool:
        """Whether a request comes from one of our pages, from a typed address, or from no page at all.

        Browsers name the page in `Origin`, or say how it is related to us in `Sec-Fetch-Site`. Other clients send neither.
        """
        origin = headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != headers.get("Host"):
            return False
        # A visitor who follows a link sees our page; the page with the link learns nothing.
        follows_link = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        return (reads and follows_link) or headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}

    def is_let_in(self, headers: Mapping[str, str], cookies: Mapping[str, str], *, now_s: int) -> bool:
        """Whether the visitor has sent the token or a session cookie made with it."""
        if self.token is None:
            return True
        scheme, _, shown = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == BEARER and self.is_token(shown.strip()):
            return True
        return self._is_session(cookies.get(COOKIE, ""), now_s=now_s)

    def is_token(self, shown: str) -> bool:
        """Whether it is the token. Compared in constant time, so that timing reveals nothing."""
        return self.token is not None and hmac.compare_digest(_bytes(self.token.reveal()), _bytes(shown))

    def session(self, *, now_s: int) -> str:
        """The content of the cookie: its expiry, signed with the token. The browser never stores the token itself."""
        until = str(now_s + SESSION_S)
        return f"{until}.{self._signature(until)}"

    def _is_session(self, cookie: str, *, now_s: int) -> bool:
        until, _, signature = cookie.partition(".")
        if not hmac.compare_digest(_bytes(self._signature(until)), _bytes(signature)):
            return False
        return until.isascii() and until.isdigit() and now_s < int(until)

    def _signature(self, until: str) -> str:
        assert self.token is not None, "there are no sessions without a token"
        return hmac.new(_bytes(self.token.reveal()), _SESSION + _bytes(until), hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
