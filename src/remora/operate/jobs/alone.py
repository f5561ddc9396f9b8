"""How does a command make sure that it is the only one? It holds a lease while it works, or refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from remora.contracts import LeaderLease
from remora.core.errors import StoreBusy
from remora.operate.jobs.resources import Resources
from remora.operate.jobs.run import run_name

T = TypeVar("T")
# The lease of a dead process expires within this time.
TAKE_OVER_MAX_S: Final = 15.0


async def with_right(resources: Resources, source: str, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work. Where only one process may send, refuse if another one does."""
    right = resources.gates.right(source)
    return await (work() if right is None else alone(right, source, work))


async def alone(right: LeaderLease, source: str, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work while holding the lease; refuse if another process holds it."""
    begun, results = asyncio.Event(), list[T]()

    async def once() -> None:
        begun.set()
        results.append(await work())

    running = asyncio.get_running_loop().create_task(right.run(once), name=run_name(source))
    try:
        async with asyncio.timeout(TAKE_OVER_MAX_S):
            await begun.wait()
        await running
    except TimeoutError:
        raise StoreBusy(f"another process runs {source} on this store", hint="wait for it, or stop it first") from None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return results[-1]
