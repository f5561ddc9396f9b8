"""How does a mirror become a folder of Parquet files? One folder per month, typed columns, zstd; the whole folder at once.

The folder appears under its name only when every file in it is complete. `month=2026-01` is the naming of Hive, which
DuckDB, Polars, Spark and Trino read as a column.
"""

import asyncio
import json
import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

import msgspec

from remora.core.errors import ConfigurationError
from remora.files import PRIVATE_FILE, PRIVATE_FOLDER, end_of_links, open_alone, put_in_place, sync_tree, write_whole
from remora.read.arrow import by_month, document_table, item_table, load_pyarrow, schema
from remora.read.export import Wanted, row_pages
from remora.read.mirror import MirrorReader
from remora.read.resumable import being_written, unwritable

ROW_GROUP_ROWS: Final = 50_000
# Rows of all months together that wait for their file, and files that are open at once.
WAITING_ROWS_MAX: Final = 200_000
OPEN_FILES_MAX: Final = 200
# Pages that wait while a row group is compressed.
PAGES_BEHIND_MAX: Final = 8
MANIFEST: Final = "_remora.json"
PROGRESS: Final = "_progress.json"
# A folder that is followed has this file.
LAKE_STATE: Final = "_lake.json"
NO_MONTH: Final = "unknown"
# Columns with few different values get a dictionary; for texts, neither one nor their least and greatest value helps.
REPEATING: Final = frozenset({"source", "type", "by", "dead", "deleted", "revision", "gone", "exported_at"})
LONG_TEXTS: Final = frozenset({"title", "url", "text", "body"})

# Files are closed and the place is remembered after this many rows: an interrupted export goes on from there.
REMEMBER_EVERY_ROWS: Final = 1_000_000

# Called with the number of rows written so far.
Tell = Callable[[int], None]


async def export_parquet(mirror: MirrorReader, wanted: Wanted, folder: Path, *, tell: Tell = lambda _: None) -> int:
    """Write a folder of Parquet files by month; returns how many rows. The same call goes on after an interruption."""
    pyarrow = load_pyarrow()
    with complete_folder(folder) as part:
        done = _progress(part, wanted)
        months = _Months(pyarrow, part, is_listed=wanted.is_listed, parts=done.parts)
        try:
            if wanted.is_listed:
                async for rows in row_pages(mirror, wanted):
                    months.add(document_table(pyarrow, rows, now_ns=time.time_ns()))
                    tell(months.rows)
            else:
                await _export_items(mirror, wanted, months, done, part, tell)
        finally:
            months.close()
        count = done.rows + months.rows
        (part / PROGRESS).unlink(missing_ok=True)
        manifest = {"source": wanted.source, "rows": count, "since_ns": wanted.since_ns}
        (part / MANIFEST).write_text(json.dumps(manifest) + "\n")
    return count


async def _export_items(
    mirror: MirrorReader, wanted: Wanted, months: "_Months", done: "_Progress", part: Path, tell: Tell
) -> None:
    rows = remembered = done.rows
    pages = mirror.item_column_pages(
        wanted.source,
        first_id=max(wanted.first_id, done.next_id),
        last_id=wanted.last_id,
        changed_since_ns=wanted.since_ns,
    )
    async with _Behind() as writing:  # a page is written while the next one becomes columns and a third one is read
        async for page in pages:
            table = await asyncio.to_thread(item_table, months.pyarrow, wanted.source, page)
            await writing.add(months.add, table)
            rows += table.num_rows
            tell(rows)
            if rows - remembered >= REMEMBER_EVERY_ROWS:
                await writing.done()
                remembered = rows
                await asyncio.to_thread(months.close)
                progress = _Progress(page["id"][-1] + 1, rows, dict(months.parts))
                await asyncio.to_thread(_remember, part, wanted, progress)


class _Behind:
    """Work that one thread does in order while its caller prepares more, a bounded number of pieces behind."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parquet")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.done()
        finally:
            await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    async def add(self, work: Callable[[Any], None], value: object) -> None:
        """Add a piece of work. It waits while there are too many."""
        if len(self._waiting) >= PAGES_BEHIND_MAX:
            await self._waiting.popleft()
        self._waiting.append(asyncio.get_running_loop().run_in_executor(self._thread, work, value))

    async def done(self) -> None:
        """Wait for all of it."""
        while self._waiting:
            await self._waiting.popleft()


class _Progress(msgspec.Struct, frozen=True):
    """How far an export has come: the next id, the rows before it, and the files of each month that hold them."""

    next_id: int = 0
    rows: int = 0
    parts: dict[str, int] = {}


def _remember(part: Path, wanted: Wanted, progress: _Progress) -> None:
    sync_tree(part)  # a place is only worth remembering when the rows before it are on the disk
    write_whole(part / PROGRESS, msgspec.json.encode([wanted.asked, progress]))


def _progress(part: Path, wanted: Wanted) -> _Progress:
    """The progress of an interrupted export of the same rows. What came after it is deleted."""
    try:
        asked, progress = msgspec.json.decode((part / PROGRESS).read_bytes(), type=tuple[str, _Progress])
    except (OSError, msgspec.DecodeError):
        asked, progress = "", _Progress()
    if asked != wanted.asked:
        progress = _Progress()
    for file in part.rglob("*.parquet"):
        number = int(file.stem.rpartition("-")[2])
        if number > progress.parts.get(file.parent.name.removeprefix("month="), 0):
            file.unlink()
    return progress


@contextmanager
def complete_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name only when it is complete. An earlier export of that name is replaced."""
    folder = end_of_links(folder)
    part = folder.with_name(f"{folder.name}.part")
    try:
        check_replaceable(folder)
        _check_not_followed(folder)
        with _alone(part, folder):
            try:
                yield part
                sync_tree(part)
                _put_in_place(part, folder)
            except BaseException:
                if not (part / PROGRESS).exists():
                    shutil.rmtree(part, ignore_errors=True)
                raise
    except OSError as error:
        raise unwritable(folder, error) from None


@contextmanager
def _alone(part: Path, folder: Path) -> Iterator[None]:
    """The unfinished folder, for one process at a time: two would delete each other's files."""
    part.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    try:
        opened = open_alone(part, os.O_RDONLY | os.O_DIRECTORY)
    except BlockingIOError:
        raise being_written(folder) from None
    try:
        yield
    finally:
        os.close(opened)


def _put_in_place(part: Path, folder: Path) -> None:
    # No name that a person would give: what has it is from us, left behind by a kill.
    replaced = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if not folder.exists():
        put_in_place(part, folder)
        return
    folder.rename(replaced)
    try:
        put_in_place(part, folder)
    except OSError:
        if not folder.exists():
            replaced.rename(folder)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def check_replaceable(folder: Path, *, marks: Sequence[str] = (MANIFEST,)) -> None:
    """Refuse what exists and is no folder of ours, which holds one of these files, unless it is an empty folder."""
    try:
        is_foreign = folder.exists() and not (
            folder.is_dir() and (any((folder / mark).exists() for mark in marks) or not any(folder.iterdir()))
        )
    except OSError as error:
        raise unwritable(folder, error) from None
    if is_foreign:
        raise ConfigurationError(
            f"{folder} exists and is not an earlier export", hint="name a folder that does not exist yet"
        )


def _check_not_followed(folder: Path) -> None:
    if (folder / LAKE_STATE).exists():
        raise ConfigurationError(
            f"{folder} is kept fresh by remora export --follow",
            hint="name another folder: this one may hold earlier contents that are nowhere else",
        )


class _Months:
    """Rows wait for their month's file; the fullest month is written first."""

    def __init__(self, pyarrow: ModuleType, folder: Path, *, is_listed: bool, parts: Mapping[str, int]) -> None:
        self.rows = 0
        self.parts = dict(parts)
        self.pyarrow = pyarrow
        self._folder = folder
        self._schema = schema(pyarrow, is_listed=is_listed)
        self._time = "fetched_at" if is_listed else "time"
        self._waiting: dict[str, list[Any]] = {}
        self._waiting_rows: Counter[str] = Counter()
        self._open: dict[str, Any] = {}  # the least recently used first

    def add(self, table: Any) -> None:
        self.rows += table.num_rows
        for found, rows in by_month(self.pyarrow, table, self._time):
            month = found or NO_MONTH
            self._waiting.setdefault(month, []).append(rows)
            self._waiting_rows[month] += rows.num_rows
            if self._waiting_rows[month] >= ROW_GROUP_ROWS:
                self._write(month)
        while self._waiting_rows.total() > WAITING_ROWS_MAX:
            self._write(self._waiting_rows.most_common(1)[0][0])

    def close(self) -> None:
        for month in sorted(self._waiting):
            self._write(month)
        for writer in self._open.values():
            writer.close()
        self._open.clear()

    def _write(self, month: str) -> None:
        tables = self._waiting.pop(month)
        del self._waiting_rows[month]
        self._writer(month).write_table(self.pyarrow.concat_tables(tables))

    def _writer(self, month: str) -> Any:
        writer = self._open.pop(month, None)
        if writer is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open))).close()
            writer = self._new_writer(month)
        self._open[month] = writer
        return writer

    def _new_writer(self, month: str) -> Any:
        number = self.parts[month] = self.parts.get(month, 0) + 1
        folder = self._folder / f"month={month}"
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        path = folder / f"part-{number:04}.parquet"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
        return self.pyarrow.parquet.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in self._schema.names if name in REPEATING],
            write_statistics=[name for name in self._schema.names if name not in LONG_TEXTS],
        )
