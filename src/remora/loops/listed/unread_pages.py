"""How does a page of a list become owed, and how does that end? With a gap of its own and a note, in an order that loses none."""

from collections.abc import Collection
from typing import Final

import structlog

from remora.collect import Asked, Collector
from remora.contracts import Clock, Store
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.ledger.notes import FULL_WALK_NOTE
from remora.core.ledger.unread_page import UnreadPage
from remora.core.verdict import Found
from remora.loops.listed.owed_pages import note_name, owed_pages, read_note, written

log = structlog.get_logger()

READ: Final = Found(Page(entries=(), next_position=None))


class UnreadPages:
    """The pages of one source's list that could not be read."""

    def __init__(self, source: str, collector: Collector, store: Store, *, clock: Clock) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock

    async def leave(self, first: str, unread: UnreadPage, asked: Asked) -> str:
        """Owe a page, or count one more attempt. The note comes first: a gap without one could not be read. Its key."""
        # The list moves: the same page number with other neighbours is another page, and must not replace this one.
        key = fingerprint(self._source, "\n".join((first, unread.words, unread.above or "")))
        await self.keep(key, unread)
        await self._collector.record(Discovery(Kind.UNREAD_PAGE, key, Lane.WALK), asked)
        return key

    async def keep(self, key: str, unread: UnreadPage) -> None:
        """Keep what is known about it."""
        await self._store.keep_note(self._source, note_name(key), written(unread))

    async def unread(self, key: str) -> UnreadPage | None:
        """What is known about it."""
        return read_note(await self._store.note(self._source, note_name(key)))

    async def settle(self, discovery: Discovery) -> None:
        """It was read. The gap ends before its note does."""
        await self._collector.record(discovery, Asked(READ, self._clock.wall_ns(), 0))
        await self._store.keep_note(self._source, note_name(discovery.key), None)
        log.info("page_read", source=self._source)

    async def settle_but(self, keys: Collection[str]) -> None:
        """A walk has read the whole list but these pages: what was owed elsewhere has been read."""
        for owed in await owed_pages(self._store, self._source):
            if owed.gap.key not in keys:
                await self.settle(Discovery(Kind.UNREAD_PAGE, owed.gap.key, Lane.WALK))

    async def ask_for_full_walk(self) -> None:
        """The next walk reads the whole list."""
        await self._store.keep_note(self._source, FULL_WALK_NOTE, None)
