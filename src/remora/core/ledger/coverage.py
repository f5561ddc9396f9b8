"""Which ids are covered, and up to where without a hole? Coverage is a set of disjoint ranges, both ends included."""

from bisect import bisect_right
from collections.abc import Iterable

import msgspec


class IdRange(msgspec.Struct, frozen=True, order=True):
    """Ids from `start` to `end`, both included."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert self.start <= self.end, f"an id range ends before it starts: {self.start}..{self.end}"

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __contains__(self, item_id: int) -> bool:
        return self.start <= item_id <= self.end


class Coverage(msgspec.Struct, frozen=True):
    """Sorted, disjoint and not adjacent: two ranges that touch are one."""

    ranges: tuple[IdRange, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[IdRange]) -> "Coverage":
        """The union of any ranges."""
        merged: list[IdRange] = []
        for piece in sorted(ranges, key=lambda piece: piece.start):
            if merged and piece.start <= merged[-1].end + 1:
                merged[-1] = IdRange(merged[-1].start, max(merged[-1].end, piece.end))
            else:
                merged.append(piece)
        return cls(tuple(merged))

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.ranges)

    def __contains__(self, item_id: int) -> bool:
        index = bisect_right(self.ranges, item_id, key=lambda piece: piece.start) - 1
        return index >= 0 and item_id in self.ranges[index]

    def with_range(self, added: IdRange) -> "Coverage":
        """This coverage and one more range."""
        return Coverage.of((*self.ranges, added))

    def within(self, wanted: IdRange) -> "Coverage":
        """The part of this coverage that lies in `wanted`."""
        return Coverage(
            tuple(
                IdRange(max(piece.start, wanted.start), min(piece.end, wanted.end))
                for piece in self.ranges
                if piece.end >= wanted.start and piece.start <= wanted.end
            )
        )

    def uncovered(self, wanted: IdRange) -> tuple[IdRange, ...]:
        """The holes of this coverage in `wanted`, lowest first."""
        holes: list[IdRange] = []
        next_id = wanted.start
        for piece in self.within(wanted).ranges:
            if piece.start > next_id:
                holes.append(IdRange(next_id, piece.start - 1))
            next_id = piece.end + 1
        if next_id <= wanted.end:
            holes.append(IdRange(next_id, wanted.end))
        return tuple(holes)

    def frontier(self, *, first_id: int) -> int:
        """The largest id such that every id from `first_id` to it is covered; one below `first_id` when none is."""
        for piece in self.ranges:
            if first_id in piece:
                return piece.end
        return first_id - 1


def newest_first(holes: Iterable[IdRange]) -> tuple[IdRange, ...]:
    """The same holes, highest ids first: people look at recent items."""
    return tuple(sorted(holes, reverse=True))
