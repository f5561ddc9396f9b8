"""What must a Clock, Transport, Source, Store, PaceBook and Meter offer? The seams, each with its promise.

Every implementation of a seam passes the same behaviour suite (`tests/contract`). Times named `now_ns` and `*_at_ns` in
the store's contracts are wall clock unless they say monotonic.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from remora.core.coverage import Coverage, IdRange
from remora.core.discovery import Discovery, Kind
from remora.core.gap import Gap, GapState
from remora.core.item import Decoded, Entry
from remora.core.list_walk import WalkState as WalkState
from remora.core.priority import Lane
from remora.core.reasons import GapReason
from remora.core.segment import Segment, SegmentKind
from remora.core.verdict import NoReply, Reply, Verdict

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class Clock(Protocol):
    """The only source of time."""

    def monotonic_ns(self) -> int:
        """Never goes back, knows nothing of dates."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970. Never goes back within one process, whatever the system clock does."""

    async def sleep_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment, as close to it as the event loop allows, never before."""


class Permit(Protocol):
    """The right to send one request. The transport is reachable only with one."""

    async def depart(self) -> int:
        """Called when the connection is ready, right before the request is written; returns the departure (monotonic).

        Returns at once while the permit is fresh. A permit that went stale over a slow connect is forfeited here and
        waits in the gate again, so that what leaves the wire is spaced, not only what was allowed.
        """

    def sent(self) -> None:
        """The request is on the wire. A request that never got there says so by giving its permit back."""


class Transport(Protocol):
    """One HTTP exchange."""

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send exactly one request and give what came back, or why nothing did. Never raises for the provider."""

    def stream(self, url: str) -> AsyncIterator[bytes]:
        """The raw bytes of an event stream until it ends or breaks (`StreamBroken`). Has its own back-off elsewhere."""


class StreamBroken(Exception):
    """The event stream could not be opened, broke, was silent for too long, or led to a foreign host."""

    def __init__(self, reason: str, *, wait_ns: int = 0) -> None:
        """`wait_ns` is how long the provider asks to wait before the next connect."""
        super().__init__(reason)
        self.reason = reason
        self.wait_ns = wait_ns


class Source(Protocol):
    """A provider: where its things are, and what its bodies mean."""

    @property
    def name(self) -> str: ...

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one thing."""

    def decode(self, discovery: Discovery, body: bytes) -> Decoded:
        """What the body holds. Pure and tolerant: an oddity is counted, never fatal."""


class StreamingSource(Source, Protocol):
    """A numbered source with a stream of changes."""

    def updates(self) -> AsyncIterator[bytes]:
        """Raw bytes of the stream of changed ids."""

    def newest_ids(self) -> AsyncIterator[bytes]:
        """Raw bytes of the stream of the newest id."""


class Outcome(StrEnum):
    """What the store did with a verdict."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    STALE = "stale"  # a newer fetch was recorded first; nothing was overwritten
    OWED = "owed"
    ABSENT = "absent"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer, ready to be recorded."""

    discovery: Discovery
    verdict: Verdict
    started_at_ns: int  # wall clock at departure: an older fetch never overwrites a newer one
    now_ns: int


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A discovery that waits. Its ticket changes when the same key is announced again."""

    kind: Kind
    key: str
    ticket: int


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the mirror holds it."""

    item_id: int
    body: bytes
    revision: int
    first_seen_ns: int
    last_fetched_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class GapCount:
    """How many gaps share a state and a reason."""

    kind: Kind
    state: GapState
    reason: GapReason
    count: int
    oldest_ns: int
    next_ns: int  # the earliest not-before among them


class Mirror(Protocol):
    """The copy itself."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable.

        Found: the item is stored (unchanged bodies change no row, changed content keeps the earlier revision) and its gap
        is settled. Anything else: the gap is opened or moved by `core.gap.after`. In both cases the inbox entry named
        by the origin is removed, unless it was announced again meanwhile. Many calls may share one transaction.
        """

    async def item(self, item_id: int) -> StoredItem | None:
        """One item of the mirror."""

    async def revisions(self, item_id: int) -> Sequence[StoredItem]:
        """Earlier contents of an item, oldest first."""

    def bodies(self, *, first_id: int = 0, last_id: int | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """Raw bodies by id, in order, without holding the mirror in memory."""

    async def user(self, name: str) -> bytes | None:
        """The raw profile."""

    async def item_times(self, ids: Iterable[int]) -> Mapping[int, int]:
        """Creation times (seconds, as the source says) of those ids that are held and have one."""

    async def newest_time(self) -> int | None:
        """A robust reading of the source's own clock: the time of recent items, absurd ones ignored."""

    async def first_id_since(self, time_s: int) -> int | None:
        """The lowest id among recent items whose time is at or after `time_s`; None when there is none.

        Robust to absurd times: a single old id with a time in the future does not stretch the answer back to it.
        """


class SegmentLedger(Protocol):
    """Durable ranges and what they have covered. `advance` and `release` are refused (False) by an outdated fence."""

    async def plan(self, source: str, kind: SegmentKind, pieces: Sequence[IdRange], *, now_ns: int) -> int:
        """Add pending segments, leaving out ids that an unfinished segment of the same kind already has."""

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        """One pending (or expired) segment, in the order of `kinds`, then newest ids first; one statement, one owner."""

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        """Move the cursor, extend the lease, add the ids to the coverage; the end of the range finishes the segment."""

    async def release(self, source: str, segment: Segment) -> bool:
        """Give the rest back, to be claimed by anyone at once."""

    async def coverage(self, source: str) -> Coverage:
        """Every id that is settled or owed. Rescans add nothing and take nothing away."""

    async def cover(self, source: str, ids: IdRange) -> None:
        """All outcomes of these ids are durable although no segment held them (live items)."""

    async def open_segments(self, source: str) -> Mapping[SegmentKind, int]:
        """Ids left to walk in unfinished segments, by kind."""


class GapLedger(Protocol):
    """What is owed."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        """Due gaps (see `core.gap.is_due`) in fair order: longest not served first. Leases, not attempts.

        Expired leases count as owed; dead gaps are leased too once their slow schedule is due; absent ones never.
        """

    async def release_gaps(self, source: str, *, owner: str) -> int:
        """Give back what this owner still holds."""

    async def gaps(
        self, source: str, *, state: GapState | None = None, reason: GapReason | None = None, limit: int = 1_000
    ) -> Sequence[Gap]:
        """What is owed, oldest first; settled gaps only when asked for by state."""

    async def gap_counts(self, source: str) -> Sequence[GapCount]:
        """All gaps that are not settled, counted."""

    async def replay_gaps(
        self, source: str, *, reason: GapReason | None = None, key: str | None = None, now_ns: int
    ) -> int:
        """Make dead and absent gaps owed again and every owed one due now; returns how many.

        The rest of a list (`Kind.PAGE`) is left alone: replaying items must not end a cool-down.
        """


class Inbox(Protocol):
    """Discovered, not yet collected. Durable; no key is in it twice."""

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys; one that waits already gets a new ticket. Returns the depth."""

    async def waiting(self, source: str, *, limit: int, after_ticket: int = 0) -> Sequence[InboxEntry]:
        """The oldest tickets beyond `after_ticket`."""

    async def inbox_depth(self, source: str) -> int:
        """How many keys wait."""


class PaceBook(Protocol):
    """Where the learned pace outlives the process. The record is plain JSON; `core.rate_law` judges it."""

    async def load_pace(self, source: str) -> Json:
        """What was saved last, or None."""

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Keep it, durably."""


class Notes(Protocol):
    """Small durable facts of one source (newest id, last event, last rescan), and the runtime's heartbeat."""

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Keep it, durably."""

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """The runtime is alive and this is what it sees.

        Each start is a runtime of its own: of those named alike up to the last colon, what fell silent long ago is
        forgotten, but for the latest few.
        """

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """(runtime, when, snapshot), newest first."""


@dataclass(frozen=True, slots=True)
class OwedDetail:
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

    async def record_page(self, source: str, entries: Sequence[Entry], state: WalkState, *, now_ns: int) -> int:
        """Entries that are new or newer become owed details, and the walk moves, in one transaction. Returns how many."""

    async def walk_state(self, source: str) -> WalkState:
        """Where the walk stands."""

    async def owed_details(self, source: str, *, limit: int) -> Sequence[OwedDetail]:
        """Entries whose detail is owed and that have no gap of their own, newest mark first."""

    async def count_owed_details(self, source: str) -> int:
        """How many."""

    async def document(self, source: str, key: str) -> StoredDocument | None:
        """One document of the mirror."""

    def documents(self, source: str) -> AsyncIterator[StoredDocument]:
        """All documents that have a body, by key."""

    async def key_of(self, source: str, fingerprint: str) -> str | None:
        """The locator behind a gap's key: gaps name documents by fingerprint only."""

    async def start_run(self, source: str, *, now_ns: int) -> int:
        """A run begins."""

    async def end_run(self, source: str, run: RunRecord) -> None:
        """It ended, and why."""

    async def runs(self, source: str, *, limit: int = 20) -> Sequence[RunRecord]:
        """The latest runs, newest first."""


class Store(Mirror, SegmentLedger, GapLedger, Inbox, PaceBook, Notes, ListLedger, Protocol):
    """Everything durable. Every method is one transaction and raises only `StoreError`."""

    async def open(self) -> None:
        """Connect, refuse what is not ours, bring the schema up to date."""

    async def close(self) -> None:
        """Flush what was accepted and let go."""


class Meter(Protocol):
    """What is counted. Never an id, a title or a URL."""

    def departed(self, source: str, lane: Lane) -> None:
        """A permit was used."""

    def wire_sent(self, source: str) -> None:
        """A request is written to a connection, dead or alive. Always equal to the departures."""

    def judged(self, source: str, lane: Lane, verdict: Verdict) -> None:
        """An answer was classified."""

    def recorded(self, source: str, lane: Lane, outcome: Outcome, *, age_s: float | None) -> None:
        """An outcome is durable; `age_s` is how old the item is, where known."""

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        """The learned pace moved."""

    def circuit_changed(self, source: str, state: str) -> None:
        """The circuit moved."""
