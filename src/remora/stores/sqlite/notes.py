"""How does the SQLite store keep the inbox, the pace, small facts and the heartbeat?"""

from collections.abc import Mapping, Sequence

from remora.contracts import Json
from remora.core.ledger.discovery import Kind
from remora.core.units import MILLISECOND_NS
from remora.stores.common import CommonLedger, CommonNotes
from remora.stores.decisions import HEARTBEAT_ALIVE_NS, alike
from remora.stores.rows import dump_json
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.session import SqlitePart


class SqliteNotes(SqlitePart, CommonNotes, CommonLedger):
    """Inbox, pace, notes and heartbeat."""

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys. A key that is already waiting gets a new ticket. Returns the depth."""
        rows = [(source, kind.value, key, now_ns // MILLISECOND_NS) for kind, key in keys]

        def work(connection: Connection) -> int:
            write_rows(connection, "announce", rows)
            depth: int = connection.execute(self._sql["inbox_depth"], {"source": source}).fetchone()[0]
            return depth

        return await self._write(work)

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """Store the heartbeat of a running process."""
        values = {"runtime": runtime, "now": now_ns // MILLISECOND_NS, "snapshot": dump_json(snapshot)}
        before = (now_ns - HEARTBEAT_ALIVE_NS) // MILLISECOND_NS
        others = [{"first": first, "end": end, "before": before, "kept": kept} for first, end, kept in alike(runtime)]

        def work(connection: Connection) -> None:
            connection.execute(self._sql["beat"], values)
            for silent in others:
                connection.execute(self._sql["forget_heartbeats"], silent)

        await self._write(work)
