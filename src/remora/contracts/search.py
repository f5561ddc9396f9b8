"""What must a search index offer? Entries written from the mirror, and keys found by words and filters.

The index is separate from the mirror and only derived from it: it may lag, be missing, or be rebuilt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SearchOrder(StrEnum):
    """What comes first."""

    RELEVANCE = "relevance"
    TIME = "time"  # the newest
    SCORE = "score"  # the highest


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """A word, or several words in a row. An excluded term must not occur."""

    text: str
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for. Every part that is given must match."""

    terms: tuple[SearchTerm, ...] = ()
    by: str | None = None
    type: str | None = None
    domain: str | None = None
    since_s: int | None = None
    until_s: int | None = None
    score_above: int | None = None

    @property
    def has_words(self) -> bool:
        """Whether a word must occur: a query may consist of filters only."""
        return any(not term.is_excluded for term in self.terms)

    @property
    def has_filters(self) -> bool:
        """Whether anything but words is asked for."""
        filters = (self.by, self.type, self.domain, self.since_s, self.until_s, self.score_above)
        return any(value is not None for value in filters)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One item or document as the index takes it."""

    source: str
    kind: str
    key: str
    title: str
    text: str
    type: str | None = None
    by: str | None = None
    domain: str | None = None
    time_s: int | None = None
    score: int | None = None


@dataclass(frozen=True, slots=True)
class IndexSize:
    """How large the index is."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """What the filters of a query ask for, of one entry."""

    type: str | None
    by: str | None
    domain: str | None
    time_s: int | None
    score: int | None


class SearchIndex(Protocol):
    """The index of one mirror."""

    async def exists(self) -> bool:
        """Whether it was built, at least in part."""

    async def open(self, *, to_write: bool) -> None:
        """Open it. For writing it is created if needed, and this process has it exclusively."""

    async def close(self) -> None:
        """Close it."""

    async def progress(self) -> str | None:
        """The progress that the last `write` stored; None for a new index."""

    async def write(self, entries: Sequence[IndexEntry], *, before: str | None, after: str) -> None:
        """Add or replace entries and store the new progress, in one transaction.

        Refused (`StoreBusy`) unless the progress is still `before`: two writers never mix.
        """

    async def find(
        self, query: SearchQuery, *, source: str | None, order: SearchOrder, limit: int
    ) -> Sequence[tuple[str, str, str]]:
        """Source, kind and key of what matches, best first."""

    async def columns(self, keys: Sequence[tuple[str, str, str]]) -> Sequence[EntryColumns]:
        """The columns of the entries with these sources, kinds and keys, in any order."""

    async def size(self) -> IndexSize:
        """How large it is."""

    async def clear(self) -> None:
        """Delete everything: the next build starts from the beginning."""
