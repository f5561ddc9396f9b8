"""What does a source return? The things a reply can hold, each with its raw body unchanged."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

# From the id of an item and a body of it to the content of that body; None if the body cannot be read.
ContentOf = Callable[[int, bytes], bytes | None]


class Item(msgspec.Struct, frozen=True, gc=False):
    """A numbered item: the columns that queries need, and the provider's own body, byte for byte."""

    item_id: int
    body: bytes
    type: str | None = None
    by: str | None = None
    time: int | None = None  # seconds since 1970, as the source says; may be absurd
    parent: int | None = None
    score: int | None = None
    descendants: int | None = None
    dead: bool = False
    deleted: bool = False
    title: str | None = None
    url: str | None = None
    content: bytes = b""  # a canonical form of what a person would call its content; a change of it makes a revision
    delayed: bool = False  # the provider sent a placeholder text; fetch it again soon
    anomalies: tuple[str, ...] = ()  # names of oddities found while decoding; counted, never fatal
    content_of: ContentOf | None = None  # instead of `content`: finds it in a body, when a changed body asks for it

    def content_in(self, body: bytes) -> bytes | None:
        """The content of some body of this item; None if it cannot be told."""
        if self.content_of is not None:
            return self.content_of(self.item_id, body)
        return self.content if body == self.body else None


class User(msgspec.Struct, frozen=True, gc=False):
    """A profile."""

    name: str
    body: bytes


class Document(msgspec.Struct, frozen=True, gc=False):
    """One entry of a listed archive, in full."""

    key: str
    body: bytes
    updated_at: str | None = None  # the source's own update mark, unchanged


class Piece(msgspec.Struct, frozen=True, gc=False):
    """One reply of a document that takes several: its detail, or some lines of one of its parts."""

    key: str
    body: bytes = b""  # of the detail; empty for a part
    updated_at: str | None = None
    part: str = ""  # the name of the part that the lines belong to
    lines: tuple[bytes, ...] = ()
    line_keys: tuple[str, ...] = ()  # one for each line, to recognize those that two pages show
    shared: int = 0  # how many lines the page before it showed, too, unless the part moved
    following: str | None = None  # where the next piece is; None: this was the last one


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The documents of one request for several. One that was asked for and is not here is missing."""

    documents: tuple[Document, ...]


class Newest(msgspec.Struct, frozen=True, gc=False):
    """The highest id the source has assigned."""

    item_id: int


class Updated(msgspec.Struct, frozen=True, gc=False):
    """Which items a list shows as changed lately: their ids and update marks."""

    entries: tuple[tuple[int, str], ...]


class Order(StrEnum):
    """How a list is sorted."""

    UPDATED = "updated"  # the newest change first: an entry that changes moves to the top
    CREATED = "created"  # the newest entry first: an entry that changes stays where it is
    OLDEST = "oldest"  # the oldest mark first: what is new comes last
    NONE = "none"  # in no order: every walk reads the list to its end

    @property
    def is_ascending(self) -> bool:
        """Whether marks grow from page to page."""
        return self is Order.OLDEST


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a list page."""

    key: str
    updated_at: str | None
    created_at: str | None = None  # given where the list is sorted by it
    body: bytes | None = None  # the whole document, where the list already holds it

    @property
    def mark(self) -> str | None:
        """The mark by which the list is sorted."""
        return self.updated_at if self.created_at is None else self.created_at


class Page(msgspec.Struct, frozen=True, gc=False):
    """One page of a list, and where the next one is."""

    entries: tuple[Entry, ...]
    next_position: str | None  # None: this was the last page
    unreadable: int = 0  # entries without a usable key; such a page never moves the cursor past itself
    shared: int = 0  # how many entries the previous page already had, unless the list moved in the meantime
    resume_at: str | None = None  # where an interrupted walk may go on; None: it must read this page again
    order: Order | None = None  # how its marks should be sorted; None: the list has no marks
    mark_at: str = ""  # where the marks were looked for
    contradicts: str | None = None  # how the page contradicts its declaration, and what to write instead
    missing_is_end: bool = False  # a next page that does not exist is the end of the list
    begins_part: bool = False  # the first page of a window of time, which may well be empty
    is_rest: bool = False  # the walk began where an earlier one ended: it does not see the whole list
    lacks_newest: bool = False  # it shows nothing, although it was asked for what is as new as the newest known entry
    covers_before_s: int | None = None  # where the last window ends; None: the list is not read in windows
    why_unreadable: str = ""  # what is wrong with the keys of the unreadable entries
    goes_on: bool = False  # it shows no entries, but says itself that more follow

    @property
    def is_silent(self) -> bool:
        """Whether it shows nothing, and does not say that more follow. Some lists end with such pages."""
        return not (self.entries or self.unreadable or self.goes_on)


class StreamOpened(msgspec.Struct, frozen=True, gc=False):
    """An event stream is open, or its address is known."""


Thing = Item | User | Document | Piece | Batch | Newest | Updated | Page | StreamOpened


class Readable(msgspec.Struct, frozen=True, gc=False):
    """The body holds what was asked for."""

    thing: Thing


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """The body is a literal `null`: the provider has no such thing, or not yet, or this replica lags."""


WEB_PAGE: Final = "a web page"  # why a body is unreadable: a login or an error for people, with the status 200


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """The body is not what its type promises: not JSON, not UTF-8, or incomplete."""

    why: str


class WrongShape(msgspec.Struct, frozen=True, gc=False):
    """Well-formed, but not what was asked for (another id, a list where an object belongs)."""

    why: str


Decoded = Readable | Nothing | Unreadable | WrongShape
