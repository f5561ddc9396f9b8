"""How does a job keep its view up to date while it works? A task beside it, and one last look at its end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

# Views draw at a pace of their own; this only bounds how old what they draw may be.
SHOW_EVERY_S: Final = 0.1


@asynccontextmanager
async def shown(show: Callable[[], None]) -> AsyncIterator[None]:
    """Show the progress while the block runs, and once more at its end."""

    async def keep_showing() -> None:
        while True:
            show()
            await asyncio.sleep(SHOW_EVERY_S)

    showing = asyncio.get_running_loop().create_task(keep_showing(), name="progress")
    try:
        yield
    finally:
        showing.cancel()
        show()
