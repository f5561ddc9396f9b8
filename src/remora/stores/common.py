"""What do the SQLite and PostgreSQL stores have in common? Methods that only name a statement and read its rows."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Final

from remora.contracts import GapCount, InboxEntry, Json, NewItem, Observation, Outcome, StoredItem
from remora.contracts.store import PAGE_BYTES
from remora.core.ledger import source_clock
from remora.core.ledger.discovery import Kind
from remora.core.ledger.segment import SegmentKind
from remora.core.ledger.source_clock import BLOCK_ITEMS, Timed
from remora.core.units import MILLISECOND_NS
from remora.stores.decisions import INTEGER_MAX
from remora.stores.rows import Row, dump_json, gap_count_from_row, item_from_row, load_json

Values = Mapping[str, Any]
# A list may have millions of entries, and a statement half a minute.
MARKS_AT_ONCE: Final = 10_000


class Part(ABC):
    """A part of a store that calls its statements by name."""

    # Rows read at once. Each page ends its transaction, so that a slow reader never holds up the writer's housekeeping.
    _page_rows: ClassVar[int]
    # Rows of a page after which no further body is read: a few giants must not fill the memory.
    _page_bytes: ClassVar[int] = PAGE_BYTES
    _ids_max: ClassVar[int]

    @abstractmethod
    async def _rows(self, name: str, values: Values) -> Sequence[Row]:
        """All rows of a query that only reads."""

    @abstractmethod
    async def _page(self, name: str, values: Values, *, body_at: int) -> Sequence[Row]:
        """The next rows of a query by key, ended early by the size of their bodies; empty only at the end."""

    @abstractmethod
    async def _change(self, name: str, values: Values) -> int:
        """Run one statement that writes. Returns how many rows it changed."""

    async def _row(self, name: str, values: Values) -> Row | None:
        """The first row of a query that only reads."""
        rows = await self._rows(name, values)
        return rows[0] if rows else None

    async def _count(self, name: str, values: Values) -> int:
        """The number that a query returns."""
        row = await self._row(name, values)
        assert row is not None, f"{name} always has a row"
        count: int = row[0]
        return count

    def _dump_key(self, key: str) -> str:
        """A key in a form that this database's text type can store."""
        return key

    def _load_key(self, text: str) -> str:
        """The key before `dump_key`."""
        return text

    @abstractmethod
    def _dump_keys(self, keys: Sequence[str]) -> object:
        """Many keys as one parameter."""

    @abstractmethod
    def _dump_ids(self, ids: Sequence[int]) -> object:
        """Many ids as one parameter."""


class CommonMirror(Part):
    """The mirrored items, users and documents."""

    @abstractmethod
    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable."""

    @abstractmethod
    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        """The same for many."""

    async def item(self, source: str, item_id: int) -> StoredItem | None:
        """One item of the mirror."""
        row = await self._row("item", {"source": source, "id": item_id})
        return item_from_row(row) if row else None

    async def revisions(self, source: str, item_id: int) -> Sequence[StoredItem]:
        """Earlier contents, oldest first."""
        rows = await self._rows("revisions", {"source": source, "id": item_id})
        return tuple(item_from_row(row) for row in rows)

    async def bodies(
        self, source: str, *, first_id: int = 0, last_id: int | None = None
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Raw bodies by id, in order, page by page."""
        last = INTEGER_MAX if last_id is None else last_id
        while True:
            wanted = {"source": source, "first": first_id, "last": last, "limit": self._page_rows}
            page = await self._page("bodies", wanted, body_at=1)
            for item_id, body in page:
                yield item_id, body
            if not page:
                return
            first_id = page[-1][0] + 1

    async def newest_items(self, source: str, *, first_id: int, limit: int, body_max_bytes: int) -> Sequence[NewItem]:
        """The highest ids, highest first. Bodies above the size limit are returned empty."""
        wanted = {"source": source, "first": first_id, "limit": limit, "body_max": body_max_bytes}
        rows = await self._rows("newest_items", wanted)
        return tuple(NewItem(item_id, body, seen * MILLISECOND_NS) for item_id, body, seen in rows)

    async def user(self, source: str, name: str) -> bytes | None:
        """The raw profile."""
        row = await self._row("user", {"source": source, "name": self._dump_key(name)})
        return row[0] if row else None

    async def item_times(self, source: str, ids: Iterable[int]) -> Mapping[int, int]:
        """Creation times of the stored items that have one."""
        times: dict[int, int] = {}
        left = iter(ids)
        while some := list(islice(left, self._ids_max)):
            rows = await self._rows("item_times", {"source": source, "ids": self._dump_ids(some)})
            times.update((row[0], row[1]) for row in rows)
        return times

    async def newest_time(self, source: str) -> int | None:
        """The median time of the newest items."""
        return source_clock.time_of(await self._block(source, INTEGER_MAX))

    async def first_id_since(self, source: str, time_s: int) -> int | None:
        """The lowest id from which on items are at least this recent."""
        row = await self._row("newest_item_id", {"source": source})
        if row is None or row[0] is None:
            return None
        search = source_clock.first_id_since(time_s, newest_id=row[0])
        asked = next(search)
        while True:
            block = await self._block(source, asked)
            try:
                asked = search.send(block)
            except StopIteration as found:
                answer: int | None = found.value
                return answer

    async def _block(self, source: str, last_id: int) -> list[Timed]:
        rows = await self._rows("block", {"source": source, "last": last_id, "limit": BLOCK_ITEMS})
        return [Timed(item_id, time_s) for item_id, time_s in rows]


class CommonLedger(Part):
    """Counts, the inbox and open segments."""

    async def gap_counts(self, source: str) -> Sequence[GapCount]:
        """Counts of the gaps that are not settled."""
        return tuple(gap_count_from_row(row) for row in await self._rows("gap_counts", {"source": source}))

    async def count_held_gaps(self, source: str) -> int:
        """How many items with an open gap are held."""
        return await self._count("count_held_gaps", {"source": source})

    async def count_documents(self, source: str) -> int:
        """How many documents are known."""
        return await self._count("count_documents", {"source": source})

    async def waiting(self, source: str, *, limit: int, after_ticket: int = 0) -> Sequence[InboxEntry]:
        """The oldest tickets after `after_ticket`."""
        rows = await self._rows("waiting", {"source": source, "after": after_ticket, "limit": limit})
        return tuple(InboxEntry(Kind(kind), self._load_key(key), ticket) for kind, key, ticket in rows)

    async def inbox_depth(self, source: str) -> int:
        """How many keys are waiting."""
        return await self._count("inbox_depth", {"source": source})

    async def open_segments(self, source: str) -> Mapping[SegmentKind, int]:
        """Ids left to walk, by kind."""
        return {SegmentKind(kind): left for kind, left in await self._rows("open_segments", {"source": source})}


class CommonLists(Part):
    """What is remembered of lists."""

    async def forget_walk(self, source: str) -> None:
        """Forget how far walks have come."""
        await self._change("forget_walk", {"source": source})
        await self._change("forget_entry_marks", {"source": source})

    async def forget_marks(self, source: str) -> None:
        """Forget every mark, and how far walks have come, in short steps. Whoever is interrupted begins again."""
        await self.forget_walk(source)
        await self._change_documents("forget_listed_marks", source)

    async def owe_details(self, source: str) -> None:
        """Owe the details of all entries again, in short steps. Whoever is interrupted begins again."""
        await self._change("forget_pieces", {"source": source})
        await self._change_documents("owe_documents", source)

    async def _change_documents(self, name: str, source: str) -> None:
        after = ""
        while row := await self._row("next_documents", {"source": source, "after": after, "limit": MARKS_AT_ONCE}):
            await self._change(name, {"source": source, "after": after, "last": row[0]})
            after = row[0]


class CommonNotes(Part):
    """The learned pace, small facts and heartbeats."""

    async def load_pace(self, source: str) -> Json:
        """The stored pace, or None. Damaged text is returned as it is."""
        row = await self._row("load_pace", {"source": source})
        return load_json(row[0]) if row else None

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Store it durably."""
        await self._change("save_pace", {"source": source, "record": dump_json(record)})

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""
        row = await self._row("note", {"source": source, "name": name})
        return load_json(row[0]) if row else None

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Store it durably. None deletes it."""
        if value is None:
            await self._change("forget_note", {"source": source, "name": name})
            return
        await self._change("keep_note", {"source": source, "name": name, "value": dump_json(value)})

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        """Store the new fact if the old one is still there."""
        values = {"source": source, "name": name, "value": dump_json(new)}
        if old is None:
            return await self._change("add_note", values) > 0
        return await self._change("swap_note", {**values, "old": dump_json(old)}) > 0

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """The last heartbeats, newest first."""
        rows = await self._rows("heartbeats", {})
        return tuple((runtime, beat_at * MILLISECOND_NS, load_json(text)) for runtime, beat_at, text in rows)
