"""How are many rows written without waiting for the interpreter lock after each row?

After each SQLite step the writer's thread must get the interpreter lock back from the event loop. While the loop is
busy, this takes milliseconds. With one step per row a busy process wrote only a few hundred rows a second.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.statements import many_rows

# A few sizes, so that each is compiled once. Any number of rows is a sum of them.
ROWS_PER_STATEMENT: Final = (128, 64, 32, 16, 8, 4, 2, 1)


def write_rows(
    connection: Connection, name: str, rows: Sequence[Sequence[object]], *, values: str | None = None
) -> None:
    """Run a writing statement for all these rows, in order, many rows at a time. `values`: instead of its row of values."""
    start = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - start >= size:
            connection.execute(many_rows(name, size, values), list(chain.from_iterable(rows[start : start + size])))
            start += size
