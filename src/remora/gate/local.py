"""How does the gate work when no other process shares the source? It has all of time, and stores the pace."""

from collections.abc import Mapping
from typing import Final

from remora.contracts import Borrower, Json, PaceBook, SharedPace
from remora.core.rate.pace_record import LEAST_STALE_AFTER_NS
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import ALL_OF_TIME, Stretch

# A pace that is in use and does not change is stored rarely, but often enough that the next process trusts it.
SHARE_EVERY_NS: Final = LEAST_STALE_AFTER_NS // 6


class LocalHome:
    """`contracts.GateHome` of a process that is alone."""

    __slots__ = ("_book", "_source")

    interval_ns = 0
    is_silent = False
    share_every_ns = SHARE_EVERY_NS
    sees_departures = False

    def __init__(self, source: str, book: PaceBook) -> None:
        self._source = source
        self._book = book

    def serve(self, gate: Borrower) -> None:
        """Nothing to do: no other process takes time."""

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch:
        """All of time."""
        del pacer, now_ns
        return ALL_OF_TIME

    def departed(self, stretch: Stretch, pacer: Pacer, *, now_ns: int) -> None:
        """Nothing to do: time does not run out."""

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Store what was learned; no other process can have changed it."""
        del interval_ns, not_before_in_ns  # both are in the record
        await self._book.save_pace(self._source, record)
        return True, SharedPace(version=seen_version)

    async def look(self) -> SharedPace:
        """What the last process stored."""
        return SharedPace(record=await self._book.load_pace(self._source))

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Nothing to do: there is no other process to stop."""

    async def open_again(self) -> None:
        """Nothing to do: no other process was stopped."""

    async def close(self) -> None:
        """Nothing to do: nothing was borrowed."""
