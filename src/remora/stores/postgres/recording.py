"""How are many observations recorded in one transaction? Read what is stored, judge each, write only what changed.

The transaction sees one snapshot of the rows (repeatable read). If another process changes one of them meanwhile, it
fails with a conflict and is repeated. A batch holds no key twice and writes in the order of keys, so batches of several
processes cannot deadlock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from remora.contracts import Observation, Outcome
from remora.core.item import Document, Item, Thing, User
from remora.core.ledger import reads
from remora.core.ledger.discovery import FromInbox, Kind, fingerprint
from remora.core.ledger.gap import Gap, owed_reason
from remora.core.units import MILLISECOND_NS, MINUTE_NS
from remora.core.verdict import Found
from remora.stores.decisions import (
    CLOCK_SLACK_NS,
    OUTCOME_OF_GAP,
    Decision,
    Held,
    RecentFetches,
    decide,
    gap_key,
    is_back,
    is_newly_gone,
    item_row,
    new_item,
    settled_item,
)
from remora.stores.postgres import documents
from remora.stores.postgres.batch import Batch, fetched_again, name_in_batch
from remora.stores.postgres.connections import Connection, Row, rolling_back
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, gap_from_row, gap_to_row, load_key
from remora.stores.rows import milliseconds

Job = tuple[str, Observation]  # source and observation
ITEM_TYPES: Final = (
    *("int2", "int8", "text", "text", "int8", "int8", "int8", "int8", "bool", "bool"),
    *("int8", "int8", "int8", "int4", "bytea", "bytea", "bytea"),
)
# As in `change_items`: everything except the time when an item was first seen.
_CHANGED_COLUMNS: Final = (
    *("id", "type", "by", "time", "parent", "score", "descendants", "dead", "deleted"),
    *("last_fetched_at", "changed_at", "revision", "hash", "content_hash", "body"),
)
_FIRST_SEEN: Final = 10
_GAP_AT: Final = 7  # where the gap's columns begin in `held_items`
# A COPY needs several round trips, a statement one: up to this many rows are faster one by one.
FEW_ROWS: Final = 3
# A request ends within a minute or two, so no process still has a fetch in flight that is older than this.
FETCHES_KEPT_NS: Final = 10 * MINUTE_NS
FORGET_EVERY_NS: Final = MINUTE_NS
_GAP_COLUMNS: Final = (
    *("source", "kind", "key", "state", "reason", "attempts", "null_count", "near_newest"),
    *("not_before_at", "first_seen_at", "last_seen_at"),
)


def name_of(job: Job) -> tuple[str, str]:
    """What an observation is about: its source, and its id, or kind and key for anything but an item."""
    source, observation = job
    discovery = observation.discovery
    # Plain strings: this runs for every item, and hashing an enum member is slow.
    return source, discovery.key if discovery.kind is Kind.ITEM else name_in_batch(discovery.kind, discovery.key)


class Recorder:
    """Records batches and remembers exactly when recent fetches were sent."""

    def __init__(self) -> None:
        self._recent: dict[str, RecentFetches] = {}
        self._numbers: dict[str, int] = {}
        self._forgot_at_ns = 0

    async def record(self, connection: Connection, jobs: Sequence[Job], *, again: bool) -> list[Outcome]:
        """Return the outcomes of a batch once durable. `again`: an earlier try may have been committed unnoticed."""
        await self._forget(connection, max(observation.now_ns for _, observation in jobs))
        by_source: dict[str, list[Observation]] = {}
        for source, observation in jobs:
            by_source.setdefault(source, []).append(observation)
        batches = [
            Batch(source, await self._number(connection, source), by_source[source]) for source in sorted(by_source)
        ]
        outcomes: dict[str, Iterator[Outcome]] = {}
        async with rolling_back(connection):
            await self._begin(connection, batches)
            for batch in batches:
                await self._probe_others(connection, batch)
                outcomes[batch.source] = iter([_judge(batch, each, again=again) for each in batch.observations])
                await _write(connection, batch)
            await _commit(connection, batches)
        for batch in batches:
            self._recent.setdefault(batch.source, RecentFetches()).remember(batch.departed_ns)
        return [next(outcomes[source]) for source, _ in jobs]

    async def _number(self, connection: Connection, source: str) -> int:
        """The number of a source, stored before the batch so that other processes find it in the table."""
        number = self._numbers.get(source)
        if number is None:
            named = {"source": source}
            row = await (await connection.execute(SQL["source_number"], named)).fetchone()
            if row is None:
                await connection.execute(SQL["add_source"], named)
                row = await (await connection.execute(SQL["source_number"], named)).fetchone()
                assert row is not None, "a source that was added has a number"
            number = self._numbers[source] = int(row[0])
        return number

    async def _forget(self, connection: Connection, now_ns: int) -> None:
        """Delete outdated rows of `fetches`. Done before the batch, so that a failure here can simply be retried."""
        if abs(now_ns - self._forgot_at_ns) >= FORGET_EVERY_NS:
            self._forgot_at_ns = now_ns
            await connection.execute(SQL["forget_fetches"], {"before_ns": now_ns - FETCHES_KEPT_NS})

    async def _begin(self, connection: Connection, batches: Sequence[Batch]) -> None:
        """Begin the transaction and read what is stored about items: one round trip."""
        of_items = [batch for batch in batches if batch.items]
        questions = [(SQL["held_items"], _items_of(batch)) for batch in of_items]
        _, *found = await connection.in_one_round_trip([(SQL["begin_recording"], None), *questions])
        for batch, cursor in zip(of_items, found, strict=True):
            self._hold(batch, _held_items(batch, await cursor.fetchall()))

    async def _probe_others(self, connection: Connection, batch: Batch) -> None:
        for kind, named in batch.others.items():
            await _probe_gaps(connection, batch, kind, named)
            match kind:
                case Kind.USER:
                    self._hold(batch, await _held_users(connection, batch, named))
                case Kind.DOCUMENT:
                    self._hold(batch, await documents.held_documents(connection, batch, named))
                case Kind.PAGE | Kind.UNREAD_PAGE:
                    continue  # a page is never stored, but the rest of a list may be owed as a gap
                case Kind.ITEM | Kind.NEWEST:
                    raise AssertionError(f"a {kind} is never recorded here")

    def _hold(self, batch: Batch, found: Iterable[tuple[str, Row]]) -> None:
        """When it was fetched. A second fetch by any process is known exactly, a first one only if it was ours."""
        recent = self._recent.get(batch.source) or RecentFetches()
        for name, (body_hash, content_hash, revision, fetched, again_ns, body) in found:
            fetched_ns = fetched * MILLISECOND_NS if again_ns is None else again_ns
            departed_ns = recent.of(name) if again_ns is None else None
            if (
                departed_ns is not None
                and not departed_ns + MILLISECOND_NS <= fetched_ns <= batch.latest_ns + CLOCK_SLACK_NS
            ):
                fetched_ns = departed_ns
            batch.held[name] = Held(body_hash, content_hash, revision, fetched_ns, body)


def _items_of(batch: Batch) -> Mapping[str, Any]:
    return {"source": batch.source, "number": batch.number, "ids": ",".join(batch.items)}


def _held_items(batch: Batch, rows: Iterable[Row]) -> Iterable[tuple[str, Row]]:
    held: list[tuple[str, Row]] = []
    for row in rows:
        if row[1] is not None:
            held.append((row[0], row[1:_GAP_AT]))
        if row[_GAP_AT] is not None:
            batch.gaps[row[0]] = gap_from_row(row[_GAP_AT:])
    return held


async def _held_users(connection: Connection, batch: Batch, keys: list[str]) -> Iterable[tuple[str, Row]]:
    values = {"number": batch.number, "names": [dump_key(key) for key in keys]}
    found = await (await connection.execute(SQL["held_users"], values, binary=True)).fetchall()
    named = [(name_in_batch(Kind.USER, load_key(key)), body_hash, fetched) for key, body_hash, fetched in found]
    again_ns = await fetched_again(connection, batch, [name for name, _, _ in named])
    return ((name, (body_hash, b"", 1, fetched, again_ns.get(name), b"")) for name, body_hash, fetched in named)


async def _probe_gaps(connection: Connection, batch: Batch, kind: Kind, keys: list[str]) -> None:
    source = batch.source
    named = [fingerprint(source, key) for key in keys] if kind is Kind.DOCUMENT else [dump_key(key) for key in keys]
    values = {"source": source, "kind": kind.value, "keys": named}
    for row in await (await connection.execute(SQL["held_gaps"], values, binary=True)).fetchall():
        gap = gap_from_row(row)
        batch.gaps[name_in_batch(kind, gap.key)] = gap


def _judge(batch: Batch, observation: Observation, *, again: bool) -> Outcome:
    source, discovery = batch.source, observation.discovery
    kind, key = discovery.kind, discovery.key
    if kind is Kind.ITEM and discovery.origin is None and key not in batch.held and key not in batch.gaps:
        item = settled_item(observation.verdict)
        if item is not None:
            batch.added.append((item, observation))
            return Outcome.NEW  # fast path: almost all items of a backfill
    name = gap_name = owed_key = key
    if kind is not Kind.ITEM:
        owed_key = gap_key(source, discovery)
        name, gap_name = name_in_batch(kind, discovery.key), name_in_batch(kind, owed_key)
    gap = batch.gaps.get(gap_name)
    if isinstance(discovery.origin, FromInbox):
        batch.answered.append((source, kind.value, dump_key(discovery.key), discovery.origin.ticket))
    if again and gap is not None and (outcome := _outcome_if_counted(gap, observation)) is not None:
        return outcome
    held = batch.held.get(name)
    listing = documents.listing(batch, observation)
    decision = decide(
        observation, gap_key=owed_key, held=held, gap=gap, listing=listing, clocks_differ_ns=CLOCK_SLACK_NS
    )
    if decision.gap is not None:
        batch.moved_gaps.append((source, *gap_to_row(decision.gap)))
    if isinstance(observation.verdict, Found) and decision.outcome is not Outcome.STALE:
        _store(batch, observation, observation.verdict.thing, decision)
        batch.departed_ns[name] = observation.started_at_ns
        if name in batch.held:
            batch.fetched_again.append((dump_key(name), observation.started_at_ns))
    elif kind is Kind.DOCUMENT:
        documents.ensure_document(batch, observation)
    if is_newly_gone(decision, gap):
        if kind is Kind.DOCUMENT:
            documents.settle_gone_document(batch, observation)
        if held is not None:
            batch.add_changes(kind, [discovery.key], "gone")
    elif is_back(decision, gap):
        batch.add_changes(kind, [discovery.key], "changed")
    return decision.outcome


def _add(batch: Batch) -> None:
    """Store the settled items that were never seen nor owed before."""
    for item, observation in batch.added:
        held = new_item(item, started_at_ns=observation.started_at_ns)
        batch.new_items.append(_row(batch, item, observation, held))
    batch.departed_ns.update({each.discovery.key: each.started_at_ns for _, each in batch.added})
    batch.add_changes(Kind.ITEM, [each.discovery.key for _, each in batch.added], "new")


def _row(batch: Batch, item: Item, observation: Observation, held: Held) -> Row:
    now, fetched = observation.now_ns // MILLISECOND_NS, observation.started_at_ns // MILLISECOND_NS
    return item_row(batch.number, item, held, now=now, fetched=fetched)


def _outcome_if_counted(gap: Gap, observation: Observation) -> Outcome | None:
    """A failure that an earlier try of the same batch already counted must not count twice."""
    reason = owed_reason(observation.verdict)
    counted = milliseconds(gap.last_seen_ns) == milliseconds(observation.now_ns) and gap.reason is reason
    return OUTCOME_OF_GAP.get(gap.state) if counted and not isinstance(observation.verdict, Found) else None


def _store(batch: Batch, observation: Observation, thing: Thing, decision: Decision) -> None:
    is_written = decision.outcome is not Outcome.UNCHANGED
    if isinstance(thing, Item):
        if is_written:
            _store_item(batch, thing, observation, decision)
        else:  # the item's row stays as it is
            batch.read_s[thing.item_id] = reads.whole_second(observation.started_at_ns)
    elif isinstance(thing, User):
        _store_user(batch, thing, observation, decision)
    elif isinstance(thing, Document):
        documents.store_document(batch, thing, observation, decision)
    if is_written:
        change = "new" if decision.outcome is Outcome.NEW else "changed"
        batch.add_changes(observation.discovery.kind, [observation.discovery.key], change)


def _store_user(batch: Batch, user: User, observation: Observation, decision: Decision) -> None:
    assert decision.held is not None, "what was found is held"
    values = {
        "number": batch.number,
        "name": dump_key(observation.discovery.key),
        "now": milliseconds(observation.now_ns),
        "fetched": milliseconds(observation.started_at_ns),
        "hash": decision.held.hash,
        "body": user.body,
    }
    batch.single.append(("confirm_user" if decision.outcome is Outcome.UNCHANGED else "write_user", values))


def _store_item(batch: Batch, item: Item, observation: Observation, decision: Decision) -> None:
    held = decision.held
    assert held is not None
    row = _row(batch, item, observation, held)
    if decision.outcome is Outcome.NEW:
        batch.new_items.append(row)
        return
    batch.changed_items.append((*row[1:_FIRST_SEEN], *row[_FIRST_SEEN + 1 :]))
    if decision.keeps_earlier:
        batch.kept_ids.append(item.item_id)


async def _write(connection: Connection, batch: Batch) -> None:
    """Write what was judged, one statement per table, in the order of keys; `_commit` does the rest."""
    if batch.added:
        _add(batch)
    if batch.kept_ids:
        await connection.execute(SQL["keep_revisions"], {"number": batch.number, "ids": sorted(batch.kept_ids)})
    if batch.changed_items:
        columns = zip(*sorted(batch.changed_items, key=itemgetter(0)), strict=True)
        changed = dict(zip(_CHANGED_COLUMNS, map(list, columns), strict=True))
        await connection.execute(SQL["change_items"], {"number": batch.number, **changed})
    new_items = sorted(batch.new_items, key=itemgetter(1))
    if len(new_items) > FEW_ROWS:
        await _copy_items(connection, new_items)
    else:
        for row in new_items:
            await connection.execute(SQL["add_item"], row)
    if batch.read_s:
        await _write_reads(connection, batch)
    for name, values in batch.single:
        await connection.execute(SQL[name], values)
    if batch.fetched_again:
        fetched = sorted(batch.fetched_again)
        keys, departed_ns = "\n".join(key for key, _ in fetched), [moment_ns for _, moment_ns in fetched]
        values = {"number": batch.number, "keys": keys, "departed_ns": departed_ns}
        await connection.execute(SQL["write_fetches"], values)
    if batch.moved_gaps:
        gaps = zip(*sorted(batch.moved_gaps, key=lambda row: row[:3]), strict=True)
        await connection.execute(SQL["write_gaps"], dict(zip(_GAP_COLUMNS, map(list, gaps), strict=True)))


async def _commit(connection: Connection, batches: Iterable[Batch]) -> None:
    """Tell the readers of the feed, take what was answered out of the inbox and end the transaction: one round trip."""
    statements: list[tuple[bytes, Mapping[str, Any] | None]] = []
    for batch in batches:
        for (kind, change), changed_keys in batch.changes.items():
            named = {"source": batch.source, "kind": kind, "change": change, "changed_at": batch.changed_at}
            statements.append((SQL["add_changes"], {**named, "keys": "\n".join(changed_keys)}))
        if batch.answered:
            entries = zip(*sorted(batch.answered), strict=True)
            names = ("source", "kind", "key", "ticket")
            statements.append((SQL["remove_from_inbox"], dict(zip(names, map(list, entries), strict=True))))
    await connection.in_one_round_trip([*statements, (SQL["commit_recording"], None)])


async def _write_reads(connection: Connection, batch: Batch) -> None:
    wanted = {"number": batch.number, "blocks": reads.blocks(batch.read_s)}
    known = await (await connection.execute(SQL["take_reads"], wanted, binary=True)).fetchall()
    first_ids, last_ids, read_s = zip(*reads.merged(map(reads.ReadRange._make, known), batch.read_s), strict=True)
    ranges = {"first_ids": list(first_ids), "last_ids": list(last_ids), "read_s": list(read_s)}
    await connection.execute(SQL["put_reads"], {"number": batch.number, **ranges})


async def _copy_items(connection: Connection, rows: Iterable[Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(SQL["copy_items"]) as copy:
        copy.set_types(ITEM_TYPES)
        for row in rows:
            await copy.write_row(row)
