"""How does a test see that a program of another program has ended? It held a pipe, and nobody holds it any more."""

import asyncio
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

END_WITHIN_S = 10.0


@asynccontextmanager
async def held_until_the_end(path: Path) -> AsyncIterator[Path]:
    """A pipe for a program to open. At the end of the block every program that did must have ended."""
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path
        at_end, _, _ = await asyncio.to_thread(select.select, [reading], [], [], END_WITHIN_S)
        assert at_end, "a program still holds the pipe"
    finally:
        os.close(reading)
