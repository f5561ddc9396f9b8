"""How does `remora import` work? It reads files page by page and stores what the mirror does not hold yet.

Nothing is asked for: what was imported is covered, so that a backfill leaves it out.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from remora.contracts.importing import Importing, ImportState
from remora.core.errors import ConfigurationError
from remora.core.item import Item
from remora.operate.config.settings import Settings, SourceSettings
from remora.operate.jobs.startup_checks import naming_store
from remora.sources.declaration import Declaration
from remora.sources.dumps import fingerprint, items_of, pages
from remora.sources.numbered import DeclaredReading, Reading
from remora.sources.presets import PRESETS
from remora.stores.copied import take_over
from remora.stores.importing import open_importing

# From here on it is faster to build the readers' indexes once than to keep them.
LARGE_BYTES: Final = 256 << 20
# The field of a line that is its id, if the declaration names none.
ID_FIELD: Final = "id"

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
    rules = _Rules.of(settings.sources[name])
    known = {path: rules.content_as_read(path) for path in paths}
    for path in paths:  # before anything is written, and before there is a store
        await _check_items(path, name, rules)
    store = open_importing(settings.store.url)
    with naming_store(settings.store.url):
        await store.open()
    try:
        await take_over(store)
        is_large = sum(path.stat().st_size for path in paths) >= LARGE_BYTES
        if is_large:
            await store.defer_indexes()
        done = [await _import_file(store, name, path, known[path], rules, tell) for path in paths]
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


@dataclass(frozen=True)
class _Rules:
    """How the rows of a file become items of one source: as its owner declared it, or by the reading of a preset."""

    reading: Reading
    declared: Declaration | None

    @classmethod
    def of(cls, source: SourceSettings) -> "_Rules":
        reading = reading_of(source)
        return cls(reading, source.declaration if isinstance(reading, DeclaredReading) else None)

    @property
    def id_at(self) -> str | None:
        """Where a line has its id. None: where Hacker News and its public tables have it."""
        return None if self.declared is None else self.declared.item.id or ID_FIELD

    @property
    def hint(self) -> str:
        """What to do about a file without an item."""
        if self.declared is None:
            return "import lines of JSON with an id, or a Parquet file with the columns of the Hacker News API"
        if self.declared.item.id is None:
            return "write as item.id where a line has its id, or import a Parquet export of Remora, which has a column for it"
        return f'item.id is "{self.id_at}": correct it if a line has its id elsewhere, or import a file of this source'

    def content_as_read(self, path: Path) -> str:
        """Names the content of a file and how it is read: after a correction of the declaration it is read again."""
        content = fingerprint(path)
        if self.declared is None:
            return content
        declared = msgspec.json.encode((self.declared.item, self.declared.absent))
        return blake2b(content.encode() + declared, digest_size=16).hexdigest()

    def pages(self, path: Path, *, after_rows: int = 0) -> Iterator[tuple[list[Item], int]]:
        """The items of each page of a file after some rows, and how many rows they come from."""
        for rows, count in pages(path, id_at=self.id_at, after_rows=after_rows):
            yield items_of(rows, self.reading), count


async def _check_items(path: Path, source: str, rules: _Rules) -> None:
    """Refuse a file whose rows are all passed over. Of any other file this reads no more than up to its first item."""
    left, rows = rules.pages(path), 0
    while (page := await asyncio.to_thread(next, left, None)) is not None:
        items, count = page
        if items:
            return
        rows += count
    if rows:
        raise ConfigurationError(f"{path} holds no item of {source}", hint=rules.hint)


async def _import_file(store: Importing, source: str, path: Path, content: str, rules: _Rules, tell: Tell) -> Imported:
    began_s = time.monotonic()
    state = await store.begin_import(source, file=_as_text(path.name), fingerprint=content, now_ns=time.time_ns())
    passed_over = 0
    if not state.is_finished:
        state, passed_over = await _import_rows(store, source, path, state, rules, tell)
        await store.end_import(source, state, now_ns=time.time_ns())
    return Imported(
        file=_as_text(str(path)),
        rows=state.rows_read,
        items=state.items,
        passed_over=passed_over,
        seconds=round(time.monotonic() - began_s, 3),
    )


async def _import_rows(
    store: Importing, source: str, path: Path, state: ImportState, rules: _Rules, tell: Tell
) -> tuple[ImportState, int]:
    """While one page is stored, the next one is read and decoded."""
    left = rules.pages(path, after_rows=state.rows_read)
    passed_over, rows_read = 0, state.rows_read
    page = await asyncio.to_thread(next, left, None)
    while page is not None:
        items, count = page
        rows_read += count
        passed_over += count - len(items)
        storing = asyncio.ensure_future(
            store.import_items(source, state, items, rows_read=rows_read, now_ns=time.time_ns())
        )
        try:
            page = await asyncio.to_thread(next, left, None)
        finally:
            state = await storing
        tell(_as_text(path.name), rows_read)
    return state, passed_over


def _as_text(name: str) -> str:
    """The name of a file. One that is no UTF-8, as of an old disk, is told by the numbers of its bytes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
