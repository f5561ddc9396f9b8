"""How fast does the SQLite store write? Its whole write path, as a share of a bare executemany in the same run.

Run it with `python -m bench.store [--observations N]`. The machine may be noisy: trust the ratios.
"""

import argparse
import asyncio
import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from remora.contracts import Observation, Store
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore
from remora.stores.sqlite.database import connect_writer
from remora.stores.sqlite.statements import queries
from remora.stores.sqlite.writer import BATCH_MAX

OBSERVATIONS = 60_000
ROUNDS = 3
# As many callers as a transaction takes twice: one batch is written while the next one gathers.
CALLERS = 2 * BATCH_MAX
STARTED_NS = 1_790_000_000 * SECOND_NS
TEXT = "An ordinary comment has about as many words as this sentence, and then it goes on a little longer. " * 3


@dataclass(frozen=True)
class Measured:
    """Observations per second, the best of some rounds."""

    name: str
    per_second: float

    def line(self, baseline: "Measured") -> str:
        return (
            f"{self.name:<34}{self.per_second:>10,.0f}/s {self.per_second / baseline.per_second:>6.2f} of the baseline"
        )


def observations(count: int, *, version: int = 0) -> list[Observation]:
    """Comments as the provider sends them, 454 bytes on average."""
    return [observation(item_id, version) for item_id in range(1, count + 1)]


def observation(item_id: int, version: int) -> Observation:
    body = (
        f'{{"by":"someone","id":{item_id},"parent":{item_id // 2},"text":"{TEXT} {version}",'
        f'"time":{1_700_000_000 + item_id},"type":"comment"}}'
    ).encode()
    item = Item(
        item_id=item_id,
        body=body,
        type="comment",
        by="someone",
        time=1_700_000_000 + item_id,
        parent=item_id // 2,
        content=f"{TEXT} {version}".encode(),
    )
    started_ns = STARTED_NS + version * SECOND_NS
    return Observation(Discovery.item(item_id, via=Lane.BACKFILL), Found(item), started_ns, started_ns)


def rows(answers: Sequence[Observation]) -> list[tuple[object, ...]]:
    """What a bare upsert of the same items would bind."""
    made: list[tuple[object, ...]] = []
    for answer in answers:
        assert isinstance(answer.verdict, Found)
        assert isinstance(answer.verdict.thing, Item)
        item = answer.verdict.thing
        envelope = (1, item.item_id, item.by, item.time, item.parent, 1, 1, item.body)
        made.append((*envelope, item.type, None, None, 0, 0, 1, 1, bytes(16), bytes(16)))
    return made


def bare(path: Path, wanted: Sequence[tuple[object, ...]]) -> float:
    """Seconds for the bare upserts, in transactions of the same size."""
    connection = connect_writer(path)
    began = perf_counter()
    for batch in in_batches(wanted):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(queries()["write_items"], batch)
        connection.execute("COMMIT")
    took_s = perf_counter() - began
    connection.close()
    return took_s


def in_batches(wanted: Sequence[tuple[object, ...]]) -> Iterator[Sequence[tuple[object, ...]]]:
    return (wanted[start : start + BATCH_MAX] for start in range(0, len(wanted), BATCH_MAX))


async def recorded(store: Store, answers: Iterable[Observation]) -> float:
    """Seconds until all are durable, recorded by many callers of which each waits for its own."""
    left = iter(answers)

    async def caller() -> None:
        for answer in left:
            await store.record("hackernews", answer)

    # The answers were made beforehand and all live at once; in service none lives longer than its own record.
    gc.freeze()
    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took_s = perf_counter() - began
    gc.unfreeze()
    return took_s


async def passes(store: Store, count: int) -> tuple[float, float, float]:
    """Seconds for new items, for an unchanged second read, and for changed content."""
    await store.open()
    first, second = observations(count), observations(count, version=1)
    took_s = (await recorded(store, first), await recorded(store, first), await recorded(store, second))
    await store.close()
    return took_s


def measure(count: int) -> Iterator[Measured]:
    """The baseline first, then each store."""
    with TemporaryDirectory() as folder:
        fresh = (Path(folder) / f"{number}.db" for number in range(100))
        upserts = rows(observations(count))
        yield Measured("bare executemany", count / min(bare(next(fresh), upserts) for _ in range(ROUNDS)))
        stores: dict[str, Callable[[], Store]] = {
            "sqlite": lambda: SqliteStore(next(fresh)),
            "sqlite, in place": lambda: SqliteStore(next(fresh), offload=InPlace),
            "memory": MemoryStore,
        }
        for name, make in stores.items():
            rounds = [asyncio.run(passes(make(), count)) for _ in range(ROUNDS)]
            for place, what in enumerate(("new", "unchanged", "changed content")):
                yield Measured(f"{name}: {what}", count / min(took_s[place] for took_s in rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--observations", type=int, default=OBSERVATIONS)
    count: int = parser.parse_args().observations
    print(f"{count:,} observations, SQLite {sqlite3.sqlite_version}, best of {ROUNDS} rounds")
    results = measure(count)
    baseline = next(results)
    print(baseline.line(baseline))
    for result in results:
        print(result.line(baseline), flush=True)


if __name__ == "__main__":
    main()
