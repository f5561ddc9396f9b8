"""What does a process do that is about to be killed? It records items for ever and prints each id once it is durable."""

import asyncio
import sys
from pathlib import Path

from remora.core.item import Item
from remora.stores.sqlite import SqliteStore
from tests.contract.answers import TIMEOUT, record, story

CALLERS = 200


async def main(path: Path, first_id: int) -> None:
    store = SqliteStore(path)
    await store.open()
    await record(store, 0, TIMEOUT, at_s=0)
    ids = iter(range(first_id + 1, sys.maxsize))

    async def caller() -> None:
        for item_id in ids:
            item: Item = story(item_id)
            await record(store, item_id, item, at_s=1)
            sys.stdout.write(f"{item_id}\n")
            sys.stdout.flush()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
