"""Does a list lead back to pages that were read already? One remembered position is enough to notice a circle of any length."""

from typing import Final

from remora.core.ledger.list_promises import repeated

PAGES_WITHOUT_NEWS_MAX: Final = 20
# A provider may filter a million entries out before the next one. One that says "more" for ever shows no entry at all.
EMPTY_PAGES_TOLD_MAX: Final = 10_000


class WalkCircle:
    """The positions of one walk. They never repeat by themselves: after a step back it begins anew.

    The remembered position moves on after 1, 2, 4, 8, … pages, so that a circle is closed within three rounds (Brent).
    """

    def __init__(self) -> None:
        self._remembered: str | None = None
        self._pages = 0  # since then
        self._pages_max = 1
        self._without_news = 0  # pages in a row
        self._empty = 0  # pages in a row

    def read(self, *, has_news: bool, is_empty: bool = False) -> None:
        """A page was read. `has_news`: the last few pages did not show all of its entries, or it says that more follow."""
        self._without_news = 0 if has_news else self._without_news + 1
        self._empty = self._empty + 1 if is_empty else 0

    def closes(self, following: str) -> str | None:
        """Why the walk must not go on with this position, and what to check; None if it may."""
        if self._without_news >= PAGES_WITHOUT_NEWS_MAX:
            return repeated(PAGES_WITHOUT_NEWS_MAX)
        if self._empty >= EMPTY_PAGES_TOLD_MAX:
            return (
                f"{EMPTY_PAGES_TOLD_MAX:,} pages in a row show no entries and say that more follow; "
                "check list.more, list.end and the filter in list.entries; the next run goes on behind them"
            )
        if following == self._remembered:
            return (
                "the list leads back to a page that was read before, so it has no end; check list.next_cursor or list.next, "
                "and write list.end or list.more if a field of the page tells the end"
            )
        self._pages += 1
        if self._pages == self._pages_max:
            self._remembered, self._pages, self._pages_max = following, 0, 2 * self._pages_max
        return None
