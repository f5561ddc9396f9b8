"""How does the whole mirror leave the store? As files that other programs read; each file appears when it is complete."""

import io
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from remora.contracts.reader import MirroredItem
from remora.read.csv_lines import CsvLines
from remora.read.export_rows import DOCUMENT_COLUMNS, ITEM_COLUMNS, MOMENT_COLUMNS, as_moment, document_row, item_row
from remora.read.mirror import MirrorReader
from remora.read.resumable import Target, resumable_file

_ID: Final = ITEM_COLUMNS.index("id")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to export."""

    source: str
    is_listed: bool
    first_id: int = 0
    last_id: int | None = None
    since_ns: int = 0  # only what changed (items) or was fetched (documents) at or after this moment
    store: str = ""  # which store it comes from: an unfinished export of another one is begun anew

    @property
    def asked(self) -> str:
        """The same in words, for recognizing an unfinished export."""
        return f"{self.source} {self.first_id} {self.last_id} {self.since_ns} {self.store}"


async def export_ndjson(mirror: MirrorReader, wanted: Wanted, target: Target) -> int:
    """Write every raw body as one line; returns how many."""
    if wanted.is_listed:
        async for documents in mirror.document_pages(source=wanted.source, fetched_since_ns=wanted.since_ns):
            _write_lines(target.file, (document.body or b"" for document in documents))
            target.wrote(len(documents), None)
    else:
        async for items in _item_pages(mirror, wanted, target):
            _write_lines(target.file, (item.body for item in items))
            target.wrote(len(items), items[-1].id + 1)
    target.file.flush()
    return target.rows


@contextmanager
def output(out: str | None, asked: str) -> Iterator[Target]:
    """Where an export goes: a file of this name once it is complete, or stdout."""
    if out is None:
        yield Target(sys.stdout.buffer)
        return
    with resumable_file(Path(out), asked) as target:
        yield target


async def export_csv(mirror: MirrorReader, wanted: Wanted, target: Target) -> int:
    """Write one line per item or document, with a header; returns how many. Times are in UTC, NULL is empty."""
    page = io.StringIO(newline="")
    lines = CsvLines(page)
    columns = DOCUMENT_COLUMNS if wanted.is_listed else ITEM_COLUMNS
    if not target.rows:
        lines.row(columns)
        _pour(page, target.file)
    async for rows in row_pages(mirror, wanted, target):
        lines.rows(_csv_cells(columns, row) for row in rows)
        _pour(page, target.file)
        target.wrote(len(rows), None if wanted.is_listed else rows[-1][_ID] + 1)
    return target.rows


def _pour(page: io.StringIO, file: BinaryIO) -> None:
    """Write a page and empty it. A text file around the file would close it, and complain, when it cannot be written."""
    file.write(page.getvalue().encode("utf-8", "replace"))
    file.flush()
    page.seek(0)
    page.truncate()


async def row_pages(
    mirror: MirrorReader, wanted: Wanted, target: Target | None = None
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Typed rows in pages, by id or key; see `ITEM_COLUMNS` and `DOCUMENT_COLUMNS`. What the target has is left out."""
    if wanted.is_listed:
        async for documents in mirror.document_pages(source=wanted.source, fetched_since_ns=wanted.since_ns):
            yield [document_row(document) for document in documents]
        return
    async for items in _item_pages(mirror, wanted, target):
        yield [item_row(item) for item in items]


def _item_pages(mirror: MirrorReader, wanted: Wanted, target: Target | None) -> AsyncIterator[Sequence[MirroredItem]]:
    return mirror.item_pages(
        source=wanted.source,
        first_id=wanted.first_id if target is None else target.begin(wanted.first_id),
        last_id=wanted.last_id,
        changed_since_ns=wanted.since_ns,
    )


def _write_lines(file: BinaryIO, bodies: Iterable[bytes]) -> None:
    # A line break inside a JSON text is always escaped, so any that is left is only layout.
    file.writelines(body.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" for body in bodies)


def _csv_cells(columns: tuple[str, ...], row: tuple[Any, ...]) -> list[object]:
    return [
        as_moment(name, value).isoformat()
        if name in MOMENT_COLUMNS and value is not None
        else " ".join(map(str, value))
        if isinstance(value, tuple)
        else value
        for name, value in zip(columns, row, strict=True)
    ]
