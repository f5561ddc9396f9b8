"""What is the same wherever a dump is imported? The rows of second-hand items, runs of ids, and which store it is."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from remora.contracts.importing import Importing, ImportState
from remora.core.errors import ConfigurationError
from remora.core.item import Item
from remora.core.ledger.coverage import Coverage, IdRange
from remora.stores.decisions import clean_integer, clean_text, digest

# The source itself was never asked for a second-hand item.
NEVER_FETCHED: Final = 0
_FIRST_REVISION: Final = 1


def open_importing(url: str) -> Importing:
    """The store at an address in the form that imports, not yet opened."""
    scheme, _, rest = url.partition("://")
    match scheme:
        case "sqlite":
            from remora.stores.sqlite.importing import ImportingSqliteStore  # noqa: PLC0415

            return ImportingSqliteStore(Path(rest.removeprefix("/")))
        case "postgresql" | "postgres":
            from remora.stores.postgres.importing import ImportingPostgresStore  # noqa: PLC0415

            return ImportingPostgresStore(url)
        case _:
            raise ConfigurationError(
                f"nothing can be imported into a store at {scheme}://",
                hint="write sqlite:///remora.db or postgresql://host/database",
            )


def item_row(number: int, item: Item, now: int) -> tuple[Any, ...]:
    """The columns of `stored_items`, as `write_items` takes them, for an item that came from a file."""
    return (
        number,
        item.item_id,
        clean_text(item.type),
        clean_text(item.by),
        clean_integer(item.time),
        clean_integer(item.parent),
        clean_integer(item.score),
        clean_integer(item.descendants),
        item.dead,
        item.deleted,
        now,
        NEVER_FETCHED,
        now,
        _FIRST_REVISION,
        digest(item.body),
        digest(item.content),
        item.body,
    )


def runs(ids: Sequence[int]) -> list[IdRange]:
    """The unbroken runs of sorted ids."""
    found: list[IdRange] = []
    for item_id in ids:
        if found and item_id == found[-1].end + 1:
            found[-1] = IdRange(found[-1].start, item_id)
        else:
            found.append(IdRange(item_id, item_id))
    return found


def still_uncovered(plans: Iterable[tuple[int, int]], covered: Iterable[tuple[int, int]]) -> list[IdRange]:
    """The parts of some planned ranges that are not covered. A plan with nothing left to walk is empty."""
    known = Coverage.of(IdRange(first, last) for first, last in covered)
    return [hole for first, last in plans if first <= last for hole in known.uncovered(IdRange(first, last))]


def state_from_row(row: tuple[Any, ...]) -> ImportState:
    """Columns: see `import_state`."""
    import_id, rows_read, items, ended_at = row
    return ImportState(import_id, rows_read, items, is_finished=ended_at is not None)
