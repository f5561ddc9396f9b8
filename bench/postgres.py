"""How much does one PostgreSQL carry? Upserts, re-reads, claims and grants of time per second, on a server of its own.

`python -m bench.postgres` starts a PostgreSQL, measures for about a minute and prints a table. Durable commits
(`fsync = on`) unless `--no-fsync` is given. CPU seconds tell more than the clock on a machine that is shared.
"""

import argparse
import asyncio
import gc
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from msgspec.structs import replace

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.pacing import interval_for
from remora.core.rate.stretches import Stretches
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import PostgresGate, PostgresStore
from remora.stores.postgres.connections import Connection, Pool, connect
from remora.stores.postgres.recording import ITEM_TYPES, Job, Recorder
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.writer import BATCH_MAX, LANES
from tests import postgres_server
from tools import services

SOURCE = "hackernews"
NOW_NS = 1_790_000_000 * SECOND_NS
ITEMS = 60_000
# As many callers as fill every lane twice: one batch is written while the next one gathers.
CALLERS = 2 * LANES * BATCH_MAX
CLAIMS = 2_000
GRANTS = 1_500


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    per_s: float
    ours_us: float
    servers_us: float

    def __str__(self) -> str:
        return f"| {self.what} | {self.per_s:,.0f} | {self.ours_us:,.1f} | {self.servers_us:,.1f} |"


def observation(item_id: int, *, look: int, changed: bool = False) -> Observation:
    """A comment as large as the average one; every look left a second after the one before."""
    text = f"{'changed ' if changed else ''}{'word ' * 64}"
    body = (
        f'{{"by":"someone","id":{item_id},"parent":{item_id - 1},"text":"{text}","time":1700000000,"type":"comment"}}'
    )
    item = Item(
        item_id,
        body.encode(),
        type="comment",
        by="someone",
        time=1_700_000_000 + item_id,
        parent=item_id - 1,
        content=text.encode(),
    )
    moment_ns = NOW_NS + look * SECOND_NS
    return Observation(Discovery.item(item_id, via=Lane.BACKFILL), Found(item), moment_ns, moment_ns)


class Server:
    """A PostgreSQL, and how much CPU it has used."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            backend = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
        self._main_pid = int(backend.rpartition(")")[2].split()[1])

    def cpu_s(self) -> float:
        """CPU time of all of its processes, also of those that have ended."""
        ticks = 0
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone between two looks
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if self._main_pid in {int(place.name), int(fields[1])}:
                    ticks += int(fields[11]) + int(fields[12])
                if self._main_pid == int(place.name):
                    ticks += int(fields[13]) + int(fields[14])
        return ticks / os.sysconf("SC_CLK_TCK")


async def measured(what: str, count: int, server: Server, work: Callable[[], Awaitable[object]]) -> Line:
    # What was prepared beforehand is no garbage: the collector must not look at it again and again.
    gc.collect()
    gc.freeze()
    servers_s, ours_s, started_s = server.cpu_s(), time.process_time(), time.perf_counter()
    await work()
    passed_s = time.perf_counter() - started_s
    ours_us = (time.process_time() - ours_s) / count * 1e6
    line = Line(what, count / passed_s, ours_us, (server.cpu_s() - servers_s) / count * 1e6)
    print(line, flush=True)
    return line


async def record_all(store: PostgresStore, answers: Sequence[Observation]) -> None:
    """By many callers, of which each waits for its own."""
    left = iter(answers)

    async def caller() -> None:
        for answer in left:
            await store.record(SOURCE, answer)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def upserts(store: PostgresStore, server: Server) -> None:
    new = [observation(n, look=0) for n in range(1, ITEMS + 1)]
    await measured("new items", ITEMS, server, lambda: record_all(store, new))
    same = [replace(answer, started_at_ns=NOW_NS + SECOND_NS, now_ns=NOW_NS + SECOND_NS) for answer in new]
    await measured("re-read, nothing changed", ITEMS, server, lambda: record_all(store, same))
    some = [observation(n, look=2, changed=n % 33 == 0) for n in range(1, ITEMS + 1)]
    await measured("re-read, 3 % changed", ITEMS, server, lambda: record_all(store, some))
    shuffled = [observation(n, look=3) for n in range(ITEMS + 1, ITEMS + 20_001)]
    random.Random(7).shuffle(shuffled)
    await measured("new items in any order", len(shuffled), server, lambda: record_all(store, shuffled))


async def prepared_batches(url: str, server: Server) -> None:
    """The whole upsert path (probe, judge, write, change feed) without callers that each wait for one item."""
    pool = Pool(url, size=LANES)
    jobs = [(SOURCE, observation(n, look=0)) for n in range(3_000_000, 3_000_000 + ITEMS)]
    batches = iter([jobs[start : start + BATCH_MAX] for start in range(0, len(jobs), BATCH_MAX)])

    async def lane() -> None:
        recorder = Recorder()
        for batch in batches:

            async def work(connection: Connection, batch: Sequence[Job] = batch) -> object:
                return await recorder.record(connection, batch, again=False)

            await pool.run(work)

    async def all_lanes() -> None:
        await asyncio.gather(*(lane() for _ in range(LANES)))

    await measured("new items, prepared batches", ITEMS, server, all_lanes)
    await pool.close()


async def bare_copy(url: str, server: Server) -> None:
    """What the driver and the server can do at most: the same rows, known to be new, no ledger, no change feed."""
    rows = [row_of(observation(n, look=0)) for n in range(2_000_000, 2_000_000 + ITEMS)]
    connection = await connect(url)

    async def copy_all() -> None:
        for start in range(0, len(rows), BATCH_MAX):
            async with connection.transaction(), connection.cursor() as cursor, cursor.copy(SQL["copy_items"]) as copy:
                copy.set_types(ITEM_TYPES)
                for row in rows[start : start + BATCH_MAX]:
                    await copy.write_row(row)

    await measured("baseline: bare binary COPY", ITEMS, server, copy_all)
    await connection.close()


def row_of(answer: Observation) -> tuple[object, ...]:
    assert isinstance(answer.verdict, Found)
    assert isinstance(answer.verdict.thing, Item)
    item = answer.verdict.thing
    envelope = (1, item.item_id, item.type, item.by, item.time, item.parent, None, None, False, False, 1, 1, 1, 1)
    return (*envelope, bytes(16), bytes(16), item.body)


async def lone_records(store: PostgresStore, server: Server) -> None:
    answers = [observation(1_000_000 + n, look=0) for n in range(500)]

    async def one_after_another() -> None:
        for answer in answers:
            await store.record(SOURCE, answer)

    await measured("records, one at a time", len(answers), server, one_after_another)


async def claims(store: PostgresStore, server: Server, claimants: int) -> None:
    pieces = [IdRange(n, n + 999) for n in range(0, CLAIMS * 1_000, 1_000)]
    await store.plan(SOURCE, SegmentKind.REPLAY, pieces, now_ns=NOW_NS)

    async def claim_until_empty(name: str) -> None:
        terms = {"lease_ns": 60 * SECOND_NS, "now_ns": NOW_NS}
        while segment := await store.claim(SOURCE, [SegmentKind.REPLAY], owner=name, **terms):
            await store.advance(SOURCE, segment, segment.ids.end, **terms)

    async def all_claimants() -> None:
        await asyncio.gather(*(claim_until_empty(f"claimant-{n}") for n in range(claimants)))

    await measured(f"segments claimed and finished, {claimants} claimants", CLAIMS, server, all_claimants)


async def grants(url: str, server: Server, askers: int) -> None:
    gate = PostgresGate(url, clock=SystemClock())
    asked = Stretches(interval_for(10_000)).question(interval_ns=0, ready=1, now_ns=0)

    async def ask(count: int) -> None:
        for _ in range(count):
            await gate.borrow(SOURCE, asked, seen_version=0)

    async def all_askers() -> None:
        await asyncio.gather(*(ask(GRANTS // askers) for _ in range(askers)))

    await measured(f"stretches of time granted, {askers} askers", GRANTS, server, all_askers)
    await gate.close()


def new_server(*, fsync: bool) -> postgres_server.PostgresServer | None:
    """A PostgreSQL that is not started yet; None if this machine has no programs for it."""
    programs = services.find_postgres()
    if fsync:
        # Tests have the autovacuum look every few seconds; this is how often it looks at a user's database.
        durable = {"fsync": "on", "max_wal_size": "2GB", "shared_buffers": "256MB", "autovacuum_naptime": "1min"}
        postgres_server.SETTINGS.update(durable)
    return None if programs is None else postgres_server.PostgresServer(programs)


@asynccontextmanager
async def running(*, fsync: bool) -> AsyncIterator[tuple[Server, str]]:
    started = new_server(fsync=fsync)
    if started is None:
        raise SystemExit("no PostgreSQL programs on this machine: `make test` fetches them")
    with started as server:
        server.create_database("bench")
        yield Server(server.url("bench")), server.url("bench")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-fsync", action="store_true", help="measure without waiting for the disk")
    options = parser.parse_args()
    async with running(fsync=not options.no_fsync) as (server, url):
        store = PostgresStore(url)
        await store.open()
        print("| what | per second | our CPU, µs each | server's CPU, µs each |\n|---|---|---|---|")
        await bare_copy(url, server)
        await prepared_batches(url, server)
        await upserts(store, server)
        await lone_records(store, server)
        for claimants in (1, 8, 32):
            await claims(store, server, claimants)
        for askers in (1, 4):
            await grants(url, server, askers)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
