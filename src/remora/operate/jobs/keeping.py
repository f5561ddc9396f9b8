"""How is a store kept small? Old changes and revisions are deleted on request, never one that a reader still needs."""

import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from remora.contracts.keeping import Housekeeping
from remora.core.errors import ConfigurationError
from remora.core.units import DAY_NS
from remora.operate.config.settings import Settings
from remora.operate.jobs.startup_checks import naming_store
from remora.read.indexing import load_progress
from remora.stores import open_search_index
from remora.stores.change_sample import recent_changes
from remora.stores.keeping import open_housekeeping

BATCH_ROWS: Final = 10_000
SIZES_SECONDS_MAX: Final = 3_600.0
_SQLITE: Final = "sqlite:///"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, and who kept the rest."""

    changes: int
    revisions: int
    waits_for: str | None  # the reader that is furthest behind
    bytes_before: int | None
    bytes_after: int | None


@asynccontextmanager
async def housekeeping(url: str) -> AsyncIterator[Housekeeping]:
    """Housekeeping for a store, open while the block runs."""
    opened = open_housekeeping(url)
    with naming_store(url):
        await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def compact(
    settings: Settings, *, changes_older_ns: int | None, revisions_older_ns: int | None, shrink: bool
) -> Kept:
    """Delete what is older than asked for, and give the space back."""
    url, now_ns = settings.store.url, time.time_ns()
    before, free = size_on_disk(url), free_on_disk(url)
    if shrink and before is not None and free is not None and free < before:
        raise ConfigurationError(
            f"shrinking writes the file anew and needs {before:,} bytes; the disk has {free:,} left",
            hint="make room, or write --no-shrink: the file then uses the space of what was deleted again",
        )
    async with housekeeping(url) as store:
        name, position = await furthest_behind(store, url)
        changes = revisions = 0
        if changes_older_ns is not None:
            while count := await store.forget_changes(
                before_ns=now_ns - changes_older_ns, up_to=position, limit=BATCH_ROWS
            ):
                changes += count
        if revisions_older_ns is not None:
            while count := await store.forget_revisions(before_ns=now_ns - revisions_older_ns, limit=BATCH_ROWS):
                revisions += count
        if shrink:
            await store.compact()
    return Kept(
        changes=changes,
        revisions=revisions,
        waits_for=name,
        bytes_before=before,
        bytes_after=size_on_disk(url),
    )


async def furthest_behind(store: Housekeeping, url: str) -> tuple[str | None, str | None]:
    """The reader of changes that has come least far, and its position. The search index is a reader, too."""
    positions = {reader.name: reader.position for reader in await store.named_readers()}
    index = open_search_index(url)
    if await index.exists():
        await index.open(to_write=False)
        try:
            kept = await index.progress()
        finally:
            await index.close()
        positions["the search index"] = "0" if kept is None else load_progress(kept).position
    if not positions:
        return None, None
    name = min(positions, key=lambda each: order(positions[each]))
    return name, positions[name]


def order(position: str) -> tuple[int, ...]:
    """Positions in the order of the feed. One is a number, or two numbers with a colon between them."""
    return tuple(int(part) for part in position.split(":"))


async def describe(settings: Settings, *, exact: bool) -> dict[str, object]:
    """What each table takes, how much was new in the last day, and how far each reader is.

    Exact numbers read the whole store. Estimates take seconds, however large it is.
    """
    url, since_ns = settings.store.url, time.time_ns() - DAY_NS
    async with housekeeping(url) as store:
        if exact:
            sizes, day = await store.table_sizes(seconds_max=SIZES_SECONDS_MAX), await store.changes_since(since_ns)
        else:
            sizes, day = await store.estimated_sizes(), await recent_changes(store, since_ns)
        readers = await store.named_readers()
    new = sum(count for name, count in day.items() if name.endswith(" new"))
    whole, items = sum(size.bytes for size in sizes), next((s.rows for s in sizes if s.name == "stored_items"), None)
    return {
        "estimated": not exact,
        "tables": {size.name: {"bytes": size.bytes, "rows": size.rows} for size in sizes} or None,
        "last_day": day,
        # Unknown without a count of items.
        "growth_bytes_per_day": round(new * whole / items) if items else None,
        "free_bytes": free_on_disk(url),
        "readers": {reader.name: reader.position for reader in readers},
    }


def size_on_disk(url: str) -> int | None:
    """The bytes of a SQLite file with what is beside it; None for a server."""
    return None if (path := _file(url)) is None else sum(_sizes(path.parent.glob(f"{path.name}*")))


def free_on_disk(url: str) -> int | None:
    """The bytes that are left for a SQLite file; None for a server."""
    return None if (path := _file(url)) is None else shutil.disk_usage(path.parent).free


def _file(url: str) -> Path | None:
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def _sizes(paths: Iterable[Path]) -> Iterable[int]:
    return (path.stat().st_size for path in paths)
