"""How does a program read a mirror? `async with remora.open(…) as mirror`: items, threads, users, documents, changes."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from remora.contracts.reader import (
    Change,
    ItemColumns,
    MirroredDocument,
    MirroredItem,
    MirroredSource,
    MirroredUser,
    QueryResult,
    Reader,
    Revision,
)
from remora.contracts.search import SearchOrder
from remora.core.choices import choice_of
from remora.core.errors import ConfigurationError
from remora.read.arguments import (
    INTEGER_MAX,
    ROWS_MAX,
    SECONDS_MAX,
    bound,
    number_of_seconds,
    store_address,
    text,
    whole_number,
)
from remora.read.search import IndexReport, SearchHit, find, no_index, report
from remora.read.search_query import parse_query
from remora.read.thread import THREAD_ITEMS_MAX, ThreadNode, read_thread
from remora.stores import open_reader, open_search_index

# A page is one short read, so a slow caller never holds up the writer.
PAGE_ROWS: Final = 500
BULK_ROWS: Final = 5_000
FOLLOW_EVERY_S: Final = 1.0
QUERY_ROWS_MAX: Final = 10_000
QUERY_SECONDS_MAX: Final = 60.0
T = TypeVar("T")


class MirrorReader:
    """An open mirror. It reads the store only: the source is never asked, and the writer is never disturbed.

    A source that the mirror does not hold is refused, unless it is one of the `configured` ones, which may come.
    """

    def __init__(self, url: str | os.PathLike[str], *, configured: Collection[str] = ()) -> None:
        self._url = store_address(url)
        self._reader: Reader = open_reader(self._url)
        self._known = set(configured)

    async def __aenter__(self) -> Self:
        await self._reader.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._reader.close()

    async def sources(self) -> Sequence[MirroredSource]:
        """Every source that the mirror holds something of, by name."""
        return await self._reader.sources()

    async def item(self, item_id: int, *, source: str | None = None) -> MirroredItem | None:
        """One item by its id; None if the mirror does not hold it."""
        wanted = whole_number(item_id, "item_id")
        found = await self._reader.items(await self._numbered(source), [wanted])
        return found[0] if found else None

    async def items(
        self, *, source: str | None = None, first_id: int = 0, last_id: int | None = None, changed_since_ns: int = 0
    ) -> AsyncIterator[MirroredItem]:
        """All items by id. Pages are read one after the other, so memory stays small."""
        pages = self.item_pages(source=source, first_id=first_id, last_id=last_id, changed_since_ns=changed_since_ns)
        async for page in pages:
            for item in page:
                yield item

    async def item_pages(
        self, *, source: str | None = None, first_id: int = 0, last_id: int | None = None, changed_since_ns: int = 0
    ) -> AsyncIterator[Sequence[MirroredItem]]:
        """All items by id, in pages of at most 500."""
        name = await self._numbered(source)
        first_id, end = _ids(first_id, last_id)
        since_ns = bound(changed_since_ns, "changed_since_ns")
        while True:
            page = await self._reader.item_page(
                name, first_id=first_id, last_id=end, changed_since_ns=since_ns, limit=PAGE_ROWS
            )
            if not page:
                return
            yield page
            first_id = page[-1].id + 1

    async def items_of(self, ids: Sequence[int], *, source: str | None = None) -> AsyncIterator[MirroredItem]:
        """The items of these ids that the mirror holds, in short reads."""
        name = await self._numbered(source)
        for start in range(0, len(ids), PAGE_ROWS):
            for item in await self._reader.items(name, ids[start : start + PAGE_ROWS]):
                yield item

    async def earlier_items(
        self, ids: Sequence[int] | None, *, source: str | None = None, changed_since_ns: int = 0
    ) -> AsyncIterator[tuple[int, Revision]]:
        """Earlier contents of these items, by id and number; None: of all. Those older than that are left out."""
        name = await self._numbered(source)
        async for some in self._revised_ids(name) if ids is None else _in_pieces(ids):
            place = (0, 0)
            while page := await self._reader.earlier_items(name, some, changed_since_ns=changed_since_ns, after=place):
                for found in page:
                    yield found
                place = (page[-1][0], page[-1][1].number)

    async def _revised_ids(self, source: str) -> AsyncIterator[Sequence[int]]:
        after = -1
        while ids := await self._reader.revised_ids(source, after_id=after, limit=PAGE_ROWS):
            yield ids
            after = ids[-1]

    async def documents_of(self, keys: Sequence[str], *, source: str | None = None) -> AsyncIterator[MirroredDocument]:
        """The documents of these keys that have a body, in short reads."""
        name = await self._listed(source)
        async for some in _in_pieces(keys):
            after = ""
            while page := await self._reader.documents_of(name, some, after=after):
                for document in page:
                    yield document
                after = page[-1].key

    async def earlier_documents(
        self, keys: Sequence[str] | None, *, source: str | None = None, changed_since_ns: int = 0
    ) -> AsyncIterator[MirroredDocument]:
        """Earlier contents of these documents, by key and number; None: of all. Those older than that are left out."""
        name = await self._listed(source)
        async for some in self._revised_keys(name) if keys is None else _in_pieces(keys):
            place = ("", 0)
            while page := await self._reader.earlier_documents(
                name, some, changed_since_ns=changed_since_ns, after=place
            ):
                for document in page:
                    yield document
                place = (page[-1].key, page[-1].revision)

    async def _revised_keys(self, source: str) -> AsyncIterator[Sequence[str]]:
        after = ""
        while keys := await self._reader.revised_keys(source, after=after, limit=PAGE_ROWS):
            yield keys
            after = keys[-1]

    async def item_column_pages(
        self, source: str, *, first_id: int = 0, last_id: int | None = None, changed_since_ns: int = 0
    ) -> AsyncIterator[ItemColumns]:
        """All items by id as columns (`ITEM_ROW`), in pages of at most 5,000. The next page is read meanwhile."""
        first_id, end = _ids(first_id, last_id)
        since_ns = bound(changed_since_ns, "changed_since_ns")

        def read(first: int) -> "asyncio.Future[ItemColumns]":
            return asyncio.ensure_future(
                self._reader.item_columns(
                    source, first_id=first, last_id=end, changed_since_ns=since_ns, limit=BULK_ROWS
                )
            )

        reading = read(first_id)
        try:
            while (page := await reading)["id"]:
                reading = read(page["id"][-1] + 1)
                yield page
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def table(
        self, *, source: str | None = None, first_id: int = 0, last_id: int | None = None, changed_since_ns: int = 0
    ) -> Any:
        """Items as a `pyarrow.Table` with the columns of an export, for DataFrames. Needs the extra `export`.

        All of it is in memory, about a gigabyte for a million items: bound the ids, or use `remora export`.
        """
        # Loaded only where it is used: most callers have no pyarrow.
        from remora.read.arrow import item_table, load_pyarrow, schema  # noqa: PLC0415

        pyarrow, name = load_pyarrow(), await self._numbered(source)
        pages = self.item_column_pages(name, first_id=first_id, last_id=last_id, changed_since_ns=changed_since_ns)
        tables = [await asyncio.to_thread(item_table, pyarrow, name, page) async for page in pages]
        return pyarrow.concat_tables([schema(pyarrow, is_listed=False).empty_table(), *tables])

    async def history(self, item_id: int, *, source: str | None = None) -> Sequence[Revision]:
        """Every content that was seen of an item, oldest first; the last one is the current one. Empty if not held."""
        now = await self.item(item_id, source=source)
        if now is None:
            return ()
        current = Revision(now.revision, now.body, now.changed_ns, now.last_fetched_ns)
        return (*await self._reader.revisions(now.source, now.id), current)

    async def thread(
        self, item_id: int, *, source: str | None = None, items_max: int = THREAD_ITEMS_MAX
    ) -> ThreadNode | None:
        """An item with all replies below it, as a tree; None if the mirror does not hold the item."""
        items_max = whole_number(items_max, "items_max", least=1, most=ROWS_MAX)
        root = await self.item(item_id, source=source)
        return None if root is None else await read_thread(self._reader, root, items_max=items_max)

    async def user(self, name: str, *, source: str | None = None) -> MirroredUser | None:
        """One profile by its name; None if the mirror does not hold it."""
        return await self._reader.user(await self._numbered(source), text(name, "name"))

    async def document(self, key: str, *, source: str | None = None) -> MirroredDocument | None:
        """One document by its key; None if the mirror does not hold it."""
        return await self._reader.document(await self._listed(source), text(key, "key"))

    async def documents(
        self, *, source: str | None = None, fetched_since_ns: int = 0
    ) -> AsyncIterator[MirroredDocument]:
        """All documents that have a body, by key."""
        async for page in self.document_pages(source=source, fetched_since_ns=fetched_since_ns):
            for document in page:
                yield document

    async def document_pages(
        self, *, source: str | None = None, fetched_since_ns: int = 0
    ) -> AsyncIterator[Sequence[MirroredDocument]]:
        """All documents that have a body, by key, in pages of at most 500."""
        name, after = await self._listed(source), ""
        since_ns = bound(fetched_since_ns, "fetched_since_ns")
        while True:
            page = await self._reader.document_page(name, after=after, fetched_since_ns=since_ns, limit=PAGE_ROWS)
            if not page:
                return
            yield page
            after = page[-1].key

    async def changes(self, *, since: str = "0", follow: bool = False) -> AsyncIterator[Change]:
        """What is new or changed, in order, after a position; "0" begins at the oldest.

        Keep the `position` of the last change that you have worked on and pass it next time: nothing is left out.
        With `follow` it waits for more and never ends.
        """
        async for page in self.change_pages(since=since, follow=follow):
            for change in page:
                yield change

    async def change_pages(self, *, since: str = "0", follow: bool = False) -> AsyncGenerator[Sequence[Change]]:
        """The same in pages of at most 500."""
        since = text(since, "since")
        while True:
            page = await self._reader.changes(since, limit=PAGE_ROWS)
            if page:
                since = page[-1].position
                yield page
            if len(page) == PAGE_ROWS:
                continue
            if not follow:
                return
            await asyncio.sleep(FOLLOW_EVERY_S)

    async def newest_position(self) -> str:
        """The position of the newest change: follow from here to see only what comes."""
        return await self._reader.newest_position()

    async def search(
        self, query: str, *, source: str | None = None, order: str = "relevance", limit: int = 20
    ) -> Sequence[SearchHit]:
        """What matches a query such as `rate limit by:ada score>10`, by relevance, time or score.

        Needs the search index; `remora search --build` makes it. The index may lag behind the mirror.
        """
        by = choice_of(order, SearchOrder, "order")
        wanted = parse_query(text(query, "query"))
        limit = whole_number(limit, "limit")
        if source is not None:
            await self._check_known(source)
        index = open_search_index(self._url)
        if not await index.exists():
            raise no_index()
        await index.open(to_write=False)
        try:
            return await find(self._reader, index, wanted, source=source, order=by, limit=limit)
        finally:
            await index.close()

    async def search_report(self) -> IndexReport | None:
        """How large the search index is and how far behind; None if there is none."""
        index = open_search_index(self._url)
        if not await index.exists():
            return None
        await index.open(to_write=False)
        try:
            return await report(self._reader, index)
        finally:
            await index.close()

    async def query(
        self, statement: str, *, rows_max: int = QUERY_ROWS_MAX, seconds_max: float = QUERY_SECONDS_MAX
    ) -> QueryResult:
        """The rows of one SQL query. Anything that writes is refused."""
        return await self._reader.query(
            text(statement, "statement"),
            limit=whole_number(rows_max, "rows_max", least=1, most=ROWS_MAX),
            seconds_max=number_of_seconds(seconds_max, "seconds_max", most=SECONDS_MAX),
        )

    async def _numbered(self, source: str | None) -> str:
        return await self._named(source, lambda held: not held.is_listed, "numbered items")

    async def _listed(self, source: str | None) -> str:
        return await self._named(source, lambda held: held.is_listed, "documents")

    async def _named(self, source: str | None, fits: Callable[[MirroredSource], bool], what: str) -> str:
        """The source that is meant: the named one, or the only one that fits."""
        if source is not None:
            await self._check_known(source)
            return source
        names = [held.name for held in await self._reader.sources() if fits(held)]
        if len(names) == 1:
            return names[0]
        if not names:
            raise ConfigurationError(
                f"the mirror holds no source with {what} yet", hint="let `remora up` or `remora run` fetch something"
            )
        raise ConfigurationError(
            f"the mirror holds more than one source with {what}", hint=f"name one of: {', '.join(names)}"
        )

    async def _check_known(self, source: str) -> None:
        """Refuse a source that the mirror does not have: "nothing found" would be a wrong answer to a wrong name."""
        if text(source, "source") in self._known:
            return
        names = [held.name for held in await self._reader.sources()]
        if source not in names:
            raise ConfigurationError(
                f"the mirror holds nothing of a source {source}", hint=f"it holds: {', '.join(names) or 'nothing'}"
            )
        self._known.add(source)


def _ids(first_id: int, last_id: int | None) -> tuple[int, int]:
    """The first and the last id of a range; None: to the end."""
    return bound(first_id, "first_id"), INTEGER_MAX if last_id is None else bound(last_id, "last_id")


async def _in_pieces(keys: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    for start in range(0, len(keys), PAGE_ROWS):
        yield keys[start : start + PAGE_ROWS]


def open_mirror(url: str | os.PathLike[str]) -> MirrorReader:
    """The mirror in a store: `sqlite:///hn.db`, the path of a SQLite file or `postgresql://user@host/database`.

    Use it with `async with`.
    """
    return MirrorReader(url)
