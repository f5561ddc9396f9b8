"""What was found, how, and where is it waited for? A discovery is the beginning of every item's life."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from remora.core.lanes import Lane
from remora.core.reasons import GapReason


class Kind(StrEnum):
    """What a request asks for."""

    ITEM = "item"  # a numbered item, by id
    USER = "user"  # a profile, by name
    DOCUMENT = "document"  # an entry of a listed archive, by key
    PAGE = "page"  # one page of a list; the key is the source's own position
    NEWEST = "newest"  # the highest id the source has assigned


@dataclass(frozen=True, slots=True)
class FromInbox:
    """The discovery waits in the inbox; `ticket` tells a later announcement of the same key from this one."""

    ticket: int


@dataclass(frozen=True, slots=True)
class FromGap:
    """The discovery is an owed gap, leased to `owner` for as long as it is served, and why it is owed."""

    owner: str
    reason: GapReason | None = None


# A segment's ids are not listed here: they leave it when its cursor advances past recorded outcomes.
Origin = FromInbox | FromGap | None


@dataclass(frozen=True, slots=True)
class Discovery:
    """A key, and via which lane it was found."""

    kind: Kind
    key: str
    via: Lane
    origin: Origin = None

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
        """The question for the highest id."""
        return cls(Kind.NEWEST, "", Lane.LIVE)


def fingerprint(source: str, key: str) -> str:
    """A stable name for a document that says nothing about it: what gaps, logs and screens show instead of the key."""
    return sha256(f"{source}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
