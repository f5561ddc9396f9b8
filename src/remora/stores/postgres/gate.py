"""Which stretch of time may a process have? One row per source answers, on the database's clock alone.

The row holds the end of all granted time. A grant is made under the row's lock and starts after that end, so two grants
never overlap. It is made before anything is sent: a process that is killed has at worst wasted its stretch, never used
it twice. `core.rate.stretches` decides what a process does inside its stretch.

The table is unlogged: no flush per grant, and after a server crash the row is missing rather than outdated. A new row
starts after all that the lost one may have granted.
"""

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Final

from remora.contracts import Clock, Json, SharedPace
from remora.core.rate.pacing import burst_allowance
from remora.core.rate.stretches import AHEAD_NS, Grant, Question
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.stores.postgres.connections import Connection, Pool, Row, connect, explaining
from remora.stores.postgres.statements import parse
from remora.stores.rows import dump_json, load_json

GATE: Final = parse(files(__package__).joinpath("gate.sql").read_text("utf-8"))

CONNECTIONS_AT_MOST: Final = 4
# A probe is answered or has failed within a minute. After this time its process is dead or unreachable.
PROBE_AT_MOST_NS: Final = 90 * SECOND_NS
# If a circuit is open for longer than any cool-down plus a probe, the clock has been set back since it was opened.
SHUT_AT_MOST_NS: Final = 2 * MINUTE_NS


class PostgresGate:
    """`contracts.GateStore` in a database. Safe to use from many tasks."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._pool = Pool(url, size=CONNECTIONS_AT_MOST)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    async def borrow(self, source: str, question: Question, *, seen_version: int) -> tuple[Grant, SharedPace]:
        """The next stretch after all granted time."""
        parameters = {
            "source": source,
            **question._asdict(),
            "ahead_ns": AHEAD_NS,
            "probe_ns": PROBE_AT_MOST_NS,
            "shut_most_ns": SHUT_AT_MOST_NS,
            "seen_version": seen_version,
        }

        async def work(connection: Connection) -> Row:
            while (row := await (await connection.execute(GATE["borrow"], parameters)).fetchone()) is None:
                await self._add(connection, source, question)
            return row

        count, now_ns, starts_ns, ends_ns, interval_ns, binds, is_probe, *shared = await self._pool.run(work)
        record, version, paced_ns, not_before_in_ns, shut_in_ns, cool_down_ns = shared
        pace = SharedPace(
            load_json(record),
            version,
            paced_ns,
            not_before_in_ns,
            shut_in_ns=shut_in_ns,
            cool_down_ns=cool_down_ns,
        )
        return Grant(count, now_ns, starts_ns, ends_ns, interval_ns, binds, is_probe), pace

    async def return_probe(self, source: str) -> None:
        """The granted probe was not sent: any process may have it."""
        await self._execute("return_probe", {"source": source})

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int = 0,
        seen_version: int | None = None,
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned. Every later grant uses it.

        Refused (False, and the stored pace) if another process changed the pace since `seen_version`. The provider's
        not-before and a slower interval count even then. Without a version it replaces the stored pace.
        """
        parameters = {
            "source": source,
            "record": dump_json(dict(record)),
            "interval_ns": interval_ns,
            "not_before_in_ns": not_before_in_ns,
            "seen_version": seen_version,
        }
        kept, version, kept_interval_ns, not_before_left_ns, was_taken = await self._one("share", parameters)
        return was_taken, SharedPace(load_json(kept), version, kept_interval_ns, not_before_left_ns)

    async def announce(self, source: str, *, sender: str) -> None:
        """Tell all processes to give up their stretches and ask again."""
        await self._execute("announce", {"news": f"{sender} {source}"})

    async def listen(self, source: str, *, sender: str, heard: Callable[[], None]) -> None:
        """Call `heard` whenever another process announces something, on a connection of its own."""
        connection = await connect(self._url, patient=True)  # news may be rare
        try:
            async with explaining(connection):
                await connection.execute(GATE["listen"])
                async for news in connection.notifies():
                    from_whom, _, about = news.payload.partition(" ")
                    if about == source and from_whom != sender:
                        heard()
        finally:
            await connection.close()

    async def look(self, source: str) -> SharedPace:
        """What all processes know now, and for how long all of them have been idle."""
        row = await self._one("look", {"source": source})
        record, version, interval_ns, not_before_in_ns, idle_ns, now_ns = row
        return SharedPace(
            load_json(record),
            version,
            interval_ns,
            not_before_in_ns,
            ahead_ns=now_ns - self._clock.monotonic_ns(),
            idle_ns=idle_ns,
        )

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Grant nothing for this long, then one probe, then nothing until its answer is reported."""
        parameters = {"source": source, "for_ns": for_ns, "cool_down_ns": cool_down_ns, "was_prober": was_prober}
        await self._execute("shut", parameters)

    async def open_again(self, source: str) -> None:
        """Grant as before."""
        await self._execute("open_again", {"source": source})

    async def _add(self, connection: Connection, source: str, question: Question) -> None:
        """A source's first gate starts as if a full burst had just been sent; a lost one, after all it granted."""
        is_first = await (await connection.execute(GATE["first_gate"], {"source": source})).fetchone() is not None
        burst_ns = question.ceiling_interval_ns * burst_allowance(question.ceiling_interval_ns)
        first_in_ns = burst_ns if is_first else question.reach_ns
        await connection.execute(GATE["add_gate"], {"source": source, "first_in_ns": first_in_ns})

    async def _one(self, name: str, parameters: Mapping[str, object]) -> Row:
        async def work(connection: Connection) -> Row:
            row = await (await connection.execute(GATE[name], parameters)).fetchone()
            assert row is not None, f"{name} always gives a row"
            return row

        return await self._pool.run(work)

    async def _execute(self, name: str, parameters: Mapping[str, object]) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(GATE[name], parameters)

        await self._pool.run(work)
