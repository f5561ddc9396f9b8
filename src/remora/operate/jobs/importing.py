"""How does `remora import` work? It reads files page by page and stores what the mirror does not hold yet.

Nothing is asked for: what was imported is covered, so that a backfill leaves it out.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from remora.contracts.importing import Importing, ImportState
from remora.core.errors import ConfigurationError
from remora.core.item import Item
from remora.operate.config.settings import Settings, SourceSettings
from remora.operate.jobs.startup_checks import naming_store
from remora.sources.dumps import Page, fingerprint, items_of, pages
from remora.sources.numbered import DeclaredReading, Reading
from remora.sources.presets import PRESETS
from remora.stores.importing import open_importing

# From here on it is faster to build the readers' indexes once than to keep them.
LARGE_BYTES: Final = 256 << 20

# Called with the name of a file and how many of its rows were read so far.
Tell = Callable[[str, int], None]


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What one file brought."""

    file: str
    rows: int
    items: int  # items that the mirror did not hold before
    passed_over: int  # rows of this call that are not items of the source
    seconds: float


async def import_files(settings: Settings, name: str, paths: Sequence[Path], *, tell: Tell) -> list[Imported]:
    """Import files one after the other. Another call with the same files resumes an interrupted one."""
    source = settings.sources[name]
    known = {path: _content_as_read(path, source) for path in paths}
    reading = reading_of(source)
    for path in paths:  # before anything is written, and before there is a store
        await _check_items(path, name, reading)
    store = open_importing(settings.store.url)
    with naming_store(settings.store.url):
        await store.open()
    try:
        is_large = sum(path.stat().st_size for path in paths) >= LARGE_BYTES
        if is_large:
            await store.defer_indexes()
        done = [await _import_file(store, name, path, known[path], reading, tell) for path in paths]
        if is_large:
            await store.restore_indexes()
        await store.plan_anew(name, now_ns=time.time_ns())
        return done
    finally:
        await store.close()


def reading_of(source: SourceSettings) -> Reading:
    """How the bodies of a source are read."""
    own = None if source.preset is None else PRESETS[source.preset].reading
    return DeclaredReading(source.declaration) if own is None else own


def _content_as_read(path: Path, source: SourceSettings) -> str:
    """Names the content of a file and how it is read: after a correction of the declaration it is read again."""
    content = fingerprint(path)
    if not isinstance(reading_of(source), DeclaredReading):
        return content
    declared = msgspec.json.encode((source.declaration.item, source.declaration.absent))
    return blake2b(content.encode() + declared, digest_size=16).hexdigest()


async def _check_items(path: Path, source: str, reading: Reading) -> None:
    """Refuse a file whose rows are all passed over. Of any other file this reads no more than up to its first item."""
    left, rows = pages(path), 0
    while (page := await asyncio.to_thread(_next, left, reading)) is not None:
        items, count = page
        if items:
            return
        rows += count
    if rows:
        raise ConfigurationError(
            f"{path} holds no item of {source}",
            hint="import lines of JSON with an id, or a Parquet file with the columns of the Hacker News API",
        )


async def _import_file(
    store: Importing, source: str, path: Path, content: str, reading: Reading, tell: Tell
) -> Imported:
    began_s = time.monotonic()
    state = await store.begin_import(source, file=path.name, fingerprint=content, now_ns=time.time_ns())
    passed_over = 0
    if not state.is_finished:
        state, passed_over = await _import_rows(store, source, path, state, reading, tell)
        await store.end_import(source, state, now_ns=time.time_ns())
    return Imported(
        file=str(path),
        rows=state.rows_read,
        items=state.items,
        passed_over=passed_over,
        seconds=round(time.monotonic() - began_s, 3),
    )


async def _import_rows(
    store: Importing, source: str, path: Path, state: ImportState, reading: Reading, tell: Tell
) -> tuple[ImportState, int]:
    """While one page is stored, the next one is read and decoded."""
    left = pages(path, after_rows=state.rows_read)
    passed_over, rows_read = 0, state.rows_read
    page = await asyncio.to_thread(_next, left, reading)
    while page is not None:
        items, count = page
        rows_read += count
        passed_over += count - len(items)
        storing = asyncio.ensure_future(
            store.import_items(source, state, items, rows_read=rows_read, now_ns=time.time_ns())
        )
        try:
            page = await asyncio.to_thread(_next, left, reading)
        finally:
            state = await storing
        tell(path.name, rows_read)
    return state, passed_over


def _next(left: Iterator[Page], reading: Reading) -> tuple[list[Item], int] | None:
    page = next(left, None)
    if page is None:
        return None
    rows, count = page
    return items_of(rows, reading), count
