"""What is the newest id, as far as we know? The value that an earlier process stored is believed if an item proves it.

The process that watches the source keeps the newest id in the store, and the others read it there. Without it any id
might be near the newest, and an empty answer could never mean "missing".
"""

from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Notes, Store
from remora.core.ledger.newest_id import PLAUSIBLE_IDS, needs_proof
from remora.core.ledger.notes import LIVE_FROM_NOTE, NEWEST_NOTE, PROVEN_NOTE
from remora.core.units import SECOND_NS

log = structlog.get_logger()

LOOK_EVERY_NS: Final = 5 * SECOND_NS


async def take_up(collector: Collector, store: Store, source: str) -> int | None:
    """Take over what the store knows; returns the stored newest id, if it is believable."""
    proven = await store.note(source, PROVEN_NOTE)
    if not isinstance(proven, int):
        highest = await store.newest_items(source, first_id=0, limit=1, body_max_bytes=0)
        proven = highest[0].item_id if highest else 0
    collector.proven_id = max(collector.proven_id, proven)
    kept = await store.note(source, NEWEST_NOTE)
    if not isinstance(kept, int) or needs_proof(kept, proven_id=collector.proven_id):
        return None
    collector.newest_id = max(kept, collector.newest_id or 0)
    return kept


async def keep_newest(collector: Collector, store: Notes, source: str) -> None:
    """Make the newest id durable, and before it the id that proves it."""
    await store.keep_note(source, PROVEN_NOTE, collector.proven_id)
    await store.keep_note(source, NEWEST_NOTE, collector.newest_id)


async def retract_absurd(collector: Collector, store: Store, source: str) -> int:
    """Delete what was planned, covered and owed beyond the newest id, if an earlier process believed a higher one.

    Loses nothing: once the source really has those ids, they are uncovered and fetched as new ones. Returns how many
    rows were deleted or shortened.
    """
    newest_id = collector.newest_id
    assert newest_id is not None, "only the truth replaces a wrong number"
    live_from = await store.note(source, LIVE_FROM_NOTE)
    ends = (await store.coverage(source)).ranges[-1:]
    believed = [await store.note(source, NEWEST_NOTE), live_from, *(piece.end for piece in ends)]
    highest = max((each for each in believed if isinstance(each, int)), default=0)
    if highest <= newest_id + PLAUSIBLE_IDS:
        return 0
    rows = await store.retract(source, above=newest_id)
    if isinstance(live_from, int) and live_from > newest_id:
        await store.keep_note(source, LIVE_FROM_NOTE, None)
    # Last: after a kill in between, the next start finds the wrong number again and repeats all of it.
    await keep_newest(collector, store, source)
    log.warning("newest_id_corrected", source=source, believed=highest, newest_id=newest_id, rows=rows)
    return rows


async def follow_newest(collector: Collector, store: Store, source: str, *, clock: Clock) -> None:
    """Keep the collector's newest id up to date, for ever."""
    while True:
        await take_up(collector, store, source)
        await clock.sleep_until(clock.monotonic_ns() + LOOK_EVERY_NS)
