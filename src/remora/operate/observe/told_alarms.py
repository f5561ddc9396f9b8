"""What did the owner last hear of each alarm? It is kept in the store: a restart repeats nothing and forgets no end."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock, Json, Notes
from remora.core.errors import StoreError
from remora.core.ledger.notes import ALARMS_TOLD_NOTE, OF_ALL_SOURCES
from remora.core.units import MINUTE_NS
from remora.operate.observe.channels import Notice

log = structlog.get_logger()

TELLING_NS: Final = MINUTE_NS  # longer than all channels take; after it, whoever began to tell is gone
TRIES_AT_MOST: Final = 10  # while other processes change the note, too

Key = tuple[str, str]  # source and alarm


class ToldAlarm(msgspec.Struct, frozen=True):
    """An alarm whose end the owner has to hear."""

    source: str
    name: str
    text: str
    telling_at_ns: int | None = None  # since when it, or its end, is being told; None: the owner knows that it lasts


class Telling(Enum):
    """What became of a notice."""

    TOLD = auto()
    FAILED = auto()
    NO_NEWS = auto()  # the owner knows it
    LATER = auto()  # another process tells it just now


class ToldAlarms:
    """The alarms that the owner believes to last, the same for all processes of one store.

    Before an alarm or its end is told, it is kept that it is being told; afterwards, what came of it. So a kill at any moment
    repeats one notice at most, and of several processes one tells.
    """

    def __init__(self, store: Notes, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[Key, ToldAlarm] = {}  # as of the last look; all there is while the store is away
        self._unkept: dict[Key, ToldAlarm | None] = {}  # what the store could not keep yet; None: it is over

    async def all(self) -> Mapping[Key, ToldAlarm]:
        """What was told and is not over, also by earlier processes."""
        await self._read()
        return self._known

    async def tell(self, notice: Notice, send: Callable[[Notice], Awaitable[bool]]) -> Telling:
        """Tell what the owner does not know yet. An alarm is told although the store is away."""
        key = (notice.source, notice.name)
        try:
            found = await self._claim(notice)
        except StoreError:
            found = self._judged(notice)
        if found is not Telling.TOLD:
            return found
        before = self._known.get(key)
        is_told = await send(notice)
        lasts = ToldAlarm(notice.source, notice.name, notice.text) if notice.state == "firing" else None
        self._unkept[key] = lasts if is_told else before
        self._known = _with(self._known, self._unkept)
        await self.keep()
        return Telling.TOLD if is_told else Telling.FAILED

    async def keep(self) -> None:
        """Make durable what is not yet. While the store is away it is held here."""
        with suppress(StoreError):
            for _ in range(TRIES_AT_MOST):
                if not self._unkept or await self._write(await self._read(), {}):
                    self._unkept.clear()
                    return

    async def _claim(self, notice: Notice) -> Telling:
        key = (notice.source, notice.name)
        for _ in range(TRIES_AT_MOST):
            note = await self._read()
            if (judged := self._judged(notice)) is not Telling.TOLD:
                return judged
            telling = ToldAlarm(notice.source, notice.name, notice.text, self._clock.wall_ns())
            if await self._write(note, {key: telling}):
                self._unkept.clear()
                return Telling.TOLD
        return Telling.LATER

    def _judged(self, notice: Notice) -> Telling:
        """Whether it is to be told, by what is known now."""
        known = self._known.get((notice.source, notice.name))
        if known is not None and known.telling_at_ns is not None:
            is_young = abs(self._clock.wall_ns() - known.telling_at_ns) < TELLING_NS
            return Telling.LATER if is_young else Telling.TOLD
        return Telling.NO_NEWS if (known is not None) == (notice.state == "firing") else Telling.TOLD

    async def _read(self) -> Json:
        """Look at the note; returns it as it is. One that cannot be read is deleted: an alarm told twice is the lesser evil."""
        note = await self._store.note(OF_ALL_SOURCES, ALARMS_TOLD_NOTE)
        try:
            found = msgspec.convert(note or [], tuple[ToldAlarm, ...])
        except msgspec.ValidationError:
            log.warning("alarms_told_not_read")
            await self._store.keep_note(OF_ALL_SOURCES, ALARMS_TOLD_NOTE, None)
            note, found = None, ()
        self._known = _with({(each.source, each.name): each for each in found}, self._unkept)
        return note

    async def _write(self, old: Json, more: Mapping[Key, ToldAlarm]) -> bool:
        """Whether it is kept; not if another process was faster."""
        new: Json = [msgspec.to_builtins(each) for each in _with(self._known, more).values()]
        return await self._store.swap_note(OF_ALL_SOURCES, ALARMS_TOLD_NOTE, old=old, new=new)


def _with(known: Mapping[Key, ToldAlarm], changed: Mapping[Key, ToldAlarm | None]) -> dict[Key, ToldAlarm]:
    after = {**known, **changed}
    return {key: each for key, each in after.items() if each is not None}
