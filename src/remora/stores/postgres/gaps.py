"""How does the PostgreSQL store keep gaps and the inbox?"""

from collections.abc import Sequence

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import CLOCK_SLACK_NS, NOT_BEFORE_MAX_NS, Gap, GapState
from remora.core.reasons import GapReason
from remora.stores.common import CommonLedger
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import PostgresPart, lock
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, gap_from_row
from remora.stores.rows import milliseconds


class PostgresGaps(PostgresPart, CommonLedger):
    """Gaps and inbox."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        """Due gaps; those that have waited longest since their last attempt come first."""
        values = {
            "source": source,
            "owner": owner,
            "limit": limit,
            "lease": milliseconds(lease_ns),
            "now": self._judging(now_ns),
            "due": milliseconds(now_ns),
            "slack": milliseconds(CLOCK_SLACK_NS),
            "not_before_max": milliseconds(NOT_BEFORE_MAX_NS),
            "without": [reason.value for reason in without],
        }

        async def work(connection: Connection) -> Sequence[Gap]:
            await connection.execute(SQL["reap_gaps"], values)
            found = await (await connection.execute(SQL["lease_gaps"], values)).fetchall()
            return tuple(gap_from_row(row) for row in found)

        return await self._connections().run(work)

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
        name = "list_settled_gaps" if state is GapState.SETTLED else "list_gaps"
        values = {
            "source": source,
            "kind": None if kind is None else kind.value,
            "state": None if state is None else state.value,
            "reason": None if reason is None else reason.value,
            "limit": limit,
        }
        return tuple(gap_from_row(row) for row in await self._rows(name, values))

    async def replay_gaps(
        self, source: str, *, reason: GapReason | None = None, key: str | None = None, now_ns: int
    ) -> int:
        """Make dead and absent gaps owed again, and owed gaps due now."""
        values = {
            "source": source,
            "reason": None if reason is None else reason.value,
            "key": None if key is None else dump_key(key),
            "now": milliseconds(now_ns),
        }
        return await self._change("replay_gaps", values)

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys. A key that is already waiting gets a new ticket and moves to the end."""
        # If a key is named twice, its last place counts.
        named = list(reversed(dict.fromkeys(reversed(keys))))
        values = {
            "source": source,
            "kinds": [kind.value for kind, _ in named],
            "keys": [dump_key(key) for _, key in named],
            "announced": milliseconds(now_ns),
        }

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                # Tickets become visible in order, so a reader that continues after the last one misses none.
                await lock(connection, f"inbox:{source}")
                await connection.execute(SQL["announce"], values)
                row = await (await connection.execute(SQL["inbox_depth"], values)).fetchone()
                assert row is not None, "a count has a row"
                depth: int = row[0]
                return depth

        return await self._connections().run(work)
