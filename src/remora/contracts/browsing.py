"""What must a store offer to people who browse the mirror? Short lists in an order, each bounded in rows and in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remora.contracts.reader import Change, MirroredItem, Reader, Revision
from remora.core.errors import RemoraError


class ReadTooSlow(RemoraError):
    """A read was stopped because it took too long. The mirror and its writer are not disturbed."""


def too_slow(seconds_max: float) -> ReadTooSlow:
    """The error for a read that took too long."""
    return ReadTooSlow(
        f"the read took longer than {seconds_max:g} seconds and was stopped",
        hint="ask for less: a shorter time, another order, or one author or domain less",
    )


@dataclass(frozen=True, slots=True)
class StoryList:
    """Which stories are wanted, and what comes first."""

    type: str  # story, job or poll
    since_s: int
    until_s: int
    by_score: bool  # the highest score first; otherwise the newest first
    title_prefix: str | None = None
    skip: int = 0
    limit: int = 30


@dataclass(frozen=True, slots=True)
class MirroredGap:
    """One thing that is owed, dead, absent or gone."""

    source: str
    kind: str
    key: str  # a document is named by its fingerprint
    document_key: str | None
    state: str
    reason: str
    attempts: int
    first_seen_ns: int
    last_seen_ns: int
    not_before_ns: int


@dataclass(frozen=True, slots=True)
class WaitingIds:
    """A range of ids that a walk has not asked for yet, both ends included."""

    kind: str  # backfill, rescan or repair
    first_id: int
    last_id: int


@dataclass(frozen=True, slots=True)
class Announced:
    """A change that was announced and is not fetched yet."""

    kind: str
    key: str
    announced_ns: int


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What the ledger knows about a document, besides its body."""

    first_seen_ns: int
    changed_ns: int | None
    vanished_ns: int | None  # since when the list does not show it any more
    revision: int
    is_owed: bool
    is_gone: bool  # deleted upstream; the last content is kept


class BrowsingReader(Reader, Protocol):
    """A reader with the lists that a person looks at. Every read ends in time or raises `ReadTooSlow`."""

    async def stories(self, source: str, wanted: StoryList) -> Sequence[MirroredItem]:
        """Stories of one type and time. Dead and deleted ones are left out."""

    async def newest_items(self, source: str, *, before_id: int, limit: int) -> Sequence[MirroredItem]:
        """The items with the highest ids below one."""

    async def items_by(
        self, source: str, author: str, *, comments: bool, skip: int, limit: int
    ) -> Sequence[MirroredItem]:
        """What an author wrote, the newest first: comments, or everything else."""

    async def stories_of(self, source: str, ids: Sequence[int]) -> Mapping[int, MirroredItem]:
        """The story above each of these comments, where the mirror holds the whole way up."""

    async def gaps(self, source: str, *, kind: str, state: str, limit: int) -> Sequence[MirroredGap]:
        """Gaps of one state. What is being asked for now counts as owed."""

    async def owed_documents(self, source: str, *, limit: int) -> Sequence[tuple[str, str | None]]:
        """Documents whose detail is owed, with the mark that the list shows."""

    async def waiting_ids(self, source: str, *, limit: int) -> Sequence[WaitingIds]:
        """The ids that unfinished walks have still to ask for, the lowest first."""

    async def announced(self, source: str, *, limit: int) -> Sequence[Announced]:
        """Announced changes that are not fetched yet, by key."""

    async def latest_changes(self, source: str, *, limit: int) -> Sequence[Change]:
        """The newest lines of the change feed, the newest first. Only the last ten thousand are looked at."""

    async def document_facts(self, source: str, key: str) -> DocumentFacts | None:
        """What the ledger knows about a document."""

    async def document_revisions(self, source: str, key: str) -> Sequence[Revision]:
        """Earlier contents of a document, oldest first."""
