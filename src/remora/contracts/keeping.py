"""What must a store offer to stay small? Named readers of the change feed, sizes, and retention that waits for readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NamedReader:
    """A reader of the change feed that is waited for."""

    name: str
    position: str  # the last change that it has worked on
    read_ns: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """What one table takes, with its indexes."""

    name: str
    bytes: int
    rows: int | None  # None: it was not counted


class Housekeeping(Protocol):
    """What is done now and then, in short transactions beside the writer, unless it says otherwise."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Close the connection."""

    async def named_readers(self) -> Sequence[NamedReader]:
        """Every named reader, by name."""

    async def keep_position(self, name: str, position: str, *, now_ns: int) -> None:
        """This reader has worked on every change up to this position; an earlier one than is known changes nothing."""

    async def forget_reader(self, name: str) -> bool:
        """This reader is waited for no more. False if there is none of that name."""

    async def forget_changes(self, *, before_ns: int, up_to: str | None, limit: int) -> int:
        """Delete the oldest changes, up to the first that is younger than a moment, at most `limit`. Returns how many.

        Never one after `up_to`, if it is given, and never one that a named reader has not read, also not if that
        reader came since the position was found out: both are one transaction.
        """

    async def forget_revisions(self, *, before_ns: int, limit: int) -> int:
        """Delete all earlier contents that were first seen before a moment. Returns how many.

        Each transaction looks at `limit` of them at most, however many there are: the writer waits for it.
        """

    async def forget_settled_gaps(self, *, before_ns: int, limit: int) -> int:
        """Delete all gaps that were settled before a moment. Returns how many. Each transaction looks at `limit` gaps at most.

        Only the history of the gap is lost: a thing without a gap is treated as one whose gap is settled.
        """

    async def table_sizes(self, *, seconds_max: float) -> Sequence[TableSize]:
        """The largest tables first, exactly: reads the whole store. Empty if it takes too long."""

    async def estimated_sizes(self) -> Sequence[TableSize]:
        """About the same, from a sample. It takes no longer in a large store."""

    async def changes_since(self, since_ns: int) -> dict[str, int]:
        """How many changes of each sort there were since a moment, exactly: reads all that are kept."""

    async def change_ends(self) -> tuple[int, int] | None:
        """The numbers of the oldest and the newest change; None without any."""

    async def change_moment(self, number: int) -> int | None:
        """When the first change from this number on was recorded, in nanoseconds; None if there is none."""

    async def changes_within(self, starts: Sequence[int], size: int, *, since_ns: int) -> dict[str, int]:
        """How many changes of each sort, not before a moment, have a number in one of these blocks of this size."""

    async def compact(self) -> None:
        """Give unused space back to the disk. On SQLite nobody else may use the file meanwhile."""
