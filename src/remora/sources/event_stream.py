"""What does an event stream say? A bounded parser of its lines, and what each event means for a mirror.

Both halves are pure. The parser turns bytes into events, however the bytes are cut; `interpret` turns an event into one
signal of a closed set. What a stream says is a hint where to look, never the truth about an item.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeGuard

LINE_MAX_BYTES: Final = 1024 * 1024
EVENT_MAX_BYTES: Final = 2 * 1024 * 1024  # bounds the keys of one event, too: none of them is left out
ITEM_ID_MAX: Final = 2**53
PROFILE_MAX_CHARACTERS: Final = 100
RETRY_MAX_MS: Final = 10 * 60 * 1_000

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the stream."""

    name: str
    data: str


@dataclass(frozen=True, slots=True)
class TooLong:
    """An event beyond the bounds was skipped."""


class EventParser:
    """Turns the bytes of a stream into its events. Holds at most one line and one event, both bounded."""

    def __init__(self, *, line_max_bytes: int = LINE_MAX_BYTES, event_max_bytes: int = EVENT_MAX_BYTES) -> None:
        self.retry_ms: int | None = None  # how long the server asks to wait before a reconnect
        self.last_id = ""
        self._line_max_bytes = line_max_bytes
        self._event_max_bytes = event_max_bytes
        self._line = bytearray()
        self._line_too_long = False
        self._after_return = False  # the last byte was a carriage return: a line feed now belongs to it
        self._first_line = True
        self._name = ""
        self._data: list[str] = []
        self._event_bytes = 0
        self._event_too_long = False

    def feed(self, chunk: bytes) -> list[Event | TooLong]:
        """The events that end within this chunk."""
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        events: list[Event | TooLong] = []
        start = 0
        for line_end in _LINE_END.finditer(chunk):
            self._extend(chunk[start : line_end.start()])
            start = line_end.end()
            event = self._end_line()
            if event is not None:
                events.append(event)
        self._extend(chunk[start:])
        self._after_return = chunk.endswith(b"\r")
        return events

    def _extend(self, part: bytes) -> None:
        if self._line_too_long or len(self._line) + len(part) > self._line_max_bytes:
            self._line_too_long = True
            self._line.clear()
        else:
            self._line += part

    def _end_line(self) -> Event | TooLong | None:
        line, too_long = bytes(self._line), self._line_too_long
        self._line.clear()
        self._line_too_long = False
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if too_long:
            self._event_too_long = True
        elif not line:
            return self._end_event()
        else:
            self._take(line.decode("utf-8", "replace"))
        return None

    def _take(self, line: str) -> None:
        name, _colon, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "data":
                self._add_data(value)
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdigit():
                # Compared as text first: Python refuses to read numbers of thousands of digits.
                self.retry_ms = min(int(value), RETRY_MAX_MS) if len(value) < 10 else RETRY_MAX_MS
            case _:
                pass  # comments and fields that no standard names

    def _add_data(self, value: str) -> None:
        self._event_bytes += len(value) + 1
        if self._event_bytes > self._event_max_bytes:
            self._event_too_long = True
            self._data.clear()
        else:
            self._data.append(value)

    def _end_event(self) -> Event | TooLong | None:
        name, data, too_long = self._name, self._data, self._event_too_long
        self._name, self._data, self._event_bytes, self._event_too_long = "", [], 0, False
        if too_long:
            return TooLong()
        return Event(name or "message", "\n".join(data)) if data else None


@dataclass(frozen=True, slots=True)
class Announced:
    """These items and profiles changed. `dropped` counts what could not be a key."""

    item_ids: tuple[int, ...] = ()
    profiles: tuple[str, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class NewestAnnounced:
    """The highest id the source has assigned."""

    item_id: int


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The stream lives and has nothing to say."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The provider ends the stream: it may not be read any more."""


@dataclass(frozen=True, slots=True)
class AuthRevoked:
    """The provider ends the stream: our credentials have expired."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing that a mirror can use, and why."""

    reason: str


StreamSignal = Announced | NewestAnnounced | KeepAlive | Cancelled | AuthRevoked | Ignored


def interpret(event: Event | TooLong) -> StreamSignal:
    """What an event means."""
    if isinstance(event, TooLong):
        return Ignored("too_long")
    match event.name:
        case "put" | "patch":
            return _change(event.data)
        case "keep-alive":
            return KeepAlive()
        case "cancel":
            return Cancelled()
        case "auth_revoked":
            return AuthRevoked()
        case _:
            return Ignored("unknown_event")


def _change(data: str) -> StreamSignal:
    try:
        value = json.loads(data, parse_int=_bounded_int)
    except (ValueError, RecursionError):
        return Ignored("not_json")
    match value:
        case {"path": str(path), "data": content}:
            return _at(_steps(path), content)
        case _:
            return Ignored("no_path")


def _at(steps: tuple[str, ...], content: object) -> StreamSignal:
    if content is None:
        return Ignored("removed")
    if not steps and not isinstance(content, dict):
        return NewestAnnounced(content) if _is_id(content) else Ignored("not_an_id")
    harvest = _Harvest()
    if steps:
        harvest.place(steps, content)
    else:
        assert isinstance(content, dict), "everything else at the root was handled above"
        for path, value in content.items():
            harvest.place(_steps(path), value)
    return harvest.announced()


@dataclass(slots=True)
class _Harvest:
    """Keys found in one event, each once, in their order."""

    item_ids: dict[int, None] = field(default_factory=dict)
    profiles: dict[str, None] = field(default_factory=dict)
    dropped: int = 0

    def place(self, steps: tuple[str, ...], value: object) -> None:
        """Take what stands at a path: a whole list, or one slot of it."""
        match steps:
            case ("items",):
                self._add_ids(_slots(value))
            case ("items", _):
                self._add_ids((value,))
            case ("profiles",):
                self._add_profiles(_slots(value))
            case ("profiles", _):
                self._add_profiles((value,))
            case _:
                self.dropped += 1

    def _add_ids(self, values: Iterable[object]) -> None:
        for value in values:
            if _is_id(value):
                self.item_ids[value] = None
            elif value is not None:  # an emptied slot says nothing
                self.dropped += 1

    def _add_profiles(self, values: Iterable[object]) -> None:
        for value in values:
            if _is_profile(value):
                self.profiles[value] = None
            elif value is not None:
                self.dropped += 1

    def announced(self) -> Announced | Ignored:
        """All of it, or that there was nothing."""
        if not (self.item_ids or self.profiles or self.dropped):
            return Ignored("empty")
        return Announced(tuple(self.item_ids), tuple(self.profiles), self.dropped)


def _slots(value: object) -> Iterable[object]:
    """The slots of a list; a sparse one comes as an object."""
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case _:
            return (value,)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(step for step in path.split("/") if step)


def _bounded_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= 19 else float("inf")


def _is_id(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= ITEM_ID_MAX


def _is_profile(value: object) -> TypeGuard[str]:
    """A name that can be asked for and stored: some printable text of a sane length."""
    return isinstance(value, str) and 0 < len(value) <= PROFILE_MAX_CHARACTERS and value.isprintable()
