"""How does the SQLite store keep the inbox, the pace, small facts and the heartbeat?"""

from collections.abc import Mapping, Sequence

from remora.contracts import InboxEntry, Json
from remora.core.ledger.discovery import Kind
from remora.core.units import MILLISECOND_NS
from remora.stores.decisions import HEARTBEAT_ALIVE_NS, HEARTBEATS_KEPT, alike
from remora.stores.rows import dump_json, load_json
from remora.stores.sqlite.bulk import write_rows
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.session import SqlitePart


class SqliteNotes(SqlitePart):
    """Inbox, pace, notes and heartbeat."""

    async def announce(self, source: str, keys: Sequence[tuple[Kind, str]], *, now_ns: int) -> int:
        """Add keys; one that waits already gets a new ticket. Returns the depth."""
        rows = [(source, kind.value, key, now_ns // MILLISECOND_NS) for kind, key in keys]

        def work(connection: Connection) -> int:
            write_rows(connection, "announce", rows)
            depth: int = connection.execute(self._sql["inbox_depth"], {"source": source}).fetchone()[0]
            return depth

        return await self._write(work)

    async def waiting(self, source: str, *, limit: int, after_ticket: int = 0) -> Sequence[InboxEntry]:
        """The oldest tickets beyond `after_ticket`."""
        rows = await self._rows("waiting", {"source": source, "after": after_ticket, "limit": limit})
        return tuple(InboxEntry(Kind(kind), key, ticket) for kind, key, ticket in rows)

    async def inbox_depth(self, source: str) -> int:
        """How many keys wait."""
        row = await self._row("inbox_depth", {"source": source})
        assert row is not None, "a count has a row"
        depth: int = row[0]
        return depth

    async def load_pace(self, source: str) -> Json:
        """What was saved last, or None; damaged text as it is."""
        row = await self._row("load_pace", {"source": source})
        return load_json(row[0]) if row else None

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        """Keep it, durably."""
        await self._change("save_pace", {"source": source, "record": dump_json(record)})

    async def note(self, source: str, name: str) -> Json:
        """The fact, or None."""
        row = await self._row("note", {"source": source, "name": name})
        return load_json(row[0]) if row else None

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Keep it, durably."""
        await self._change("keep_note", {"source": source, "name": name, "value": dump_json(value)})

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        """The runtime is alive and this is what it sees."""
        values = {"runtime": runtime, "now": now_ns // MILLISECOND_NS, "snapshot": dump_json(snapshot)}
        first, end = alike(runtime)
        before = (now_ns - HEARTBEAT_ALIVE_NS) // MILLISECOND_NS
        others = {"first": first, "end": end, "before": before, "kept": HEARTBEATS_KEPT}

        def work(connection: Connection) -> None:
            connection.execute(self._sql["beat"], values)
            connection.execute(self._sql["forget_heartbeats"], others)

        await self._write(work)

    async def heartbeats(self) -> Sequence[tuple[str, int, Json]]:
        """What runtimes said last, newest first."""
        rows = await self._rows("heartbeats", {})
        return tuple((runtime, beat_at * MILLISECOND_NS, load_json(text)) for runtime, beat_at, text in rows)
