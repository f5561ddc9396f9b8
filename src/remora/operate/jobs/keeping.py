"""How is a store kept small? Old changes, revisions and settled gaps are deleted on request, never one that a reader still needs."""

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from remora.contracts.keeping import Housekeeping
from remora.core.units import DAY_NS
from remora.files import room_for
from remora.operate.config.settings import Settings
from remora.operate.jobs.startup_checks import naming_store
from remora.read.retention import forget_old
from remora.stores import open_search_index, sqlite_file
from remora.stores.change_sample import recent_changes
from remora.stores.keeping import open_housekeeping
from remora.stores.sqlite.database import size_with_log
from remora.stores.sqlite.keeping import check_room_to_shrink

SIZES_SECONDS_MAX: Final = 3_600.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, and who kept the rest."""

    changes: int
    revisions: int
    settled_gaps: int
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
    settings: Settings,
    *,
    changes_older_ns: int | None,
    revisions_older_ns: int | None,
    settled_older_ns: int | None,
    shrink: bool,
) -> Kept:
    """Delete what is older than asked for, and give the space back."""
    url, now_ns = settings.store.url, time.time_ns()
    before = size_on_disk(url)
    async with housekeeping(url) as store:
        if shrink and (path := sqlite_file(url)) is not None:
            check_room_to_shrink(path, temporary=_temporary_folder(os.environ))
        forgotten = await forget_old(
            store,
            open_search_index(url),
            changes_before_ns=None if changes_older_ns is None else now_ns - changes_older_ns,
            revisions_before_ns=None if revisions_older_ns is None else now_ns - revisions_older_ns,
            settled_before_ns=None if settled_older_ns is None else now_ns - settled_older_ns,
        )
        if shrink:
            await store.compact()
    return Kept(
        changes=forgotten.changes,
        revisions=forgotten.revisions,
        settled_gaps=forgotten.settled_gaps,
        waits_for=forgotten.waits_for,
        bytes_before=before,
        bytes_after=size_on_disk(url),
    )


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
    """The bytes of a SQLite file with its log; None for a server."""
    return None if (path := sqlite_file(url)) is None else size_with_log(path)


def free_on_disk(url: str) -> int | None:
    """The bytes that are left for a SQLite file; None for a server."""
    return None if (path := sqlite_file(url)) is None else room_for(path)


def _temporary_folder(environ: Mapping[str, str]) -> Path:
    """Where SQLite writes temporary files: by its own rule, the first of these places that may be written."""
    named = [environ[name] for name in ("SQLITE_TMPDIR", "TMPDIR") if environ.get(name)]
    places = [Path(place) for place in (*named, "/var/tmp", "/usr/tmp", "/tmp")]  # noqa: S108 - nothing is created here
    return next((place for place in places if place.is_dir() and os.access(place, os.W_OK | os.X_OK)), Path())
