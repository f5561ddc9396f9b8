"""How do both databases serve readers? With methods that name a statement of `reading.sql` and read its rows."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from remora.contracts.reader import (
    ANSWER_BYTES_MAX,
    ITEM_ROW,
    Change,
    ItemColumns,
    MirroredDocument,
    MirroredItem,
    MirroredSource,
    MirroredUser,
    Revision,
)
from remora.core.errors import ConfigurationError, PositionLost
from remora.core.units import MILLISECOND_NS
from remora.stores.common import Part, Values
from remora.stores.copied import OWN_NOTES, PROGRESS, check_finished
from remora.stores.decisions import INTEGER_MAX
from remora.stores.rows import Row, load_json, milliseconds, nanoseconds

FIRST_POSITION: Final = "0"
NO_ITEMS: Final[ItemColumns] = dict.fromkeys(ITEM_ROW, ())


class CommonReader(Part):
    """The reads that differ only in their statements."""

    _answer_bytes: ClassVar[int] = ANSWER_BYTES_MAX
    _numbers_in_order: ClassVar[bool] = True  # False: a change may be read after one with a higher number

    async def _check_whole(self) -> None:
        """Refuse half a copy, and close: what is missing in it would look as if the mirror never had it."""
        try:
            row = await self._row("note", {"source": OWN_NOTES, "name": PROGRESS})
            check_finished(load_json(row[0]) if row else None)
        except BaseException:
            await self.close()
            raise

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""

    async def sources(self) -> Sequence[MirroredSource]:
        """Every source that has something in the mirror."""
        return tuple(MirroredSource(name, bool(is_listed)) for name, is_listed in await self._rows("read_sources", {}))

    async def items(self, source: str, ids: Sequence[int]) -> Sequence[MirroredItem]:
        """The items with these ids, as far as they are stored."""
        rows = await self._rows("read_items", {"source": source, "ids": self._dump_ids(ids)})
        return tuple(item_from(source, row) for row in rows)

    async def item_page(
        self, source: str, *, first_id: int, last_id: int, changed_since_ns: int, limit: int
    ) -> Sequence[MirroredItem]:
        """The next items by id."""
        rows = await self._item_rows(_page_of(source, first_id, last_id, changed_since_ns, limit))
        return tuple(item_from(source, row) for row in rows)

    async def item_columns(
        self, source: str, *, first_id: int, last_id: int, changed_since_ns: int, limit: int
    ) -> ItemColumns:
        """The same page by columns."""
        return await self._item_columns(_page_of(source, first_id, last_id, changed_since_ns, limit))

    async def _item_columns(self, page: Values) -> ItemColumns:
        rows = await self._item_rows(page)
        return dict(zip(ITEM_ROW, zip(*rows, strict=True), strict=True)) if rows else NO_ITEMS

    async def _item_rows(self, page: Values) -> Sequence[Row]:
        return await self._page("read_item_page", page, body_at=len(ITEM_ROW) - 1)

    async def replies(self, source: str, parents: Sequence[int], *, limit: int) -> Sequence[MirroredItem]:
        """The direct replies to these items."""
        wanted = {"source": source, "ids": self._dump_ids(parents), "limit": limit}
        return tuple(item_from(source, row) for row in await self._rows("read_replies", wanted))

    async def revisions(self, source: str, item_id: int) -> Sequence[Revision]:
        """Earlier contents, oldest first."""
        rows = await self._rows("read_revisions", {"source": source, "id": item_id})
        return tuple(
            Revision(number, body, changed * MILLISECOND_NS, fetched * MILLISECOND_NS)
            for number, body, changed, fetched in rows
        )

    async def revised_ids(self, source: str, *, after_id: int, limit: int) -> Sequence[int]:
        """Ids of items with earlier contents."""
        rows = await self._rows("read_revised_ids", {"source": source, "after": after_id, "limit": limit})
        return tuple(row[0] for row in rows)

    async def earlier_items(
        self, source: str, ids: Sequence[int], *, changed_since_ns: int, after: tuple[int, int]
    ) -> Sequence[tuple[int, Revision]]:
        """Earlier contents of these items."""
        wanted = {"source": source, "ids": self._dump_ids(ids), "since": milliseconds(changed_since_ns)}
        rows = await self._page("read_earlier_items", {**wanted, "id": after[0], "revision": after[1]}, body_at=2)
        return tuple(
            (item_id, Revision(number, body, changed * MILLISECOND_NS, fetched * MILLISECOND_NS))
            for item_id, number, body, changed, fetched in rows
        )

    async def user(self, source: str, name: str) -> MirroredUser | None:
        """One profile."""
        row = await self._row("read_user", {"source": source, "name": self._dump_key(name)})
        if row is None:
            return None
        body, fetched, changed = row
        return MirroredUser(source, name, body, fetched * MILLISECOND_NS, changed * MILLISECOND_NS)

    async def document(self, source: str, key: str) -> MirroredDocument | None:
        """One document."""
        row = await self._row("read_document", {"source": source, "key": self._dump_key(key)})
        return self._document(source, row) if row else None

    async def document_page(
        self, source: str, *, after: str, fetched_since_ns: int, limit: int
    ) -> Sequence[MirroredDocument]:
        """The next documents by key."""
        wanted = {"source": source, "after": self._dump_key(after), "limit": limit}
        rows = await self._page("read_document_page", {**wanted, "since": milliseconds(fetched_since_ns)}, body_at=2)
        return tuple(self._document(source, row) for row in rows)

    async def documents_of(self, source: str, keys: Sequence[str], *, after: str) -> Sequence[MirroredDocument]:
        """The next documents of these keys."""
        wanted = {"source": source, "keys": self._dump_keys(keys), "after": self._dump_key(after)}
        return tuple(self._document(source, row) for row in await self._page("read_documents_of", wanted, body_at=2))

    async def revised_keys(self, source: str, *, after: str, limit: int) -> Sequence[str]:
        """Keys of documents with earlier contents."""
        wanted = {"source": source, "after": self._dump_key(after), "limit": limit}
        return tuple(self._load_key(row[0]) for row in await self._rows("read_revised_keys", wanted))

    async def earlier_documents(
        self, source: str, keys: Sequence[str], *, changed_since_ns: int, after: tuple[str, int]
    ) -> Sequence[MirroredDocument]:
        """Earlier contents of these documents."""
        wanted = {"source": source, "keys": self._dump_keys(keys), "since": milliseconds(changed_since_ns)}
        place = {"key": self._dump_key(after[0]), "revision": after[1]}
        rows = await self._page("read_earlier_documents", {**wanted, **place}, body_at=2)
        return tuple(self._document(source, (*row, None, False)) for row in rows)

    async def changes(self, after: str, *, limit: int) -> Sequence[Change]:
        """The next lines of the change feed."""
        rows = await self._rows("read_changes", {**self._position(after), "limit": limit})
        if len(rows) < limit or _number(rows[0][0]) > _number(after) + 1:
            await self._check_position(after)
        return tuple(
            Change(position, source, kind, self._load_key(key), change, changed * MILLISECOND_NS)
            for position, source, kind, key, change, changed in rows
        )

    async def _check_position(self, after: str) -> None:
        """Refuse a position after which changes were deleted, or that this store never had: others would be left out."""
        if after == FIRST_POSITION:
            return
        row = await self._row("change_ends", {})
        first, last = (None, None) if row is None else row
        if first is not None and first > _number(after) + 1:
            raise PositionLost(
                f"changes after position {after} were deleted by `remora store compact`",
                hint="read the mirror anew, then follow from 0; a named reader (--reader NAME) is waited for",
            )
        if last is not None and last < _number(after) and self._numbers_in_order:
            raise PositionLost(
                f"the change feed ends before position {after}: was the store restored from a backup?",
                hint="read the mirror anew, then follow from 0",
            )

    async def newest_position(self) -> str:
        """The last position that can be read now."""
        row = await self._row("read_newest_position", {})
        return FIRST_POSITION if row is None else row[0]

    @abstractmethod
    def _position(self, text: str) -> dict[str, object]:
        """A position as parameters; refuses invalid positions."""

    def _document(self, source: str, row: Row) -> MirroredDocument:
        key, updated_at, body, fetched_at, revision, changed_at, vanished_at, is_gone = row
        mark = None if updated_at is None else self._load_key(updated_at)
        return MirroredDocument(
            source,
            self._load_key(key),
            body,
            mark,
            nanoseconds(fetched_at),
            revision=revision,
            changed_ns=nanoseconds(changed_at),
            vanished_ns=nanoseconds(vanished_at),
            is_gone=bool(is_gone),
        )


def _page_of(source: str, first_id: int, last_id: int, changed_since_ns: int, limit: int) -> Values:
    first, last = (min(item_id, INTEGER_MAX) for item_id in (first_id, last_id))  # no column holds a higher one
    return {"source": source, "first": first, "last": last, "limit": limit, "since": milliseconds(changed_since_ns)}


def _number(position: str) -> int:
    """The number of a change. Numbers are given without holes, except where PostgreSQL rolled back."""
    return int(position.rpartition(":")[2])


def no_position(text: str) -> ConfigurationError:
    """The error for a text that is no position in this store's change feed."""
    shown = text[:40].encode("unicode_escape").decode()  # it may come from a request
    return ConfigurationError(
        f'"{shown}" is not a position in the change feed',
        hint="write the position of the last change you have read, or 0 to begin",
    )


def refused_query(why: str) -> ConfigurationError:
    """The error for a query that does more than read."""
    return ConfigurationError(
        f"only a query that reads is allowed ({why})", hint="write one SELECT; nothing in the mirror was changed"
    )


def failed_query(why: str) -> ConfigurationError:
    """The error for a query that the database does not understand."""
    return ConfigurationError(
        f"the query failed: {' '.join(why.split())}", hint="docs/tables.md lists the tables, views and columns"
    )


def slow_query(seconds_max: float) -> ConfigurationError:
    """The error for a query that takes too long: a long read holds up the database's housekeeping."""
    return ConfigurationError(
        f"the query took longer than {seconds_max:g} seconds and was stopped",
        hint="ask for less, use an index (docs/tables.md), or allow more time",
    )


def large_answer(bytes_max: int) -> ConfigurationError:
    """The error for a query that gives more than fits into memory."""
    return ConfigurationError(
        f"the query's answer is larger than {bytes_max >> 20} MiB",
        hint="ask for fewer rows, or for parts of long texts, as substr(body, 1, 1000); `remora export` writes everything",
    )


def text_bytes(row: Row) -> int:
    """How much memory the long values of a row take, about."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))


def item_from(source: str, row: Row) -> MirroredItem:
    """An item from the columns of `read_items`."""
    return MirroredItem(
        source=source,
        id=row[0],
        type=row[1],
        by=row[2],
        time=row[3],
        parent=row[4],
        score=row[5],
        descendants=row[6],
        dead=bool(row[7]),
        deleted=bool(row[8]),
        first_seen_ns=row[9] * MILLISECOND_NS,
        last_fetched_ns=row[10] * MILLISECOND_NS,
        changed_ns=row[11] * MILLISECOND_NS,
        revision=row[12],
        body=row[13],
    )
