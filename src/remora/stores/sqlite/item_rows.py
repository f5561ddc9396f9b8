"""How is an item written in a row of SQLite? What nearly all items have alike takes no space.

The generated columns of `stored_items` (schema 5) and the view `whole_items` (schema 6) give the values back.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.texts import storable
from remora.core.units import MILLISECOND_NS
from remora.stores.decisions import HASHED_FROM_BYTES, INTEGER_MAX, INTEGER_MIN, Held, new_item
from remora.stores.imported_rows import NEVER_FETCHED
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.statements import queries

# The most frequent type by far, and its mark.
USUAL_TYPE: Final = "comment"
USUAL_MARK: Final = ""
USUALLY_ALIKE: Final = (USUAL_TYPE, None, None, False, False)  # type, score, descendants, dead and deleted
# Of a type that is an empty text. No other type contains a NUL.
EMPTY_MARK: Final = "\0"
# What `body` holds: all of it, or the fields of a comment that no other column has.
WHOLE: Final = 0
OWN_FIELDS: Final = 1
# The content is as it was first seen, or that moment is in the same row.
UNCHANGED_SINCE: Final = 0
# How nearly all rows end, from the mark of the type on: a new comment, alive and short. To bind these values for each row
# would take a fifth of the time that it takes to write it.
USUAL_END: Final = (USUAL_MARK, None, None, False, False, UNCHANGED_SINCE, 1, b"", b"", OWN_FIELDS)
USUAL_VALUES: Final = "(?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), '', NULL, NULL, 0, 0, 0, 1, x'', x'', 1)"
BEFORE_END: Final = USUAL_VALUES.count("?")


def source_number(connection: Connection, source: str) -> int:
    """The number of a source. A source without one gets the next number."""
    named = {"source": source}
    connection.execute(queries()["add_source"], named)
    number: int = connection.execute(queries()["source_number"], named).fetchone()[0]
    return number


def add_items(connection: Connection, number: int, added: Iterable[tuple[Item, Observation]]) -> None:
    """Write items that are new. Nearly all of them are usual, and what those have alike is compared at once."""
    usual, others = [], []
    # In the order of the table, so that neighbours share pages.
    for item, observation in sorted(added, key=_id_of):
        by, time, parent, fields = item.by, item.time, item.parent, None
        now, fetched = observation.now_ns // MILLISECOND_NS, observation.started_at_ns // MILLISECOND_NS
        alike = (item.type, item.score, item.descendants, item.dead, item.deleted)
        if alike == USUALLY_ALIKE and len(item.body) < HASHED_FROM_BYTES and item.content_of is not None:
            fields = _plain_fields(item.body, item.item_id, by, time, parent)
        if fields is not None and NEVER_FETCHED < fetched <= now:
            usual.append((number, item.item_id, by, time, parent, now, fetched - now - 1, fields))
        else:
            held = new_item(item, started_at_ns=observation.started_at_ns)
            others.append(observed_row(number, item, observation, held))
    write_rows(connection, "write_items", usual, values=USUAL_VALUES)
    write_items(connection, others)


def _id_of(added: tuple[Item, Observation]) -> int:
    return added[0].item_id


def _plain_fields(body: bytes, item_id: int, by: str | None, time: int | None, parent: int | None) -> bytes | None:
    """As `own_fields`, if SQLite can hold the values as they are."""
    # What is printable has no NUL and no halves of surrogate pairs.
    if by is None or not by.isprintable() or time is None:
        return None
    fits = INTEGER_MIN <= time <= INTEGER_MAX and (parent is None or INTEGER_MIN <= parent <= INTEGER_MAX)
    return own_fields(body, item_id, by, time) if fits else None


def write_items(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write the rows of items that are new, and new bodies of stored ones."""
    usual = [row[:BEFORE_END] for row in rows if row[BEFORE_END:] == USUAL_END]
    write_rows(connection, "write_items", usual, values=USUAL_VALUES)
    if len(usual) < len(rows):
        write_rows(connection, "write_items", [row for row in rows if row[BEFORE_END:] != USUAL_END])


def observed_row(number: int, item: Item, observation: Observation, held: Held) -> tuple[Any, ...]:
    """The row of an item that was observed."""
    now, fetched = observation.now_ns // MILLISECOND_NS, observation.started_at_ns // MILLISECOND_NS
    return item_row(number, item, held, now=now, fetched=fetched)


def item_row(number: int, item: Item, held: Held, *, now: int, fetched: int) -> tuple[Any, ...]:
    """The values of `write_items` in their order; times are milliseconds."""
    time, parent, score, descendants = item.time, item.parent, item.score, item.descendants
    by, is_usual = storable(item.by), item.type == USUAL_TYPE
    # As `clean_integer`, without a call for each: this runs for every item.
    if time is not None and not INTEGER_MIN <= time <= INTEGER_MAX:
        time = None
    if parent is not None and not INTEGER_MIN <= parent <= INTEGER_MAX:
        parent = None
    fields = own_fields(item.body, item.item_id, by, time) if is_usual else None
    return (
        number,
        item.item_id,
        by,
        time,
        parent,
        now,
        # A request is sent before its answer is recorded, unless the clock was set back meanwhile.
        fetched - now - 1 if fetched <= now and fetched != NEVER_FETCHED else fetched,
        item.body if fields is None else fields,
        USUAL_MARK if is_usual else type_mark(item.type),
        score if score is None or INTEGER_MIN <= score <= INTEGER_MAX else None,
        descendants if descendants is None or INTEGER_MIN <= descendants <= INTEGER_MAX else None,
        item.dead,
        item.deleted,
        UNCHANGED_SINCE,
        held.revision,
        held.hash,
        held.content_hash,
        WHOLE if fields is None else OWN_FIELDS,
    )


def second_hand_row(number: int, item: Item, now: int) -> tuple[Any, ...]:
    """The same for an item that came from a file."""
    return item_row(number, item, new_item(item, started_at_ns=NEVER_FETCHED), now=now, fetched=NEVER_FETCHED)


def portable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of items from another store, with its body as this one keeps it, and the form of that."""
    _, item_id, kind, by, time, *_, body = row
    fields = own_fields(body, item_id, by, time) if kind == USUAL_TYPE else None
    return (*row, WHOLE) if fields is None else (*row[:-1], fields, OWN_FIELDS)


def own_fields(body: bytes, item_id: int, by: str | None, time: int | None) -> bytes | None:
    """The fields of a comment that only its body has, as an object; None if the others do not stand as usual around them."""
    if by is None or type(time) is not int:
        return None
    beginning, end = f'{{"by":"{by}","id":{item_id},'.encode(), f',"time":{time},"type":"comment"}}'.encode()
    if not body.startswith(beginning) or not body.endswith(end):
        return None
    fields = body[len(beginning) : -len(end)]
    return b"{" + fields + b"}" if fields else None


def type_mark(name: str | None) -> str | None:
    """The mark of a type that is not the usual one."""
    return EMPTY_MARK if name == "" else storable(name)
