"""Which ids does a worker walk, and how far has it got? A segment is a durable range of ids with a cursor and a lease.

A plan has one segment of any width for each hole. A claim cuts out the piece that it walks. So the number of rows
depends on the number of workers, not on the number of missing ids.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.units import SECOND_NS

# The most ids that one claim takes.
SEGMENT_IDS: Final = 1_000
# SQLite walks history in stretches that end below multiples of this: the newest stretch first, but each one upwards. Its
# indexes fill their pages only while ids rise.
STRETCH_IDS: Final = 32 * SEGMENT_IDS
# How many ids a worker may fetch beyond its durable cursor: the next owner checks so many before it walks.
BATCH_MAX: Final = 200
# If this many later ids were answered before the one that a walk waits for, that one is late, not the provider.
LATER_ONES_ANSWERED: Final = BATCH_MAX // 8
# A walk that is this far beyond its stored cursor is held up: an id that hangs also takes a place in flight from the others.
HELD_UP_FROM: Final = BATCH_MAX // 2
# A process that dies holds its segments no longer than this. A live one renews its leases several times in it.
LEASE_NS: Final = 5 * SECOND_NS


# The fencing token of a segment's first owner.
FIRST_FENCE: Final = 1


class SegmentKind(StrEnum):
    """Why the range is walked."""

    BACKFILL = "backfill"
    BLIND_WINDOW = "blind_window"
    RESCAN = "rescan"
    REPLAY = "replay"

    @property
    def lane(self) -> Lane:
        """The lane its requests travel in."""
        match self:
            case SegmentKind.BACKFILL | SegmentKind.REPLAY:
                return Lane.BACKFILL
            case SegmentKind.BLIND_WINDOW:
                return Lane.UPDATE
            case SegmentKind.RESCAN:
                return Lane.RESCAN


class SegmentState(StrEnum):
    """The state of a segment."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"


class Segment(msgspec.Struct, frozen=True):
    """A claimed range. `fence` grows with every claim, so that a late write by an earlier owner is refused."""

    segment_id: int
    kind: SegmentKind
    ids: IdRange
    cursor: int  # all outcomes up to this id are durable; ids.start - 1 at the beginning
    fence: int
    owner: str

    @property
    def left(self) -> IdRange | None:
        """The ids still to walk."""
        return IdRange(self.cursor + 1, self.ids.end) if self.cursor < self.ids.end else None


def next_piece(left: IdRange) -> IdRange:
    """What one claim takes of a range in SQLite: its highest ids; but of a whole stretch, and of what is left of it, the lowest.

    So what is new since the last stretch, as after downtime, is read from the newest id on.
    """
    if (left.end + 1) % STRETCH_IDS:
        return top_piece(left)
    first = top_piece(left, size=STRETCH_IDS).start
    return IdRange(first, first - first % SEGMENT_IDS + SEGMENT_IDS - 1)  # a stretch ends where a piece does


def top_piece(left: IdRange, *, size: int = SEGMENT_IDS) -> IdRange:
    """The highest ids of a range, at most `size` of them.

    Pieces begin at multiples of `size`. A range that fits is taken whole.
    """
    assert size > 0, f"segments of {size} ids"
    return left if len(left) <= size else IdRange(max(left.start, left.end - left.end % size), left.end)


class Walk:
    """The walk over one segment: which id is next, and up to where everything is done.

    Outcomes arrive in any order; the cursor moves only over an unbroken run of them. The batch is counted from the
    stored cursor, not from the one in memory, so a kill repeats a bounded number of ids, however slow the store is.
    """

    def __init__(self, left: IdRange, recorded: Collection[int] = ()) -> None:
        """`recorded`: ids that an earlier owner recorded beyond its cursor. They are not asked for again."""
        self._ids = left
        self._next = left.start
        self._done: set[int] = set(recorded)
        self._last_recorded = max(self._done, default=0)
        self.cursor = self.stored_cursor = left.start - 1
        self._move_cursor()

    # What follows handles many ids with a few calls: it runs for every item.

    def take(self, most: int) -> Sequence[int]:
        """The next ids to fetch, at most so many; none while the batch beyond the stored cursor is full or nothing is left."""
        assert most >= 0, f"{most} ids to take"
        last = min(self._ids.end, self.stored_cursor + BATCH_MAX)
        ids: Sequence[int] = range(self._next, last + 1)
        if self._next <= self._last_recorded:
            ids = [item_id for item_id in ids if item_id not in self._done]
        ids = ids[:most]
        if ids:
            self._next = ids[-1] + 1
            self._skip_recorded()
        return ids

    def complete(self, *ids: int) -> None:
        """The outcomes of these ids are durable."""
        if not ids:
            return
        are_taken = self.cursor < min(ids) and max(ids) < self._next and self._done.isdisjoint(ids)
        assert are_taken, f"one of {ids} was not taken or is done already"
        self._done.update(ids)
        self._move_cursor()

    def _move_cursor(self) -> None:
        cursor, done = self.cursor, self._done
        while cursor + 1 in done:
            cursor += 1
        done.difference_update(range(self.cursor + 1, cursor + 1))
        self.cursor = cursor
        self._next = max(self._next, cursor + 1)
        self._skip_recorded()

    def _skip_recorded(self) -> None:
        while self._next in self._done:
            self._next += 1

    @property
    def held_up_by(self) -> Sequence[int]:
        """The few ids that hold up the walk; none while it is near its stored cursor, or when many are late."""
        is_held_up = self.all_taken or self._next - self.stored_cursor > HELD_UP_FROM
        if not is_held_up or len(self._done) < LATER_ONES_ANSWERED:
            return ()
        return tuple(item_id for item_id in range(self.cursor + 1, self._next) if item_id not in self._done)

    def stored(self, cursor: int) -> None:
        """This cursor is durable."""
        assert self.stored_cursor <= cursor <= self.cursor, f"stored cursor {cursor} is not one we had"
        self.stored_cursor = cursor

    @property
    def all_taken(self) -> bool:
        """Whether no id is left to take."""
        return self._next > self._ids.end
