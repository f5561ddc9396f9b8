"""How does a command make sure that it is the only one? It holds a lease while it works, or refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from remora.contracts import LeaderLease
from remora.core.errors import SourceBusy
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
    """Do the work once while holding the lease. Refuse if another process holds it, and end if it is lost."""
    loop, results = asyncio.get_running_loop(), list[T]()
    begun, lost = loop.create_future(), loop.create_future()

    async def once() -> None:
        if not begun.done():
            begun.set_result(None)
        try:
            results.append(await work())
        except asyncio.CancelledError:
            if not lost.done():
                lost.set_result(None)
            raise

    running = loop.create_task(right.run(once), name=run_name(source))
    try:
        await asyncio.wait([running, begun], timeout=TAKE_OVER_MAX_S, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and not begun.done():
            if right.unanswered is not None:
                raise right.unanswered
            raise SourceBusy(f"another process runs {source} on this store", hint="wait for it, or stop it first")
        await asyncio.wait([running, lost], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise SourceBusy(
                f"another process may run {source} now: the store did not hear from this one for seconds",
                hint="what was done is kept; run it again",
            )
        running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return results[-1]
