"""What must a store offer? Mirror, ledger, inbox, learned pace and small facts; each method is one transaction.

Times named `now_ns` and `*_at_ns` are wall clock unless they say monotonic.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from remora.contracts.json import Json
from remora.core.item import Entry, Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import Gap, GapState
from remora.core.ledger.list_walk import WalkState as WalkState
from remora.core.ledger.segment import Segment, SegmentKind
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Verdict

# A page ends once it holds this many bytes, however many rows were asked for: a few giants must not fill the memory.
PAGE_BYTES: Final = 16 << 20


class Outcome(StrEnum):
    """What the store did with a verdict."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    STALE = "stale"  # a newer fetch was recorded first; nothing was overwritten
    OWED = "owed"
    ABSENT = "absent"
    GONE = "gone"  # deleted upstream; the last content is kept
    DEAD = "dead"

    __hash__ = str.__hash__  # an enum's own hash runs Python code, and every outcome is counted


class Observation(msgspec.Struct, frozen=True, gc=False):
    """One answer, ready to be recorded."""

    discovery: Discovery
    verdict: Verdict
    started_at_ns: int  # wall clock at departure: an older fetch never overwrites a newer one
    now_ns: int

    @property
    def update_age_s(self) -> float | None:
        """How old an item of the update lane was when it was fetched; None if its time is missing or in the future."""
        if self.discovery.via is not Lane.UPDATE:
            return None
        thing = self.verdict.thing if isinstance(self.verdict, Found) else None
        time = thing.time if isinstance(thing, Item) else None
        if time is None or not 0 < time * SECOND_NS <= self.started_at_ns:
            return None
        return self.started_at_ns / SECOND_NS - time


class InboxEntry(msgspec.Struct, frozen=True, gc=False):
    """A discovery that waits to be fetched. Its ticket changes when the same key is announced again."""

    kind: Kind
    key: str
    ticket: int


class NewItem(msgspec.Struct, frozen=True, gc=False):
    """One of the newest items, for a preview."""

    item_id: int
    body: bytes  # empty when it is larger than was asked for
    first_seen_ns: int


class StoredItem(msgspec.Struct, frozen=True, gc=False):
    """An item as the mirror holds it."""

    item_id: int
    body: bytes
    revision: int
    first_seen_ns: int
    last_fetched_ns: int  # the last read, changed or not; for an unchanged item exact to the second
    changed_ns: int


class GapCount(msgspec.Struct, frozen=True, gc=False):
    """How many gaps share a state and a reason."""

    kind: Kind
    state: GapState
    reason: GapReason
    count: int
    oldest_ns: int
    next_ns: int  # the earliest not-before among them


class Mirror(Protocol):
    """The mirrored items, profiles and documents. Their key is (source, id) or (source, name)."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable.

        Found: the item is stored and its gap is settled. An unchanged body rewrites no item; only the second of the
        read is stored. If the content changed, the earlier revision is kept. Any other verdict:
        `core.ledger.gap.after` opens or changes the gap. In both cases the inbox entry named by the origin is removed,
        unless it was announced again meanwhile. Many calls may share one transaction.
        """

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        """The same for observations of different things: the outcomes in their order, once all are durable.

        They share one transaction, or one per writer in a store that has several. If one of them cannot be stored,
        the others are stored, and its error is raised.
        """

    async def item(self, source: str, item_id: int) -> StoredItem | None:
        """One item of the mirror."""

    async def revisions(self, source: str, item_id: int) -> Sequence[StoredItem]:
        """Earlier contents of an item, oldest first."""

    def bodies(self, source: str, *, first_id: int = 0, last_id: int | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """Raw bodies by id, in order, without holding the mirror in memory."""

    async def newest_items(self, source: str, *, first_id: int, limit: int, body_max_bytes: int) -> Sequence[NewItem]:
        """The highest ids from `first_id` on, highest first. A larger body is returned empty, to bound memory."""

    async def user(self, source: str, name: str) -> bytes | None:
        """The raw profile."""

    async def item_times(self, source: str, ids: Iterable[int]) -> Mapping[int, int]:
        """Creation times (seconds, as the source says) of those ids that are stored and have one."""

    async def newest_time(self, source: str) -> int | None:
        """A robust estimate of the source's own clock: the time of recent items, without absurd ones."""

    async def first_id_since(self, source: str, time_s: int) -> int | None:
        """The lowest id among recent items whose time is at or after `time_s`; None when there is none.

        Robust to absurd times: a single old id with a time in the future does not stretch the answer back to it.
        """


class SegmentLedger(Protocol):
    """Durable ranges and their coverage. `advance` and `release` refuse (False) an outdated fencing token."""

    async def plan(self, source: str, kind: SegmentKind, pieces: Sequence[IdRange], *, now_ns: int) -> int:
        """Add pending segments of any width, without ids that an unfinished segment of the same kind already has.

        A backfill leaves out what is covered as well: others may have covered it since the caller looked. Finished
        segments of the source are forgotten, some thousands at a time.
        """

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        """One pending (or expired) segment, in the order of `kinds`, then newest ids first; one owner.

        Of a wide segment one piece near its end is claimed (`core.ledger.segment`); the rest stays pending.
        """

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        """Move the cursor, extend the lease, add the ids to the coverage; the end of the range finishes the segment."""

    async def release(self, source: str, segment: Segment) -> bool:
        """Give the rest back, to be claimed by anyone at once."""

    async def recorded_ids(self, source: str, ids: IdRange) -> Collection[int]:
        """The ids of this short range with an item or a gap: the next owner of a segment need not ask for them."""

    async def coverage(self, source: str) -> Coverage:
        """Every id that is settled or owed. Rescans add nothing and take nothing away."""

    async def cover(self, source: str, ids: IdRange) -> None:
        """All outcomes of these ids are durable although no segment held them (live items)."""

    async def open_segments(self, source: str) -> Mapping[SegmentKind, int]:
        """Ids left to walk in unfinished segments, by kind."""

    async def retract(self, source: str, *, above: int) -> int:
        """Delete what is planned, covered and owed above this id: the source never had those ids. Items are kept.

        Returns how many rows were deleted or shortened. A worker on such a segment loses its lease.
        """


class GapLedger(Protocol):
    """What is owed."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        """Due gaps (see `core.gap.is_due`) in fair order: the longest unserved first. A lease is not an attempt.

        Expired leases count as owed; dead gaps are leased too once their slow schedule is due; absent and
        gone ones never.
        """

    async def release_gaps(self, source: str, *, owner: str) -> int:
        """Release the gaps that this owner still holds."""

    async def gaps(
        self,
        source: str,
        *,
        kind: Kind | None = None,
        state: GapState | None = None,
        reason: GapReason | None = None,
        limit: int = 1_000,
    ) -> Sequence[Gap]:
        """What is owed, oldest first; settled gaps only when asked for by state."""

    async def gap_counts(self, source: str) -> Sequence[GapCount]:
        """All gaps that are not settled, counted."""

    async def replay_gaps(
        self, source: str, *, reason: GapReason | None = None, key: str | None = None, now_ns: int
    ) -> int:
        """Make dead, absent and gone gaps owed again and every owed one due now; returns how many.

        The rest of a list (`Kind.PAGE`) is left alone: replaying items must not end a cool-down.
        """


class Inbox(Protocol):
    """Announced keys that are not fetched yet. Durable; no key is in it twice."""

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys; a key that already waits gets a new ticket. Returns the depth."""

    async def waiting(self, source: str, *, limit: int, after_ticket: int = 0) -> Sequence[InboxEntry]:
        """The oldest tickets beyond `after_ticket`."""

    async def inbox_depth(self, source: str) -> int:
        """How many keys wait."""


class PaceBook(Protocol):
    """Where the learned pace survives a restart. The record is plain JSON; `core.rate_law` checks it."""

    async def load_pace(self, source: str) -> Json:
        """What was saved last, or None."""

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Keep it, durably."""


class NoteKeeping(Protocol):
    """Small durable facts of one source (newest id, last event, last rescan)."""

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Keep it, durably. None deletes it."""


class Notes(NoteKeeping, Protocol):
    """Small durable facts, and the runtime's heartbeat."""

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        """Keep the new fact if the kept one is still the old one (None: there is none); else False, and nothing changes."""

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """The runtime is alive and this is what it sees.

        Each start is a separate runtime. Of the runtimes whose names are equal up to the last colon, those without a
        heartbeat for a long time are deleted, except for the latest few.
        """

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """(runtime, when, snapshot), newest first."""


class PageRecorded(msgspec.Struct, frozen=True, gc=False):
    """What a page of a list brought."""

    owed: int = 0  # entries that are new or newer, so that their details are owed
    back: int = 0  # entries that had vanished and are listed again, owed or not


class OwedDetail(msgspec.Struct, frozen=True, gc=False):
    """A listed entry whose detail is owed."""

    key: str
    listed_mark: str | None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as the mirror holds it; `body` is None while its detail is owed for the first time."""

    key: str
    fingerprint: str
    updated_at: str | None
    body: bytes | None
    fetched_ns: int | None
    revision: int  # 0 while there is no body
    first_seen_ns: int
    changed_ns: int | None
    vanished_ns: int | None  # since when the list no longer shows it; None: the list shows it, as far as is known
    owed: bool  # its detail must be fetched, for the first time or again


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One bounded run over a listed source."""

    run_id: int
    started_ns: int
    ended_ns: int | None = None
    stopped_by: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


class ListLedger(Protocol):
    """The ledger of listed sources."""

    async def record_page(
        self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int
    ) -> PageRecorded:
        """New or newer entries become owed details, and the walk moves, in one transaction.

        A vanished entry is listed again. If it was gone, or has no mark, its detail is owed again.
        """

    async def unlisted(self, source: str, *, walk: int, newer_than: str | None = None, limit: int) -> Sequence[str]:
        """Keys of documents that no page has shown since this walk began, without those known to have vanished.

        `newer_than`: only missing details (`not_found`) whose entries have a newer mark, because the walk ended there.
        """

    async def is_listed_from(self, source: str, second: int) -> bool:
        """Whether an entry that has not vanished has a time at or after this second as its mark."""

    async def record_vanished(self, source: str, keys: Collection[str], *, now_ns: int) -> int:
        """Record that the list no longer shows these entries; returns how many vanished now. Their gaps are due at once."""

    async def record_existing(self, source: str, keys: Collection[str], *, walk: int) -> None:
        """These entries exist although no page has shown them: they count as seen in this walk."""

    async def walk_state(self, source: str) -> WalkState:
        """The progress of the walk."""

    async def forget_walk(self, source: str) -> None:
        """Forget how far walks have come: the next one goes to the end of the list."""

    async def forget_marks(self, source: str) -> None:
        """Forget every mark, and how far walks have come: each entry that has a mark is owed when a page shows it again."""

    async def owe_details(self, source: str) -> None:
        """Owe the detail of every entry that has not vanished, and forget pieces of documents that are not whole yet."""

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Entries whose detail is owed and that have no gap of their own, newest mark first."""

    async def count_owed_details(self, source: str) -> int:
        """How many there are."""

    async def count_held_gaps(self, source: str) -> int:
        """How many items are held although their gap is not settled: their last answer was not good."""

    async def count_documents(self, source: str) -> int:
        """How many documents are known: fetched, owed, or given up."""

    async def document(self, source: str, key: str) -> StoredDocument | None:
        """One document of the mirror."""

    async def document_revisions(self, source: str, key: str) -> Sequence[StoredDocument]:
        """Earlier contents of a document, oldest first."""

    def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""

    async def key_of(self, source: str, fingerprint: str) -> str | None:
        """The document key behind a gap's key: gaps name documents by fingerprint only."""

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """A run begins. Only the latest thousand of each source are remembered."""

    async def end_run(self, source: str, run: RunRecord) -> None:
        """It ended, and why."""

    async def runs(self, source: str, *, limit: int = 20) -> Sequence[RunRecord]:
        """The latest runs, newest first."""


class Store(Mirror, SegmentLedger, GapLedger, Inbox, PaceBook, Notes, ListLedger, Protocol):
    """Everything durable. Every method is one transaction and raises only `StoreError`."""

    async def open(self) -> None:
        """Connect, refuse a database that is not ours, bring the schema up to date."""

    async def close(self) -> None:
        """Write what was accepted and close the connection."""
