"""How old are items when they change? The histogram of update ages, kept durably, which sizes the rescan's window."""

from typing import Final

from remora.contracts import Clock, Store
from remora.core.ledger.freshness import UpdateAges, ages_from_json, ages_to_json
from remora.core.ledger.notes import UPDATE_AGES_NOTE
from remora.core.units import MINUTE_NS, SECOND_NS

KEEP_EVERY_NS: Final = MINUTE_NS
# The source's clock is read from its recent items and is a little late; an item further ahead has an absurd time.
AHEAD_MAX_S: Final = 3_600


class AgeBook:
    """The histogram of one source. A kill loses a few seconds of statistics."""

    def __init__(self, source: str, store: Store, *, clock: Clock) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._kept = UpdateAges()
        self.ages = UpdateAges()

    async def open(self) -> None:
        """Load the stored histogram."""
        self._kept = self.ages = ages_from_json(await self._store.note(self._source, UPDATE_AGES_NOTE))

    async def changed(self, item_id: int) -> None:
        """The stream announced a change of this item, and it is recorded. Items without a believable time are left out.

        Like the rescan's window, ages are measured with the source's own clock: the newest items show what time it is.
        """
        time_s = (await self._store.item_times(self._source, (item_id,))).get(item_id)
        source_now_s = await self._store.newest_time(self._source)
        now_s = self._clock.wall_ns() / SECOND_NS if source_now_s is None else source_now_s
        if time_s is not None and 0 < time_s <= now_s + AHEAD_MAX_S:
            self.ages = self.ages.seen(max(0, now_s - time_s))

    async def run(self) -> None:
        """Store the histogram now and then, for ever, and once more at the end."""
        try:
            while True:
                await self._clock.sleep_until(self._clock.monotonic_ns() + KEEP_EVERY_NS)
                await self.keep()
        finally:
            await self.keep()

    async def keep(self) -> None:
        """Make it durable, if it changed."""
        if self.ages != self._kept:
            ages = self.ages
            await self._store.keep_note(self._source, UPDATE_AGES_NOTE, [*ages_to_json(ages)])
            self._kept = ages
