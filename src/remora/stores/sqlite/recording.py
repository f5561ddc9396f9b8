"""How are many observations recorded in one transaction? Probe what is held, judge each in order, write what changed.

Several observations of one thing may share a batch: each is judged by what the one before it left.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from remora.contracts import Observation, Outcome
from remora.core.discovery import FromInbox, Kind, fingerprint
from remora.core.gap import Gap
from remora.core.item import Document, Item, User
from remora.core.units import MILLISECOND_NS
from remora.core.verdict import Found
from remora.stores.shared import (
    Decision,
    Held,
    RecentFetches,
    clean_integer,
    clean_text,
    decide,
    gap_key,
    is_still_owed,
)
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.rows import gap_from_row, gap_to_row
from remora.stores.sqlite.statements import queries

Job = tuple[str, Observation]  # source and observation
_Named = tuple[Kind, str]
_WRITTEN: Final = frozenset({Outcome.NEW, Outcome.CHANGED})


class Recorder:
    """Records batches on the writer's connection and remembers exactly when recent fetches left."""

    def __init__(self) -> None:
        self._recent = RecentFetches()
        self._uncommitted: list[tuple[_Named, int]] = []

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
        for (kind, key), departed_ns in self._uncommitted:
            self._recent.remember(kind, key, departed_ns)
        self._uncommitted.clear()

    def rolled_back(self) -> None:
        """The transaction never happened."""
        self._uncommitted.clear()


class _Batch:
    """One batch on its way into the tables."""

    def __init__(self, connection: Connection, recent: RecentFetches) -> None:
        self._connection = connection
        self._recent = recent
        self._sql = queries()
        self._held: dict[_Named, Held] = {}
        self._gaps: dict[tuple[str, Kind, str], Gap] = {}
        self._turns: dict[str, int] = {}
        self._items: dict[int, tuple[object, ...]] = {}
        self._kept: list[tuple[int]] = []
        self._changes: list[tuple[object, ...]] = []
        self._moved_gaps: dict[tuple[str, Kind, str], tuple[object, ...]] = {}
        self._answered: list[tuple[object, ...]] = []
        self.departures: list[tuple[_Named, int]] = []

    def probe(self, jobs: Iterable[Job]) -> None:
        """Read what is held of everything in the batch, a few statements for all of it."""
        keys: dict[tuple[str, Kind], list[str]] = {}
        for source, observation in jobs:
            discovery = observation.discovery
            keys.setdefault((source, discovery.kind), []).append(gap_key(source, discovery))
            if discovery.kind is Kind.DOCUMENT:
                self._probe_document(source, discovery.key)
        for (source, kind), named in keys.items():
            asked = json.dumps(named)
            self._probe_gaps(source, kind, asked)
            if kind is Kind.ITEM:
                self._probe_items(f"[{','.join(named)}]")
            elif kind is Kind.USER:
                self._probe_users(asked)

    def _probe_items(self, ids: str) -> None:
        for item_id, body_hash, content_hash, revision, fetched in self._connection.execute(
            self._sql["held_items"], {"ids": ids}
        ):
            self._hold((Kind.ITEM, str(item_id)), body_hash, content_hash, revision, fetched)

    def _probe_users(self, names: str) -> None:
        for name, body_hash, fetched in self._connection.execute(self._sql["held_users"], {"names": names}):
            self._hold((Kind.USER, name), body_hash, b"", 1, fetched)

    def _probe_document(self, source: str, key: str) -> None:
        row = self._document_row(source, key)
        if row is not None and row[0] is not None:
            self._hold((Kind.DOCUMENT, _document_name(source, key)), row[0], b"", 1, row[1])

    def _document_row(self, source: str, key: str) -> tuple[bytes | None, int, str | None, int | None] | None:
        found: tuple[bytes | None, int, str | None, int | None] | None = self._connection.execute(
            self._sql["held_document"], {"source": source, "key": key}
        ).fetchone()
        return found

    def _hold(self, name: _Named, body_hash: bytes, content_hash: bytes, revision: int, fetched: int) -> None:
        departed_ns = self._recent.of(*name)
        fetched_ns = fetched * MILLISECOND_NS if departed_ns is None else departed_ns
        self._held[name] = Held(body_hash, content_hash, revision, fetched_ns)

    def _probe_gaps(self, source: str, kind: Kind, keys: str) -> None:
        wanted = {"source": source, "kind": kind, "keys": keys}
        for row in self._connection.execute(self._sql["held_gaps"], wanted):
            gap = gap_from_row(row)
            self._gaps[source, kind, gap.key] = gap

    def judge(self, source: str, observation: Observation) -> Outcome:
        """One observation, against what the batch has left so far."""
        discovery = observation.discovery
        kind, key = discovery.kind, gap_key(source, discovery)
        name = (kind, _document_name(source, discovery.key) if kind is Kind.DOCUMENT else key)
        decision = decide(observation, gap_key=key, held=self._held.get(name), gap=self._gaps.get((source, kind, key)))
        outcome, held = decision.outcome, decision.held
        if decision.gap is not None:
            self._move_gap(source, decision.gap)
        if held is not None and outcome is not Outcome.STALE and isinstance(observation.verdict, Found):
            self._store(source, observation, decision, held)
            self._held[name] = held
            self.departures.append((name, observation.started_at_ns))
        elif kind is Kind.DOCUMENT:
            self._ensure_document(source, discovery.key)
        if isinstance(discovery.origin, FromInbox):
            self._answered.append((discovery.origin.ticket, source, kind, discovery.key))
        return outcome

    def _move_gap(self, source: str, gap: Gap) -> None:
        name = (source, gap.kind, gap.key)
        if source not in self._turns:
            self._turns[source] = self._connection.execute(self._sql["last_turn"], {"source": source}).fetchone()[0]
        # A new gap waits behind those that were served already; one that has a row keeps its own turn.
        self._moved_gaps[name] = (source, *gap_to_row(gap), self._turns[source])
        self._gaps[name] = gap

    def _store(self, source: str, observation: Observation, decision: Decision, held: Held) -> None:
        assert isinstance(observation.verdict, Found)
        match observation.verdict.thing:
            case Item() as item if decision.outcome in _WRITTEN:
                self._store_item(item, observation, decision, held)
            case User() as user if decision.outcome in _WRITTEN:
                self._store_user(user, observation, held)
            case Document() as document:
                self._store_document(source, document, observation, decision)
            case _:
                return  # unchanged: no row changes
        if decision.outcome in _WRITTEN:
            kind, key = observation.discovery.kind, observation.discovery.key
            self._changes.append((source, kind, key, decision.outcome, observation.now_ns // MILLISECOND_NS))

    def _store_item(self, item: Item, observation: Observation, decision: Decision, held: Held) -> None:
        if decision.keeps_earlier:
            if item.item_id in self._items:
                self._write_items()  # what becomes an earlier revision must stand in the table first
            self._kept.append((item.item_id,))
        now = observation.now_ns // MILLISECOND_NS
        self._items[item.item_id] = (
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
        if self._changes:
            self._connection.executemany(self._sql["write_change"], self._changes)
        if self._moved_gaps:
            self._connection.executemany(self._sql["write_gap"], self._moved_gaps.values())
        if self._answered:
            self._connection.executemany(self._sql["remove_from_inbox"], self._answered)

    def _write_items(self) -> None:
        if self._kept:
            self._connection.executemany(self._sql["keep_revision"], self._kept)
            self._kept.clear()
        if self._items:
            # In the order of the table, so that neighbours share pages.
            self._connection.executemany(self._sql["write_item"], [self._items[key] for key in sorted(self._items)])
            self._items.clear()


def _document_name(source: str, key: str) -> str:
    return f"{source}\0{key}"
