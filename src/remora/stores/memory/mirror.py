"""How does the memory store keep the mirror itself: items, users, documents and their revisions?"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from msgspec.structs import replace

from remora.contracts import NewItem, Observation, Outcome, StoredItem
from remora.core.item import Document, Item, User
from remora.core.ledger import reads, source_clock
from remora.core.ledger.discovery import Discovery, FromInbox, Kind, fingerprint
from remora.core.ledger.gap import Gap, GapState, Listing
from remora.core.ledger.source_clock import BLOCK_ITEMS, Timed
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.stores.decisions import Decision, Held, decide, gap_key, is_newly_gone, is_still_owed, listing_of
from remora.stores.memory.state import DocumentRow, GapRow, ItemRow, MemoryPart, UserRow


class MemoryMirror(MemoryPart):
    """The mirrored items, users and documents."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one step."""
        discovery = observation.discovery
        key = gap_key(source, discovery)
        row = self._tables.gaps.get((source, discovery.kind, key))
        held = self._held(source, discovery)
        gap = row.gap if row else None
        decision = decide(observation, gap_key=key, held=held, gap=gap, listing=self._listing(source, observation))
        if decision.gap is not None:
            self._write_gap(source, decision.gap)
        is_page = discovery.kind is Kind.PAGE or discovery.kind is Kind.UNREAD_PAGE
        is_kept = decision.outcome is not Outcome.STALE and not is_page
        if isinstance(observation.verdict, Found) and is_kept:
            self._write_thing(source, observation, decision)
        elif discovery.kind is Kind.DOCUMENT:
            document = self._document_row(source, discovery.key, observation.now_ns)
            document.owed = document.owed and not is_newly_gone(decision, gap)
        self._remove_from_inbox(source, discovery)
        return decision.outcome

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        """The same for many."""
        return [await self.record(source, observation) for observation in observations]

    def _listing(self, source: str, observation: Observation) -> Listing:
        if observation.discovery.kind is not Kind.DOCUMENT:
            return Listing.UNKNOWN
        row = self._tables.documents.get((source, observation.discovery.key))
        if row is None:
            return Listing.UNKNOWN
        return listing_of(listed_ns=row.listed_ns, vanished_ns=row.vanished_ns, started_at_ns=observation.started_at_ns)

    def _held(self, source: str, discovery: Discovery) -> Held | None:
        match discovery.kind:
            case Kind.ITEM:
                item = self._tables.items[source].get(discovery.item_id)
                return item.held if item else None
            case Kind.USER:
                user = self._tables.users.get((source, discovery.key))
                return user.held if user else None
            case Kind.DOCUMENT:
                document = self._tables.documents.get((source, discovery.key))
                return document.held if document else None
            case Kind.PAGE | Kind.UNREAD_PAGE:
                return None
            case Kind.NEWEST:
                raise AssertionError(f"a {discovery.kind} is never recorded")

    def _write_gap(self, source: str, gap: Gap) -> None:
        name = (source, gap.kind, gap.key)
        row = self._tables.gaps.get(name)
        # A new gap queues behind those that were already tried: those that have waited longest come first.
        turn = self._tables.turn if row is None else row.served_turn
        self._tables.gaps[name] = moved = GapRow(gap, turn)
        if gap.state is GapState.SETTLED:
            self._tables.open_gaps.pop(name, None)
        else:
            self._tables.open_gaps[name] = moved

    def _write_thing(self, source: str, observation: Observation, decision: Decision) -> None:
        assert isinstance(observation.verdict, Found)
        assert decision.held is not None
        match observation.verdict.thing:
            case Item() as item:
                self._write_item(source, item, observation, decision, decision.held)
            case User() as user:
                self._tables.users[source, observation.discovery.key] = UserRow(user.body, decision.held)
            case Document() as document:
                self._write_document(source, document, observation, decision, decision.held)
            case thing:
                raise AssertionError(f"a {type(thing).__name__} is never recorded")

    def _write_item(self, source: str, item: Item, observation: Observation, decision: Decision, held: Held) -> None:
        items = self._tables.items[source]
        earlier = items.get(item.item_id)
        if decision.outcome is Outcome.UNCHANGED:
            assert earlier is not None
            earlier.held = held
            earlier.read_ns = reads.whole_second(observation.started_at_ns) * SECOND_NS
            return
        if earlier is None:
            insort(self._tables.item_ids[source], item.item_id)
        elif decision.keeps_earlier:
            self._tables.revisions.setdefault((source, item.item_id), []).append(earlier.stored)
        stored = StoredItem(
            item_id=item.item_id,
            body=item.body,
            revision=held.revision,
            first_seen_ns=earlier.stored.first_seen_ns if earlier else observation.now_ns,
            last_fetched_ns=observation.started_at_ns,
            changed_ns=observation.now_ns,
        )
        items[item.item_id] = ItemRow(stored, held, item.time)

    def _write_document(
        self, source: str, document: Document, observation: Observation, decision: Decision, held: Held
    ) -> None:
        key = observation.discovery.key
        row = self._document_row(source, key, observation.now_ns)
        if decision.keeps_earlier:
            self._tables.document_revisions.setdefault((source, key), []).append(row.stored(key))
        if decision.outcome is not Outcome.UNCHANGED:
            row.changed_ns = observation.now_ns
        row.owed = is_still_owed(
            listed_mark=row.listed_mark,
            listed_ns=row.listed_ns,
            document=document,
            started_at_ns=observation.started_at_ns,
        )
        row.fetched_ns = observation.started_at_ns
        row.body, row.held = document.body, held
        row.updated_at = document.updated_at if document.updated_at is not None else row.listed_mark

    def _document_row(self, source: str, key: str, now_ns: int) -> DocumentRow:
        """Every requested document has a row, found or not: its gap must lead back to its key."""
        new = DocumentRow(fingerprint(source, key), first_seen_ns=now_ns)
        return self._tables.documents.setdefault((source, key), new)

    def _remove_from_inbox(self, source: str, discovery: Discovery) -> None:
        if not isinstance(discovery.origin, FromInbox):
            return
        name = (source, discovery.kind, discovery.key)
        entry = self._tables.inbox.get(name)
        if entry is not None and entry.ticket == discovery.origin.ticket:
            del self._tables.inbox[name]

    async def item(self, source: str, item_id: int) -> StoredItem | None:
        """One item of the mirror."""
        row = self._tables.items[source].get(item_id)
        return replace(row.stored, last_fetched_ns=max(row.stored.last_fetched_ns, row.read_ns)) if row else None

    async def revisions(self, source: str, item_id: int) -> Sequence[StoredItem]:
        """Earlier contents, oldest first."""
        return tuple(self._tables.revisions.get((source, item_id), ()))

    async def bodies(
        self, source: str, *, first_id: int = 0, last_id: int | None = None
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Raw bodies by id, in order."""
        item_id, ids = first_id - 1, self._tables.item_ids[source]
        while True:
            position = bisect_right(ids, item_id)
            if position == len(ids):
                return
            item_id = ids[position]
            if last_id is not None and item_id > last_id:
                return
            yield item_id, self._tables.items[source][item_id].stored.body

    async def newest_items(self, source: str, *, first_id: int, limit: int, body_max_bytes: int) -> Sequence[NewItem]:
        """The highest ids, highest first. Bodies above the size limit are returned empty."""
        ids, items = self._tables.item_ids[source], self._tables.items[source]
        newest = [item_id for item_id in reversed(ids[-limit:]) if item_id >= first_id]
        held = [items[item_id].stored for item_id in newest]
        return tuple(
            NewItem(item.item_id, item.body if len(item.body) <= body_max_bytes else b"", item.first_seen_ns)
            for item in held
        )

    async def user(self, source: str, name: str) -> bytes | None:
        """The raw profile."""
        row = self._tables.users.get((source, name))
        return row.body if row else None

    async def item_times(self, source: str, ids: Iterable[int]) -> Mapping[int, int]:
        """Creation times of the stored items that have one."""
        rows = ((item_id, self._tables.items[source].get(item_id)) for item_id in ids)
        return {item_id: row.time_s for item_id, row in rows if row is not None and row.time_s is not None}

    async def newest_time(self, source: str) -> int | None:
        """The median time of the newest items."""
        ids = self._tables.item_ids[source]
        return source_clock.time_of(self._block(source, ids[-1])) if ids else None

    async def first_id_since(self, source: str, time_s: int) -> int | None:
        """The lowest id from which on items are at least this recent."""
        ids = self._tables.item_ids[source]
        if not ids:
            return None
        search = source_clock.first_id_since(time_s, newest_id=ids[-1])
        asked = next(search)
        while True:
            try:
                asked = search.send(self._block(source, asked))
            except StopIteration as found:
                answer: int | None = found.value
                return answer

    def _block(self, source: str, last_id: int) -> list[Timed]:
        block: list[Timed] = []
        ids = self._tables.item_ids[source]
        for position in range(bisect_left(ids, last_id + 1) - 1, -1, -1):
            time_s = self._tables.items[source][ids[position]].time_s
            if time_s is not None:
                block.append(Timed(ids[position], time_s))
            if len(block) == BLOCK_ITEMS:
                break
        return block
