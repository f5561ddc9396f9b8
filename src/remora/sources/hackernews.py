"""Where are Hacker News's items, users and streams, and what do their bodies mean?"""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

import msgspec

from remora.contracts import Permit, Transport
from remora.core.item import Decoded, Newest, Nothing, Readable, Unreadable, User, WrongShape
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply, Reply
from remora.sources.hackernews_item import NUMBER_MAX, decode_item, parse_json

BASE_URL: Final = "https://hacker-news.firebaseio.com/v0"
# The provider moves streams between its own hosts; every one of them ends in this.
STREAM_HOSTS: Final = ("firebaseio.com",)


class _Profile(msgspec.Struct, gc=False):
    """All that is read of a profile; the rest is kept in its body."""

    id: str


_profile: Final = msgspec.json.Decoder(_Profile)


class HackerNews:
    """`contracts.StreamingSource` for Hacker News, or for anything that speaks like it."""

    def __init__(self, transport: Transport, base_url: str = BASE_URL, *, name: str = "hackernews") -> None:
        self._transport = transport
        self._base_url = base_url.rstrip("/")
        self._name = name

    @property
    def name(self) -> str:
        """The source's name in the ledger."""
        return self._name

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one thing."""
        return await self._transport.get(f"{self._base_url}/{_path(discovery)}", permit)

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the reply holds."""
        body = reply.body
        match discovery.kind:
            case Kind.ITEM:
                return decode_item(discovery.item_id, body)
            case Kind.USER:
                return _decode_user(discovery.key, body)
            case Kind.NEWEST:
                return _decode_newest(body)
            case Kind.DOCUMENT | Kind.PAGE:
                raise _unknown(discovery.kind)

    def updates(self) -> AsyncIterator[bytes]:
        """Raw bytes of the stream of changed ids."""
        return self._transport.stream(f"{self._base_url}/updates.json")

    def newest_ids(self) -> AsyncIterator[bytes]:
        """Raw bytes of the stream of the newest id."""
        return self._transport.stream(f"{self._base_url}/maxitem.json")


def _path(discovery: Discovery) -> str:
    match discovery.kind:
        case Kind.ITEM:
            return f"item/{discovery.item_id}.json"
        case Kind.USER:
            return f"user/{quote(discovery.key, safe='', errors='surrogatepass')}.json"
        case Kind.NEWEST:
            return "maxitem.json"
        case Kind.DOCUMENT | Kind.PAGE:
            raise _unknown(discovery.kind)


def _unknown(kind: Kind) -> AssertionError:
    return AssertionError(f"Hacker News has no {kind}")


def _decode_user(name: str, body: bytes) -> Decoded:
    if body == b"null":
        return Nothing()
    try:
        body.decode()
        said = _profile.decode(body).id
    except (ValueError, RecursionError):
        return _decode_odd_user(name, body)
    return Readable(User(name, body)) if said == name else WrongShape("another user")


def _decode_odd_user(name: str, body: bytes) -> Decoded:
    value = _patient_value(body)
    match value:
        case None:
            return Nothing()
        case Unreadable() | WrongShape():
            return value
        case {"id": str(said)} if said == name:
            return Readable(User(name, body))
        case _:
            return WrongShape("another user")


def _decode_newest(body: bytes) -> Decoded:
    value = _patient_value(body)
    match value:
        case None:
            return Nothing()
        case Unreadable() | WrongShape():
            return value
        case int() if not isinstance(value, bool) and 0 < value <= NUMBER_MAX:
            return Readable(Newest(value))
        case _:
            return WrongShape("not an id")


def _patient_value(body: bytes) -> object:
    """The JSON value, or why there is none."""
    try:
        return parse_json(body, lambda _oddity: None)
    except RecursionError:
        return WrongShape("nested too deep")
    except UnicodeDecodeError:
        return Unreadable("not UTF-8")
    except ValueError:
        return Unreadable("not JSON")
