"""How is a mirror read without `async`, as in a notebook? With the same methods; the reads run in a thread of their own."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from remora.contracts.reader import (
    Change,
    MirroredDocument,
    MirroredItem,
    MirroredSource,
    MirroredUser,
    QueryResult,
    Revision,
)
from remora.core.errors import ConfigurationError
from remora.read.mirror import QUERY_ROWS_MAX, QUERY_SECONDS_MAX, MirrorReader
from remora.read.search import SearchHit
from remora.read.thread import THREAD_ITEMS_MAX, ThreadNode

T = TypeVar("T")


class SyncMirrorReader:
    """An open mirror for code without `async`. A notebook has an event loop of its own, so this one has a thread."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._mirror = MirrorReader(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remora-reader", daemon=True)
        self._thread.start()
        try:
            self._wait(self._mirror.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait(self._mirror.__aexit__(kind, error, trace))
        finally:
            self._end()

    def sources(self) -> Sequence[MirroredSource]:
        """Every source that the mirror holds something of, by name."""
        return self._wait(self._mirror.sources())

    def item(self, item_id: int, *, source: str | None = None) -> MirroredItem | None:
        """One item by its id; None if the mirror does not hold it."""
        return self._wait(self._mirror.item(item_id, source=source))

    def items(
        self, *, source: str | None = None, first_id: int = 0, last_id: int | None = None
    ) -> Iterator[MirroredItem]:
        """All items by id. Pages are read one after the other, so memory stays small."""
        yield from self._each(self._mirror.item_pages(source=source, first_id=first_id, last_id=last_id))

    def table(self, *, source: str | None = None, first_id: int = 0, last_id: int | None = None) -> Any:
        """Items as a `pyarrow.Table` with the columns of an export, for DataFrames. Needs the extra `export`."""
        return self._wait(self._mirror.table(source=source, first_id=first_id, last_id=last_id))

    def history(self, item_id: int, *, source: str | None = None) -> Sequence[Revision]:
        """Every content that was seen of an item, oldest first."""
        return self._wait(self._mirror.history(item_id, source=source))

    def thread(
        self, item_id: int, *, source: str | None = None, items_max: int = THREAD_ITEMS_MAX
    ) -> ThreadNode | None:
        """An item with all replies below it, as a tree."""
        return self._wait(self._mirror.thread(item_id, source=source, items_max=items_max))

    def user(self, name: str, *, source: str | None = None) -> MirroredUser | None:
        """One profile by its name."""
        return self._wait(self._mirror.user(name, source=source))

    def document(self, key: str, *, source: str | None = None) -> MirroredDocument | None:
        """One document by its key."""
        return self._wait(self._mirror.document(key, source=source))

    def documents(self, *, source: str | None = None) -> Iterator[MirroredDocument]:
        """All documents that have a body, by key."""
        yield from self._each(self._mirror.document_pages(source=source))

    def changes(self, *, since: str = "0") -> Iterator[Change]:
        """What is new or changed, in order, after a position; ends with the newest change."""
        yield from self._each(self._mirror.change_pages(since=since))

    def search(
        self, query: str, *, source: str | None = None, order: str = "relevance", limit: int = 20
    ) -> Sequence[SearchHit]:
        """What matches a query such as `rate limit by:ada score>10`, by relevance, time or score."""
        return self._wait(self._mirror.search(query, source=source, order=order, limit=limit))

    def query(
        self, statement: str, *, rows_max: int = QUERY_ROWS_MAX, seconds_max: float = QUERY_SECONDS_MAX
    ) -> QueryResult:
        """The rows of one SQL query. Anything that writes is refused."""
        return self._wait(self._mirror.query(statement, rows_max=rows_max, seconds_max=seconds_max))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise ConfigurationError("the mirror is not open", hint="write `with remora.open_sync(…) as mirror:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _each(self, pages: AsyncIterator[Sequence[T]]) -> Iterator[T]:
        async def next_page() -> Sequence[T] | None:
            return await anext(pages, None)

        while (page := self._wait(next_page())) is not None:
            yield from page

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def open_mirror_sync(url: str | os.PathLike[str]) -> SyncMirrorReader:
    """The mirror in a store, or in the SQLite file of a path, for code without `async`. Use it with `with`."""
    return SyncMirrorReader(url)
