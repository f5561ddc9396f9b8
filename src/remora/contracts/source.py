"""What must a source and its transport offer? One request for one permit, and a tolerant reading of the reply."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from remora.contracts.announcements import StreamPart
from remora.core.item import Decoded
from remora.core.ledger.discovery import Discovery
from remora.core.translation import Translation
from remora.core.verdict import ABSENT_STATUSES, NoReply, Reply


class Permit(Protocol):
    """The right to send one request. The transport is reachable only with one."""

    async def depart(self) -> int:
        """Called when the connection is ready, right before the request is written; returns the departure (monotonic).

        Returns at once while the permit is fresh. A permit that went stale over a slow connect is forfeited here and
        waits in the gate again, so that what leaves the wire is spaced, not only what was allowed.
        """

    def sent(self) -> None:
        """The request is on the wire. A request that never got there says so by giving its permit back."""


class StreamConnect(Protocol):
    """One connect of an event stream on its way through the gate."""

    @property
    def permit(self) -> Permit:
        """The right to send this one request."""

    def answered(self, reply: Reply | NoReply) -> None:
        """What came back, without a body: the gate learns from it as from any reply."""


# `async with connect() as connecting`: waits for a turn; the turn is held until the block ends.
ConnectGate = Callable[[], AbstractAsyncContextManager[StreamConnect]]


class Transport(Protocol):
    """One HTTP exchange."""

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send exactly one request and give what came back, or why nothing did. Never raises for the provider."""

    def stream(
        self, url: str, connect: "ConnectGate", *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """The raw bytes of an event stream until it ends or breaks (`StreamBroken`). Its first chunk is empty: it is open.

        Every connect passes the gate, and each hop of a redirect is a connect.
        """


class StreamBroken(Exception):
    """The event stream could not be opened, broke, was silent for too long, or led to a foreign host."""

    def __init__(self, reason: str, *, wait_ns: int = 0) -> None:
        """`wait_ns` is how long the provider asks to wait before the next connect."""
        super().__init__(reason)
        self.reason = reason
        self.wait_ns = wait_ns


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a source can do. Whoever needs to know asks this value, never the kind of the source."""

    newest_id: bool = False  # items have integer ids, and the source tells the highest one
    change_stream: bool = False  # a stream announces changed items
    newest_stream: bool = False  # a stream announces the newest id
    item_times: bool = False  # items say when they were created: without it nobody knows which ones are recent
    users: bool = False  # profiles can be asked for by name
    list: bool = False  # a list of entries, in pages
    inline_details: bool = False  # a page already holds its entries in full
    public: bool = False  # items may be shown to whoever can see the console
    absent_statuses: frozenset[int] = ABSENT_STATUSES  # these say "no such item"


class Source(Protocol):
    """A provider: where its things are, and what its replies mean."""

    @property
    def name(self) -> str:
        """The source's name in the ledger."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one thing."""

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the reply holds, by its headers and its body. Pure and tolerant: an oddity is counted, never fatal.

        Called only for a reply whose body is what was asked for; `core.verdict` reads the status.
        """


class Credential(Protocol):
    """What shows the provider who asks. It signs in the transport; here it is kept good."""

    async def ready(self) -> None:
        """Hold a secret that is believed to be good. Never raises for a secret that cannot be had."""

    async def renew(self) -> bool:
        """The provider refused it: read it again. True if it is another one now."""


class Dialect(Protocol):
    """The rules of one source: what its replies mean where their status does not say it."""

    def translate(self, reply: Reply, *, now_wall_ns: int) -> Translation:
        """What a reply means in the provider's dialect. Pure, and never raises."""


class NumberedSource(Source, Protocol):
    """A source whose items have integer ids. Its streams are opened only where its capabilities name them."""

    def changes(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of changes announces, until it ends or breaks (`StreamBroken`)."""

    def newest_ids(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of the newest id announces, until it ends or breaks (`StreamBroken`)."""
