"""How does a process that does not ask for the newest id know it? The process that watches the source stores it.

Without it any id might be a new one, and an empty answer could never be called missing.
"""

from typing import Final

from remora.collect import Collector
from remora.contracts import Clock, Notes
from remora.core.ledger.notes import NEWEST_NOTE
from remora.core.units import SECOND_NS

LOOK_EVERY_NS: Final = 5 * SECOND_NS


async def follow_newest(collector: Collector, store: Notes, source: str, *, clock: Clock) -> None:
    """Keep the collector's newest id at what is known, for ever."""
    while True:
        await look_once(collector, store, source)
        await clock.sleep_until(clock.monotonic_ns() + LOOK_EVERY_NS)


async def look_once(collector: Collector, store: Notes, source: str) -> None:
    """Read it once."""
    kept = await store.note(source, NEWEST_NOTE)
    if isinstance(kept, int):
        collector.newest_id = max(kept, collector.newest_id or 0)
