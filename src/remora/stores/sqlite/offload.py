"""Where does blocking work run? In its own thread in production, inline under simulated time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offloader(Protocol):
    """Runs blocking work, one piece after another."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work and return its result."""

    def close(self) -> None:
        """No work will follow."""


class InThread:
    """Runs the work in its own thread, so that the event loop is not blocked."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="remora-store")

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work in the thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """The thread ends when its work is done."""
        self._executor.shutdown(wait=False)


class InPlace:
    """Runs the work inline: a thread would not follow the simulated clock."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work at once and return its result."""
        return work()

    def close(self) -> None:
        """There is nothing to end."""
