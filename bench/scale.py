"""Does an item cost the same in a large mirror? A store is filled as a backfill does it, and then asked.

`python -m bench.scale [--items 10000000] [--postgres] [--folder DIR]` fills a store with made-up comments, newest segment
first, and prints what an item cost since the line before. Making them is measured and taken out. Then it fills empty
stores and the large one in turns, beside whatever else runs on the machine by then, and times the commands that an owner
uses. Ten million items take about 8 GB and a quarter of an hour.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import postgres
from bench.catchup import compiling
from remora.contracts import Observation, Store
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import SegmentKind
from remora.core.units import HOUR_NS, SECOND_NS
from remora.core.verdict import Found
from remora.sources.hackernews_item import content_of
from remora.stores.postgres import PostgresStore
from remora.stores.sqlite import SqliteStore

SOURCE = "hackernews"
ITEMS = 10_000_000
WALKERS = 8
AT_ONCE = 100
FIRST_LINES = (10_000, 100_000)
LINE_EVERY = 1_000_000
NOW_NS = 1_790_000_000 * SECOND_NS
WORDS = [f"word{number}" for number in range(2_000)]
COMMANDS = ("status", "gaps")
LARGE = "large"
COMPARED = 100_000
ROUNDS = 3


def observation(item_id: int, chance: random.Random) -> Observation:
    """A comment: about 450 bytes, one of a hundred thousand authors, a parent that is not far away."""
    text = " ".join(chance.choices(WORDS, k=48))
    author = f"user{chance.randrange(100_000)}"
    parent = max(1, item_id - chance.randrange(1, 500))
    at_s = item_id + 10**9
    body = f'{{"by":"{author}","id":{item_id},"parent":{parent},"text":"{text}","time":{at_s},"type":"comment"}}'
    item = Item(item_id, body.encode(), type="comment", by=author, time=at_s, parent=parent, content_of=content_of)
    return Observation(Discovery.item(item_id, via=Lane.BACKFILL), Found(item), NOW_NS, NOW_NS)


def body_of(made: Observation) -> bytes:
    """The body of a comment that was made here."""
    assert isinstance(made.verdict, Found)
    assert isinstance(made.verdict.thing, Item)
    return made.verdict.thing.body


class Meter:
    """What items cost since the last line, without what it takes to make them."""

    def __init__(self, servers_s: Callable[[], float], *, tells: bool = True) -> None:
        self._servers_s = servers_s
        self._made_s = 0.0
        self._items = self._told = 0
        self._lines = iter([*FIRST_LINES, *range(LINE_EVERY, 10**9, LINE_EVERY)])
        self._next = next(self._lines) if tells else 10**9
        self._before = self._now()
        self.raw_bytes = 0

    def make(self, ids: range, chance: random.Random) -> list[Observation]:
        """Comments with these ids."""
        began_s = time.process_time()
        made = [observation(item_id, chance) for item_id in ids]
        self.raw_bytes += sum(len(body_of(one)) for one in made)
        self._made_s += time.process_time() - began_s
        return made

    def stored(self, count: int) -> None:
        """So many more are durable."""
        self._items += count
        if self._items < self._next:
            return
        ours_us, servers_us, took_us = self.cost_us()
        memory = f"{resident_bytes() / 1e6:.0f}"
        print(f"| {self._items:,} | {ours_us:.1f} | {servers_us:.1f} | {1e6 / took_us:,.0f} | {memory} |", flush=True)
        self._before, self._told, self._next = self._now(), self._items, next(self._lines)

    def cost_us(self) -> tuple[float, float, float]:
        """Of an item since the last line: our processor time, the server's, and real time."""
        items = self._items - self._told
        ours_us, servers_us, took_us = (
            1e6 * (late - early) / items for late, early in zip(self._now(), self._before, strict=True)
        )
        return ours_us, servers_us, took_us

    def _now(self) -> tuple[float, float, float]:
        return time.process_time() - self._made_s, self._servers_s(), time.perf_counter()


def used_bytes(folder: Path) -> int:
    """What the files of the store take."""
    return sum(path.stat().st_size for path in folder.glob(f"{LARGE}.db*"))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def walk(store: Store, name: str, meter: Meter) -> None:
    """One worker of a backfill, without the requests."""
    chance = random.Random(name)
    terms = {"lease_ns": HOUR_NS, "now_ns": NOW_NS}
    while segment := await store.claim(SOURCE, [SegmentKind.BACKFILL], owner=name, **terms):
        for first in range(segment.ids.start, segment.ids.end + 1, AT_ONCE):
            ids = range(first, min(first + AT_ONCE, segment.ids.end + 1))
            await store.record_many(SOURCE, meter.make(ids, chance))
            await store.advance(SOURCE, segment, ids[-1], **terms)
            meter.stored(len(ids))


async def fill(store: Store, ids: IdRange, meter: Meter) -> None:
    await store.open()
    await store.plan(SOURCE, SegmentKind.BACKFILL, [ids], now_ns=NOW_NS)
    await asyncio.gather(*(walk(store, f"walker-{number}", meter) for number in range(WALKERS)))
    await store.close()


def ask(url: str, folder: Path) -> None:
    """How long does an owner wait? Real time and processor time of a whole command."""
    print("\n| command | s | processor s |\n|---|--:|--:|")
    run(COMMANDS[0], url, folder)  # compiles modules, as an installation does
    for name in COMMANDS:
        before, began_s = os.times(), time.perf_counter()
        told = run(name, url, folder)
        after, took_s = os.times(), time.perf_counter() - began_s
        used_s = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"| remora {name}{told} | {took_s:.2f} | {used_s:.2f} |", flush=True)


def run(name: str, url: str, folder: Path) -> str:
    """Run a command. Returns what went wrong."""
    command = [sys.executable, "-m", "remora", name, "--store", url]
    done = subprocess.run(command, cwd=folder, env=compiling(), capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return f" (exit code {done.returncode}: {done.stderr.strip()[-200:]})" if done.returncode else ""


async def compare(stores: "Stores", items: int) -> None:
    """What an item costs in the large store and in an empty one, in turns."""
    costs: dict[str, list[tuple[float, ...]]] = {f"{items:,} items": [], "empty": []}
    for number in range(ROUNDS):
        first = items + 1 + number * COMPARED
        for (_, found), (name, ids) in zip(
            costs.items(),
            ((LARGE, IdRange(first, first + COMPARED - 1)), (f"empty{number}", IdRange(1, COMPARED))),
            strict=True,
        ):
            meter = Meter(stores.servers_s, tells=False)
            await fill(stores.store(name), ids, meter)
            found.append(meter.cost_us())
    print(f"\n| {COMPARED:,} more items into a store that is | our CPU-µs | the server's |\n|---|--:|--:|")
    for name, found in costs.items():
        ours_us, servers_us, _ = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"| {name} | {ours_us:.1f} | {servers_us:.1f} |", flush=True)


@dataclass
class Stores:
    """Stores of one kind by name."""

    store: Callable[[str], Store]
    url: Callable[[str], str]
    servers_s: Callable[[], float]


@asynccontextmanager
async def opened(folder: Path, *, is_postgres: bool) -> AsyncIterator[Stores]:
    if not is_postgres:
        yield Stores(
            lambda name: SqliteStore(folder / f"{name}.db"), lambda name: f"sqlite:///{folder / name}.db", lambda: 0.0
        )
        return
    started = postgres.new_server(fsync=True)
    if started is None:
        raise SystemExit("no PostgreSQL programs on this machine: `make test` fetches them")
    with started as server:
        for name in (LARGE, *(f"empty{number}" for number in range(ROUNDS))):
            server.create_database(name)
        yield Stores(lambda name: PostgresStore(server.url(name)), server.url, postgres.Server(server.url()).cpu_s)


async def bench(items: int, folder: Path, *, is_postgres: bool) -> None:
    async with opened(folder, is_postgres=is_postgres) as stores:
        meter = Meter(stores.servers_s)
        print("| items | our CPU-µs | the server's | items/s | MB |\n|--:|--:|--:|--:|--:|", flush=True)
        await fill(stores.store(LARGE), IdRange(1, items), meter)
        if not is_postgres:
            used = await asyncio.to_thread(used_bytes, folder)
            print(f"\n{used / meter.raw_bytes:.2f} bytes on disk for each byte of a body, {used / 1e9:.2f} GB")
        await compare(stores, items)
        ask(stores.url(LARGE), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--folder", type=Path, help="a folder with room for it; a temporary one otherwise")
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.folder) as folder:
        asyncio.run(bench(given.items, Path(folder), is_postgres=given.postgres))


if __name__ == "__main__":
    main()
