"""How are many rows written without waiting for the interpreter between each two of them?

Whenever SQLite has done one step, the writer's thread must win the interpreter back from the event loop, and while that
is busy this takes milliseconds. One step per row held a busy process down to a few hundred rows a second.
"""

from collections.abc import Sequence
from typing import Final

from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.statements import many_rows

# Few sizes, so that each is compiled once; any number of rows is a sum of them.
ROWS_PER_STATEMENT: Final = (100, 10, 1)


def write_rows(connection: Connection, name: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a statement that writes for all these rows, in their order, many rows at a time."""
    start = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - start >= size:
            values = [value for row in rows[start : start + size] for value in row]
            connection.execute(many_rows(name, size), values)
            start += size
