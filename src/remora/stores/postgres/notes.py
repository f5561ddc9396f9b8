"""How does the PostgreSQL store keep the learned pace and small facts?"""

from collections.abc import Mapping

from remora.contracts import Json
from remora.stores.common import CommonNotes
from remora.stores.decisions import HEARTBEAT_ALIVE_NS, alike
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import PostgresPart
from remora.stores.postgres.statements import SQL
from remora.stores.rows import dump_json, milliseconds


class PostgresNotes(PostgresPart, CommonNotes):
    """Pace, notes and heartbeats."""

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """Store the heartbeat of a running process."""
        values = {"runtime": runtime, "now": milliseconds(now_ns), "snapshot": dump_json(dict(snapshot))}
        before = milliseconds(now_ns - HEARTBEAT_ALIVE_NS)
        others = [{"first": first, "end": end, "before": before, "kept": kept} for first, end, kept in alike(runtime)]

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(SQL["beat"], values)
                for silent in others:
                    await connection.execute(SQL["forget_heartbeats"], silent)

        await self._connections().run(work)
