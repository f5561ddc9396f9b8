"""How does the PostgreSQL store keep the copy itself?"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from remora.contracts import NewItem, Observation, Outcome, StoredItem
from remora.core.ledger import source_clock
from remora.core.ledger.source_clock import BLOCK_ITEMS, Timed
from remora.core.units import MILLISECOND_NS
from remora.stores.decisions import INTEGER_MAX
from remora.stores.postgres.connections import Connection
from remora.stores.postgres.session import PostgresPart
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key
from remora.stores.rows import item_from_row

# Rows read at once: a page ends its transaction, so that a slow reader never keeps dead rows alive.
PAGE_ROWS: Final = 1_000
IDS_MAX: Final = 10_000


class PostgresMirror(PostgresPart):
    """The copy itself."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable."""
        return await self._open_writer().record(source, observation)

    async def item(self, source: str, item_id: int) -> StoredItem | None:
        """One item of the mirror."""
        row = await self._row("item", {"source": source, "id": item_id})
        return item_from_row(row) if row else None

    async def revisions(self, source: str, item_id: int) -> Sequence[StoredItem]:
        """Earlier contents, oldest first."""
        rows = await self._rows("revisions", {"source": source, "id": item_id})
        return tuple(item_from_row(row) for row in rows)

    async def bodies(
        self, source: str, *, first_id: int = 0, last_id: int | None = None
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Raw bodies by id, in order, page by page."""
        last = INTEGER_MAX if last_id is None else last_id
        while True:
            wanted = {"source": source, "first": first_id, "last": last, "limit": PAGE_ROWS}
            page = await self._rows("bodies", wanted)
            for item_id, body in page:
                yield item_id, body
            if len(page) < PAGE_ROWS:
                return
            first_id = page[-1][0] + 1

    async def newest_items(self, source: str, *, first_id: int, limit: int, body_max_bytes: int) -> Sequence[NewItem]:
        """The highest ids, highest first; bodies above the bound come empty."""
        wanted = {"source": source, "first": first_id, "limit": limit, "body_max": body_max_bytes}
        rows = await self._rows("newest_items", wanted)
        return tuple(NewItem(item_id, body, seen * MILLISECOND_NS) for item_id, body, seen in rows)

    async def user(self, source: str, name: str) -> bytes | None:
        """The raw profile."""
        row = await self._row("user", {"source": source, "name": dump_key(name)})
        return row[0] if row else None

    async def item_times(self, source: str, ids: Iterable[int]) -> Mapping[int, int]:
        """Creation times of those that are held and have one."""
        times: dict[int, int] = {}
        left = iter(ids)
        while some := list(islice(left, IDS_MAX)):
            rows = await self._rows("item_times", {"source": source, "ids": some})
            times.update((row[0], row[1]) for row in rows)
        return times

    async def newest_time(self, source: str) -> int | None:
        """The median time of the newest items."""

        async def work(connection: Connection) -> int | None:
            return source_clock.time_of(await _block(connection, source, INTEGER_MAX))

        return await self._connections().run(work)

    async def first_id_since(self, source: str, time_s: int) -> int | None:
        """The lowest id from which on items are this young."""

        async def work(connection: Connection) -> int | None:
            row = await (await connection.execute(SQL["newest_item_id"], {"source": source})).fetchone()
            if row is None or row[0] is None:
                return None
            search = source_clock.first_id_since(time_s, newest_id=row[0])
            asked = next(search)
            while True:
                block = await _block(connection, source, asked)
                try:
                    asked = search.send(block)
                except StopIteration as found:
                    answer: int | None = found.value
                    return answer

        return await self._connections().run(work)


async def _block(connection: Connection, source: str, last_id: int) -> list[Timed]:
    found = await connection.execute(SQL["block"], {"source": source, "last": last_id, "limit": BLOCK_ITEMS})
    return [Timed(item_id, time_s) for item_id, time_s in await found.fetchall()]
