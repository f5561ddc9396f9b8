"""How does the PostgreSQL store keep segments, and what they have covered, for any number of workers?"""

from collections.abc import Collection, Sequence
from typing import Final

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.segment import SEGMENT_IDS, Segment, SegmentKind
from remora.stores.common import Values
from remora.stores.decisions import CLOCK_SLACK_NS, FORGOTTEN_AT_ONCE, adds_coverage, unplanned
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.session import PostgresPart, lock
from remora.stores.postgres.statements import SQL
from remora.stores.rows import gap_from_row, milliseconds

# If coverage has this many more rows than it needs, the next process that may write merges them.
LOOSE_RANGES_MAX: Final = 500
# Another process holds the only pending row for about a millisecond while it claims from it.
CLAIM_TRIES: Final = 50
RETRACTIONS: Final = (
    "retract_segments", "shorten_segments", "retract_coverage", "shorten_coverage", "retract_gaps",
)  # fmt: skip


class PostgresSegments(PostgresPart):
    """Ranges and coverage."""

    async def plan(self, source: str, kind: SegmentKind, pieces: Sequence[IdRange], *, now_ns: int) -> int:
        """Add ids that no unfinished segment of this kind still has to walk. Returns the number of new segments."""
        named = {"source": source, "kind": kind.value}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await lock(connection, f"plan:{source}:{kind.value}")
                found = await (await connection.execute(SQL["unfinished_segments"], named)).fetchall()
                if kind is SegmentKind.BACKFILL:
                    # What another process covered since the holes were found. Read after the unfinished segments, so
                    # that no id is missed between the two.
                    found += await (await connection.execute(SQL["coverage"], {"source": source})).fetchall()
                added = unplanned(pieces, [IdRange(first, last) for first, last in found])
                ends = {"first_ids": [ids.start for ids in added], "last_ids": [ids.end for ids in added]}
                await connection.execute(SQL["add_segments"], {**named, **ends, "created": milliseconds(now_ns)})
                await connection.execute(SQL["forget_segments"], {"source": source, "limit": FORGOTTEN_AT_ONCE})
                return len(added)

        return await self._connections().run(work)

    async def claim(
        self, source: str, kinds: Sequence[SegmentKind], *, owner: str, lease_ns: int, now_ns: int
    ) -> Segment | None:
        """One pending (or expired) segment. Each try is one statement that skips rows others are claiming.

        All processes may cut pieces off the same wide segment. If only that one is left and it is locked, try again.
        """
        values = {
            "source": source,
            "owner": owner,
            "lease": milliseconds(lease_ns),
            "slack": milliseconds(CLOCK_SLACK_NS),
            "now": self._judging(now_ns),
            "size": SEGMENT_IDS,
        }

        async def work(connection: Connection) -> Segment | None:
            await connection.execute(SQL["reap_segments"], values)
            for kind in kinds:
                row = await _try_claim(connection, {**values, "kind": kind.value})
                if row is not None:
                    segment_id, first_id, last_id, cursor, fence = row
                    return Segment(segment_id, kind, IdRange(first_id, last_id), cursor, fence, owner)
            return None

        return await self._connections().run(work)

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        """Move the cursor, extend the lease, add the ids to the coverage."""
        assert cursor <= segment.ids.end, f"cursor {cursor} beyond the end of {segment.ids}"
        values = {
            "source": source,
            "segment_id": segment.segment_id,
            "fence": segment.fence,
            "cursor": cursor,
            "covers": adds_coverage(segment.kind),
            "lease": milliseconds(lease_ns),
            "now": self._judging(now_ns),
        }
        return await self._row("advance", values) is not None

    async def release(self, source: str, segment: Segment) -> bool:
        """Release the rest of the segment."""
        values = {"source": source, "segment_id": segment.segment_id, "fence": segment.fence}
        return await self._row("release", values) is not None

    async def recorded_ids(self, source: str, ids: IdRange) -> Collection[int]:
        """The ids of this short range with an item or a gap."""
        items = await self._rows("known_items", {"source": source, "first": ids.start, "last": ids.end})
        keys = [str(each) for each in range(ids.start, ids.end + 1)]
        gaps = await self._rows("held_gaps", {"source": source, "kind": Kind.ITEM.value, "keys": keys})
        return {*(row[0] for row in items), *(int(gap_from_row(row).key) for row in gaps)}

    async def coverage(self, source: str) -> Coverage:
        """Every id that is settled or owed."""
        rows = await self._rows("coverage", {"source": source})
        whole = Coverage.of(IdRange(first_id, last_id) for first_id, last_id in rows)
        if len(rows) - len(whole.ranges) > LOOSE_RANGES_MAX and not self._read_only:
            await self._put_together(source)
        return whole

    async def cover(self, source: str, ids: IdRange) -> None:
        """Add these ids to the coverage."""
        await self._change("cover", {"source": source, "first_id": ids.start, "last_id": ids.end})

    async def _put_together(self, source: str) -> None:
        """Merge the rows into as few as possible. Ids added meanwhile wait for the new rows or come after them."""

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await lock(connection, f"coverage:{source}")
                taken = await (await connection.execute(SQL["take_coverage"], {"source": source})).fetchall()
                ranges = Coverage.of(IdRange(first_id, last_id) for first_id, last_id in taken).ranges
                ends = {"first_ids": [ids.start for ids in ranges], "last_ids": [ids.end for ids in ranges]}
                await connection.execute(SQL["put_coverage"], {"source": source, **ends})

        await self._connections().run(work)

    async def retract(self, source: str, *, above: int) -> int:
        """Forget what is planned, covered and owed above this id."""
        named = {"source": source, "above": above}

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await lock(connection, f"coverage:{source}")
                return sum([(await connection.execute(SQL[name], named)).rowcount for name in RETRACTIONS])

        return await self._connections().run(work)


async def _try_claim(connection: Connection, values: Values) -> Row | None:
    for _ in range(CLAIM_TRIES):
        row = await (await connection.execute(SQL["claim"], values)).fetchone()
        if row is not None or await (await connection.execute(SQL["pending_segment"], values)).fetchone() is None:
            return row
    return None
