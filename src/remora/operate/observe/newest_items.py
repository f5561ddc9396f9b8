"""What came in lately? The newest public items the mirror holds, as short lines for the console.

Only for sources whose items are public. All others may be private: nothing of them is ever shown.
"""

import asyncio
import html
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from remora.contracts import Clock, Store
from remora.core.errors import StoreError
from remora.core.status.model import Covered, Status
from remora.core.texts import printable
from remora.core.units import SECOND_NS
from remora.read.plain_text import one_line

SHOWN: Final = 8
# Not all of the newest ids are stored yet: look a little further back.
LOOK_BACK_IDS: Final = 40
READ_EVERY_NS: Final = 2 * SECOND_NS
TEXT_CHARACTERS_MAX: Final = 200
# Larger bodies are not read for a line of text. At most eight bodies are in memory at once.
BODY_BYTES_MAX: Final = 256 << 10
PARAGRAPHS: Final = re.compile(r"<p>|<pre>", re.IGNORECASE)
TAGS: Final = re.compile(r"<[^<>]*>")


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One item as the console lists it: plain text, never markup."""

    id: int
    type: str | None = None
    by: str | None = None
    text: str | None = None  # the title, or the beginning of the text
    state: str | None = None  # dead or deleted upstream
    time_s: int | None = None  # as the source says
    seen_s: float | None = None  # when the mirror first held it


class _Body(msgspec.Struct, frozen=True):
    type: object = None
    by: object = None
    title: object = None
    text: object = None
    time: object = None
    dead: object = None
    deleted: object = None


class NewestItems:
    """The newest items, read at most every two seconds however many viewers there are."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at_ns: int | None = None
        self._latest: dict[str, tuple[Arrival, ...]] = {}

    async def latest(self, status: Status) -> Mapping[str, tuple[Arrival, ...]]:
        """The newest items by source, newest first. While the store does not answer, the last reading."""
        async with self._reading:
            now_ns = self._clock.monotonic_ns()
            if self._read_at_ns is None or now_ns - self._read_at_ns >= READ_EVERY_NS:
                self._read_at_ns = now_ns
                try:
                    self._latest = {name: await self._read(name, newest) for name, newest in _public(status)}
                except StoreError:
                    return self._latest  # the status already shows that the store is unreachable
            return self._latest

    async def _read(self, source: str, newest_id: int) -> tuple[Arrival, ...]:
        known = {arrival.id: arrival for arrival in self._latest.get(source, ())}
        found = await self._store.newest_items(
            source, first_id=max(1, newest_id - LOOK_BACK_IDS), limit=SHOWN, body_max_bytes=BODY_BYTES_MAX
        )
        return tuple(
            known.get(item.item_id) or describe(item.item_id, item.body, seen_s=item.first_seen_ns / SECOND_NS)
            for item in found
        )


def describe(item_id: int, body: bytes, *, seen_s: float | None = None) -> Arrival:
    """An item in one line. Odd bodies give less text; none is an error."""
    try:
        found = msgspec.json.decode(body, type=_Body) if len(body) <= BODY_BYTES_MAX else _Body()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = _Body()
    return Arrival(
        id=item_id,
        type=_word(found.type),
        by=_word(found.by),
        text=_plain(found.title, found.text),
        state="deleted" if found.deleted is True else "dead" if found.dead is True else None,
        time_s=found.time if type(found.time) is int else None,
        seen_s=seen_s,
    )


def _public(status: Status) -> Iterable[tuple[str, int]]:
    for name, source in status.sources.items():
        if source.is_public and isinstance(source.coverage, Covered):
            yield name, source.coverage.max_id


def _word(value: object) -> str | None:
    return printable(value[:TEXT_CHARACTERS_MAX]) if isinstance(value, str) else None


def _plain(title: object, text: object) -> str | None:
    if isinstance(title, str) and title:
        return _short(title)
    if isinstance(text, str) and text:
        return _short(html.unescape(TAGS.sub("", PARAGRAPHS.sub(" ", text[: 8 * TEXT_CHARACTERS_MAX]))))
    return None


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[: TEXT_CHARACTERS_MAX - 1]}…"
