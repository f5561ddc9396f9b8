"""How does the memory store keep segments and what they have covered?"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.segment import Segment, SegmentKind, SegmentState, next_piece
from remora.stores.decisions import adds_coverage, is_lease_over, unplanned
from remora.stores.memory.state import MemoryPart, SegmentRow


class MemorySegments(MemoryPart):
    """Ranges and coverage."""

    async def plan(self, source: str, kind: SegmentKind, pieces: Sequence[IdRange], *, now_ns: int) -> int:
        """Add ids that no unfinished segment of this kind still has to walk. Returns the number of new segments."""
        rows = [row for row in self._tables.segments.get(source, ()) if row.state is not SegmentState.DONE]
        self._tables.segments[source] = rows
        unfinished = [IdRange(row.cursor + 1, row.ids.end) for row in rows if row.kind is kind]
        if kind is SegmentKind.BACKFILL:  # what was covered since the holes were found
            unfinished += self._tables.coverage.get(source, Coverage()).ranges
        added = unplanned(pieces, unfinished)
        rows.extend(SegmentRow(next(self._tables.segment_ids), kind, ids, ids.start - 1) for ids in added)
        return len(added)

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        """One pending (or expired) segment, in the order of `kinds`, then newest ids first."""
        free = [row for row in self._tables.segments.get(source, ()) if _is_free(row, lease_ns=lease_ns, now_ns=now_ns)]
        for kind in kinds:
            rows = [row for row in free if row.kind is kind]
            if rows:
                row = self._cut(source, max(rows, key=lambda row: row.ids.start))
                row.state, row.owner, row.fence = SegmentState.CLAIMED, owner, row.fence + 1
                row.lease_until_ns = now_ns + lease_ns
                return Segment(row.segment_id, row.kind, row.ids, row.cursor, row.fence, owner)
        return None

    def _cut(self, source: str, wide: SegmentRow) -> SegmentRow:
        """The row to claim. Of a wide one it is the next piece, and what is below and above becomes rows of its own."""
        piece = next_piece(IdRange(wide.cursor + 1, wide.ids.end))
        row = wide if piece.start == wide.cursor + 1 else self._split(source, wide, piece.start)
        if piece.end < row.ids.end:
            self._split(source, row, piece.end + 1)
        return row

    def _split(self, source: str, row: SegmentRow, first: int) -> SegmentRow:
        """Everything from this id on becomes a row of its own."""
        upper = SegmentRow(next(self._tables.segment_ids), row.kind, IdRange(first, row.ids.end), first - 1)
        row.ids = IdRange(row.ids.start, first - 1)
        self._tables.segments[source].append(upper)
        return upper

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        """Move the cursor, extend the lease, add the ids to the coverage."""
        row = self._claimed_row(source, segment)
        if row is None:
            return False
        assert cursor <= row.ids.end, f"cursor {cursor} beyond the end of {row.ids}"
        if cursor > row.cursor and adds_coverage(row.kind):
            await self.cover(source, IdRange(row.cursor + 1, cursor))
        row.cursor = max(row.cursor, cursor)
        row.lease_until_ns = now_ns + lease_ns
        if row.cursor == row.ids.end:
            row.state = SegmentState.DONE
        return True

    async def release(self, source: str, segment: Segment) -> bool:
        """Release the rest of the segment."""
        row = self._claimed_row(source, segment)
        if row is None:
            return False
        row.state = SegmentState.PENDING
        return True

    def _claimed_row(self, source: str, segment: Segment) -> SegmentRow | None:
        for row in self._tables.segments.get(source, ()):
            if row.segment_id == segment.segment_id:
                return row if row.state is SegmentState.CLAIMED and row.fence == segment.fence else None
        return None

    async def recorded_ids(self, source: str, ids: IdRange) -> Collection[int]:
        """The ids of this short range with an item or a gap."""
        items, gaps = self._tables.items[source], self._tables.gaps
        return {
            each for each in range(ids.start, ids.end + 1) if each in items or (source, Kind.ITEM, str(each)) in gaps
        }

    async def coverage(self, source: str) -> Coverage:
        """Every id that is settled or owed."""
        return self._tables.coverage.get(source, Coverage())

    async def cover(self, source: str, ids: IdRange) -> None:
        """Add these ids to the coverage."""
        self._tables.coverage[source] = self._tables.coverage.get(source, Coverage()).with_range(ids)

    async def open_segments(self, source: str) -> Mapping[SegmentKind, int]:
        """Ids left to walk, by kind."""
        left: Counter[SegmentKind] = Counter()
        for row in self._tables.segments.get(source, ()):
            if row.state is not SegmentState.DONE:
                left[row.kind] += row.ids.end - row.cursor
        return dict(left)

    async def retract(self, source: str, *, above: int) -> int:
        """Forget what is planned, covered and owed above this id."""
        tables = self._tables
        segments = tables.segments.get(source, [])
        beyond = [row for row in segments if row.ids.end > above]
        tables.segments[source] = [row for row in segments if row.ids.end <= above or row.cursor < above]
        for row in beyond:
            if row.cursor < above:
                row.ids, row.state, row.fence = IdRange(row.ids.start, above), SegmentState.PENDING, row.fence + 1
        covered = tables.coverage.get(source, Coverage())
        kept = Coverage(
            tuple(IdRange(each.start, min(each.end, above)) for each in covered.ranges if each.start <= above)
        )
        tables.coverage[source] = kept
        return len(beyond) + len(set(covered.ranges) - set(kept.ranges)) + self._drop_gaps(source, above)

    def _drop_gaps(self, source: str, above: int) -> int:
        open_gaps = self._tables.open_gaps
        beyond = [key for key in open_gaps if key[0] == source and key[1] is Kind.ITEM and int(key[2]) > above]
        for key in beyond:
            del self._tables.gaps[key], open_gaps[key]
        return len(beyond)


def _is_free(row: SegmentRow, *, lease_ns: int, now_ns: int) -> bool:
    if row.state is SegmentState.CLAIMED:
        return is_lease_over(row.lease_until_ns, lease_ns=lease_ns, now_ns=now_ns)
    return row.state is SegmentState.PENDING
