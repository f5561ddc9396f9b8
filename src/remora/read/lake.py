"""How does a folder of Parquet files stay fresh? New files beside the old ones, whole or not there, merged when many.

Nothing is rewritten in place: an edit or a deletion is a new row with its revision and time, and the older row stays.
Contents that came and went between two looks are there too, from the mirror's own revisions. The newest row is the one with
the highest `revision`, then the latest `changed_at` (items) or `exported_at` (documents). A file gets its name only when it
is complete, and one that was merged into another stays for a while, for readers that have it in their list. `_lake.json`
says how far the folder is, and is replaced after the files are there: a kill writes some rows again, and loses none.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from remora.contracts.reader import ITEM_ROW, ItemColumns, MirroredDocument, MirroredItem, Revision
from remora.core.errors import ConfigurationError
from remora.core.ledger.discovery import Kind
from remora.core.units import MILLISECOND_NS, MINUTE_NS
from remora.files import PRIVATE_FOLDER, end_of_links, open_alone, sync_path, whole_file, write_whole
from remora.read.arrow import by_month, document_table, item_table, load_pyarrow
from remora.read.earlier import item_of
from remora.read.export import Wanted
from remora.read.export_rows import document_row
from remora.read.mirror import MirrorReader
from remora.read.parquet import LAKE_STATE, MANIFEST, NO_MONTH, Tell, check_replaceable, export_parquet
from remora.read.resumable import unwritable
from remora.read.retention import order
from remora.stores.reading import FIRST_POSITION

# Changes of one step: one short file for each month they belong to.
STEP_CHANGES: Final = 20_000
# Bodies that become one table.
TABLE_BYTES: Final = 64 << 20
# A month with more small files than this gets one in their place.
SMALL_FILES_MAX: Final = 8
SMALL_BYTES: Final = 32 << 20
# A reader that made its list of files before a merge has this long to open them.
REPLACED_KEPT_NS: Final = 10 * MINUTE_NS

Thing = TypeVar("Thing", MirroredItem, MirroredDocument)


class _State(msgspec.Struct, frozen=True):
    """The source of a lake, the change feed's position it has, the number of its last file, and files to delete."""

    source: str
    position: str
    files: int = 0
    replaced: dict[str, int] = {}  # files whose rows are in another one, and since when, in nanoseconds


class Lake:
    """A folder that follows one source."""

    def __init__(self, folder: Path, source: str, *, is_listed: bool, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._folder = end_of_links(folder)  # two names of one folder share its lock
        self._source = source
        self._is_listed = is_listed
        self._now_ns = now_ns
        self._lock: int | None = None
        self._pyarrow = load_pyarrow()
        self._state: _State | None = None

    @property
    def position(self) -> str | None:
        """The last change that the folder has; None before the first export."""
        return None if self._state is None else self._state.position

    async def open(
        self,
        mirror: MirrorReader,
        *,
        position: str | None = None,
        is_known: bool = True,
        store: str = "",
        tell: Tell = lambda _: None,
    ) -> None:
        """Find out how far the folder is. A new one gets everything that the mirror holds.

        `position`: how far the `store` knows this folder to be, or where an unfinished first export began to follow.
        `is_known`: whether the store knew the folder before. If not, a folder that is there follows another one.
        """
        check_replaceable(self._folder, marks=(MANIFEST, LAKE_STATE))  # before anything is written
        self._take_lock()
        self._state = self._load()
        if self._state is not None:
            self._go_on(self._state, position, is_known=is_known)
            return
        # Taken before the first row is read: what changes meanwhile comes again. So an unfinished export is continued only
        # if it began at the same position.
        position = position or await mirror.newest_position()
        wanted = Wanted(self._source, self._is_listed, store=f"{store} followed from {position}")
        await export_parquet(mirror, wanted, self._folder, tell=tell)
        self._state = _State(self._source, position)
        async for table in self._earlier_documents(mirror, None) if self._is_listed else self._earlier_items(mirror):
            await self._add(table)
        self._keep(self._state)

    def _go_on(self, state: _State, position: str | None, *, is_known: bool) -> None:
        """The store's position counts if it is earlier: one restored from a backup gives the later ones to other changes."""
        if not is_known:
            raise ConfigurationError(
                f"the store does not know the folder {self._folder}, so it may lack changes of it",
                hint="write its path as before; if it was moved, or is of another store, name a new folder",
            )
        if position is None:
            return
        # Positions of the two kinds of stores differ in their form: then the folder's mirror was copied from the other kind.
        is_copied = state.position != FIRST_POSITION and (":" in position) != (":" in state.position)
        if is_copied or order(position) < order(state.position):
            self._state = msgspec.structs.replace(state, position=position)

    def close(self) -> None:
        """Let another process follow."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def run_once(self, mirror: MirrorReader) -> int:
        """Add what changed since; returns how many changes were read. 0: the folder has everything."""
        assert self._state is not None, "it was opened"
        self._delete_replaced()
        keys, since_ns = set[str](), self._now_ns()
        kind = Kind.DOCUMENT if self._is_listed else Kind.ITEM
        count, position = 0, self._state.position
        async for page in mirror.change_pages(since=position):
            mine = [change for change in page if change.source == self._source and change.kind == kind]
            keys.update(change.key for change in mine)
            # A line of the feed is never later than the content it tells of: no content of this step is older.
            since_ns = min([since_ns, *(change.changed_ns for change in mine)])
            count, position = count + len(page), page[-1].position
            if count >= STEP_CHANGES:
                break
        if count:
            async for table in self._changed(mirror, keys, since_ns):
                await self._add(table)
            self._keep(msgspec.structs.replace(self._state, position=position))
        return count

    async def _changed(self, mirror: MirrorReader, keys: set[str], since_ns: int) -> AsyncIterator[Any]:
        """What these are now, and what they were since that moment."""
        if self._is_listed:
            named = sorted(keys)
            # First what is now: a content that becomes an earlier one between the two reads is then in both.
            async for documents in _by_size(mirror.documents_of(named, source=self._source)):
                yield self._document_table(documents)
            async for table in self._earlier_documents(mirror, named, since_ns=since_ns):
                yield table
            return
        async for items in _by_size(mirror.items_of(sorted(map(int, keys)), source=self._source)):
            yield await self._item_table(items)
            changed = {item.id: item for item in items if item.revision > 1}
            if changed:
                earlier = mirror.earlier_items(list(changed), source=self._source, changed_since_ns=since_ns)
                async for some in _by_size(_as_items(earlier, changed)):
                    yield await self._item_table(some)

    async def _earlier_items(self, mirror: MirrorReader) -> AsyncIterator[Any]:
        """Every earlier content of every item."""
        async for some in _by_size(_with_current(mirror, self._source)):
            yield await self._item_table(some)

    async def _earlier_documents(
        self, mirror: MirrorReader, keys: Sequence[str] | None, *, since_ns: int = 0
    ) -> AsyncIterator[Any]:
        earlier = mirror.earlier_documents(keys, source=self._source, changed_since_ns=since_ns)
        async for documents in _by_size(earlier):
            yield self._document_table(documents)

    async def _item_table(self, items: Sequence[MirroredItem]) -> Any:
        return await asyncio.to_thread(item_table, self._pyarrow, self._source, _columns(items))

    def _document_table(self, documents: Sequence[MirroredDocument]) -> Any:
        rows = [document_row(document) for document in documents]
        return document_table(self._pyarrow, rows, now_ns=self._now_ns())

    async def _add(self, table: Any) -> None:
        for month, rows in by_month(self._pyarrow, table, "fetched_at" if self._is_listed else "time"):
            folder = self._folder / f"month={month or NO_MONTH}"
            await asyncio.to_thread(self._write, folder, rows)
            await asyncio.to_thread(self._merge, folder)

    def _write(self, folder: Path, table: Any) -> None:
        """A file that appears when it is complete and on the disk. Readers look for *.parquet, so never see half of it."""
        assert self._state is not None, "it was opened"
        self._state = msgspec.structs.replace(self._state, files=self._state.files + 1)
        if not folder.is_dir():
            folder.mkdir(mode=PRIVATE_FOLDER)
            sync_path(self._folder)
        path = folder / f"change-{self._state.files:08}.parquet"
        with whole_file(path) as file:
            self._pyarrow.parquet.write_table(table, file, compression="zstd")

    def _merge(self, folder: Path) -> None:
        """One file in place of many small ones. The old ones go some time later: a reader may see a row twice, never none."""
        assert self._state is not None, "it was opened"
        replaced = self._state.replaced
        files = (file for file in sorted(folder.glob("change-*.parquet")) if self._name(file) not in replaced)
        small = [file for file in files if file.stat().st_size < SMALL_BYTES]
        if len(small) <= SMALL_FILES_MAX:
            return
        tables = [self._pyarrow.parquet.ParquetFile(file).read() for file in small]
        key, moment = ("key", "exported_at") if self._is_listed else ("id", "changed_at")
        self._write(folder, newest_of_each_revision(self._pyarrow, self._pyarrow.concat_tables(tables), key, moment))
        since = dict.fromkeys(map(self._name, small), self._now_ns())
        self._state = msgspec.structs.replace(self._state, replaced={**replaced, **since})

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self._folder))

    def _delete_replaced(self) -> None:
        """Delete the files whose rows have been in another one for long enough."""
        assert self._state is not None, "it was opened"
        kept_since_ns = self._now_ns() - REPLACED_KEPT_NS
        old = [name for name, since_ns in self._state.replaced.items() if since_ns <= kept_since_ns]
        for name in old:
            (self._folder / name).unlink(missing_ok=True)
        if old:
            left = {name: since for name, since in self._state.replaced.items() if name not in old}
            self._keep(msgspec.structs.replace(self._state, replaced=left))

    def _take_lock(self) -> None:
        """Only one process may add to a folder: two would overwrite each other's files."""
        path = self._folder.with_name(f"{self._folder.name}.lock")
        try:
            self._lock = open_alone(path, os.O_RDWR | os.O_CREAT)
        except BlockingIOError:
            raise ConfigurationError(
                f"another process follows into {self._folder}", hint="stop it first, or name another folder"
            ) from None
        except OSError as error:
            raise unwritable(self._folder, error) from None

    def _load(self) -> _State | None:
        try:
            found = msgspec.json.decode((self._folder / LAKE_STATE).read_bytes(), type=_State)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError):
            raise ConfigurationError(
                f"{self._folder / LAKE_STATE} cannot be read",
                hint="name another folder, or delete this one to begin anew",
            ) from None
        if found.source != self._source:
            raise ConfigurationError(
                f"{self._folder} follows {found.source}", hint=f"name another folder for {self._source}"
            )
        for part in self._folder.rglob("*.part"):  # a kill left it behind
            part.unlink()
        # Numbers of files that a kill left behind are not used again.
        taken = (int(file.stem.rpartition("-")[2]) for file in self._folder.rglob("change-*.parquet"))
        return msgspec.structs.replace(found, files=max([found.files, *taken]))

    def _keep(self, state: _State) -> None:
        write_whole(self._folder / LAKE_STATE, msgspec.json.encode(state))
        self._state = state


async def _as_items(
    earlier: AsyncIterator[tuple[int, Revision]], current: Mapping[int, MirroredItem]
) -> AsyncIterator[MirroredItem]:
    async for item_id, revision in earlier:
        yield item_of(revision, current[item_id])


async def _with_current(mirror: MirrorReader, source: str) -> AsyncIterator[MirroredItem]:
    current: MirroredItem | None = None
    async for item_id, revision in mirror.earlier_items(None, source=source):
        if current is None or current.id != item_id:
            current = await mirror.item(item_id, source=source)
        assert current is not None, "an item with earlier contents is held"
        yield item_of(revision, current)


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
