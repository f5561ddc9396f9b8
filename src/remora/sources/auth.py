"""How does a request authenticate? A credential signs it at the last moment, so that no address holds a secret.

A secret comes from its origin: a variable, a file, a command or a token endpoint. It is read again when its origin has
changed, before it expires, and after the provider refused it. Nothing is sent before it was read once: a provider may
answer a request without it as if private things did not exist.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Final, Protocol, cast
from urllib.parse import quote, urlsplit

import msgspec
import structlog

from remora.contracts import Clock, ConnectGate, Permit, Transport
from remora.core.errors import RemoraError
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.sources.address import without_parameter
from remora.sources.secret import Secret

log = structlog.get_logger()

# A secret that expires is renewed this long before, or after this share of its lifetime if that is sooner.
RENEW_AHEAD_NS: Final = MINUTE_NS
RENEW_AT_SHARE: Final = 0.8
# A single item may answer 401 for its own reasons, so a refusal renews the secret no more often than this.
RENEW_AFTER_REFUSAL_EVERY_NS: Final = MINUTE_NS
# An origin that cannot be read is read again after this time; the last secret stays in use, if there is one.
READ_AGAIN_NS: Final = 10 * SECOND_NS
EXPIRES_MAX_S: Final = 3_650 * DAY_NS / SECOND_NS


class Way(StrEnum):
    """How a secret is sent."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"
    COOKIE = "cookie"


class Issued(msgspec.Struct, frozen=True):
    """A secret, and for how long it is valid; None: until it is refused."""

    secret: Secret
    expires_in_ns: int | None = None


def issued(secret: Secret, expires_in_s: float | None) -> Issued:
    """A secret that its origin says to be valid for so many seconds; ten years at most, however many it says."""
    if expires_in_s is None:
        return Issued(secret)
    return Issued(secret, int(min(max(0.0, expires_in_s), EXPIRES_MAX_S) * SECOND_NS))


class SecretOrigin(Protocol):
    """Where a secret comes from. Raises `RemoraError`, without the secret, when it cannot be read."""

    def has_changed(self) -> bool:
        """Whether it must be read again; cheap, asked before every request."""

    async def read(self) -> Issued:
        """The secret as it is now."""


class Credential:
    """One account's credential: `contracts.Credential`."""

    def __init__(self, way: Way, origin: SecretOrigin, *, clock: Clock, name: str = "", account: str = "") -> None:
        """`name` is that of the header, query parameter or cookie; `account` appears in log events."""
        self._way = way
        self._origin = origin
        self._clock = clock
        self._name = name
        self._account = account
        self._secret: Secret | None = None
        self._unreadable: RemoraError | None = None
        self._renew_at_ns: int | None = None
        self._refused_at_ns: int | None = None
        self._reading = asyncio.Lock()

    @property
    def origin(self) -> SecretOrigin:
        """Where the secret comes from."""
        return self._origin

    @property
    def query_parameter(self) -> str:
        """The query parameter that carries the secret; empty if it is sent in another way."""
        return self._name if self._way is Way.QUERY else ""

    @property
    def missing(self) -> str | None:
        """Why there is no secret, so that nothing is sent; None if there is one, or if it was not read yet."""
        return self._unreadable.message if self._secret is None and self._unreadable is not None else None

    async def ready(self) -> None:
        """Make sure that there is a secret believed to be valid. Waits as long as there is none at all."""
        await self._read_if_due()
        while self._secret is None:
            assert self._renew_at_ns is not None, "a secret that could not be read is read again"
            await self._clock.sleep_until(self._renew_at_ns)
            await self._read_if_due()

    async def require(self) -> None:
        """Make sure that there is a secret, without waiting for one. Raises why there is none."""
        await self._read_if_due(is_told=False)
        if self._secret is None:
            assert self._unreadable is not None, "a secret that is not there could not be read"
            raise self._unreadable

    async def renew(self) -> bool:
        """The provider refused the secret: read it again. True if it has changed."""
        now_ns, used = self._clock.monotonic_ns(), self._secret
        async with self._reading:
            if self._secret is not used:
                return True  # another request has renewed it meanwhile
            last_ns = self._refused_at_ns
            if last_ns is not None and now_ns - last_ns < RENEW_AFTER_REFUSAL_EVERY_NS:
                return False
            self._refused_at_ns = now_ns
            await self._read()
            return self._secret is not used

    def sign(self, url: str, headers: Mapping[str, str] | None) -> tuple[str, Mapping[str, str]]:
        """The address and the headers with the secret, which `ready` has read."""
        assert self._secret is not None, "a request without its secret must not be sent"
        own = dict(headers or {})
        text = self._secret.reveal()
        match self._way:
            case Way.BEARER:
                own["Authorization"] = f"Bearer {text}"
            case Way.BASIC:
                own["Authorization"] = f"Basic {base64.b64encode(text.encode()).decode()}"
            case Way.HEADER:
                own[self._name] = text
            case Way.COOKIE:
                own["Cookie"] = f"{self._name}={text}"
            case Way.QUERY:
                url = without_parameter(url, self._name)  # the address of a next page may repeat an older secret
                url = f"{url}{'&' if '?' in url else '?'}{quote(self._name, safe='')}={quote(text, safe='')}"
        return url, own

    def _is_due(self) -> bool:
        if self._renew_at_ns is not None and self._clock.monotonic_ns() >= self._renew_at_ns:
            return True
        if self._secret is None:
            return self._renew_at_ns is None  # one that could not be read is read again after a while
        return self._origin.has_changed()

    async def _read_if_due(self, *, is_told: bool = True) -> None:
        if self._is_due():
            async with self._reading:
                if self._is_due():
                    await self._read(is_told=is_told)

    async def _read(self, *, is_told: bool = True) -> None:
        """`is_told`: log an event if it cannot be read."""
        now_ns = self._clock.monotonic_ns()
        try:
            issued = await self._origin.read()
        except RemoraError as error:
            if is_told:
                log.warning("credential_unreadable", account=self._account, why=error.message)
            self._unreadable = error
            self._renew_at_ns = self._clock.monotonic_ns() + READ_AGAIN_NS  # from its end: a read may take longer
            return
        if self._secret is None or issued.secret.reveal() != self._secret.reveal():
            self._secret = issued.secret
        life_ns = issued.expires_in_ns
        ahead_ns = None if life_ns is None else max(life_ns - RENEW_AHEAD_NS, int(life_ns * RENEW_AT_SHARE))
        self._renew_at_ns = None if ahead_ns is None else now_ns + ahead_ns


class SignedTransport:
    """`contracts.Transport` that signs requests to the address the owner wrote, and no others."""

    def __init__(self, inner: Transport, credential: Credential, *, url: str) -> None:
        self._inner = inner
        self._credential = credential
        self._origin = urlsplit(url)[:2]

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """One request, signed."""
        url, headers = self._signed(url, headers)
        return await self._inner.get(url, permit, headers=headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """One request with a body, signed."""
        url, headers = self._signed(url, headers)
        return await self._inner.post(url, permit, body, headers=headers)

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """One stream, whose first request is signed."""
        await self._credential.ready()
        url, headers = self._signed(url, headers)
        inner = cast("AsyncGenerator[bytes, None]", self._inner.stream(url, connect, headers=headers))
        async with aclosing(inner) as chunks:
            async for chunk in chunks:
                yield chunk

    def _signed(self, url: str, headers: Mapping[str, str] | None) -> tuple[str, Mapping[str, str] | None]:
        """A provider may name a next page on any host. A secret is only sent to its own host."""
        return self._credential.sign(url, headers) if urlsplit(url)[:2] == self._origin else (url, headers)
