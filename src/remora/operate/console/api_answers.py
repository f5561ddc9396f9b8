"""What does the read API answer? Plain records; their schemas in the OpenAPI document are derived from these classes."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from remora.contracts.reader import Change, MirroredDocument, MirroredItem, MirroredUser, Revision
from remora.core.status.answers import iso, iso_or_none
from remora.read.browsing import SearchPage
from remora.read.facets import Facets
from remora.read.json_layout import as_value
from remora.read.search import SearchHit
from remora.read.thread import ThreadNode


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer of the API."""


class SourceAnswer(Answer, frozen=True):
    """A source with something in the mirror."""

    name: str
    kind: Literal["numbered", "listed"]


class SourcesAnswer(Answer, frozen=True):
    """Every source, by name."""

    sources: tuple[SourceAnswer, ...]


class ItemAnswer(Answer, frozen=True):
    """A numbered item. `body` is what the provider sent; it is a text if that is no JSON."""

    source: str
    id: int
    type: str | None
    by: str | None
    time: int | None
    parent: int | None
    score: int | None
    descendants: int | None
    dead: bool
    deleted: bool
    revision: int
    first_seen_at: str
    last_fetched_at: str | None  # null: it came from a dump, and the provider was never asked for it
    changed_at: str
    body: msgspec.Raw


class ThreadItemAnswer(Answer, frozen=True):
    """One item of a thread, and where the thread is broken at it."""

    depth: int
    item: ItemAnswer
    missing: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    cycles: tuple[int, ...] = ()
    is_cut: bool = False


class ThreadAnswer(Answer, frozen=True):
    """An item and all replies below it, in reading order."""

    items: tuple[ThreadItemAnswer, ...]


class RevisionAnswer(Answer, frozen=True):
    """One content that a thing had."""

    revision: int
    changed_at: str
    last_fetched_at: str | None
    body: msgspec.Raw


class HistoryAnswer(Answer, frozen=True):
    """Every content that was seen, oldest first; the last one is the current one."""

    revisions: tuple[RevisionAnswer, ...]


class UserAnswer(Answer, frozen=True):
    """A profile."""

    source: str
    name: str
    last_fetched_at: str
    changed_at: str
    body: msgspec.Raw


class DocumentAnswer(Answer, frozen=True):
    """A document of a listed source. `body` is null while its detail is owed."""

    source: str
    key: str
    updated_at: str | None
    fetched_at: str | None
    vanished_at: str | None  # since when its list does not show it
    gone: bool  # deleted upstream: the body is the last one that was seen
    body: msgspec.Raw


class DocumentsAnswer(Answer, frozen=True):
    """Documents by key. Ask again with `after` set to `next` until it is null."""

    documents: tuple[DocumentAnswer, ...]
    next: str | None


class ChangeAnswer(Answer, frozen=True):
    """One line of the change feed."""

    position: str
    source: str
    kind: str
    key: str
    change: str
    changed_at: str


class ChangesAnswer(Answer, frozen=True):
    """Changes in order. Ask again with `since` set to `next`; nothing is left out."""

    changes: tuple[ChangeAnswer, ...]
    next: str


class HitAnswer(Answer, frozen=True):
    """One thing that was found. In `snippet` the words that were looked for are between « and »."""

    source: str
    kind: str
    key: str
    title: str
    snippet: str
    item: ItemAnswer | None = None
    document: DocumentAnswer | None = None


class FacetsAnswer(Answer, frozen=True):
    """Values and how many of the first thousand hits have them."""

    type: dict[str, int]
    by: dict[str, int]
    domain: dict[str, int]
    year: dict[str, int]


class SearchAnswer(Answer, frozen=True):
    """One page of hits. `counted` is at most 1,000: there may be more."""

    hits: tuple[HitAnswer, ...]
    counted: int
    has_more: bool
    facets: FacetsAnswer
    is_building: bool
    waits_since: str | None


class ErrorAnswer(Answer, frozen=True):
    """What is wrong, and what to do."""

    error: str
    hint: str


def item_answer(item: MirroredItem) -> ItemAnswer:
    """An item as the API tells it."""
    return ItemAnswer(
        source=item.source,
        id=item.id,
        type=item.type,
        by=item.by,
        time=item.time,
        parent=item.parent,
        score=item.score,
        descendants=item.descendants,
        dead=item.dead,
        deleted=item.deleted,
        revision=item.revision,
        first_seen_at=iso(item.first_seen_ns),
        last_fetched_at=iso_or_none(item.last_fetched_ns),
        changed_at=iso(item.changed_ns),
        body=as_value(item.body),
    )


def thread_answer(thread: ThreadNode) -> ThreadAnswer:
    """A thread as a flat list with depths: a tree may be deeper than a parser allows."""
    return ThreadAnswer(
        items=tuple(
            ThreadItemAnswer(
                depth=depth,
                item=item_answer(node.item),
                missing=node.missing,
                elsewhere=node.elsewhere,
                cycles=node.cycles,
                is_cut=node.is_cut,
            )
            for depth, node in thread.walk()
        )
    )


def history_answer(history: Sequence[Revision]) -> HistoryAnswer:
    """A history, oldest first."""
    return HistoryAnswer(
        revisions=tuple(
            RevisionAnswer(
                revision=each.number,
                changed_at=iso(each.changed_ns),
                last_fetched_at=iso_or_none(each.last_fetched_ns),
                body=as_value(each.body),
            )
            for each in history
        )
    )


def user_answer(user: MirroredUser) -> UserAnswer:
    """A profile."""
    return UserAnswer(
        source=user.source,
        name=user.name,
        last_fetched_at=iso(user.last_fetched_ns),
        changed_at=iso(user.changed_ns),
        body=as_value(user.body),
    )


def document_answer(document: MirroredDocument) -> DocumentAnswer:
    """A document."""
    return DocumentAnswer(
        source=document.source,
        key=document.key,
        updated_at=document.updated_at,
        fetched_at=iso_or_none(document.fetched_ns),
        vanished_at=iso_or_none(document.vanished_ns),
        gone=document.is_gone,
        body=msgspec.Raw(b"null") if document.body is None else as_value(document.body),
    )


def change_answer(change: Change) -> ChangeAnswer:
    """A line of the change feed."""
    return ChangeAnswer(
        position=change.position,
        source=change.source,
        kind=change.kind,
        key=change.key,
        change=change.change,
        changed_at=iso(change.changed_ns),
    )


def search_answer(found: SearchPage) -> SearchAnswer:
    """A page of hits."""
    return SearchAnswer(
        hits=tuple(map(_hit, found.hits)),
        counted=found.counted,
        has_more=found.has_more,
        facets=_facets(found.facets),
        is_building=found.is_building,
        waits_since=iso_or_none(found.waits_since_ns),
    )


def _hit(hit: SearchHit) -> HitAnswer:
    thing = hit.thing
    return HitAnswer(
        source=hit.source,
        kind=hit.kind,
        key=hit.key,
        title=hit.title,
        snippet=hit.snippet,
        item=item_answer(thing) if isinstance(thing, MirroredItem) else None,
        document=document_answer(thing) if isinstance(thing, MirroredDocument) else None,
    )


def _facets(facets: Facets) -> FacetsAnswer:
    return FacetsAnswer(
        type=dict(facets.types), by=dict(facets.authors), domain=dict(facets.domains), year=dict(facets.years)
    )
