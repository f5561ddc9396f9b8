"""How are many observations recorded in one transaction? Probe what is held, judge each in order, write what changed.

Several observations of one thing may share a batch: each is judged by what the one before it left.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from remora.contracts import Observation, Outcome
from remora.core.item import Document, Item, Thing, User
from remora.core.ledger.discovery import Discovery, FromInbox, Kind, fingerprint
from remora.core.ledger.gap import Gap
from remora.core.units import MILLISECOND_NS
from remora.core.verdict import Found
from remora.stores.decisions import (
    Decision,
    Held,
    RecentFetches,
    clean_integer,
    clean_text,
    decide,
    gap_key,
    is_still_owed,
)
from remora.stores.rows import gap_from_row, gap_to_row
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.statements import queries

Job = tuple[str, Observation]  # source and observation
# Plain texts: a member of an enumeration is bound far more slowly.
_ITEM: Final = Kind.ITEM.value
_NEW: Final = Outcome.NEW.value
_CHANGED: Final = Outcome.CHANGED.value


class Recorder:
    """Records batches on the writer's connection and remembers exactly when recent fetches left."""

    def __init__(self) -> None:
        self._recent = RecentFetches()
        self._uncommitted: list[tuple[Kind, str, int]] = []

    def record(self, connection: Connection, jobs: Sequence[Job]) -> list[Outcome]:
        """The outcomes of a batch, inside a transaction that is open."""
        batch = _Batch(connection, self._recent)
        batch.probe(jobs)
        outcomes = [batch.judge(source, observation) for source, observation in jobs]
        batch.write()
        self._uncommitted.extend(batch.departures)
        return outcomes

    def committed(self) -> None:
        """The transaction is durable: only now may its fetches refuse older ones."""
        for kind, name, departed_ns in self._uncommitted:
            self._recent.remember(kind, name, departed_ns)
        self._uncommitted.clear()

    def rolled_back(self) -> None:
        """The transaction never happened."""
        self._uncommitted.clear()


class _Batch:
    """One batch on its way into the tables. Things go by name: an id, or kind and key where that could be mistaken."""

    def __init__(self, connection: Connection, recent: RecentFetches) -> None:
        self._connection = connection
        self._recent = recent
        self._sql = queries()
        self._held: dict[str, Held] = {}
        self._gaps: dict[tuple[str, str], Gap] = {}
        self._turns: dict[str, int] = {}
        self._items: dict[int, tuple[object, ...]] = {}
        self._kept: list[int] = []
        self._changes: list[tuple[str, str, str, str]] = []
        self._now = 0
        self._moved_gaps: dict[tuple[str, str], tuple[object, ...]] = {}
        self._answered: list[tuple[object, ...]] = []
        self.departures: list[tuple[Kind, str, int]] = []

    def probe(self, jobs: Iterable[Job]) -> None:
        """Read what is held of everything in the batch, a few statements for all of it."""
        items: dict[str, list[str]] = {}
        users: dict[str, list[str]] = {}
        for source, observation in jobs:
            discovery = observation.discovery
            self._now = max(self._now, observation.now_ns // MILLISECOND_NS)
            if discovery.kind is Kind.ITEM:
                items.setdefault(source, []).append(discovery.key)
            elif discovery.kind is Kind.USER:
                users.setdefault(source, []).append(discovery.key)
            elif discovery.kind is Kind.DOCUMENT:
                self._probe_document(source, discovery)
            else:  # what a run leaves of a list: never kept, but owed
                self._probe_gaps(source, discovery.kind, [gap_key(source, discovery)])
        for source, keys in items.items():
            self._probe_items(json.dumps([int(key) for key in keys]))
            self._probe_gaps(source, Kind.ITEM, keys)
        for source, keys in users.items():
            self._probe_users(keys)
            self._probe_gaps(source, Kind.USER, keys)

    def _probe_items(self, ids: str) -> None:
        (held,) = self._connection.execute(self._sql["held_items"], {"ids": ids}).fetchone()
        for item_id, body_hash, content_hash, revision, fetched in json.loads(held):
            name = str(item_id)
            departed_ns = self._departed_ns(Kind.ITEM, name, fetched)
            self._held[name] = Held(bytes.fromhex(body_hash), bytes.fromhex(content_hash), revision, departed_ns)

    def _probe_users(self, names: Sequence[str]) -> None:
        for key, body_hash, fetched in self._connection.execute(self._sql["held_users"], {"names": json.dumps(names)}):
            name = _name("", Kind.USER, key)
            self._held[name] = Held(body_hash, b"", 1, self._departed_ns(Kind.USER, name, fetched))

    def _probe_document(self, source: str, discovery: Discovery) -> None:
        row = self._document_row(source, discovery.key)
        if row is not None and row[0] is not None:
            name = _name(source, Kind.DOCUMENT, discovery.key)
            self._held[name] = Held(row[0], b"", 1, self._departed_ns(Kind.DOCUMENT, name, row[1]))
        self._probe_gaps(source, Kind.DOCUMENT, [gap_key(source, discovery)])

    def _document_row(self, source: str, key: str) -> tuple[bytes | None, int, str | None, int | None] | None:
        found: tuple[bytes | None, int, str | None, int | None] | None = self._connection.execute(
            self._sql["held_document"], {"source": source, "key": key}
        ).fetchone()
        return found

    def _departed_ns(self, kind: Kind, name: str, fetched: int) -> int:
        departed_ns = self._recent.of(kind, name)
        return fetched * MILLISECOND_NS if departed_ns is None else departed_ns

    def _probe_gaps(self, source: str, kind: Kind, keys: Sequence[str]) -> None:
        wanted = {"source": source, "kind": kind.value, "keys": json.dumps(keys)}
        for row in self._connection.execute(self._sql["held_gaps"], wanted):
            gap = gap_from_row(row)
            self._gaps[source, _name(source, kind, gap.key)] = gap

    def judge(self, source: str, observation: Observation) -> Outcome:
        """One observation, against what the batch has left so far."""
        discovery = observation.discovery
        kind, key = discovery.kind, discovery.key
        name = gap_name = owed_key = key
        if kind is not Kind.ITEM:
            owed_key = gap_key(source, discovery)
            name, gap_name = _name(source, kind, key), _name(source, kind, owed_key)
        held, gap = self._held.get(name), self._gaps.get((source, gap_name))
        decision = decide(observation, gap_key=owed_key, held=held, gap=gap)
        if decision.gap is not None:
            self._move_gap(source, gap_name, decision.gap)
        is_kept = decision.outcome is not Outcome.STALE and kind is not Kind.PAGE
        if isinstance(observation.verdict, Found) and is_kept:
            assert decision.held is not None, "what was found is held"
            self._store(source, observation, observation.verdict.thing, decision, decision.held)
            self._held[name] = decision.held
            self.departures.append((kind, name, observation.started_at_ns))
        elif kind is Kind.DOCUMENT:
            self._ensure_document(source, key)
        if isinstance(discovery.origin, FromInbox):
            self._answered.append((discovery.origin.ticket, source, kind.value, key))
        return decision.outcome

    def _move_gap(self, source: str, name: str, gap: Gap) -> None:
        if source not in self._turns:
            self._turns[source] = self._connection.execute(self._sql["last_turn"], {"source": source}).fetchone()[0]
        # A new gap waits behind those that were served already; one that has a row keeps its own turn.
        self._moved_gaps[source, name] = (source, *gap_to_row(gap), self._turns[source])
        self._gaps[source, name] = gap

    def _store(self, source: str, observation: Observation, thing: Thing, decision: Decision, held: Held) -> None:
        unchanged = decision.outcome is Outcome.UNCHANGED
        if isinstance(thing, Item):
            if unchanged:
                return  # no row changes
            self._store_item(thing, observation, decision, held)
            kind = _ITEM
        elif isinstance(thing, Document):
            self._store_document(source, thing, observation, decision)
            kind = Kind.DOCUMENT.value
        else:
            assert isinstance(thing, User), f"a {type(thing).__name__} is never recorded"
            if not unchanged:
                self._store_user(thing, observation, held)
            kind = Kind.USER.value
        if not unchanged:
            change = _NEW if decision.outcome is Outcome.NEW else _CHANGED
            self._changes.append((source, kind, change, observation.discovery.key))

    def _store_item(self, item: Item, observation: Observation, decision: Decision, held: Held) -> None:
        if decision.keeps_earlier:
            if item.item_id in self._items:
                self._write_items()  # what becomes an earlier revision must stand in the table first
            self._kept.append(item.item_id)
        now = observation.now_ns // MILLISECOND_NS
        self._items[item.item_id] = (
            item.item_id,
            clean_text(item.type),
            clean_text(item.by),
            clean_integer(item.time),
            clean_integer(item.parent),
            clean_integer(item.score),
            clean_integer(item.descendants),
            1 if item.dead else 0,
            1 if item.deleted else 0,
            now,
            observation.started_at_ns // MILLISECOND_NS,
            now,
            held.revision,
            held.hash,
            held.content_hash,
            item.body,
        )

    def _store_user(self, user: User, observation: Observation, held: Held) -> None:
        self._connection.execute(
            self._sql["write_user"],
            {
                "name": observation.discovery.key,
                "now": observation.now_ns // MILLISECOND_NS,
                "fetched": observation.started_at_ns // MILLISECOND_NS,
                "hash": held.hash,
                "body": user.body,
            },
        )

    def _store_document(self, source: str, document: Document, observation: Observation, decision: Decision) -> None:
        key = observation.discovery.key
        self._ensure_document(source, key)
        row = self._document_row(source, key)
        assert row is not None, "a document has a row once it was asked for"
        assert decision.held is not None, "a document that was found is held"
        _, _, listed_mark, listed_at = row
        owed = is_still_owed(
            listed_mark=listed_mark,
            listed_ns=None if listed_at is None else listed_at * MILLISECOND_NS,
            document=document,
            started_at_ns=observation.started_at_ns,
        )
        values: dict[str, object] = {"source": source, "key": key, "owed": owed, "updated_at": document.updated_at}
        if decision.outcome is Outcome.UNCHANGED:
            self._connection.execute(self._sql["confirm_document"], values)
            return
        fetched = observation.started_at_ns // MILLISECOND_NS
        self._connection.execute(
            self._sql["write_document"],
            {**values, "fetched": fetched, "hash": decision.held.hash, "body": document.body},
        )

    def _ensure_document(self, source: str, key: str) -> None:
        self._connection.execute(
            self._sql["ensure_document"], {"source": source, "key": key, "fingerprint": fingerprint(source, key)}
        )

    def write(self) -> None:
        """Everything that was judged, one statement per table."""
        self._write_items()
        self._write_changes()
        if self._moved_gaps:
            write_rows(self._connection, "write_gaps", list(self._moved_gaps.values()))
        if self._answered:
            self._connection.execute(self._sql["remove_from_inbox"], {"answered": json.dumps(self._answered)})

    def _write_changes(self) -> None:
        keys: dict[tuple[str, str, str], list[str]] = {}
        for source, kind, change, key in self._changes:
            keys.setdefault((source, kind, change), []).append(key)
        for (source, kind, change), changed in keys.items():
            named = {"source": source, "kind": kind, "change": change, "now": self._now}
            self._connection.execute(self._sql["write_changes"], {**named, "keys": json.dumps(changed)})

    def _write_items(self) -> None:
        if self._kept:
            self._connection.execute(self._sql["keep_revisions"], {"ids": json.dumps(self._kept)})
            self._kept.clear()
        if self._items:
            # In the order of the table, so that neighbours share pages.
            write_rows(self._connection, "write_items", [self._items[key] for key in sorted(self._items)])
            self._items.clear()


def _name(source: str, kind: Kind, key: str) -> str:
    """Items by their id alone: they are by far the most. What else there is cannot be mistaken for one."""
    match kind:
        case Kind.ITEM:
            return key
        case Kind.USER:
            return f"user\0{key}"
        case Kind.DOCUMENT:
            return f"document\0{source}\0{key}"
        case Kind.PAGE:
            return f"page\0{source}\0{key}"
        case Kind.NEWEST:
            raise AssertionError(f"a {kind} is never recorded")
