"""Which tables make up a whole mirror, and how are their rows copied? As plain tuples, key first, in key order.

Values are None, integers, floats, text and bytes, the same for every store. Flags are 0 or 1, times are milliseconds.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol

from remora.contracts import NoteKeeping
from remora.stores.decisions import INTEGER_MIN

Row = tuple[Any, ...]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns, and a key lower than every real key."""

    name: str
    columns: tuple[str, ...]
    below_first: Key
    may_move: bool = False  # rows may change during the copy: an earlier state of them loses nothing

    def key(self, row: Row) -> Key:
        """The columns that identify a row and give the order."""
        return row[: len(self.below_first)]


_NUMBERED: Final[Key] = (INTEGER_MIN,)
_OF_SOURCE: Final[Key] = (INTEGER_MIN, INTEGER_MIN)  # the source's number, and the row's own number


def _columns(names: str) -> tuple[str, ...]:
    return tuple(names.split())


# In this order an interrupted copy is most useful: items first, what is owed and learned last.
TABLES: Final[tuple[Table, ...]] = (
    Table("sources", _columns("number name"), _NUMBERED),
    Table(
        "items",
        _columns(
            "source id type by time parent score descendants dead deleted first_seen_at last_fetched_at changed_at "
            "revision hash content_hash body"
        ),
        _OF_SOURCE,
    ),
    Table(
        "revisions",
        _columns("source item_id revision last_fetched_at changed_at body"),
        (*_OF_SOURCE, INTEGER_MIN),
    ),
    Table("reads", _columns("source first_id last_id read_at"), _OF_SOURCE),
    Table(
        "users",
        _columns("source name first_seen_at last_fetched_at changed_at hash body"),
        (INTEGER_MIN, ""),
    ),
    Table(
        "documents",
        _columns(
            "source key fingerprint listed_mark listed_rank listed_at seen_in_walk vanished_at owed first_seen_at updated_at "
            "fetched_at changed_at revision hash body",
        ),
        ("", ""),
    ),
    Table(
        "document_revisions",
        _columns("source key revision updated_at fetched_at changed_at body"),
        ("", "", INTEGER_MIN),
    ),
    Table("changes", _columns("seq source kind key change changed_at"), _NUMBERED),
    Table(
        "segments",
        _columns("segment_id source kind state first_id last_id cursor fence created_at moved_at"),
        _NUMBERED,
    ),
    Table("coverage", _columns("source first_id last_id"), ("", INTEGER_MIN)),
    Table(
        "gaps",
        _columns(
            "source kind key state reason attempts null_count near_newest not_before_at first_seen_at last_seen_at served_turn"
        ),
        ("", "", ""),
    ),
    Table("inbox", _columns("ticket source kind key announced_at"), _NUMBERED),
    Table("pace", _columns("source record"), ("",)),
    Table("notes", _columns("source name value"), ("", "")),
    Table("cursors", _columns("source watermark walking_from seen_down_to position walk full_walk moved_at"), ("",)),
    Table("runs", _columns("run_id source started_at ended_at stopped_by counts"), _NUMBERED),
    Table(
        "imports",
        _columns("import_id source file fingerprint rows_read items first_id last_id started_at moved_at ended_at"),
        _NUMBERED,
    ),
    # After the changes. `seq`: every change up to this number was read, however the store itself writes positions.
    Table("change_readers", _columns("reader seq read_at"), ("",), may_move=True),
)


class Portable(NoteKeeping, Protocol):
    """A store whose whole content can be exported and imported."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Close."""

    async def export_rows(self, table: Table, *, after: Key, limit: int) -> list[Row]:
        """The next rows after a key. Leases are left out: claimed segments become pending, leased gaps owed."""

    async def import_rows(self, table: Table, rows: list[Row]) -> None:
        """Write rows in one transaction; idempotent."""

    async def finish_import(self) -> None:
        """All rows are imported: new numbers are higher than the imported ones from now on."""
