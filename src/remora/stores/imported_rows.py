"""What is the same wherever a dump is imported? The rows of second-hand items, and what they leave to be walked."""

from collections.abc import Iterable
from typing import Any, Final

from remora.contracts.importing import ImportState
from remora.core.item import Item
from remora.core.ledger.coverage import Coverage, IdRange
from remora.stores.decisions import item_row, new_item

# The source itself was never asked for a second-hand item.
NEVER_FETCHED: Final = 0


def second_hand_row(number: int, item: Item, now: int) -> tuple[Any, ...]:
    """The columns of `stored_items` for an item that came from a file."""
    return item_row(number, item, new_item(item, started_at_ns=NEVER_FETCHED), now=now, fetched=NEVER_FETCHED)


def still_uncovered(plans: Iterable[tuple[int, int]], covered: Iterable[tuple[int, int]]) -> list[IdRange]:
    """The parts of some planned ranges that are not covered. A plan with nothing left to walk is empty."""
    known = Coverage.of(IdRange(first, last) for first, last in covered)
    return [hole for first, last in plans if first <= last for hole in known.uncovered(IdRange(first, last))]


def state_from_row(row: tuple[Any, ...]) -> ImportState:
    """Columns: see `import_state`."""
    import_id, rows_read, items, ended_at = row
    return ImportState(import_id, rows_read, items, is_finished=ended_at is not None)
