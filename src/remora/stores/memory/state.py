"""What does the memory store hold? One value with every table, shared by its parts."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from remora.contracts import InboxEntry, RunRecord, StoredDocument, StoredItem, WalkState
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap
from remora.core.ledger.segment import SegmentKind, SegmentState
from remora.stores.decisions import Held


@dataclass(slots=True)
class ItemRow:
    stored: StoredItem
    held: Held
    time_s: int | None
    read_ns: int = 0  # the last read that found it unchanged


@dataclass(slots=True)
class UserRow:
    body: bytes
    held: Held


@dataclass(slots=True)
class DocumentRow:
    fingerprint: str
    listed_mark: str | None = None
    listed_ns: int | None = None
    seen_in_walk: int = 0
    vanished_ns: int | None = None
    first_seen_ns: int = 0
    changed_ns: int | None = None
    owed: bool = True
    updated_at: str | None = None
    body: bytes | None = None
    fetched_ns: int | None = None
    held: Held | None = None

    def stored(self, key: str) -> StoredDocument:
        """The document as the contract defines it."""
        return StoredDocument(
            key=key,
            fingerprint=self.fingerprint,
            updated_at=self.updated_at if self.body is not None else self.listed_mark,
            body=self.body,
            fetched_ns=self.fetched_ns,
            revision=self.held.revision if self.held else 0,
            first_seen_ns=self.first_seen_ns,
            changed_ns=self.changed_ns,
            vanished_ns=self.vanished_ns,
            owed=self.owed,
        )


@dataclass(slots=True)
class GapRow:
    gap: Gap
    served_turn: int
    owner: str | None = None
    lease_until_ns: int = 0


@dataclass(slots=True)
class SegmentRow:
    segment_id: int
    kind: SegmentKind
    ids: IdRange
    cursor: int
    state: SegmentState = SegmentState.PENDING
    fence: int = 0
    owner: str = ""
    lease_until_ns: int = 0


@dataclass(slots=True)
class Tables:
    """Every table of the memory store."""

    items: dict[str, dict[int, ItemRow]] = field(default_factory=lambda: defaultdict(dict))  # by source
    item_ids: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # by source, sorted
    revisions: dict[tuple[str, int], list[StoredItem]] = field(default_factory=dict)
    users: dict[tuple[str, str], UserRow] = field(default_factory=dict)
    documents: dict[tuple[str, str], DocumentRow] = field(default_factory=dict)
    document_revisions: dict[tuple[str, str], list[StoredDocument]] = field(default_factory=dict)
    gaps: dict[tuple[str, Kind, str], GapRow] = field(default_factory=dict)
    open_gaps: dict[tuple[str, Kind, str], GapRow] = field(default_factory=dict)  # only those that are not settled
    turn: int = 0
    segments: dict[str, list[SegmentRow]] = field(default_factory=dict)
    segment_ids: "count[int]" = field(default_factory=lambda: count(1))
    coverage: dict[str, Coverage] = field(default_factory=dict)
    inbox: dict[tuple[str, Kind, str], InboxEntry] = field(
        default_factory=dict
    )  # in ticket order, because dictionaries keep order
    tickets: "count[int]" = field(default_factory=lambda: count(1))
    pace: dict[str, str] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)
    heartbeats: dict[str, tuple[int, str]] = field(default_factory=dict)
    walks: dict[str, WalkState] = field(default_factory=dict)
    runs: dict[str, list[RunRecord]] = field(default_factory=dict)
    run_ids: "count[int]" = field(default_factory=lambda: count(1))


class MemoryPart:
    """A part of the memory store. No method awaits anything, so each is one transaction."""

    def __init__(self) -> None:
        self._tables = Tables()
