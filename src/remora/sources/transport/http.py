"""Which client does what? Requests go over the lean one; streams, and requests where the owner chose it, over aiohttp."""

from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from remora.contracts import Clock, ConnectGate, OnReply, Permit, PromptPermit, Sent, StreamBroken
from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.exhaustion import is_our_exhaustion
from remora.sources.transport.lean import LeanTransport
from remora.sources.transport.settings import Client, HttpSettings

if TYPE_CHECKING:
    from remora.sources.transport.aiohttp_client import AiohttpTransport


class HttpTransport:
    """`contracts.Transport`. Opens its connections when first used; `close` it, or use it as a context manager."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        clock: Clock,
        wire_sent: Callable[[], None],
        client: Client = Client.LEAN,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wire_sent = wire_sent
        self._aiohttp: AiohttpTransport | None = None
        self._requests = (
            LeanTransport(settings, clock=clock, wire_sent=wire_sent) if client is Client.LEAN else self._library()
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._requests.close()
        if self._aiohttp is not None:
            await self._aiohttp.close()

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send exactly one request and return what came back, or why nothing did. Never raises for the provider."""
        return await self._requests.get(url, permit, headers=headers)

    def get_now(
        self,
        around: tuple[str, ...],
        name: str,
        permit: PromptPermit,
        on_reply: OnReply,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Sent | None:
        """The same at once, over the lean client; None where that is impossible."""
        if not isinstance(self._requests, LeanTransport):
            return None
        return self._requests.get_now(around, name, permit, on_reply, headers=headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """The same with a body."""
        return await self._requests.post(url, permit, body, headers=headers)

    async def post_form(self, url: str, permit: Permit, form: bytes) -> Reply | NoReply:
        """Send a form, always over the lean client."""
        if isinstance(self._requests, LeanTransport):
            return await self._requests.post_form(url, permit, form)
        async with LeanTransport(self._settings, clock=self._clock, wire_sent=self._wire_sent) as lean:
            return await lean.post_form(url, permit, form)

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of an event stream until it ends; `StreamBroken` says why it did not open, or why it broke."""
        try:
            library = self._library()
        except OSError as error:
            if not is_our_exhaustion(error):
                raise
            raise StreamBroken(Fault.EXHAUSTED) from None  # not even a module can be read now
        return library.stream(url, connect, headers=headers)

    def _library(self) -> "AiohttpTransport":
        """Imported when first used: a source without a stream starts without it."""
        if self._aiohttp is None:
            from remora.sources.transport.aiohttp_client import AiohttpTransport  # noqa: PLC0415

            self._aiohttp = AiohttpTransport(self._settings, clock=self._clock, wire_sent=self._wire_sent)
        return self._aiohttp
