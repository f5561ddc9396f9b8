"""How is a dump read? As pages of (id, body): lines of JSON or Parquet, from any row on, in bounded pages.

A line of a declared source is its body, with its id where the declaration says. Without a declaration, a line may also be a
row of a public Hacker News table.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final

import msgspec

from remora.contracts.extras import install_hint
from remora.core.errors import ConfigurationError
from remora.core.item import Item, Readable
from remora.files import NotAFile, stat_of_file
from remora.sources.dump_rows import ALIASES, COLUMNS, body_of, check_columns
from remora.sources.json_numbers import NUMBER_MAX
from remora.sources.json_path import as_number, find, load
from remora.sources.numbered import Reading

PAGE_ROWS: Final = 5_000
PAGE_BYTES: Final = 32 << 20
LINE_MAX_BYTES: Final = 64 << 20
SAMPLE_BYTES: Final = 1 << 16
# Columns that only a table has: their presence says that a line is a row of a table, not the provider's own body.
OF_A_TABLE: Final = frozenset({"timestamp", "ranking"})
_PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"

Row = tuple[int, bytes]
# The rows of a page that could be read, and how many rows of the file it stands for.
Page = tuple[list[Row], int]


class _Line(msgspec.Struct):
    """What must be known of a line before it is decoded."""

    id: int


_line: Final = msgspec.json.Decoder(_Line)


def fingerprint(path: Path) -> str:
    """Names the content of a file: its size, its beginning, its end and when it was last written.

    A file that was corrected in its middle is another one. One that was only copied is read once more, which changes nothing.
    """
    try:
        found = stat_of_file(path)
        with path.open("rb") as file:
            begin = file.read(SAMPLE_BYTES)
            file.seek(max(0, found.st_size - SAMPLE_BYTES))
            end = file.read(SAMPLE_BYTES)
    except NotAFile as error:
        raise ConfigurationError(
            f"{path} is {error.strerror}, not a file", hint="write what comes out of it into a file, and name that"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    return blake2b(f"{found.st_size} {found.st_mtime_ns} ".encode() + begin + end, digest_size=16).hexdigest()


def items_of(rows: Iterable[tuple[int, bytes]], reading: Reading) -> list[Item]:
    """The rows that are items of the source."""
    decoded = (reading.item(item_id, body) for item_id, body in rows)
    return [found.thing for found in decoded if isinstance(found, Readable) and isinstance(found.thing, Item)]


def pages(path: Path, *, id_at: str | None = None, after_rows: int = 0) -> Iterator[Page]:
    """The pages of a file after some rows. `id_at` is the place of the id in a line of a declared source."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
            file.seek(0)
            if begin == _PARQUET:
                yield from _parquet_pages(path, after_rows)
                return
            with gzip.open(file) if begin.startswith(_GZIP) else file as lines:
                yield from _line_pages(path, lines, id_at, after_rows)  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _line_pages(path: Path, lines: BinaryIO, id_at: str | None, after_rows: int) -> Iterator[Page]:
    for _ in islice(_lines(path, lines), after_rows):
        pass
    rows: list[Row] = []
    count = size = 0
    for line in _lines(path, lines):
        count += 1
        size += len(line)
        row = _line_row(line) if id_at is None else _declared_row(line, id_at)
        if row is not None and 0 < row[0] <= NUMBER_MAX:
            rows.append(row)
        if count == PAGE_ROWS or size >= PAGE_BYTES:
            yield rows, count
            rows, count, size = [], 0, 0
    if count:
        yield rows, count


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_MAX_BYTES):
        if len(line) == LINE_MAX_BYTES and not line.endswith(b"\n"):
            raise ConfigurationError(
                f"{path} has a line of more than {LINE_MAX_BYTES >> 20} MiB", hint="write one JSON object per line"
            )
        yield line


def _declared_row(line: bytes, id_at: str) -> Row | None:
    """The id and body of one line of a declared source. A line that names no id is passed over."""
    body = line.strip()
    try:
        item_id = as_number(find(load(body), id_at))
    except (ValueError, RecursionError):
        return None
    return None if item_id is None else (item_id, body)


def _line_row(line: bytes) -> Row | None:
    """The id and body of one line. A line as the provider sends it is kept byte for byte."""
    body = line.strip()
    try:
        item_id = _line.decode(body).id
    except (ValueError, RecursionError):
        return _odd_line(body)
    return _odd_line(body) if b'"timestamp"' in body else (item_id, body)


def _odd_line(body: bytes) -> Row | None:
    """A line of a table's JSON export, or a body that only a lenient reader understands. Others are passed over."""
    try:
        fields = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    item_id = fields.get("id")
    if OF_A_TABLE & fields.keys() or isinstance(item_id, str):
        return body_of({ALIASES.get(str(name), str(name)): value for name, value in fields.items()})
    return (item_id, body) if type(item_id) is int else None


def load_pyarrow() -> ModuleType:
    """The library that reads Parquet, or what to install."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise ConfigurationError(
            "Parquet needs pyarrow, which is not installed",
            hint=install_hint("pyarrow"),
        ) from None


def _parquet_pages(path: Path, after_rows: int) -> Iterator[Page]:
    pyarrow = load_pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = set(file.schema_arrow.names)
        if not {"id", "body"} <= names:
            check_columns(names, str(path))
        wanted = [name for name in file.schema_arrow.names if _is_wanted(name, names)]
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if after_rows >= rows:
                after_rows -= rows
                continue
            for batch in file.iter_batches(batch_size=PAGE_ROWS, row_groups=[group], columns=wanted):
                if after_rows >= batch.num_rows:
                    after_rows -= batch.num_rows
                    continue
                rest = batch.slice(after_rows)
                after_rows = 0
                yield _rows_of(pyarrow, rest), rest.num_rows
    except pyarrow.ArrowInvalid as error:
        raise ConfigurationError(
            f"{path} is not a whole Parquet file ({str(error).splitlines()[0]})", hint="fetch it again"
        ) from None


def _is_wanted(name: str, names: set[str]) -> bool:
    if {"id", "body"} <= names:
        return name in {"id", "body"}
    return ALIASES.get(name, name) in COLUMNS or (name == "timestamp" and "time" not in names)


def _rows_of(pyarrow: ModuleType, batch: Any) -> list[Row]:
    columns = {
        ALIASES.get(name, name): _plain(pyarrow, column).to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    if "body" in columns:
        found = zip(columns["id"], columns["body"], strict=True)
        return [(item_id, body.encode("utf-8")) for item_id, body in found if item_id is not None and body]
    names = list(columns)
    rows = (body_of(dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True))
    return [row for row in rows if row is not None]


def _plain(pyarrow: ModuleType, column: Any) -> Any:
    """Timestamps as seconds, in bulk: one by one they would cost more than everything else."""
    if pyarrow.types.is_timestamp(column.type):
        return column.cast(pyarrow.timestamp("s", tz=column.type.tz), safe=False).cast(pyarrow.int64())
    return column


def _unreadable(path: Path, error: OSError | EOFError | zlib.error) -> ConfigurationError:
    why = getattr(error, "strerror", None) or str(error)
    return ConfigurationError(f"{path} cannot be read ({why})", hint="name a file that exists and is complete")
