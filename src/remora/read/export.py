"""How does the whole mirror leave the store? As files that other programs read; each file appears when it is complete."""

import csv
import io
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from remora.contracts.reader import MirroredItem
from remora.core.errors import ConfigurationError
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS, MOMENT_COLUMNS, as_moment, document_row, item_row
from remora.read.mirror import MirrorReader

WRITE_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to export."""

    source: str
    is_listed: bool
    first_id: int = 0
    last_id: int | None = None
    since_ns: int = 0  # only what changed (items) or was fetched (documents) at or after this moment


async def export_ndjson(mirror: MirrorReader, wanted: Wanted, file: BinaryIO) -> int:
    """Write every raw body as one line; returns how many."""
    return await _write_lines(bodies(mirror, wanted), file)


@contextmanager
def output(out: str | None) -> Iterator[BinaryIO]:
    """Where an export goes: a file of this name once it is complete, or stdout."""
    if out is None:
        yield sys.stdout.buffer
        return
    with complete_file(Path(out)) as file:
        yield file


async def export_csv(mirror: MirrorReader, wanted: Wanted, file: BinaryIO) -> int:
    """Write one line per item or document, with a header; returns how many. Times are in UTC, NULL is empty."""
    text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
    count = 0
    try:
        writer = csv.writer(text, lineterminator="\n")
        columns = DOCUMENT_COLUMNS if wanted.is_listed else ITEM_COLUMNS
        writer.writerow(columns)
        async for rows in row_pages(mirror, wanted):
            writer.writerows(_csv_cells(columns, row) for row in rows)
            count += len(rows)
    finally:
        text.flush()
        text.detach()  # the file belongs to whoever opened it
    return count


async def row_pages(mirror: MirrorReader, wanted: Wanted) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Typed rows in pages, by id or key; see `ITEM_COLUMNS` and `DOCUMENT_COLUMNS`."""
    if wanted.is_listed:
        async for documents in mirror.document_pages(source=wanted.source, fetched_since_ns=wanted.since_ns):
            yield [document_row(document) for document in documents]
        return
    async for items in _item_pages(mirror, wanted):
        yield [item_row(item) for item in items]


def _item_pages(mirror: MirrorReader, wanted: Wanted) -> AsyncIterator[Sequence[MirroredItem]]:
    return mirror.item_pages(
        source=wanted.source, first_id=wanted.first_id, last_id=wanted.last_id, changed_since_ns=wanted.since_ns
    )


async def bodies(mirror: MirrorReader, wanted: Wanted) -> AsyncIterator[bytes]:
    """The raw bodies, by id or key."""
    if wanted.is_listed:
        async for document in mirror.documents(source=wanted.source, fetched_since_ns=wanted.since_ns):
            assert document.body is not None, "documents() gives only those with a body"
            yield document.body
        return
    async for page in _item_pages(mirror, wanted):
        for item in page:
            yield item.body


@contextmanager
def complete_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is complete and on the disk. Only its owner may read it."""
    part = path.with_name(f"{path.name}.part")
    try:
        with _open_private(part) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror})", hint="write a path in an existing folder with free space"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _open_private(path: Path) -> BinaryIO:
    """An export may hold private documents."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", WRITE_BUFFER_BYTES)


async def _write_lines(lines: AsyncIterator[bytes], file: BinaryIO) -> int:
    count = 0
    async for body in lines:
        # A line break inside a JSON text is always escaped, so any that is left is only layout.
        file.write(body.strip().replace(b"\r", b" ").replace(b"\n", b" "))
        file.write(b"\n")
        count += 1
    file.flush()
    return count


def _csv_cells(columns: tuple[str, ...], row: tuple[Any, ...]) -> list[object]:
    return [
        as_moment(name, value).isoformat()
        if name in MOMENT_COLUMNS and value is not None
        else " ".join(map(str, value))
        if isinstance(value, tuple)
        else value
        for name, value in zip(columns, row, strict=True)
    ]
