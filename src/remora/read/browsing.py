"""Who may read the mirror at the same time? A few readers at once, each with bounded reads; the rest waits or is refused."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from remora.contracts.browsing import BrowsingReader
from remora.contracts.reader import MirroredItem
from remora.contracts.search import SearchIndex, SearchOrder
from remora.core.errors import RemoraError
from remora.read.facets import Facets, count_facets
from remora.read.search import HITS_MAX, SearchHit, hits_of, lag_of, no_index
from remora.read.search_query import parse_query
from remora.stores import open_browsing, open_search_index

READERS: Final = 2
WAITING_MAX: Final = 32
SECONDS_MAX: Final = 3.0


class TooManyReads(RemoraError):
    """More reads wait than may wait."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of hits. Facets count the first thousand hits at most."""

    hits: Sequence[SearchHit]
    counted: int  # how many of the first thousand exist
    facets: Facets
    has_more: bool
    is_building: bool  # the index does not hold everything yet
    waits_since_ns: int | None  # since when the oldest change waits to be indexed; None: all are
    stories: Mapping[tuple[str, str], MirroredItem]  # the story of each hit that is a comment, by source and key


@asynccontextmanager
async def opened_browsing(url: str, *, seconds_max: float = SECONDS_MAX) -> AsyncIterator[BrowsingReader]:
    """One reader with bounded reads."""
    reader = open_browsing(url, seconds_max=seconds_max)
    await reader.open()
    try:
        yield reader
    finally:
        await reader.close()


class Browsing:
    """A mirror that is open for browsing. It opens itself at the first read, and again after the store was away."""

    def __init__(self, url: str, *, seconds_max: float = SECONDS_MAX) -> None:
        self._url = url
        self._seconds_max = seconds_max
        self._free = asyncio.Semaphore(READERS)
        self._waiting = 0
        self._idle: list[BrowsingReader] = []
        self._index: SearchIndex | None = None
        self._index_lock = asyncio.Lock()

    async def close(self) -> None:
        """Close what is open. Reads that are under way close their own connection."""
        idle, self._idle = self._idle, []
        for reader in idle:
            await reader.close()
        await self._close_index()

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[BrowsingReader]:
        """A reader of one's own. A reader that failed is closed, and the next one opens anew."""
        if self._waiting >= WAITING_MAX:
            raise TooManyReads(f"{WAITING_MAX} other reads wait already", hint="try again in a moment")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            reader = self._idle.pop() if self._idle else await self._opened()
            try:
                yield reader
            except BaseException:
                await reader.close()
                raise
            self._idle.append(reader)
        finally:
            self._free.release()

    async def search(self, text: str, *, source: str | None, order: SearchOrder, skip: int, limit: int) -> SearchPage:
        """One page of what matches, with facets."""
        query = parse_query(text)
        async with self.reader() as reader, self._index_lock:
            index = await self._opened_index()
            try:
                keys = await index.find(query, source=source, order=order, limit=HITS_MAX)
                wanted = keys[skip : skip + limit]
                hits = await hits_of(reader, wanted, query)
                facets = count_facets(await index.columns(keys))
                is_building, waits_since_ns = await lag_of(reader, index)
                stories = await _stories_of(reader, hits)
                has_more = len(keys) > skip + limit
                return SearchPage(hits, len(keys), facets, has_more, is_building, waits_since_ns, stories)
            except BaseException:
                await self._close_index()
                raise

    async def _opened(self) -> BrowsingReader:
        reader = open_browsing(self._url, seconds_max=self._seconds_max)
        await reader.open()
        return reader

    async def _opened_index(self) -> SearchIndex:
        index = open_search_index(self._url, seconds_max=self._seconds_max)
        if not await index.exists():
            await self._close_index()
            raise no_index()
        if self._index is None:
            await index.open(to_write=False)
            self._index = index
        return self._index

    async def _close_index(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            await index.close()


async def _stories_of(reader: BrowsingReader, hits: Sequence[SearchHit]) -> Mapping[tuple[str, str], MirroredItem]:
    found: dict[tuple[str, str], MirroredItem] = {}
    things = [hit.thing for hit in hits if isinstance(hit.thing, MirroredItem) and hit.thing.parent is not None]
    for source in {comment.source for comment in things}:
        ids = [comment.id for comment in things if comment.source == source]
        found.update(
            ((source, str(item_id)), story) for item_id, story in (await reader.stories_of(source, ids)).items()
        )
    return found
