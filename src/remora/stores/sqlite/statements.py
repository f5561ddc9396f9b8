"""Which SQL belongs to a name? `queries.sql` and the common statements; `schema/` holds the numbered migrations."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from remora.stores.statements import with_common

_ROW_OF_VALUES: Final = re.compile(r"^(\(\?, .*\));?$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    script: str


@cache
def queries() -> Mapping[str, str]:
    """Every statement by its name."""
    return with_common(Path(__file__).with_name("queries.sql").read_text("utf-8"))


@cache
def many_rows(name: str, rows: int, values: str | None = None) -> str:
    """The statement of this name for several rows at once. Its row of values is on a separate line; `values` replaces it."""
    text = queries()[name]
    (row,) = _ROW_OF_VALUES.findall(text)
    return text.replace(row, ",\n".join([values or row] * rows))


@cache
def migrations() -> tuple[Migration, ...]:
    """The migrations in order. The number in a file's name is the version it leads to."""
    scripts = Path(__file__).with_name("schema").glob("*.sql")
    steps = sorted(
        (Migration(int(file.name.split("_")[0]), file.read_text("utf-8")) for file in scripts),
        key=lambda step: step.version,
    )
    assert [step.version for step in steps] == list(range(1, len(steps) + 1)), "migrations are numbered without a hole"
    return tuple(steps)
