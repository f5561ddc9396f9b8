"""What must a store offer to callers that only read? Short reads of the mirror and of the change feed, as values.

A reader never writes and never waits for the writer. Every method is one short read, so that a slow caller does not
hold up the writer's housekeeping.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from remora.contracts.store import PAGE_BYTES

# The texts and bytes in one answer to a query: it is held in memory as a whole, and each form of it once more.
ANSWER_BYTES_MAX: Final = 256 << 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ns: int) -> datetime:
    """A moment in nanoseconds since 1970 as a date, in UTC."""
    return _EPOCH + timedelta(microseconds=time_ns // 1_000)


def parsed(body: bytes) -> Mapping[str, Any]:
    """The fields of a body. A body that is not a JSON object has none."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


@dataclass(frozen=True, slots=True)
class MirroredSource:
    """A source with content in the mirror."""

    name: str
    is_listed: bool  # it has documents by key; otherwise it has items by number


@dataclass(frozen=True, slots=True)
class MirroredItem:
    """A numbered item as the mirror holds it. `body` is what the provider sent, byte for byte."""

    source: str
    id: int
    body: bytes
    type: str | None
    by: str | None
    time: int | None  # seconds since 1970, as the provider says; may be absurd
    parent: int | None
    score: int | None
    descendants: int | None
    dead: bool
    deleted: bool
    revision: int
    first_seen_ns: int
    last_fetched_ns: int
    changed_ns: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """Every field that the provider sent."""
        return parsed(self.body)

    @property
    def title(self) -> str | None:
        """The field `title`, if it is text."""
        return _text(self.fields, "title")

    @property
    def text(self) -> str | None:
        """The field `text`, if it is text. Hacker News sends HTML."""
        return _text(self.fields, "text")

    @property
    def url(self) -> str | None:
        """The field `url`, if it is text."""
        return _text(self.fields, "url")

    @property
    def kids(self) -> tuple[int, ...]:
        """The ids of its direct replies, in the provider's order."""
        kids = self.fields.get("kids")
        return tuple(kid for kid in kids if type(kid) is int) if isinstance(kids, list) else ()

    @property
    def created_at(self) -> datetime | None:
        """When the provider says it was created; None if it does not say, or says something absurd."""
        try:
            return None if self.time is None else datetime.fromtimestamp(self.time, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def first_seen_at(self) -> datetime:
        """When it was first stored."""
        return moment(self.first_seen_ns)

    @property
    def is_second_hand(self) -> bool:
        """It came from a dump: the provider itself was never asked for it."""
        return self.last_fetched_ns == 0

    @property
    def last_fetched_at(self) -> datetime | None:
        """When it was last read from the provider, changed or not; None if it came from a dump."""
        return None if self.is_second_hand else moment(self.last_fetched_ns)

    @property
    def changed_at(self) -> datetime:
        """When its body last changed."""
        return moment(self.changed_ns)


@dataclass(frozen=True, slots=True)
class Revision:
    """The content that an item had at some time. The last one of a history is the current one."""

    number: int  # from 1
    body: bytes
    changed_ns: int
    last_fetched_ns: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """Every field that the provider sent."""
        return parsed(self.body)

    @property
    def changed_at(self) -> datetime:
        """When this content was first seen."""
        return moment(self.changed_ns)


@dataclass(frozen=True, slots=True)
class MirroredUser:
    """A profile as the mirror holds it."""

    source: str
    name: str
    body: bytes
    last_fetched_ns: int
    changed_ns: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """Every field that the provider sent."""
        return parsed(self.body)


@dataclass(frozen=True, slots=True)
class MirroredDocument:
    """An entry of a listed source as the mirror holds it. `body` is None until its detail was fetched once."""

    source: str
    key: str
    body: bytes | None
    updated_at: str | None  # the provider's own update mark
    fetched_ns: int | None
    revision: int = 1
    changed_ns: int | None = None
    vanished_ns: int | None = None  # since when the list does not show it any more
    is_gone: bool = False  # deleted upstream; the last content is kept

    @property
    def fields(self) -> Mapping[str, Any]:
        """Every field that the provider sent."""
        return {} if self.body is None else parsed(self.body)


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the change feed. Keep `position` to read on after it."""

    position: str
    source: str
    kind: str  # item, user or document
    key: str
    change: str  # new, changed, gone; documents also: vanished, listed (shown again)
    changed_ns: int

    @property
    def changed_at(self) -> datetime:
        """When the store wrote it."""
        return moment(self.changed_ns)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool  # there were more rows than were asked for


def is_cut_by_size(documents: "Sequence[MirroredDocument]") -> bool:
    """Whether a page ended because of its size: there may be more, even if it is shorter than asked for."""
    return sum(len(document.body or b"") for document in documents) >= PAGE_BYTES


# The columns of a page of items. Moments are milliseconds; `time` is in seconds.
ITEM_ROW: Final = (
    "id", "type", "by", "time", "parent", "score", "descendants", "dead", "deleted", "first_seen_at", "last_fetched_at",
    "changed_at", "revision", "body",
)  # fmt: skip
# A page of items, column by column: whoever reads millions has no time for an object per item.
ItemColumns = Mapping[str, Sequence[Any]]


class Reader(Protocol):
    """The mirror, for callers that only read it."""

    async def open(self) -> None:
        """Connect; refuse a database that is not a mirror, and an unfinished copy of one."""

    async def close(self) -> None:
        """Close the connection."""

    async def sources(self) -> Sequence[MirroredSource]:
        """Every source with content in the mirror, by name."""

    async def items(self, source: str, ids: Sequence[int]) -> Sequence[MirroredItem]:
        """The items of these ids that the mirror has, by id."""

    async def item_page(
        self, source: str, *, first_id: int, last_id: int, changed_since_ns: int, limit: int
    ) -> Sequence[MirroredItem]:
        """The next items by id, fewer if they are large. Those that did not change since that time are left out."""

    async def item_columns(
        self, source: str, *, first_id: int, last_id: int, changed_since_ns: int, limit: int
    ) -> ItemColumns:
        """The same page by columns; see `ITEM_ROW`. No ids in it: there are no more."""

    async def replies(self, source: str, parents: Sequence[int], *, limit: int) -> Sequence[MirroredItem]:
        """The items that name one of these as their parent, by parent and id."""

    async def revisions(self, source: str, item_id: int) -> Sequence[Revision]:
        """Earlier contents of an item, oldest first."""

    async def revised_ids(self, source: str, *, after_id: int, limit: int) -> Sequence[int]:
        """The next ids of items that have earlier contents."""

    async def earlier_items(
        self, source: str, ids: Sequence[int], *, changed_since_ns: int, after: tuple[int, int]
    ) -> Sequence[tuple[int, Revision]]:
        """The next earlier contents of these items, by id and number, fewer if large. Those older than that are left out."""

    async def user(self, source: str, name: str) -> MirroredUser | None:
        """One profile."""

    async def document(self, source: str, key: str) -> MirroredDocument | None:
        """One document, also one whose detail is still owed."""

    async def document_page(
        self, source: str, *, after: str, fetched_since_ns: int, limit: int
    ) -> Sequence[MirroredDocument]:
        """The next documents with a body, by key, fewer if large. Those not fetched since that time are left out."""

    async def documents_of(self, source: str, keys: Sequence[str], *, after: str) -> Sequence[MirroredDocument]:
        """The next documents of these keys with a body, by key, fewer if large."""

    async def revised_keys(self, source: str, *, after: str, limit: int) -> Sequence[str]:
        """The next keys of documents that have earlier contents."""

    async def earlier_documents(
        self, source: str, keys: Sequence[str], *, changed_since_ns: int, after: tuple[str, int]
    ) -> Sequence[MirroredDocument]:
        """The next earlier contents of these documents, by key and number, fewer if large."""

    async def changes(self, after: str, *, limit: int) -> Sequence[Change]:
        """The next lines of the change feed after a position. "0" is before the oldest that is kept.

        `PositionLost` if lines after the position were deleted meanwhile, or if the feed ends before it because the
        store was restored from a backup: nothing is left out silently.
        """

    async def newest_position(self) -> str:
        """The position of the last line of the change feed that can be read now."""

    async def query(self, statement: str, *, limit: int, seconds_max: float) -> QueryResult:
        """The rows of one SQL query. A statement that writes or takes longer is a `ConfigurationError`.

        So is one whose texts are longer than `ANSWER_BYTES_MAX` together.
        """


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    found = fields.get(name)
    return found if isinstance(found, str) else None
