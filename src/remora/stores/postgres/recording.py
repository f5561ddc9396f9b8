"""How are many observations recorded in one transaction? Probe what is held, judge each, write only what changed.

The transaction sees one state of the rows (repeatable read): whatever another process changes meanwhile makes it fail
as a conflict, and it is done again. A batch holds no key twice and writes in the order of keys, so batches of several
processes cannot block each other in a circle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from remora.contracts import Observation, Outcome
from remora.core.discovery import FromInbox, Kind, fingerprint
from remora.core.gap import Gap, GapState, owed_reason
from remora.core.item import Document, Item, User
from remora.core.units import MILLISECOND_NS
from remora.core.verdict import Found
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, dump_mark, gap_from_row, gap_to_row, load_key, milliseconds
from remora.stores.shared import (
    CLOCK_SLACK_NS,
    Decision,
    Held,
    RecentFetches,
    clean_integer,
    clean_text,
    decide,
    gap_key,
    is_still_owed,
)

Job = tuple[str, Observation]  # source and observation
Name = tuple[str, Kind, str]  # source, kind and key
_WRITTEN: Final = frozenset({Outcome.NEW, Outcome.CHANGED})
_ITEM_TYPES: Final = (
    *("int8", "text", "text", "int8", "int8", "int8", "int8", "bool", "bool"),
    *("int8", "int8", "int8", "int4", "bytea", "bytea", "bytea"),
)
_CHANGE_TYPES: Final = ("text", "text", "text", "text", "int8")
# As in `change_items`: everything but the moment an item was first seen.
_CHANGED_COLUMNS: Final = (
    *("id", "type", "by", "time", "parent", "score", "descendants", "dead", "deleted"),
    *("last_fetched_at", "changed_at", "revision", "hash", "content_hash", "body"),
)
_FIRST_SEEN: Final = 9
_GAP_COLUMNS: Final = (
    *("source", "kind", "key", "state", "reason", "attempts", "looks", "was_young"),
    *("not_before_at", "first_seen_at", "last_seen_at"),
)
_OUTCOME_OF_GAP: Final = {GapState.OWED: Outcome.OWED, GapState.ABSENT: Outcome.ABSENT, GapState.DEAD: Outcome.DEAD}


@dataclass(slots=True)
class _DocumentRow:
    listed_mark: str | None
    listed_at: int | None
    owed: bool
    updated_at: str | None


@dataclass(slots=True)
class _Batch:
    """What is held of everything in the batch, and what will be written."""

    held: dict[Name, Held] = field(default_factory=dict)
    gaps: dict[Name, Gap] = field(default_factory=dict)
    documents: dict[Name, _DocumentRow] = field(default_factory=dict)
    new_items: list[Row] = field(default_factory=list)
    changed_items: list[Row] = field(default_factory=list)
    kept_ids: list[int] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    moved_gaps: list[Row] = field(default_factory=list)
    answered: list[Row] = field(default_factory=list)
    single: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)  # statements for users and documents
    departures: list[tuple[Kind, str, int]] = field(default_factory=list)


def name_of(job: Job) -> Name:
    """What an observation is about. Items and users have no source of their own."""
    source, observation = job
    discovery = observation.discovery
    return (source if discovery.kind is Kind.DOCUMENT else "", discovery.kind, discovery.key)


class Recorder:
    """Records batches and remembers exactly when recent fetches left."""

    def __init__(self) -> None:
        self._recent = RecentFetches()

    async def record(self, connection: Connection, jobs: Sequence[Job], *, again: bool) -> list[Outcome]:
        """The outcomes of a batch, durable on return. `again`: an earlier try may have been committed unnoticed."""
        batch = _Batch()
        async with connection.transaction():
            await self._probe(connection, batch, jobs)
            outcomes = [_judge(batch, source, observation, again=again) for source, observation in jobs]
            await _write(connection, batch)
        for kind, key, departed_ns in batch.departures:
            self._recent.remember(kind, key, departed_ns)
        return outcomes

    async def _probe(self, connection: Connection, batch: _Batch, jobs: Sequence[Job]) -> None:
        keys: dict[tuple[str, Kind], list[str]] = {}
        latest_ns = 0
        for source, observation in jobs:
            keys.setdefault((source, observation.discovery.kind), []).append(observation.discovery.key)
            latest_ns = max(latest_ns, observation.now_ns)
        for (source, kind), named in keys.items():
            rows: Iterable[tuple[Name, Row]]
            match kind:
                case Kind.ITEM:
                    rows = await _held_items(connection, batch, source, named)
                case Kind.USER:
                    rows = await _held_users(connection, named)
                    await _probe_gaps(connection, batch, source, kind, named)
                case Kind.DOCUMENT:
                    rows = await _held_documents(connection, batch, source, named)
                    await _probe_gaps(connection, batch, source, kind, named)
                case Kind.PAGE:  # a page is never kept, but what a run leaves of a list is owed as one gap
                    rows = ()
                    await _probe_gaps(connection, batch, source, kind, named)
                case Kind.NEWEST:
                    raise AssertionError(f"a {kind} is never recorded")
            for name, row in rows:
                batch.held[name] = self._held(name, row, latest_ns)

    def _held(self, name: Name, row: Row, latest_ns: int) -> Held:
        """Ours is exact and knows of unchanged bodies; the row's may be newer, from another process."""
        body_hash, content_hash, revision, fetched = row
        fetched_ns = fetched * MILLISECOND_NS
        departed_ns = self._recent.of(name[1], _recent_key(name))
        if departed_ns is not None and not departed_ns + MILLISECOND_NS <= fetched_ns <= latest_ns + CLOCK_SLACK_NS:
            fetched_ns = departed_ns
        return Held(body_hash, content_hash, revision, fetched_ns)


async def _held_items(
    connection: Connection, batch: _Batch, source: str, keys: list[str]
) -> Iterable[tuple[Name, Row]]:
    values = {"source": source, "ids": ",".join(keys)}
    for row in await (await connection.execute(SQL["held_item_gaps"], values, binary=True)).fetchall():
        batch.gaps[source, Kind.ITEM, row[1]] = gap_from_row(row)
    found = await (await connection.execute(SQL["held_items"], values, binary=True)).fetchall()
    return ((("", Kind.ITEM, str(row[0])), row[1:]) for row in found)


async def _held_users(connection: Connection, keys: list[str]) -> Iterable[tuple[Name, Row]]:
    values = {"names": [dump_key(key) for key in keys]}
    found = await (await connection.execute(SQL["held_users"], values, binary=True)).fetchall()
    return ((("", Kind.USER, load_key(name)), (body_hash, b"", 1, fetched)) for name, body_hash, fetched in found)


async def _held_documents(
    connection: Connection, batch: _Batch, source: str, keys: list[str]
) -> Iterable[tuple[Name, Row]]:
    values = {"source": source, "keys": [dump_key(key) for key in keys]}
    held: list[tuple[Name, Row]] = []
    for row in await (await connection.execute(SQL["held_documents"], values, binary=True)).fetchall():
        key, body_hash, fetched, listed_mark, listed_at, owed, updated_at = row
        name = (source, Kind.DOCUMENT, load_key(key))
        batch.documents[name] = _DocumentRow(listed_mark, listed_at, owed, updated_at)
        if body_hash is not None:
            held.append((name, (body_hash, b"", 1, fetched)))
    return held


async def _probe_gaps(connection: Connection, batch: _Batch, source: str, kind: Kind, keys: list[str]) -> None:
    named = [fingerprint(source, key) for key in keys] if kind is Kind.DOCUMENT else [dump_key(key) for key in keys]
    values = {"source": source, "kind": kind.value, "keys": named}
    for row in await (await connection.execute(SQL["held_gaps"], values, binary=True)).fetchall():
        gap = gap_from_row(row)
        batch.gaps[source, kind, gap.key] = gap


def _judge(batch: _Batch, source: str, observation: Observation, *, again: bool) -> Outcome:
    discovery = observation.discovery
    name = name_of((source, observation))
    key = gap_key(source, discovery)
    gap = batch.gaps.get((source, discovery.kind, key))
    if isinstance(discovery.origin, FromInbox):
        batch.answered.append((source, discovery.kind.value, dump_key(discovery.key), discovery.origin.ticket))
    if again and gap is not None and (outcome := _outcome_if_counted(gap, observation)) is not None:
        return outcome
    decision = decide(observation, gap_key=key, held=batch.held.get(name), gap=gap)
    if decision.gap is not None:
        batch.moved_gaps.append((source, *gap_to_row(decision.gap)))
    is_kept = decision.outcome is not Outcome.STALE and discovery.kind is not Kind.PAGE
    if isinstance(observation.verdict, Found) and is_kept:
        _store(batch, source, observation, decision)
        batch.departures.append((discovery.kind, _recent_key(name), observation.started_at_ns))
    elif discovery.kind is Kind.DOCUMENT and name not in batch.documents:
        batch.single.append(("ensure_document", _document_values(source, discovery.key)))
    return decision.outcome


def _outcome_if_counted(gap: Gap, observation: Observation) -> Outcome | None:
    """A failure that an earlier try of the same batch has counted already must not count twice."""
    reason = owed_reason(observation.verdict)
    counted = milliseconds(gap.last_seen_ns) == milliseconds(observation.now_ns) and gap.reason is reason
    return _OUTCOME_OF_GAP.get(gap.state) if counted and not isinstance(observation.verdict, Found) else None


def _store(batch: _Batch, source: str, observation: Observation, decision: Decision) -> None:
    assert isinstance(observation.verdict, Found)
    match observation.verdict.thing:
        case Item() as item if decision.outcome in _WRITTEN:
            _store_item(batch, item, observation, decision)
        case User() as user if decision.outcome in _WRITTEN:
            assert decision.held is not None, "what was found is held"
            values = {
                "name": dump_key(observation.discovery.key),
                "now": milliseconds(observation.now_ns),
                "fetched": milliseconds(observation.started_at_ns),
                "hash": decision.held.hash,
                "body": user.body,
            }
            batch.single.append(("write_user", values))
        case Document() as document:
            _store_document(batch, source, document, observation, decision)
        case _:
            return  # unchanged: no row changes
    if decision.outcome in _WRITTEN:
        kind, key = observation.discovery.kind, observation.discovery.key
        changed_at = milliseconds(observation.now_ns)
        batch.changes.append((source, kind.value, dump_key(key), decision.outcome.value, changed_at))


def _store_item(batch: _Batch, item: Item, observation: Observation, decision: Decision) -> None:
    held = decision.held
    assert held is not None
    now = observation.now_ns // MILLISECOND_NS
    row = (
        item.item_id,
        clean_text(item.type),
        clean_text(item.by),
        clean_integer(item.time),
        clean_integer(item.parent),
        clean_integer(item.score),
        clean_integer(item.descendants),
        item.dead,
        item.deleted,
        now,
        observation.started_at_ns // MILLISECOND_NS,
        now,
        held.revision,
        held.hash,
        held.content_hash,
        item.body,
    )
    if decision.outcome is Outcome.NEW:
        batch.new_items.append(row)
        return
    batch.changed_items.append((*row[:_FIRST_SEEN], *row[_FIRST_SEEN + 1 :]))
    if decision.keeps_earlier:
        batch.kept_ids.append(item.item_id)


def _store_document(
    batch: _Batch, source: str, document: Document, observation: Observation, decision: Decision
) -> None:
    assert decision.held is not None
    key = observation.discovery.key
    row = batch.documents.get((source, Kind.DOCUMENT, key), _DocumentRow(None, None, owed=True, updated_at=None))
    owed = is_still_owed(
        listed_mark=row.listed_mark,
        listed_ns=None if row.listed_at is None else row.listed_at * MILLISECOND_NS,
        document=document,
        started_at_ns=observation.started_at_ns,
    )
    updated_at = row.listed_mark if document.updated_at is None else dump_mark(document.updated_at)
    values = {**_document_values(source, key), "owed": owed, "updated_at": updated_at}
    if decision.outcome is Outcome.UNCHANGED:
        if (row.owed, row.updated_at) != (owed, updated_at):
            batch.single.append(("confirm_document", values))
        return
    fetched = milliseconds(observation.started_at_ns)
    body = {"fetched": fetched, "hash": decision.held.hash, "body": document.body}
    batch.single.append(("write_document", {**values, **body}))


async def _write(connection: Connection, batch: _Batch) -> None:
    """Everything that was judged, one statement per table, in the order of keys."""
    if batch.kept_ids:
        await connection.execute(SQL["keep_revisions"], {"ids": sorted(batch.kept_ids)})
    if batch.changed_items:
        columns = zip(*sorted(batch.changed_items, key=_first), strict=True)
        await connection.execute(SQL["change_items"], dict(zip(_CHANGED_COLUMNS, map(list, columns), strict=True)))
    if batch.new_items:
        await _copy(connection, "copy_items", _ITEM_TYPES, sorted(batch.new_items, key=_first))
    for name, values in batch.single:
        await connection.execute(SQL[name], values)
    if batch.moved_gaps:
        gaps = zip(*sorted(batch.moved_gaps, key=lambda row: row[:3]), strict=True)
        await connection.execute(SQL["write_gaps"], dict(zip(_GAP_COLUMNS, map(list, gaps), strict=True)))
    if batch.changes:
        await _copy(connection, "copy_changes", _CHANGE_TYPES, batch.changes)
    if batch.answered:
        entries = zip(*sorted(batch.answered), strict=True)
        names = ("source", "kind", "key", "ticket")
        await connection.execute(SQL["remove_from_inbox"], dict(zip(names, map(list, entries), strict=True)))


async def _copy(connection: Connection, statement: str, types: Sequence[str], rows: Iterable[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(SQL[statement]) as copy:
        copy.set_types(types)
        for row in rows:
            await copy.write_row(row)


def _document_values(source: str, key: str) -> dict[str, object]:
    return {"source": source, "key": dump_key(key), "fingerprint": fingerprint(source, key)}


def _recent_key(name: Name) -> str:
    source, _, key = name
    return f"{source}\0{key}" if source else key


def _first(row: Row) -> Any:
    return row[0]
