"""Who builds the search index? `remora search --build`, and `remora up` keeps an index that exists up to date."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from remora.contracts.reader import Reader
from remora.contracts.search import SearchIndex
from remora.core.errors import ConfigurationError, RemoraError, StoreBusy
from remora.read.indexing import Indexer
from remora.read.search import IndexReport, report
from remora.stores import open_reader, open_search_index

log = structlog.get_logger()

# How often we check whether an index was added, or is no longer being built by another process.
LOOK_EVERY_S: Final = 30.0
# How long a change may wait for the next step when there is little to do.
STEP_EVERY_S: Final = 2.0
# The share of one core that a service spends on its index: collecting comes first.
SHARE: Final = 0.1


async def build(url: str, *, rebuild: bool, tell: Callable[[int], None]) -> IndexReport:
    """Build the index, or what is missing. `tell` is called with the number of rows that each step read."""
    async with _opened(url) as (reader, index):
        if rebuild:
            await index.clear()
        indexer = Indexer(reader, index)
        while count := await indexer.run_once():
            tell(count)
        return await report(reader, index)


async def keep_fresh(url: str) -> None:
    """Index what changes, if there is an index, with a small share of the time. Never fails."""
    is_told = False
    while True:
        try:
            if await open_search_index(url).exists():
                await _follow(url)
            is_told = False
        except ConfigurationError:
            return  # a store that ends with its process has no index
        except StoreBusy:
            pass  # another process is building it
        except Exception as error:  # noqa: BLE001 - no item may stop collecting because it cannot be indexed
            if not is_told:
                bug = f"a bug in Remora ({type(error).__name__}); please report it"
                log.warning("search_index_paused", why=error.message if isinstance(error, RemoraError) else bug)
            is_told = True
        await asyncio.sleep(LOOK_EVERY_S)


async def _follow(url: str) -> None:
    """Follow the changes until the index is removed."""
    async with _opened(url) as (reader, index):
        indexer = Indexer(reader, index)
        while await index.exists():
            began_s = time.monotonic()
            count = await indexer.run_once()
            took_s = time.monotonic() - began_s
            rest_s = took_s * (1 - SHARE) / SHARE
            await asyncio.sleep(rest_s if count > 1 else max(rest_s, STEP_EVERY_S))


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[tuple[Reader, SearchIndex]]:
    """The mirror to read and its index to write."""
    reader, index = open_reader(url), open_search_index(url)
    await reader.open()
    try:
        await index.open(to_write=True)
        try:
            yield reader, index
        finally:
            await index.close()
    finally:
        await reader.close()
