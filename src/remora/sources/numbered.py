"""How is a numbered source asked, and what do its replies mean? As its owner declared it, without code.

The addresses come from a `Declaration`. What a body or an event means is a `Reading`: the declared one follows the
declaration's paths, and a preset may bring its own.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final, Protocol

from remora.contracts import (
    Announced,
    Announcement,
    Capabilities,
    ConnectGate,
    Ignored,
    NewestAnnounced,
    OnReply,
    Permit,
    PromptPermit,
    PromptTransport,
    Sent,
    StreamPart,
    Transport,
    Unread,
)
from remora.core.item import Decoded, Item, Newest, Nothing, Readable, Unreadable, Updated, User, WrongShape
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply, Reply
from remora.sources.address import quoted
from remora.sources.declaration import ID, NAME, AbsentSettings, Declaration, UpdatesSettings
from remora.sources.event_stream import Event, announcements, is_profile
from remora.sources.json_path import (
    NOT_THERE,
    WHOLE_BODY,
    as_mark,
    as_number,
    as_text,
    as_time,
    find,
    load,
    why_unreadable,
    without_guard,
)
from remora.sources.secret import Secret

_SAID_NOTHING: Final = (None, False, NOT_THERE)


class Reading(Protocol):
    """What the bodies and events of one provider mean. Pure and tolerant."""

    def item(self, item_id: int, body: bytes) -> Decoded:
        """The item with this id, or why the body is not it."""

    def user(self, name: str, body: bytes) -> Decoded:
        """The profile of this name, or why the body is not it."""

    def newest(self, body: bytes) -> Decoded:
        """The newest id, or why the body does not give it."""

    def change(self, event: Event) -> Announcement:
        """What an event of the stream of changes announces."""

    def newest_event(self, event: Event) -> Announcement:
        """What an event of the stream of the newest id announces."""


class Numbered:
    """`contracts.NumberedSource` for any declared numbered source."""

    def __init__(
        self,
        transport: Transport,
        url: str,
        declaration: Declaration,
        *,
        name: str,
        headers: Mapping[str, str] | None = None,
        token: Secret | None = None,
        reading: Reading | None = None,
    ) -> None:
        self._transport = transport
        self._prompt = transport if isinstance(transport, PromptTransport) else None
        self._url = url.rstrip("/")
        self._declared = declaration
        self._capabilities = declaration.capabilities
        self._name = name
        self._headers = dict(headers or {})
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token.reveal()}"
        self._reading = reading or DeclaredReading(declaration)
        first, *others = declaration.item.path.split(ID)
        self._around_id = (f"{self._url}{first}", *others)

    @property
    def name(self) -> str:
        """The source's name in the ledger."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._capabilities

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one thing."""
        return await self._transport.get(self._address(discovery), permit, headers=self._headers)

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        """The same, sent at once where the transport can."""
        if self._prompt is None:
            return None
        if discovery.kind is Kind.ITEM:  # fast path
            return self._prompt.get_now(self._around_id, discovery.key, permit, on_reply, headers=self._headers)
        return self._prompt.get_now((self._address(discovery),), "", permit, on_reply, headers=self._headers)

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the reply holds."""
        if discovery.kind is Kind.ITEM:  # fast path
            return self._reading.item(int(discovery.key), reply.body)
        match discovery.kind:
            case Kind.USER:
                return self._reading.user(discovery.key, reply.body)
            case Kind.NEWEST if discovery.key:
                assert self._declared.updates is not None, "no list of changes is declared"
                return changed_lately(self._declared.updates, reply.body)
            case Kind.NEWEST:
                return self._reading.newest(reply.body)
            case Kind.ITEM | Kind.DOCUMENT | Kind.PAGE | Kind.UNREAD_PAGE:
                raise _unknown(discovery.kind)

    def changes(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of changes announces."""
        assert self._declared.updates is not None, "no stream of changes is declared"
        stream = self._transport.stream(f"{self._url}{self._declared.updates.path}", connect, headers=self._headers)
        return announcements(stream, self._reading.change)

    def newest_ids(self, connect: ConnectGate) -> AsyncIterator[StreamPart]:
        """What the stream of the newest id announces."""
        assert self._declared.newest.stream is not None, "no stream of the newest id is declared"
        stream = self._transport.stream(f"{self._url}{self._declared.newest.stream}", connect, headers=self._headers)
        return announcements(stream, self._reading.newest_event)

    def _address(self, discovery: Discovery) -> str:
        if discovery.kind is Kind.ITEM:
            return discovery.key.join(self._around_id)
        return f"{self._url}{self._path(discovery)}"

    def _path(self, discovery: Discovery) -> str:
        match discovery.kind:
            case Kind.USER:
                assert self._declared.user is not None, "no users are declared"
                return self._declared.user.path.replace(NAME, quoted(discovery.key))
            case Kind.NEWEST if discovery.key:
                assert self._declared.updates is not None, "no list of changes is declared"
                return self._declared.updates.path
            case Kind.NEWEST:
                return self._declared.newest.path
            case Kind.ITEM | Kind.DOCUMENT | Kind.PAGE | Kind.UNREAD_PAGE:
                raise _unknown(discovery.kind)


class DeclaredReading:
    """`Reading` by the paths of a declaration. Unknown fields are normal, and everything stays in the body."""

    def __init__(self, declaration: Declaration) -> None:
        self._item = declaration.item
        self._at = declaration.newest.at
        self._updates = declaration.updates
        self._absent = declaration.absent

    def item(self, item_id: int, body: bytes) -> Decoded:
        """The item with this id, or why the body is not it."""
        body = without_guard(body)
        value = parsed(body)
        if isinstance(value, Unreadable | WrongShape):
            return value
        if value is None or _says_absent(self._absent, value):
            return Nothing()
        if not isinstance(value, dict | list):
            return WrongShape("not an item")
        if self._item.id is not None and as_number(find(value, self._item.id)) != item_id:
            return WrongShape("another id")
        try:
            return Readable(self._columns(item_id, body, value))
        except RecursionError:
            return WrongShape("nested too deep")

    def user(self, name: str, body: bytes) -> Decoded:
        """The profile: any object."""
        body = without_guard(body)
        value = parsed(body)
        match value:
            case Unreadable() | WrongShape():
                return value
            case None:
                return Nothing()
            case dict():
                return Nothing() if _says_absent(self._absent, value) else Readable(User(name, body))
            case _:
                return WrongShape("not a profile")

    def newest(self, body: bytes) -> Decoded:
        """The number at the declared place."""
        value = parsed(body)
        if isinstance(value, Unreadable | WrongShape):
            return value
        if value is None:
            return Nothing()
        newest_id = as_number(find(value, self._at))
        return WrongShape("no number there") if newest_id is None else Readable(Newest(newest_id))

    def change(self, event: Event) -> Announcement:
        """The ids and names at the declared places of an event's data."""
        assert self._updates is not None, "no stream of changes is declared"
        value = parsed(event.data.encode("utf-8", "replace"))
        if isinstance(value, Unreadable | WrongShape):
            return Unread("not_json")
        ids = _each(find(value, self._updates.items))
        names = _each(find(value, self._updates.users)) if self._updates.users is not None else ()
        item_ids = [found for each in ids if (found := as_number(each)) is not None]
        profiles = [each for each in names if is_profile(each)]
        dropped = len(ids) + len(names) - len(item_ids) - len(profiles)
        if not item_ids and not profiles and not dropped:
            return Ignored("nothing_there")
        return Announced(tuple(dict.fromkeys(item_ids)), tuple(dict.fromkeys(profiles)), dropped)

    def newest_event(self, event: Event) -> Announcement:
        """The number at the declared place of an event's data."""
        value = parsed(event.data.encode("utf-8", "replace"))
        newest_id = None if isinstance(value, Unreadable | WrongShape) else as_number(find(value, self._at))
        return Ignored("no_number_there") if newest_id is None else NewestAnnounced(newest_id)

    def _columns(self, item_id: int, body: bytes, value: object) -> Item:
        places = self._item
        odd: list[str] = []

        def at(name: str, place: str | None) -> object:
            found = NOT_THERE if place is None else find(value, place)
            if place is not None and found is NOT_THERE:
                odd.append(f"no_{name}")
            return found

        return Item(
            item_id=item_id,
            body=body,
            type=as_text(at("type", places.type)),
            by=as_text(at("by", places.by)),
            time=as_time(at("time", places.time)),
            parent=as_number(at("parent", places.parent)),
            title=as_text(at("title", places.title)),
            url=as_text(at("url", places.url)),
            anomalies=tuple(odd),
            content_of=content_of,
        )


def changed_lately(settings: UpdatesSettings, body: bytes) -> Decoded:
    """The ids and marks of a list. An entry without one of them is left out."""
    value = parsed(body)
    if isinstance(value, Unreadable | WrongShape):
        return value
    entries = find(value, settings.entries or WHOLE_BODY)
    if not isinstance(entries, list):
        return WrongShape("no list of changes")
    read = ((as_number(find(entry, settings.items)), as_mark(find(entry, settings.updated or ""))) for entry in entries)
    shown = tuple((item_id, mark) for item_id, mark in read if item_id is not None and mark is not None)
    if entries and not shown:
        return WrongShape("no ids and marks in the list of changes")
    return Readable(Updated(shown))


def parsed(body: bytes) -> object:
    """The JSON value, or why there is none."""
    try:
        return load(body)
    except RecursionError:
        return WrongShape("nested too deep")
    except ValueError as error:
        return Unreadable(why_unreadable(body, error))


def _says_absent(absent: AbsentSettings, value: object) -> bool:
    if absent.at is None:
        return False
    said = find(value, absent.at)
    if absent.equals is None:
        return said not in _SAID_NOTHING
    return as_text(said) == absent.equals


def content_of(_item_id: int, body: bytes) -> bytes | None:
    """The same bytes for the same content, whatever the order of its keys and its white space."""
    value = parsed(body)
    if isinstance(value, Unreadable | WrongShape):
        return None
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()
    except RecursionError:
        return None


def _each(found: object) -> tuple[object, ...]:
    """One value or a list of them; an empty slot says nothing."""
    values: Iterable[object] = found if isinstance(found, list) else (found,)
    return tuple(value for value in values if value is not None and value is not NOT_THERE)


def _unknown(kind: Kind) -> AssertionError:
    return AssertionError(f"a numbered source has no {kind}")
