"""Which pages of a list does a walk leave behind? One that fails is owed by itself, and the walk goes on behind it."""

from dataclasses import replace
from typing import Final

import structlog

from remora.collect import Asked
from remora.contracts.source import WalkedSource
from remora.core.item import Page
from remora.core.ledger.run import Stop, StoppedBy
from remora.core.ledger.unread_page import UnreadPage, followed_by, left_behind
from remora.core.reasons import GapReason
from remora.loops.listed.unread_pages import UnreadPages

log = structlog.get_logger()

# How many pages that cannot be read a walk leaves behind. If some in a row fail, it is the list that does not answer.
HOLES_MAX: Final = 100
HOLES_IN_A_ROW_MAX: Final = 3
BY_A_PAGE: Final = frozenset({StoppedBy.LIST_TROUBLE, StoppedBy.LIST_UNREADABLE, StoppedBy.LIST_REFUSED})


class Holes:
    """The pages that one walk left behind."""

    def __init__(self, source: str, pages: UnreadPages) -> None:
        self._source = source
        self._pages = pages
        self._in_a_row = 0
        self._last: tuple[str, Page] | None = None  # the page that was read last, and its position
        self._open: dict[str, UnreadPage] = {}  # no page behind them was read yet
        self._open_part = ""  # the part of the list that they are in
        self._count = 0
        self.keys: set[str] = set()  # of this walk, also those that it left behind before it was interrupted
        self.first: Stop | None = None  # the first of them, and why
        self.has_read = False  # the list has answered: a page that fails is only a page
        self.is_at_end = False  # the list of the last entry cannot be read: nothing is behind it

    def answered(self) -> None:
        """A page came."""
        self._in_a_row, self.has_read = 0, True

    def started_over(self) -> None:
        """The walk begins again. What it left behind stays owed, and the walk may well read it now."""
        self._last, self.first = None, None
        self._open.clear()
        self.keys.clear()

    async def read(self, position: str, page: Page, walked: WalkedSource | None) -> None:
        """A page was read. The pages that were left behind right before it end where it begins."""
        self._last = (position, page)
        if walked is not None and self._open and walked.first_of_part(position) == self._open_part:
            for key, unread in self._open.items():
                await self._pages.keep(key, followed_by(unread, page, first=self._open_part))
        self._open.clear()

    async def behind(self, position: str, stop: Stop, asked: Asked, walked: WalkedSource | None) -> str | None:
        """Where the walk goes on behind a page that stopped it, once that is owed; None if it should not, or cannot."""
        of_the_source = stop.reason in {GapReason.UNAUTHORIZED, GapReason.MOVED} or stop.is_pressure
        if walked is None or stop.by not in BY_A_PAGE or of_the_source:
            return None
        # The list of one entry of another source says nothing about the lists of the others.
        is_entry = walked.capabilities.each is not None and walked.ended_at(position).begins_part
        is_alone = is_entry and stop.by is not StoppedBy.LIST_TROUBLE
        if not is_alone and not self.has_read:
            return None
        if self._count >= HOLES_MAX or (not is_alone and self._in_a_row >= HOLES_IN_A_ROW_MAX):
            return None
        behind = walked.position_behind(position)
        self.is_at_end = behind is None and is_entry
        if behind is None and not is_entry:
            return None
        self._count, self._in_a_row = self._count + 1, self._in_a_row + 1
        await self._owe(position, stop, asked, walked)
        return behind

    async def _owe(self, position: str, stop: Stop, asked: Asked, walked: WalkedSource) -> None:
        where, first = walked.position_in_words(position), walked.first_of_part(position)
        before = self._last
        is_counted = walked.position_before(position) is not None  # a cursor may be too old when it is asked for again
        if before is not None and (walked.first_of_part(before[0]) != first or not is_counted):
            before = None
        if self._open_part != first:
            self._open.clear()  # they may reach to the end of their part
            self._open_part = first
        unread = left_behind(position, where, None if before is None else before[1], first=first)
        key = await self._pages.leave(first, unread, asked)
        self.keys.add(key)
        self._open[key] = unread
        log.warning("page_left_behind", source=self._source, page=where, reason=str(stop.reason))
        if self.first is None:
            rest = "the list was read behind it, and the page is asked for again on its own schedule"
            why = f"{where} cannot be read ({stop.reason}); {rest}"
            self.first = replace(stop, by=StoppedBy.LIST_TROUBLE, why=why, is_owed=True)
