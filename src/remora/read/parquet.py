"""How does a mirror become a folder of Parquet files? One folder per month, typed columns, zstd; the whole folder at once.

The folder appears under its name only when every file in it is complete. `month=2026-01` is the naming of Hive, which
DuckDB, Polars, Spark and Trino read as a column.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from remora.core.errors import ConfigurationError
from remora.read.export import Wanted, row_pages
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS, month_of
from remora.read.mirror import MirrorReader

ROW_GROUP_ROWS: Final = 50_000
# Rows of all months together that wait for their file, and files that are open at once.
WAITING_ROWS_MAX: Final = 200_000
OPEN_FILES_MAX: Final = 200
MANIFEST: Final = "_remora.json"
NO_MONTH: Final = "unknown"
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600

Row = tuple[Any, ...]


async def export_parquet(mirror: MirrorReader, wanted: Wanted, folder: Path) -> int:
    """Write a folder of Parquet files by month; returns how many rows."""
    pyarrow = load_pyarrow()
    count = 0
    with complete_folder(folder) as part:
        months = _Months(pyarrow, part, _schema(pyarrow, is_listed=wanted.is_listed), is_listed=wanted.is_listed)
        try:
            async for rows in row_pages(mirror, wanted):
                months.add(rows)
                count += len(rows)
        finally:
            months.close()
        manifest = {"source": wanted.source, "rows": count, "since_ns": wanted.since_ns}
        (part / MANIFEST).write_text(json.dumps(manifest) + "\n")
    return count


def load_pyarrow() -> ModuleType:
    """The library, or what to install."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise ConfigurationError(
            "Parquet needs pyarrow, which is not installed",
            hint="install it with: pip install '.[export]' in the folder of the source code",
        ) from None


@contextmanager
def complete_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name only when it is complete. An earlier export of that name is replaced."""
    part, old = folder.with_name(f"{folder.name}.part"), folder.with_name(f"{folder.name}.old")
    try:
        if folder.exists() and not (folder.is_dir() and ((folder / MANIFEST).exists() or not any(folder.iterdir()))):
            raise ConfigurationError(
                f"{folder} exists and is not an earlier export", hint="name a folder that does not exist yet"
            )
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=_PRIVATE_FOLDER)
        yield part
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be written ({error.strerror})", hint="write a path in an existing folder with free space"
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


class _Months:
    """Rows wait for their month's file; the fullest month is written first."""

    def __init__(self, pyarrow: ModuleType, folder: Path, schema: Any, *, is_listed: bool) -> None:
        self._pyarrow = pyarrow
        self._folder = folder
        self._schema = schema
        self._time = "fetched_at" if is_listed else "time"
        self._time_at = (DOCUMENT_COLUMNS if is_listed else ITEM_COLUMNS).index(self._time)
        self._waiting: dict[str, list[Row]] = {}
        self._waiting_rows = 0
        self._open: dict[str, Any] = {}  # the least recently used first
        self._parts: dict[str, int] = {}

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            month = month_of(self._time, row[self._time_at]) or NO_MONTH
            self._waiting.setdefault(month, []).append(row)
        self._waiting_rows += len(rows)
        for month in {month for month, held in self._waiting.items() if len(held) >= ROW_GROUP_ROWS}:
            self._write(month)
        while self._waiting_rows > WAITING_ROWS_MAX:
            self._write(max(self._waiting, key=lambda month: len(self._waiting[month])))

    def close(self) -> None:
        for month in sorted(self._waiting):
            self._write(month)
        for writer in self._open.values():
            writer.close()
        self._open.clear()

    def _write(self, month: str) -> None:
        rows = self._waiting.pop(month)
        self._waiting_rows -= len(rows)
        columns = [
            self._pyarrow.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer(month).write_table(self._pyarrow.Table.from_arrays(columns, schema=self._schema))

    def _writer(self, month: str) -> Any:
        writer = self._open.pop(month, None)
        if writer is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open))).close()
            writer = self._new_writer(month)
        self._open[month] = writer
        return writer

    def _new_writer(self, month: str) -> Any:
        number = self._parts[month] = self._parts.get(month, 0) + 1
        folder = self._folder / f"month={month}"
        folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        path = folder / f"part-{number:04}.parquet"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE_FILE))
        return self._pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")


def _schema(pyarrow: ModuleType, *, is_listed: bool) -> Any:
    moment_ms = pyarrow.timestamp("ms", tz="UTC")
    types = {
        "id": pyarrow.int64(),
        "time": pyarrow.timestamp("s", tz="UTC"),
        "parent": pyarrow.int64(),
        "score": pyarrow.int64(),
        "descendants": pyarrow.int64(),
        "dead": pyarrow.bool_(),
        "deleted": pyarrow.bool_(),
        "kids": pyarrow.list_(pyarrow.int64()),
        "revision": pyarrow.int32(),
        "first_seen_at": moment_ms,
        "last_fetched_at": moment_ms,
        "changed_at": moment_ms,
        "fetched_at": moment_ms,
    }
    names = DOCUMENT_COLUMNS if is_listed else ITEM_COLUMNS
    return pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in names])
