"""How is an item written in a row of SQLite? What nearly all items have alike takes no space.

The generated columns of `stored_items` give the values back (schema 5), and so do the views.
"""

from typing import Any, Final

from remora.core.item import Item
from remora.core.texts import storable
from remora.stores.decisions import INTEGER_MAX, INTEGER_MIN, Held, new_item
from remora.stores.imported_rows import NEVER_FETCHED

# The most frequent type by far, and its mark.
USUAL_TYPE: Final = "comment"
USUAL_MARK: Final = ""
# Of a type that is an empty text. No other type contains a NUL.
EMPTY_MARK: Final = "\0"
# The content is as it was first seen, or that moment is in the same row.
UNCHANGED_SINCE: Final = 0


def item_row(number: int, item: Item, held: Held, *, now: int, fetched: int) -> tuple[Any, ...]:
    """The stored columns of `stored_items` in their order; times are milliseconds."""
    time, parent, score, descendants = item.time, item.parent, item.score, item.descendants
    return (
        number,
        item.item_id,
        USUAL_MARK if item.type == USUAL_TYPE else type_mark(item.type),
        storable(item.by),
        # As `clean_integer`, without a call for each: this runs for every item.
        time if time is None or INTEGER_MIN <= time <= INTEGER_MAX else None,
        parent if parent is None or INTEGER_MIN <= parent <= INTEGER_MAX else None,
        score if score is None or INTEGER_MIN <= score <= INTEGER_MAX else None,
        descendants if descendants is None or INTEGER_MIN <= descendants <= INTEGER_MAX else None,
        item.dead,
        item.deleted,
        now,
        # A request is sent before its answer is recorded, unless the clock was set back meanwhile.
        fetched - now - 1 if fetched <= now and fetched != NEVER_FETCHED else fetched,
        UNCHANGED_SINCE,
        held.revision,
        held.hash,
        held.content_hash,
        item.body,
    )


def second_hand_row(number: int, item: Item, now: int) -> tuple[Any, ...]:
    """The same for an item that came from a file."""
    return item_row(number, item, new_item(item, started_at_ns=NEVER_FETCHED), now=now, fetched=NEVER_FETCHED)


def type_mark(name: str | None) -> str | None:
    """The mark of a type that is not the usual one."""
    return EMPTY_MARK if name == "" else storable(name)
