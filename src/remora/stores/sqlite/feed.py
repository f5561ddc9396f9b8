"""How is the change feed written? A line names what it says by a number, which must be in the table first."""

from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.statements import queries


def write_changes(connection: Connection, source: str, kind: str, change: str, *, keys: str, now: int) -> None:
    """One line for each key of a JSON array, in its order. Ids of items are numbers in it. `now` is in milliseconds."""
    sort = {"source": source, "kind": kind, "change": change}
    connection.execute(queries()["add_change_sort"], sort)
    connection.execute(queries()["write_changes"], {**sort, "keys": keys, "now": now})
