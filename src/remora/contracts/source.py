"""What must a source and its transport offer? One request for one permit, and a tolerant reading of the reply."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from remora.contracts.announcements import StreamPart
from remora.core.item import Decoded, Page
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.translation import Translation
from remora.core.verdict import ABSENT_STATUSES, NoReply, Reply


class Permit(Protocol):
    """The right to send one request. The transport is reachable only with one."""

    async def depart(self) -> int:
        """Called when the connection is ready, right before the request is written; returns the departure (monotonic).

        Returns at once while the permit is fresh. A permit that went stale during a slow connect is forfeited here and
        waits in the gate again, so that the requests on the wire are spaced, not only the permits.
        """

    def sent(self) -> None:
        """The request is on the wire. A request that never got there gives its permit back instead."""


class PromptPermit(Permit, Protocol):
    """A permit that can also depart without waiting."""

    def depart_now(self) -> int | None:
        """Depart at once, if nothing holds the request back; None: nothing happened, wait for `depart` instead."""


OnReply = Callable[[Reply | NoReply], None]


class Sent(Protocol):
    """A request that was sent. Its answer comes by a callback."""

    def cancel(self) -> None:
        """Nobody wants the answer any more, and the callback is not called. Nothing happens if it was."""


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
        """Send exactly one request; return what came back, or why nothing did. Never raises for a provider's fault."""

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """The same with a body. What is asked this way must change nothing: it may be asked again."""

    def stream(
        self, url: str, connect: "ConnectGate", *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """The bytes of an event stream until it ends or breaks (`StreamBroken`). An empty first chunk says: it is open.

        Every connect passes the gate, and each hop of a redirect is a connect.
        """


@runtime_checkable
class PromptTransport(Transport, Protocol):
    """A transport that can also send without waiting: a batch of requests needs no task for each."""

    def get_now(
        self,
        around: tuple[str, ...],
        name: str,
        permit: PromptPermit,
        on_reply: OnReply,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Sent | None:
        """Send exactly one request at once and call back once. None: that is impossible now, and nothing happened.

        In its address, `name` stands between the parts of `around`: requests of which only a name differs cost less.
        """


class StreamBroken(Exception):
    """The event stream could not be opened, broke, was silent for too long, or led to a foreign host."""

    def __init__(self, reason: str, *, wait_ns: int = 0) -> None:
        """`wait_ns` is how long the provider asks to wait before the next connect."""
        super().__init__(reason)
        self.reason = reason
        self.wait_ns = wait_ns


class SourceFailed(Exception):
    """The code of a source failed while it asked for one thing. The thing is owed, and the others are asked for."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a source can do. Callers check this value, never the kind of the source."""

    newest_id: bool = False  # items have integer ids, and the source reports the highest one
    change_stream: bool = False  # a stream announces changed items
    change_list: bool = False  # a list shows which items changed lately (`Discovery.updates`)
    newest_stream: bool = False  # a stream announces the newest id
    item_times: bool = False  # items say when they were created: otherwise it is unknown which ones are recent
    users: bool = False  # profiles can be requested by name
    list: bool = False  # a list of entries, in pages
    inline_details: bool = False  # a page already holds its entries in full
    joined_details: bool = False  # a document may take several requests (`Discovery.piece`)
    details_per_request: int = 1  # one request may ask for this many documents (`Discovery.further_keys`)
    each: str | None = None  # the list is walked for each entry of this other source
    positions: bool = False  # positions in the list can be computed (`WalkedSource`)
    list_at: str | None = None  # a hash of where the list is, how it is walked and what is taken from it
    marks_at: str | None = None  # where entries have their marks; marks from elsewhere cannot be compared with them
    details_at: str | None = (
        None  # a hash of where details are and what belongs to them; another one has other documents
    )
    public: bool = False  # items may be shown to whoever can see the console
    absent_statuses: frozenset[int] = ABSENT_STATUSES  # these say "no such item"

    def can_ask(self, kind: Kind) -> bool:
        """Whether such a thing can be requested. What an earlier declaration left owed perhaps cannot."""
        match kind:
            case Kind.ITEM | Kind.NEWEST:
                return self.newest_id
            case Kind.USER:
                return self.users
            case Kind.DOCUMENT | Kind.PAGE | Kind.UNREAD_PAGE:
                return self.list


class Source(Protocol):
    """One kind of thing of a provider: where it is, and what the replies mean."""

    @property
    def name(self) -> str:
        """The source's name in the ledger."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one thing."""

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the headers and the body of the reply contain. Pure and tolerant: an oddity is counted, never fatal.

        Called only for a reply whose body is what was asked for; `core.verdict` reads the status.
        """


@runtime_checkable
class PromptSource(Source, Protocol):
    """A source that can also send without waiting, if its transport can."""

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        """One request for one thing, sent at once. None: that is impossible now, and nothing happened."""


class WalkedSource(Source, Protocol):
    """A source that can compute positions in its list. They are asked for only where its capabilities say so."""

    def first_position(self, watermark: str | None, *, now_wall_ns: int) -> str:
        """Where a walk begins that knows everything up to this mark; None: it knows nothing."""

    def ended_at(self, position: str) -> Page:
        """The empty page for an end at this position. It leads to the next part of the list, if there is one."""

    def position_behind(self, position: str) -> str | None:
        """Where the list goes on behind a page that cannot be read; None if only that page could tell."""

    def position_before(self, position: str) -> str | None:
        """About one page before this position; None at the beginning of its part of the list, or if it is unknown."""

    def first_of_part(self, position: str) -> str:
        """The first position of the part of the list that this one is in; empty if the list has no parts."""

    def position_in_words(self, position: str) -> str:
        """Which page this is, for an operator, without a key or a content."""

    def take_parents(self, documents: Iterable[tuple[str, bytes, bool]]) -> int:
        """The entries of the other source (`Capabilities.each`): key, document, and whether it is still listed.

        Returns how many of them lack a field that an address needs.
        """

    def has_parents(self) -> bool:
        """Whether there is an entry to walk the list for."""

    def take_watermark(self, parent: str, watermark: str) -> None:
        """The list of this entry was read whole, up to this mark."""

    def parent_at(self, position: str) -> str | None:
        """The entry of the other source whose list this position is in."""

    def known_at(self, position: str) -> str | None:
        """The watermark of the list of one entry, at a position in it; None if a walk there must read everything."""

    def asked_with(self, key: str) -> str:
        """Documents with the same text may be asked for in one request (`Capabilities.details_per_request`)."""


class Credential(Protocol):
    """Proves to the provider who we are. The transport signs requests with it; here it is kept valid."""

    async def ready(self) -> None:
        """Make sure that a secret believed to be valid is loaded. Never raises: it waits until there is one."""

    async def renew(self) -> bool:
        """The provider refused it: read it again. True if it changed."""


class Dialect(Protocol):
    """The rules of one source: what its replies mean where their status does not say it."""

    def translate(self, reply: Reply, *, now_wall_ns: int) -> Translation:
        """What a reply means in the provider's dialect. Pure, and never raises."""

    def is_silent(self, reply: Reply) -> bool:
        """Whether it is sure that `translate` finds nothing said: a quick look for nearly every reply."""


class NumberedSource(Source, Protocol):
    """A source whose items have integer ids. Its streams are opened only where its capabilities name them."""

    def changes(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of changes announces, until it ends or breaks (`StreamBroken`)."""

    def newest_ids(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of the newest id announces, until it ends or breaks (`StreamBroken`)."""
