"""Where is a mirror kept that need not outlive its process? In dictionaries, with the same contract as every store."""

from remora.stores.memory.gaps import MemoryGaps
from remora.stores.memory.lists import MemoryLists
from remora.stores.memory.mirror import MemoryMirror
from remora.stores.memory.segments import MemorySegments

__all__ = ["MemoryStore"]


class MemoryStore(MemoryMirror, MemorySegments, MemoryGaps, MemoryLists):
    """Everything in memory. The content survives `close` and a new `open`, so that restarts can be simulated."""

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """There is nothing to flush."""
