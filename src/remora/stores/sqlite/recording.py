"""How are many observations recorded in one transaction? Read what is stored, judge each in order, write what changed.

Several observations of one thing may share a batch. Each is judged by the result of the one before it.
"""

import json
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from remora.contracts import Observation, Outcome
from remora.core.item import Document, Item, Thing, User
from remora.core.ledger import reads
from remora.core.ledger.discovery import Discovery, FromInbox, Kind, fingerprint
from remora.core.ledger.gap import Gap, Listing
from remora.core.units import MILLISECOND_NS
from remora.core.verdict import Found
from remora.stores.decisions import (
    Decision,
    Held,
    RecentFetches,
    decide,
    gap_key,
    is_back,
    is_newly_gone,
    is_still_owed,
    listing_of,
    new_item,
    settled_item,
)
from remora.stores.rows import gap_from_row, gap_to_row, nanoseconds
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.feed import write_changes
from remora.stores.sqlite.item_rows import add_items, observed_row, source_number, write_items
from remora.stores.sqlite.statements import queries

Job = tuple[str, Observation]  # source and observation
# Plain strings: SQLite binds enum members far more slowly.
_ITEM: Final = Kind.ITEM.value
_NEW: Final = Outcome.NEW.value
_CHANGED: Final = Outcome.CHANGED.value
_GONE: Final = Outcome.GONE.value
_NOW_NS_OF: Final = attrgetter("now_ns")


class _DocumentRow(NamedTuple):
    """The columns of `held_document`."""

    hash: bytes | None
    fetched_at: int
    listed_mark: str | None
    listed_at: int | None
    revision: int
    vanished_at: int | None


class Recorder:
    """Records batches on the writer's connection and remembers exactly when recent fetches were sent."""

    def __init__(self) -> None:
        self._recent: dict[str, RecentFetches] = {}
        self._numbers: dict[str, int] = {}
        self._uncommitted: list[_Batch] = []

    def record(self, connection: Connection, jobs: Sequence[Job]) -> list[Outcome]:
        """Record a batch inside an open transaction. Returns the outcomes."""
        if len({source for source, _ in jobs}) == 1:
            return self._record(connection, jobs[0][0], [observation for _, observation in jobs])
        by_source: dict[str, list[Observation]] = {}
        for source, observation in jobs:
            by_source.setdefault(source, []).append(observation)
        outcomes = {source: iter(self._record(connection, source, mine)) for source, mine in by_source.items()}
        return [next(outcomes[source]) for source, _ in jobs]

    def _record(self, connection: Connection, source: str, observations: Sequence[Observation]) -> list[Outcome]:
        number = self._numbers.get(source) or source_number(connection, source)
        recent = self._recent.setdefault(source, RecentFetches())
        batch = _Batch(connection, source, number, recent)
        batch.probe(observations)
        outcomes = batch.judge(observations)
        batch.write()
        self._uncommitted.append(batch)
        return outcomes

    def committed(self) -> None:
        """The transaction is durable. Only now may its fetches cause older ones to be refused."""
        for batch in self._uncommitted:
            batch.committed()
            self._numbers[batch.source] = batch.number
        self._uncommitted.clear()

    def rolled_back(self) -> None:
        """The transaction never happened."""
        self._uncommitted.clear()


class _Batch:
    """The changes that one source's part of a batch makes to the tables.

    Items are named by their id, everything else by kind and key, so that nothing is mistaken for an item.
    """

    def __init__(self, connection: Connection, source: str, number: int, recent: RecentFetches) -> None:
        self.source = source
        self.number = number
        self._connection = connection
        self._recent = recent
        self._sql = queries()
        self._held: dict[str, Held] = {}
        self._gaps: dict[str, Gap] = {}
        self._added: dict[str, tuple[Item, Observation]] = {}  # new, and observed once: nearly all of a backfill
        self._turn: int | None = None
        self._items: dict[int, tuple[Any, ...]] = {}
        self._kept: list[int] = []
        self._read_s: dict[int, int] = {}  # unchanged items, with the second in which they were read
        self._changes: dict[tuple[str, str], list[str]] = {}  # keys by kind and change
        self._now = 0  # the earliest moment of the batch: a line of the feed is never later than its content
        self._moved_gaps: dict[str, tuple[object, ...]] = {}
        self._answered: list[tuple[object, ...]] = []
        self._departed_ns: dict[str, int] = {}

    def committed(self) -> None:
        """What was recorded is durable."""
        self._recent.remember(self._departed_ns)

    def probe(self, observations: Sequence[Observation]) -> None:
        """Read what is stored about everything in the batch, with a few statements."""
        self._now = min(map(_NOW_NS_OF, observations)) // MILLISECOND_NS
        items = [one.discovery.key for one in observations if one.discovery.kind is Kind.ITEM]
        if items:
            self._probe_items(str(list(map(int, items))))
            self._probe_gaps(Kind.ITEM, items)
        if len(items) < len(observations):
            self._probe_others([one.discovery for one in observations if one.discovery.kind is not Kind.ITEM])

    def _probe_others(self, discoveries: Iterable[Discovery]) -> None:
        users: list[str] = []
        for discovery in discoveries:
            if discovery.kind is Kind.USER:
                users.append(discovery.key)
            elif discovery.kind is Kind.DOCUMENT:
                self._probe_document(discovery)
            else:  # the rest of a list after a run: never stored, but owed
                self._probe_gaps(discovery.kind, [gap_key(self.source, discovery)])
        if users:
            self._probe_users(users)
            self._probe_gaps(Kind.USER, users)

    def _probe_items(self, ids: str) -> None:
        wanted = {"number": self.number, "ids": ids}
        held, bodies = self._connection.execute(self._sql["held_items"], wanted).fetchone()
        from_hex, end = bytes.fromhex, 0
        for item_id, body_hash, content_hash, revision, fetched, length in msgspec.json.decode(held):
            name = str(item_id)
            departed_ns = self._last_departed_ns(name, fetched)
            start, end = end, end + length
            body = bodies[start:end] if length else b""
            self._held[name] = Held(from_hex(body_hash), from_hex(content_hash), revision, departed_ns, body)

    def _probe_users(self, names: Sequence[str]) -> None:
        wanted = {"number": self.number, "names": json.dumps(names)}
        for key, body_hash, fetched in self._connection.execute(self._sql["held_users"], wanted):
            name = _name(Kind.USER, key)
            self._held[name] = Held(body_hash, b"", 1, self._last_departed_ns(name, fetched))

    def _probe_document(self, discovery: Discovery) -> None:
        row = self._document_row(discovery.key)
        if row is not None and row.hash is not None:
            name = _name(Kind.DOCUMENT, discovery.key)
            self._held[name] = Held(row.hash, row.hash, row.revision, self._last_departed_ns(name, row.fetched_at))
        self._probe_gaps(Kind.DOCUMENT, [gap_key(self.source, discovery)])

    def _document_row(self, key: str) -> _DocumentRow | None:
        wanted = {"source": self.source, "key": key}
        found = self._connection.execute(self._sql["held_document"], wanted).fetchone()
        return None if found is None else _DocumentRow(*found)

    def _listing(self, observation: Observation) -> Listing:
        row = self._document_row(observation.discovery.key)
        if row is None:
            return Listing.UNKNOWN
        return listing_of(
            listed_ns=nanoseconds(row.listed_at),
            vanished_ns=nanoseconds(row.vanished_at),
            started_at_ns=observation.started_at_ns,
        )

    def _last_departed_ns(self, name: str, fetched: int) -> int:
        departed_ns = self._recent.of(name)
        return fetched * MILLISECOND_NS if departed_ns is None else departed_ns

    def _probe_gaps(self, kind: Kind, keys: Sequence[str]) -> None:
        wanted = {"source": self.source, "kind": kind.value, "keys": _as_json(kind.value, keys)}
        for row in self._connection.execute(self._sql["held_gaps"], wanted):
            gap = gap_from_row(row)
            self._gaps[_name(kind, gap.key)] = gap

    def judge(self, observations: Iterable[Observation]) -> list[Outcome]:
        """Judge each observation by the state that the batch has reached so far."""
        held, gaps, added = self._held, self._gaps, self._added
        outcomes = []
        for observation in observations:
            discovery = observation.discovery
            key = discovery.key
            if key in added:
                self._judge_added()
            if (
                discovery.kind is Kind.ITEM
                and discovery.origin is None
                and key not in held
                and key not in gaps
                and (item := settled_item(observation.verdict)) is not None
            ):
                added[key] = item, observation
                outcomes.append(Outcome.NEW)  # fast path
            else:
                outcomes.append(self._judge(observation))
        return outcomes

    def _judge(self, observation: Observation) -> Outcome:
        discovery = observation.discovery
        kind, key = discovery.kind, discovery.key
        name = gap_name = owed_key = key
        if kind is not Kind.ITEM:
            owed_key = gap_key(self.source, discovery)
            name, gap_name = _name(kind, key), _name(kind, owed_key)
        held, gap = self._held.get(name), self._gaps.get(gap_name)
        listing = self._listing(observation) if kind is Kind.DOCUMENT else Listing.UNKNOWN
        decision = decide(observation, gap_key=owed_key, held=held, gap=gap, listing=listing)
        if name in self._departed_ns or gap_name in self._moved_gaps:
            self._write_changes()  # what this batch already says about it comes first
        if decision.gap is not None:
            self._move_gap(gap_name, decision.gap)
        is_page = kind is Kind.PAGE or kind is Kind.UNREAD_PAGE
        is_kept = decision.outcome is not Outcome.STALE and not is_page
        if isinstance(observation.verdict, Found) and is_kept:
            assert decision.held is not None, "what was found is held"
            self._store(observation, observation.verdict.thing, decision, decision.held)
            self._held[name] = decision.held
            self._departed_ns[name] = observation.started_at_ns
        elif kind is Kind.DOCUMENT:
            self._ensure_document(key, observation.now_ns)
        if is_newly_gone(decision, gap):
            self._lose(kind, key, was_held=held is not None)
        elif is_back(decision, gap):
            self._changes.setdefault((kind.value, _CHANGED), []).append(key)
        if isinstance(discovery.origin, FromInbox):
            self._answered.append((discovery.origin.ticket, self.source, kind.value, key))
        return decision.outcome

    def _judge_added(self) -> None:
        """One of the new items was observed again: go on with all of them like with any other."""
        for key, (item, observation) in self._added.items():
            held = self._held[key] = new_item(item, started_at_ns=observation.started_at_ns)
            self._items[item.item_id] = observed_row(self.number, item, observation, held)
        self._tell_added()
        self._added.clear()

    def _lose(self, kind: Kind, key: str, *, was_held: bool) -> None:
        if kind is Kind.DOCUMENT:
            self._connection.execute(self._sql["settle_gone_document"], {"source": self.source, "key": key})
        if was_held:
            self._changes.setdefault((kind.value, _GONE), []).append(key)

    def _move_gap(self, name: str, gap: Gap) -> None:
        if self._turn is None:
            self._turn = self._connection.execute(self._sql["last_turn"], {"source": self.source}).fetchone()[0]
        # A new gap queues behind those that were already tried. One that has a row keeps its place.
        self._moved_gaps[name] = (self.source, *gap_to_row(gap), self._turn)
        self._gaps[name] = gap

    def _store(self, observation: Observation, thing: Thing, decision: Decision, held: Held) -> None:
        unchanged = decision.outcome is Outcome.UNCHANGED
        if isinstance(thing, Item):
            if unchanged:  # the item's row stays as it is
                self._read_s[thing.item_id] = reads.whole_second(observation.started_at_ns)
                return
            self._store_item(thing, observation, decision, held)
            kind = _ITEM
        elif isinstance(thing, Document):
            self._store_document(thing, observation, decision)
            kind = Kind.DOCUMENT.value
        else:
            assert isinstance(thing, User), f"a {type(thing).__name__} is never recorded"
            self._store_user(thing, observation, held, unchanged=unchanged)
            kind = Kind.USER.value
        if not unchanged:
            change = _NEW if decision.outcome is Outcome.NEW else _CHANGED
            self._changes.setdefault((kind, change), []).append(observation.discovery.key)

    def _store_item(self, item: Item, observation: Observation, decision: Decision, held: Held) -> None:
        if decision.keeps_earlier:
            if item.item_id in self._items:
                self._write_items()  # what becomes a revision must be in the table first
            self._kept.append(item.item_id)
        self._items[item.item_id] = observed_row(self.number, item, observation, held)

    def _store_user(self, user: User, observation: Observation, held: Held, *, unchanged: bool) -> None:
        values: dict[str, object] = {
            "number": self.number,
            "name": observation.discovery.key,
            "now": observation.now_ns // MILLISECOND_NS,
            "fetched": observation.started_at_ns // MILLISECOND_NS,
            "hash": held.hash,
            "body": user.body,
        }
        self._connection.execute(self._sql["confirm_user" if unchanged else "write_user"], values)

    def _store_document(self, document: Document, observation: Observation, decision: Decision) -> None:
        key = observation.discovery.key
        self._ensure_document(key, observation.now_ns)
        row = self._document_row(key)
        assert row is not None, "a document has a row once it was asked for"
        assert decision.held is not None, "a document that was found is held"
        owed = is_still_owed(
            listed_mark=row.listed_mark,
            listed_ns=nanoseconds(row.listed_at),
            document=document,
            started_at_ns=observation.started_at_ns,
        )
        values: dict[str, object] = {
            "source": self.source,
            "key": key,
            "owed": owed,
            "updated_at": document.updated_at,
            "fetched": observation.started_at_ns // MILLISECOND_NS,
            "now": observation.now_ns // MILLISECOND_NS,
            "revision": decision.held.revision,
            "hash": decision.held.hash,
            "body": document.body,
        }
        if decision.keeps_earlier:
            self._connection.execute(self._sql["keep_document_revision"], values)
        unchanged = decision.outcome is Outcome.UNCHANGED
        self._connection.execute(self._sql["confirm_document" if unchanged else "write_document"], values)

    def _ensure_document(self, key: str, now_ns: int) -> None:
        named = {"source": self.source, "key": key, "fingerprint": fingerprint(self.source, key)}
        self._connection.execute(self._sql["ensure_document"], {**named, "now": now_ns // MILLISECOND_NS})

    def write(self) -> None:
        """Write everything that was judged, one statement per table."""
        if self._added:
            add_items(self._connection, self.number, self._added.values())
            self._tell_added()
        self._write_items()
        self._write_changes()
        if self._read_s:
            self._write_reads()
        if self._moved_gaps:
            write_rows(self._connection, "write_gaps", list(self._moved_gaps.values()))
        if self._answered:
            self._connection.execute(self._sql["remove_from_inbox"], {"answered": json.dumps(self._answered)})

    def _tell_added(self) -> None:
        self._departed_ns.update({key: each.started_at_ns for key, (_, each) in self._added.items()})
        self._changes.setdefault((_ITEM, _NEW), []).extend(self._added)

    def _write_changes(self) -> None:
        for (kind, change), keys in self._changes.items():
            told = f"[{','.join(keys)}]" if kind == _ITEM else json.dumps(keys)
            write_changes(self._connection, self.source, kind, change, keys=told, now=self._now)
        self._changes.clear()

    def _write_reads(self) -> None:
        wanted = {"number": self.number, "blocks": json.dumps(reads.blocks(self._read_s))}
        known = self._connection.execute(self._sql["take_reads"], wanted).fetchall()
        ranges = reads.merged(map(reads.ReadRange._make, known), self._read_s)
        self._connection.execute(self._sql["put_reads"], {"number": self.number, "ranges": json.dumps(ranges)})

    def _write_items(self) -> None:
        if self._kept:
            self._connection.execute(
                self._sql["keep_revisions"], {"number": self.number, "ids": json.dumps(self._kept)}
            )
            self._kept.clear()
        if self._items:
            # In the order of the table, so that neighbours share pages.
            write_items(self._connection, [self._items[key] for key in sorted(self._items)])
            self._items.clear()


def _as_json(kind: str, keys: Sequence[str]) -> str:
    """These keys for a statement. Items are almost all of them, and their keys are numbers."""
    return '["' + '","'.join(keys) + '"]' if kind == _ITEM else json.dumps(keys)


def _name(kind: Kind, key: str) -> str:
    """Items are named by their id alone, because they are by far the most. Nothing else can be mistaken for one."""
    return key if kind is Kind.ITEM else f"{kind}\0{key}"
