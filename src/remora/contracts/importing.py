"""What must a store offer to take in a dump? Many items in one transaction, and how far each file has come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from remora.contracts.store import NoteKeeping
from remora.core.item import Item


@dataclass(frozen=True, slots=True)
class ImportState:
    """How far the import of one file has come."""

    import_id: int
    rows_read: int  # rows of the file that are stored, or were passed over
    items: int  # items that the mirror did not hold before
    is_finished: bool


class Importing(NoteKeeping, Protocol):
    """A store that takes in items from files. What it holds already is never overwritten."""

    async def open(self) -> None:
        """Connect for writing."""

    async def close(self) -> None:
        """Close the connection."""

    async def begin_import(self, source: str, *, file: str, fingerprint: str, now_ns: int) -> ImportState:
        """Begin to import a file, or find out how far an earlier import of the same content has come."""

    async def import_items(
        self, source: str, state: ImportState, items: Sequence[Item], *, rows_read: int, now_ns: int
    ) -> ImportState:
        """Add what is not held yet, with its lines in the change feed and its coverage, in one transaction.

        The new items are second-hand: their last fetch is 0 until the source itself was asked.
        """

    async def end_import(self, source: str, state: ImportState, *, now_ns: int) -> None:
        """The whole file is stored. Everything that is held in its range of ids is covered."""

    async def plan_anew(self, source: str, *, now_ns: int) -> int:
        """Leave what is covered by now out of the pending segments of a backfill. Returns how many segments there are.

        One transaction: a running service must never miss an id that it had planned.
        """

    async def defer_indexes(self) -> None:
        """Stop keeping the indexes that readers use, until `restore_indexes` or the next time the store is opened."""

    async def restore_indexes(self) -> None:
        """Build them again."""
