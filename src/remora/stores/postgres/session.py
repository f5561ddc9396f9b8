"""What do all parts of the PostgreSQL store need? Connections, named statements, and the clock that judges leases."""

from collections.abc import Sequence

from remora.core.errors import StoreUnavailable
from remora.stores.common import Part, Values
from remora.stores.decisions import INTEGER_MAX, INTEGER_MIN, OnBatch
from remora.stores.postgres.connections import POOL_SIZE, Connection, Pool, Row
from remora.stores.postgres.migrations import prepare
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, load_key
from remora.stores.postgres.writer import LANES, Writer
from remora.stores.rows import milliseconds


class PostgresPart(Part):
    """A part of the PostgreSQL store. Every method is one transaction; so is a single statement."""

    _page_rows = 1_000
    _ids_max = 10_000

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        pool_size: int = POOL_SIZE,
        callers_clock: bool = False,
        on_batch: OnBatch | None = None,
    ) -> None:
        """With `callers_clock` the caller's time judges leases instead of the database's; for simulated time only."""
        self._url = url
        self._read_only = read_only
        self._pool_size = pool_size
        self._callers_clock = callers_clock
        self._on_batch = on_batch
        self._pool: Pool | None = None
        self._writer: Writer | None = None

    async def open(self) -> None:
        """Connect and refuse a foreign database. An empty one gets the schema if this role may create tables."""
        assert self._pool is None, "the store is open already"
        settings = {"default_transaction_read_only": "on"} if self._read_only else None
        # A reader's question may take as long as its user allows.
        pool = Pool(self._url, size=self._pool_size, settings=settings, patient=self._read_only)
        try:
            async with pool.connection() as connection:
                await prepare(connection, self._url, may_migrate=not self._read_only)
        except BaseException:
            await pool.close()
            raise
        self._pool = pool
        if self._read_only:
            return
        # Its own connections, so that the writer never waits for readers.
        self._writer = Writer(Pool(self._url, size=LANES), self._on_batch)

    async def close(self) -> None:
        """Write what was accepted, then close. Closing twice is harmless; it also ends a close that was cancelled."""
        if (writer := self._writer) is not None:
            await writer.close()
            self._writer = None
        if (pool := self._pool) is not None:
            await pool.close()
            self._pool = None

    def _connections(self) -> Pool:
        if self._pool is None:
            raise StoreUnavailable("the store is not open", hint="open it first")
        return self._pool

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable("the store is not open for writing", hint="open it first, and not read-only")
        return self._writer

    def _judging(self, now_ns: int) -> int | None:
        """The time that judges leases; None means the database's own clock."""
        return milliseconds(now_ns) if self._callers_clock else None

    async def _rows(self, name: str, values: Values) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            return await (await connection.execute(SQL[name], values, binary=True)).fetchall()

        return await self._connections().run(work)

    async def _page(self, name: str, values: Values, *, body_at: int) -> list[Row]:
        """The statement itself counts the bytes."""
        return await self._rows(name, {**values, "bytes": self._page_bytes})

    async def _change(self, name: str, values: Values) -> int:
        """How many rows a statement changed."""

        async def work(connection: Connection) -> int:
            return (await connection.execute(SQL[name], values)).rowcount

        return await self._connections().run(work)

    def _dump_key(self, key: str) -> str:
        return dump_key(key)

    def _load_key(self, text: str) -> str:
        return load_key(text)

    def _dump_keys(self, keys: Sequence[str]) -> list[str]:
        return list(map(dump_key, keys))

    def _dump_ids(self, ids: Sequence[int]) -> list[int]:
        """Without numbers beyond 64 bits, which anyone may ask for and no row has."""
        return [each for each in ids if INTEGER_MIN <= each <= INTEGER_MAX]


async def lock(connection: Connection, name: str) -> None:
    """Be the only process in the rest of this transaction."""
    await connection.execute(SQL["add_lock"], {"name": name})
    await connection.execute(SQL["lock"], {"name": name})
