"""What does an event stream say? A bounded parser turns its bytes into events, however the bytes are split.

What an event means depends on the provider: `announcements` takes a function that interprets it.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeGuard

import msgspec

from remora.contracts import Announcement, StreamPart, Unread
from remora.core.units import MILLISECOND_NS
from remora.sources.json_numbers import NUMBER_MAX

LINE_MAX_BYTES: Final = 1024 * 1024
EVENT_MAX_BYTES: Final = 2 * 1024 * 1024  # also bounds the keys of one event: none of them is left out
PROFILE_MAX_CHARACTERS: Final = 100
RETRY_MAX_MS: Final = 10 * 60 * 1_000

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True):
    """One event of the stream."""

    name: str
    data: str


class TooLong(msgspec.Struct, frozen=True):
    """An event that was too long was skipped."""


class EventParser:
    """Turns the bytes of a stream into its events. Holds at most one line and one event, both bounded."""

    def __init__(self, *, line_max_bytes: int = LINE_MAX_BYTES, event_max_bytes: int = EVENT_MAX_BYTES) -> None:
        self.retry_ms: int | None = None  # how long the server asks to wait before a reconnect
        self.last_id = ""
        self._line_max_bytes = line_max_bytes
        self._event_max_bytes = event_max_bytes
        self._line = bytearray()
        self._line_too_long = False
        self._after_return = False  # the last byte was a carriage return: a following line feed belongs to it
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
                pass  # comments and fields that are not in the standard

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


Interpret = Callable[[Event], Announcement]


async def announcements(chunks: AsyncIterator[bytes], interpret: Interpret) -> AsyncGenerator[StreamPart, None]:
    """What a stream announces, one part for each read. Close the generator to close the connection at once."""
    parser = EventParser()
    async with _closing(chunks):
        async for chunk in chunks:
            events = parser.feed(chunk)
            announced = tuple(Unread() if isinstance(event, TooLong) else interpret(event) for event in events)
            yield StreamPart(announced, (parser.retry_ms or 0) * MILLISECOND_NS)


@asynccontextmanager
async def _closing(chunks: AsyncIterator[bytes]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def is_id(value: object) -> TypeGuard[int]:
    """Whether it can be the id of an item."""
    return type(value) is int and 0 < value <= NUMBER_MAX


def is_profile(value: object) -> TypeGuard[str]:
    """Whether it is a name that can be requested and stored: printable text of a sane length."""
    return isinstance(value, str) and 0 < len(value) <= PROFILE_MAX_CHARACTERS and value.isprintable()
