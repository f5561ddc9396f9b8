"""Where does blocking work run? In a thread of its own in production, in place where time is simulated."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offloader(Protocol):
    """Runs blocking work, one piece after the other."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, once it is done."""

    def close(self) -> None:
        """No work will follow."""


class InThread:
    """One thread of its own: the event loop goes on meanwhile."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="remora-store")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, done in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """The thread ends when its work is done."""
        self._executor.shutdown(wait=False)


class InPlace:
    """No thread at all: under a simulated clock a thread would be in another time."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, done at once."""
        return work()

    def close(self) -> None:
        """There is nothing to end."""
