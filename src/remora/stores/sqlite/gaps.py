"""How does the SQLite store keep gaps?"""

import json
from collections.abc import Sequence

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import CLOCK_SLACK_NS, NOT_BEFORE_MAX_NS, Gap, GapEvent, GapState, moved
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS
from remora.stores.rows import gap_from_row
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.session import SqlitePart


class SqliteGaps(SqlitePart):
    """Gaps."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        """Due gaps; the longest since their last attempt come first. Found and leased in one transaction."""
        lease_until = (now_ns + lease_ns) // MILLISECOND_NS
        wanted = {
            "source": source,
            "now": now_ns // MILLISECOND_NS,
            "lease_until": lease_until,
            "slack": CLOCK_SLACK_NS // MILLISECOND_NS,
            "not_before_max": NOT_BEFORE_MAX_NS // MILLISECOND_NS,
            "without": json.dumps(list(without)),
            "limit": limit,
        }

        def work(connection: Connection) -> Sequence[Gap]:
            due = [gap_from_row(row) for row in connection.execute(self._sql["due_gaps"], wanted)]
            turn = connection.execute(self._sql["last_turn"], {"source": source}).fetchone()[0] + 1
            connection.executemany(
                self._sql["lease_gap"],
                [(owner, lease_until, turn, source, gap.kind.value, gap.key) for gap in due],
            )
            return tuple(moved(gap, GapEvent.LEASE) for gap in due)

        return await self._write(work)

    async def release_gaps(self, source: str, *, owner: str) -> int:
        """Give back the leases that this owner still holds."""
        return await self._change("release_gaps", {"source": source, "owner": owner})

    async def gaps(
        self,
        source: str,
        *,
        kind: Kind | None = None,
        state: GapState | None = None,
        reason: GapReason | None = None,
        limit: int = 1_000,
    ) -> Sequence[Gap]:
        """Gaps, oldest first; settled gaps only when asked for by state."""
        values = {"source": source, "kind": kind and kind.value, "reason": reason and reason.value, "limit": limit}
        if state is GapState.SETTLED:
            rows = await self._rows("list_settled_gaps", values)
        else:
            rows = await self._rows("list_gaps", {**values, "state": state and state.value})
        return tuple(gap_from_row(row) for row in rows)

    async def replay_gaps(
        self, source: str, *, reason: GapReason | None = None, key: str | None = None, now_ns: int
    ) -> int:
        """Make dead and absent gaps owed again, and owed gaps due now."""
        values = {"source": source, "reason": reason and reason.value, "key": key, "now": now_ns // MILLISECOND_NS}
        return await self._change("replay_gaps", values)
