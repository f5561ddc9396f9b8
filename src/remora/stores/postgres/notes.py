"""How does the PostgreSQL store keep the learned pace and small facts?"""

from collections.abc import Mapping, Sequence

from remora.contracts import Json
from remora.core.units import MILLISECOND_NS
from remora.stores.decisions import HEARTBEAT_ALIVE_NS, HEARTBEATS_KEPT, alike
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import PostgresPart
from remora.stores.postgres.statements import SQL
from remora.stores.rows import dump_json, load_json, milliseconds


class PostgresNotes(PostgresPart):
    """Pace, notes and heartbeats."""

    async def load_pace(self, source: str) -> Json:
        """What was saved last."""
        row = await self._row("load_pace", {"source": source})
        return load_json(row[0]) if row else None

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Keep it."""
        await self._change("save_pace", {"source": source, "record": dump_json(dict(record))})

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""
        row = await self._row("note", {"source": source, "name": name})
        return load_json(row[0]) if row else None

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Keep it."""
        await self._change("keep_note", {"source": source, "name": name, "value": dump_json(value)})

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """The runtime is alive."""
        values = {"runtime": runtime, "beat": milliseconds(now_ns), "snapshot": dump_json(dict(snapshot))}
        first, end = alike(runtime)
        before = milliseconds(now_ns - HEARTBEAT_ALIVE_NS)
        others = {"first": first, "end": end, "before": before, "kept": HEARTBEATS_KEPT}

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(SQL["beat"], values)
                await connection.execute(SQL["forget_heartbeats"], others)

        await self._connections().run(work)

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """Newest first."""
        rows = await self._rows("heartbeats", {})
        return tuple((runtime, beat_at * MILLISECOND_NS, load_json(snapshot)) for runtime, beat_at, snapshot in rows)
