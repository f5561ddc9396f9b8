"""What do the indexes cost a catch-up? Items per second and processor time with each and without it, interleaved.

Run it with `python -m bench.indexes [--items N]`. Nothing is fetched, so the store is all there is to wait for: beside a
real source the share is smaller. The machine may be noisy: trust the processor time.
"""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from bench.store import recorded
from remora.contracts import Observation
from remora.core.item import Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import Found
from remora.operate.jobs.search_index import build, keep_fresh
from remora.read.mirror import MirrorReader
from remora.sim.world import World, WorldSettings
from remora.sources.hackernews_item import decode_item
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import connect_writer

ITEMS = 60_000
ROUNDS = 3
BY_AUTHOR_AND_DOMAIN = ("items_by_author", "items_by_domain")


@dataclass
class Measured:
    """One way to store the items, over all rounds."""

    name: str
    dropped: Sequence[str] = ()  # indexes that it does without
    is_searched: bool = False
    rates: list[float] = field(default_factory=list)
    costs_us: list[float] = field(default_factory=list)

    def line(self, baseline: "Measured") -> str:
        rate, cost_us = max(self.rates), min(self.costs_us)
        more = cost_us / min(baseline.costs_us) - 1
        return f"{self.name:<44}{rate:>8,.0f}/s{cost_us:>8.1f} us of processor time per item {more:>+7.1%}"


def observations(count: int) -> list[Observation]:
    """A simulated history as the line would record it."""
    settings = WorldSettings(items=count)
    answers = []
    for item_id, body in World(settings).dump(settings.start_ns):
        decoded = decode_item(item_id, body)
        if isinstance(decoded, Readable):
            discovery = Discovery.item(item_id, via=Lane.BACKFILL)
            answers.append(Observation(discovery, Found(decoded.thing), settings.start_ns, settings.start_ns))
    return answers


async def one_round(way: Measured, path: Path, answers: Sequence[Observation]) -> int:
    """Store everything; returns how many items the search index has at the end."""
    url = f"sqlite:///{path}"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    if way.dropped:
        connection = connect_writer(path)
        for index in way.dropped:
            connection.execute(f"DROP INDEX {index}")
        connection.close()
    if way.is_searched:
        await build(url, rebuild=False, tell=lambda _: None)
    await store.open()
    following = asyncio.ensure_future(keep_fresh(url)) if way.is_searched else None
    own_s = process_time()
    took_s = await recorded(store, answers)
    own_s = process_time() - own_s
    if following is not None:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
    await store.close()
    way.rates.append(len(answers) / took_s)
    way.costs_us.append(own_s / len(answers) * 1e6)
    if not way.is_searched:
        return 0
    async with MirrorReader(url) as mirror:
        found = await mirror.search_report()
        return 0 if found is None else found.size.entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    answers = observations(parser.parse_args().items)
    ways = [
        Measured("without the indexes by author and domain", BY_AUTHOR_AND_DOMAIN),
        Measured("as it is"),
        Measured("with the search index, followed meanwhile", is_searched=True),
    ]
    indexed = 0
    with TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            for place, way in enumerate(ways):
                found = asyncio.run(one_round(way, Path(folder) / f"{number}-{place}.db", answers))
                indexed = max(indexed, found)
    print(f"{len(answers):,} items, {ROUNDS} rounds, interleaved; the best of each")
    for way in ways:
        print(way.line(ways[1]))
    print(f"the search index had {indexed:,} of them at the end")


if __name__ == "__main__":
    main()
