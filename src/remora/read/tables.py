"""How are the rows of a query printed? As a table for people, as CSV or as JSON objects."""

import io
from collections.abc import Sequence
from itertools import chain, count
from typing import Final

import msgspec

from remora.contracts.reader import QueryResult
from remora.read.csv_lines import CsvLines
from remora.read.plain_text import one_line

CELL_MAX: Final = 60
# How much of a long value is looked at for such a cell: spaces in a row become one.
_READ_MAX: Final = 1_000


def as_table(found: QueryResult) -> str:
    """Columns side by side; long cells are cut, numbers are on the right."""
    cells = [[_cell(value) for value in row] for row in found.rows]
    widths = [max(map(len, column)) for column in zip(found.columns, *cells, strict=True)]
    numeric = [
        any(row[place] is not None for row in found.rows)
        and all(isinstance(row[place], int | float | None) for row in found.rows)
        for place in range(len(found.columns))
    ]
    lines = [list(found.columns), ["─" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def as_csv_text(found: QueryResult, *, cell_max: int | None = None) -> str:
    """CSV with a header line; NULL is an empty cell. Cells end after `cell_max` characters or a little later."""
    out = io.StringIO()
    lines = CsvLines(out)
    lines.row(found.columns)
    lines.rows([_plain(_beginning(value, cell_max)) for value in row] for row in found.rows)
    return out.getvalue()


def as_json_text(found: QueryResult) -> bytes:
    """A list of one object per row. The second column of one name is called `name_2`.

    A value that JSON has no form for, as PostgreSQL's ranges and addresses, is told as in the table.
    """
    names = _distinct(found.columns)
    rows = [dict(zip(names, map(_plain, row), strict=True)) for row in found.rows]
    return msgspec.json.encode(rows, enc_hook=str)


def _distinct(columns: Sequence[str]) -> list[str]:
    """The names of columns, each with a number that no column has if it was there before."""
    names: dict[str, None] = {}
    for column in columns:
        numbered = (f"{column}_{number}" for number in count(2))
        names[next(name for name in chain((column,), numbered) if name not in names)] = None
    return list(names)


def _cell(value: object) -> str:
    whole = "" if value is None else str(_plain(value))
    text = one_line(whole[:_READ_MAX])
    is_whole = len(whole) <= _READ_MAX and len(text) <= CELL_MAX
    return text if is_whole else f"{text[: CELL_MAX - 1]}…"


def _beginning(value: object, characters: int | None) -> object:
    """The part of a long value that has at least so many characters; one takes up to four bytes."""
    match value:
        case str():
            return value[:characters]
        case bytes():
            return value[: None if characters is None else 4 * characters]
        case _:
            return value


def _plain(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
