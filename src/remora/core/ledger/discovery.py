"""What was found, and how? Every item's life begins with a discovery."""

from enum import StrEnum
from hashlib import sha256

import msgspec

from remora.core.lanes import Lane
from remora.core.reasons import GapReason


class Kind(StrEnum):
    """What a request asks for."""

    ITEM = "item"  # a numbered item, by id
    USER = "user"  # a profile, by name
    DOCUMENT = "document"  # an entry of a listed archive, by key
    PAGE = "page"  # one page of a list; the key is a position in the source's own form
    UNREAD_PAGE = "unread_page"  # a page that a walk left behind; only ever owed, by a fingerprint of its position
    NEWEST = "newest"  # what the source says of itself: its highest id, or which items changed lately

    __hash__ = str.__hash__  # an enum's own hash runs Python code, and every answer looks up its kind


class FromInbox(msgspec.Struct, frozen=True, gc=False):
    """The discovery is in the inbox; `ticket` distinguishes it from a later announcement of the same key."""

    ticket: int


class FromGap(msgspec.Struct, frozen=True, gc=False):
    """The discovery is a gap, leased to `owner` while it is fetched. `reason`: why it is owed."""

    owner: str
    reason: GapReason | None = None


# A segment's ids need no origin: its cursor advances past them when their outcomes are recorded.
Origin = FromInbox | FromGap | None


class Discovery(msgspec.Struct, frozen=True, gc=False):
    """A key, and the lane in which it was found."""

    kind: Kind
    key: str
    via: Lane
    origin: Origin = None
    piece: str = ""  # which piece of a document that takes several requests; empty: its detail
    further_keys: tuple[str, ...] = ()  # documents that the same request asks for
    may_be_behind: bool = False  # a later page of a list whose pages are counted

    @property
    def item_id(self) -> int:
        """The key of a numbered item as a number."""
        assert self.kind is Kind.ITEM, f"a {self.kind} has no item id"
        return int(self.key)

    @classmethod
    def item(cls, item_id: int, *, via: Lane, origin: Origin = None) -> "Discovery":
        """A numbered item."""
        return cls(Kind.ITEM, str(item_id), via, origin)

    @classmethod
    def newest(cls) -> "Discovery":
        """The request for the highest id."""
        return cls(Kind.NEWEST, "", Lane.LIVE)

    @classmethod
    def updates(cls) -> "Discovery":
        """The request for the list of what changed lately."""
        return cls(Kind.NEWEST, "updates", Lane.UPDATE)


def fingerprint(source: str, key: str) -> str:
    """A stable name that reveals nothing about the document. Gaps, logs and screens show it instead of the key."""
    return sha256(f"{source}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
