"""Which pages of a list could not be read? A walk may go on behind a page that fails, and it is not whole then."""

from dataclasses import replace
from typing import Final

import structlog

from remora.contracts.source import WalkedSource
from remora.core.ledger.run import Stop, StoppedBy
from remora.core.reasons import GapReason

log = structlog.get_logger()

# How many pages that cannot be read a walk leaves behind. If some in a row fail, it is the list that does not answer.
HOLES_MAX: Final = 100
HOLES_IN_A_ROW_MAX: Final = 3
BY_A_PAGE: Final = frozenset({StoppedBy.LIST_TROUBLE, StoppedBy.LIST_UNREADABLE, StoppedBy.LIST_REFUSED})


class Holes:
    """The pages that one walk left behind."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0
        self._in_a_row = 0
        self.first: Stop | None = None  # the first of them, and why
        self.has_read = False  # the list has answered: a page that fails is only a page
        self.is_at_end = False  # the list of the last entry cannot be read: nothing is behind it

    def page_read(self) -> None:
        """A page was read."""
        self._in_a_row, self.has_read = 0, True

    def behind(self, position: str, stop: Stop, source: WalkedSource | None) -> str | None:
        """Where the walk goes on behind a page that stopped it; None if it should not, or cannot."""
        of_the_source = stop.reason in {GapReason.UNAUTHORIZED, GapReason.MOVED} or stop.is_pressure
        if source is None or stop.by not in BY_A_PAGE or of_the_source:
            return None
        # The list of one entry of another source says nothing about the lists of the others.
        is_entry = source.capabilities.each is not None and source.ended_at(position).begins_part
        is_alone = is_entry and stop.by is not StoppedBy.LIST_TROUBLE
        if not is_alone and not self.has_read:
            return None
        if self._count >= HOLES_MAX or (not is_alone and self._in_a_row >= HOLES_IN_A_ROW_MAX):
            return None
        behind = source.position_behind(position)
        self.is_at_end = behind is None and is_entry
        if behind is None and not is_entry:
            return None
        where = source.position_in_words(position)
        log.warning("page_left_behind", source=self._source, page=where, reason=str(stop.reason))
        self._count, self._in_a_row = self._count + 1, self._in_a_row + 1
        if self.first is None:
            rest = "the list was read behind it, and every run asks for it again"
            self.first = replace(stop, by=StoppedBy.LIST_TROUBLE, why=f"{where} cannot be read ({stop.reason}); {rest}")
        return behind
