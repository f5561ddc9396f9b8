"""How does a folder of Parquet files stay fresh? New files beside the old ones, whole or not there, merged when many.

Nothing is rewritten in place: an edit or a deletion is a new row with its revision and time, and the older row stays. The
newest row of an item is the one with the highest `revision`, then the latest `changed_at`; the newest row of a document is
the one with the latest `exported_at`. A file gets its name only when it is complete. `_lake.json` says how far the folder
is, and is replaced after the files are there: a kill writes some rows again, and loses none.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from remora.contracts.reader import ITEM_ROW, ItemColumns, MirroredDocument, MirroredItem
from remora.core.errors import ConfigurationError
from remora.core.ledger.discovery import Kind
from remora.core.units import MILLISECOND_NS
from remora.read.arrow import by_month, document_table, item_table, load_pyarrow
from remora.read.export import Wanted
from remora.read.export_rows import document_row
from remora.read.mirror import MirrorReader
from remora.read.parquet import NO_MONTH, Tell, export_parquet

STATE: Final = "_lake.json"
# Changes of one step: one short file for each month they belong to.
STEP_CHANGES: Final = 20_000
# Bodies that become one table.
TABLE_BYTES: Final = 64 << 20
# A month with more small files than this gets one in their place.
SMALL_FILES_MAX: Final = 8
SMALL_BYTES: Final = 32 << 20
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600

Thing = TypeVar("Thing", MirroredItem, MirroredDocument)


class _State(msgspec.Struct, frozen=True):
    """The source of a lake, the change feed's position it has, and the number of its last file."""

    source: str
    position: str
    files: int = 0


class Lake:
    """A folder that follows one source."""

    def __init__(self, folder: Path, source: str, *, is_listed: bool) -> None:
        self._folder = folder
        self._source = source
        self._is_listed = is_listed
        self._pyarrow = load_pyarrow()
        self._state: _State | None = None

    @property
    def position(self) -> str | None:
        """The last change that the folder has; None before the first export."""
        return None if self._state is None else self._state.position

    async def open(self, mirror: MirrorReader, *, tell: Tell = lambda _: None) -> None:
        """Find out how far the folder is. A new one gets everything that the mirror holds."""
        self._state = self._load()
        if self._state is not None:
            return
        position = await mirror.newest_position()  # before the first row is read: what changes meanwhile comes again
        await export_parquet(mirror, Wanted(self._source, self._is_listed), self._folder, tell=tell)
        self._keep(_State(self._source, position))

    async def run_once(self, mirror: MirrorReader) -> int:
        """Add what changed since; returns how many changes were read. 0: the folder has everything."""
        assert self._state is not None, "it was opened"
        keys: set[str] = set()
        kind = Kind.DOCUMENT if self._is_listed else Kind.ITEM
        count, position = 0, self._state.position
        async for page in mirror.change_pages(since=position):
            keys.update(change.key for change in page if change.source == self._source and change.kind == kind)
            count, position = count + len(page), page[-1].position
            if count >= STEP_CHANGES:
                break
        if count:
            tables = self._documents(mirror, keys) if self._is_listed else self._items(mirror, keys)
            async for table in tables:
                await self._add(table)
            self._keep(msgspec.structs.replace(self._state, position=position))
        return count

    async def _items(self, mirror: MirrorReader, keys: Iterable[str]) -> AsyncIterator[Any]:
        async for items in _by_size(mirror.items_of(sorted(map(int, keys)), source=self._source)):
            yield await asyncio.to_thread(item_table, self._pyarrow, self._source, _columns(items))

    async def _documents(self, mirror: MirrorReader, keys: Iterable[str]) -> AsyncIterator[Any]:
        async for documents in _by_size(_held(mirror, self._source, keys)):
            rows = [document_row(document) for document in documents]
            yield document_table(self._pyarrow, rows, now_ns=time.time_ns())

    async def _add(self, table: Any) -> None:
        for month, rows in by_month(self._pyarrow, table, "fetched_at" if self._is_listed else "time"):
            folder = self._folder / f"month={month or NO_MONTH}"
            await asyncio.to_thread(self._write, folder, rows)
            await asyncio.to_thread(self._merge, folder)

    def _write(self, folder: Path, table: Any) -> None:
        """A file that appears when it is complete and on the disk. Readers look for *.parquet, so never see half of it."""
        assert self._state is not None, "it was opened"
        self._state = msgspec.structs.replace(self._state, files=self._state.files + 1)
        folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        path = folder / f"change-{self._state.files:08}.parquet"
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE), "wb") as file:
            self._pyarrow.parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def _merge(self, folder: Path) -> None:
        """One file in place of many small ones. The old ones go when it is there: a reader may see a row twice, never none."""
        small = [file for file in sorted(folder.glob("change-*.parquet")) if file.stat().st_size < SMALL_BYTES]
        if len(small) <= SMALL_FILES_MAX:
            return
        tables = [self._pyarrow.parquet.ParquetFile(file).read() for file in small]
        key, moment = ("key", "exported_at") if self._is_listed else ("id", "changed_at")
        self._write(folder, newest_of_each_revision(self._pyarrow, self._pyarrow.concat_tables(tables), key, moment))
        for file in small:
            file.unlink()

    def _load(self) -> _State | None:
        try:
            found = msgspec.json.decode((self._folder / STATE).read_bytes(), type=_State)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError):
            raise ConfigurationError(
                f"{self._folder / STATE} cannot be read", hint="name another folder, or delete this one to begin anew"
            ) from None
        if found.source != self._source:
            raise ConfigurationError(
                f"{self._folder} follows {found.source}", hint=f"name another folder for {self._source}"
            )
        # Numbers of files that a kill left behind are not used again.
        taken = (int(file.stem.rpartition("-")[2]) for file in self._folder.rglob("change-*.parquet"))
        return msgspec.structs.replace(found, files=max([found.files, *taken]))

    def _keep(self, state: _State) -> None:
        part = self._folder / f"{STATE}.part"
        part.write_bytes(msgspec.json.encode(state))
        part.replace(self._folder / STATE)
        self._state = state


async def _held(mirror: MirrorReader, source: str, keys: Iterable[str]) -> AsyncIterator[MirroredDocument]:
    for key in sorted(keys):
        document = await mirror.document(key, source=source)
        if document is not None and document.body is not None:
            yield document


async def _by_size(things: AsyncIterator[Thing]) -> AsyncIterator[list[Thing]]:
    """In lists that are bounded in bytes."""
    some, size = list[Thing](), 0
    async for thing in things:
        some.append(thing)
        size += len(thing.body or b"")
        if size >= TABLE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def newest_of_each_revision(pyarrow: Any, table: Any, key: str, moment: str) -> Any:
    """The same rows without earlier states (scores, replies, listed or not) of the same revision."""
    ordered = table.sort_by([(key, "ascending"), ("revision", "ascending"), (moment, "ascending")])
    numbered = ordered.select([key, "revision"]).append_column("place", pyarrow.array(range(ordered.num_rows)))
    last = numbered.group_by([key, "revision"]).aggregate([("place", "max")])
    return ordered.take(last.column("place_max").combine_chunks().sort())


def _columns(items: Sequence[MirroredItem]) -> ItemColumns:
    moments = {"first_seen_at": "first_seen_ns", "last_fetched_at": "last_fetched_ns", "changed_at": "changed_ns"}
    return {
        name: [getattr(item, moments[name]) // MILLISECOND_NS for item in items]
        if name in moments
        else [getattr(item, name) for item in items]
        for name in ITEM_ROW
    }
