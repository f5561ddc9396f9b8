"""What do import, look-ups and export cost? Processor time per item on a simulated mirror; wall time beside it.

Run it with `python -m bench.reading [--items N]`. The machine may be noisy: trust the processor time.
"""

import argparse
import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.importing import import_files
from remora.read.export import Wanted
from remora.read.mirror import MirrorReader
from remora.read.parquet import export_parquet
from remora.sim.world import World, WorldSettings

ITEMS = 100_000
SOURCE = "hackernews"
LOOK_UPS = {
    "one author, newest 50": 'SELECT id FROM items WHERE "by" = ? ORDER BY time DESC LIMIT 50',
    "one author, with titles": 'SELECT id, title FROM item_fields WHERE "by" = ?',
    "one author's stories": 'SELECT DISTINCT root FROM threads WHERE "by" = ?',
    "one domain, newest 50": "SELECT id FROM items WHERE domain = ? ORDER BY time DESC LIMIT 50",
}


@contextmanager
def timed(what: str, items: int) -> Iterator[None]:
    wall_s, own_s = perf_counter(), process_time()
    yield
    wall_s, own_s = perf_counter() - wall_s, process_time() - own_s
    print(f"{what:<28}{own_s / items * 1e6:>8.1f} us of processor time per item,{items / wall_s:>10,.0f}/s", flush=True)


def write_dump(path: Path, count: int) -> int:
    settings = WorldSettings(items=count)
    with path.open("wb") as file:
        bodies = [body.replace(b"\n", b" ") + b"\n" for _, body in World(settings).dump(settings.start_ns)]
        file.writelines(bodies)
    return len(bodies)


def look_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        author = connection.execute('SELECT "by" FROM items WHERE "by" IS NOT NULL LIMIT 1').fetchone()[0]
        domain = connection.execute("SELECT domain FROM items WHERE domain IS NOT NULL LIMIT 1").fetchone()[0]
        for name, statement in LOOK_UPS.items():
            began = process_time()
            rows = connection.execute(statement, (domain if "domain" in name else author,)).fetchall()
            print(f"{name:<28}{(process_time() - began) * 1e3:>8.1f} ms for {len(rows):,} rows")


async def export(url: str, folder: Path) -> int:
    async with MirrorReader(url) as mirror:
        return await export_parquet(mirror, Wanted(SOURCE, is_listed=False), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    wanted: int = parser.parse_args().items
    with TemporaryDirectory() as name:
        folder = Path(name)
        dump, url = folder / "dump.ndjson", f"sqlite:///{folder}/hn.db"
        count = write_dump(dump, wanted)
        settings = load(Flags(store=url, source=SOURCE), {}, directory=folder)
        with timed("import", count):
            asyncio.run(import_files(settings, SOURCE, [dump], tell=lambda _file, _rows: None))
        look_up(folder / "hn.db")
        with timed("export to Parquet", count):
            asyncio.run(export(url, folder / "lake"))


if __name__ == "__main__":
    main()
