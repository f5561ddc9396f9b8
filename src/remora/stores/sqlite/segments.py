"""How does the SQLite store keep segments and what they have covered?"""

import json
from collections.abc import Collection, Sequence
from typing import Final

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.segment import Segment, SegmentKind, next_piece
from remora.core.units import MILLISECOND_NS
from remora.stores.common import Values
from remora.stores.decisions import CLOCK_SLACK_NS, FORGOTTEN_AT_ONCE, adds_coverage, unplanned
from remora.stores.rows import gap_from_row
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.session import SqlitePart

RETRACTIONS: Final = (
    "retract_segments", "shorten_segments", "retract_coverage", "shorten_coverage", "retract_gaps",
)  # fmt: skip


class SqliteSegments(SqlitePart):
    """Ranges and coverage."""

    async def plan(self, source: str, kind: SegmentKind, pieces: Sequence[IdRange], *, now_ns: int) -> int:
        """Add ids that no unfinished segment of this kind still has to walk. Returns the number of new segments."""

        def work(connection: Connection) -> int:
            taken = connection.execute(
                self._sql["unfinished_segments"], {"source": source, "kind": kind.value}
            ).fetchall()
            if kind is SegmentKind.BACKFILL:  # what was covered since the holes were found
                taken += connection.execute(self._sql["coverage"], {"source": source}).fetchall()
            added = unplanned(pieces, [IdRange(first, last) for first, last in taken])
            now = now_ns // MILLISECOND_NS
            rows = [(source, kind.value, ids.start, ids.end, ids.start - 1, now, now) for ids in added]
            write_rows(connection, "add_segments", rows)
            connection.execute(self._sql["forget_segments"], {"source": source, "limit": FORGOTTEN_AT_ONCE})
            return len(added)

        return await self._write(work)

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        """One pending (or expired) segment, in the order of `kinds`, then newest ids first."""
        slack = CLOCK_SLACK_NS // MILLISECOND_NS
        values = {"source": source, "owner": owner, "slack": slack, **_times(lease_ns, now_ns)}

        def work(connection: Connection) -> Segment | None:
            for kind in kinds:
                segment_id = self._cut(connection, {**values, "kind": kind.value})
                if segment_id is not None:
                    row = connection.execute(self._sql["claim"], {**values, "segment_id": segment_id}).fetchone()
                    first_id, last_id, cursor, fence = row
                    return Segment(segment_id, kind, IdRange(first_id, last_id), cursor, fence, owner)
            return None

        return await self._write(work, is_light=True)

    def _cut(self, connection: Connection, values: Values) -> int | None:
        """The segment to claim. Of a wide one it is the next piece, and what is below and above becomes segments of its own."""
        free = connection.execute(self._sql["free_segment"], values).fetchone()
        if free is None:
            return None
        segment_id: int
        segment_id, cursor, last_id = free
        piece = next_piece(IdRange(cursor + 1, last_id))
        if piece.start > cursor + 1:
            segment_id = self._split(connection, segment_id, piece.start, values)
        if piece.end < last_id:
            self._split(connection, segment_id, piece.end + 1, values)
        return segment_id

    def _split(self, connection: Connection, segment_id: int, first: int, values: Values) -> int:
        """Everything from this id on becomes a segment of its own."""
        split = {"segment_id": segment_id, "first": first, "now": values["now"]}
        upper = connection.execute(self._sql["split_segment"], split).lastrowid
        connection.execute(self._sql["shorten_segment"], split)
        assert upper is not None, "an inserted row has a number"
        return upper

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        """Move the cursor, extend the lease, add the ids to the coverage; False when the fence is outdated."""
        named = {"segment_id": segment.segment_id, "source": source, "fence": segment.fence}

        def work(connection: Connection) -> bool:
            row = connection.execute(self._sql["claimed_segment"], named).fetchone()
            if row is None:
                return False
            kind, last_id, reached = SegmentKind(row[0]), row[1], row[2]
            assert cursor <= last_id, f"cursor {cursor} beyond the end of segment {segment.segment_id}"
            if cursor > reached and adds_coverage(kind):
                self._cover(connection, source, IdRange(reached + 1, cursor))
            moved = {"segment_id": segment.segment_id, "cursor": max(cursor, reached), **_times(lease_ns, now_ns)}
            connection.execute(self._sql["advance"], moved)
            return True

        # In the middle of a segment the walk goes on meanwhile.
        return await self._write(work, can_wait=cursor < segment.ids.end, is_light=True)

    async def release(self, source: str, segment: Segment) -> bool:
        """Release the rest of the segment; False when the fence is outdated."""
        named = {"segment_id": segment.segment_id, "source": source, "fence": segment.fence}
        return await self._change("release", named) == 1

    async def recorded_ids(self, source: str, ids: IdRange) -> Collection[int]:
        """The ids of this short range with an item or a gap."""
        items = await self._rows("known_items", {"source": source, "first": ids.start, "last": ids.end})
        keys = [str(each) for each in range(ids.start, ids.end + 1)]
        gaps = await self._rows("held_gaps", {"source": source, "kind": Kind.ITEM.value, "keys": json.dumps(keys)})
        return {*(row[0] for row in items), *(int(gap_from_row(row).key) for row in gaps)}

    async def coverage(self, source: str) -> Coverage:
        """Every id that is settled or owed."""
        rows = await self._rows("coverage", {"source": source})
        return Coverage(tuple(IdRange(first, last) for first, last in rows))

    async def cover(self, source: str, ids: IdRange) -> None:
        """Add these ids to the coverage."""
        await self._write(lambda connection: self._cover(connection, source, ids))

    def _cover(self, connection: Connection, source: str, ids: IdRange) -> None:
        touching: list[IdRange] = []
        for first_id, last_id in connection.execute(self._sql["coverage_below"], {"source": source, "end": ids.end}):
            if last_id < ids.start - 1:
                break  # ranges are disjoint: everything further down ends earlier still
            touching.append(IdRange(first_id, last_id))
        if len(touching) == 1 and touching[0].start <= ids.start and touching[0].end >= ids.end:
            return
        (merged,) = Coverage.of([*touching, ids]).ranges
        for piece in touching:
            connection.execute(self._sql["remove_coverage"], {"source": source, "first_id": piece.start})
        connection.execute(
            self._sql["add_coverage"], {"source": source, "first_id": merged.start, "last_id": merged.end}
        )

    async def retract(self, source: str, *, above: int) -> int:
        """Forget what is planned, covered and owed above this id."""
        named = {"source": source, "above": above}

        def work(connection: Connection) -> int:
            return sum(connection.execute(self._sql[name], named).rowcount for name in RETRACTIONS)

        return await self._write(work)


def _times(lease_ns: int, now_ns: int) -> dict[str, int]:
    return {"now": now_ns // MILLISECOND_NS, "lease_until": (now_ns + lease_ns) // MILLISECOND_NS}
