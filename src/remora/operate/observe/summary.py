"""What does an idle mirror log? One line an hour for each source: how it is doing, and what was sent."""

from typing import Final

import structlog

from remora.contracts import Clock
from remora.core.errors import StoreError
from remora.core.rate.gate_types import RateFacts
from remora.core.status.model import Covered, CoveredList, SourceStatus, Status
from remora.core.units import HOUR_NS
from remora.operate.observe.status_cache import StatusCache

log = structlog.get_logger()

EVERY_NS: Final = HOUR_NS


class HourlySummary:
    """Logs one line an hour for each source."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._sent: dict[str, int] = {}  # requests since the start, as of the last line

    async def run(self, feed: StatusCache) -> None:
        """Run for ever. A store that does not answer is told by others."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic_ns() + EVERY_NS)
            try:
                self.run_once(await feed.latest())
            except StoreError:
                continue

    def run_once(self, status: Status) -> int:
        """One line for each source; returns how many."""
        for name, source in status.sources.items():
            self._tell(name, source)
        return len(status.sources)

    def _tell(self, name: str, source: SourceStatus) -> None:
        sent = source.rate.departures if isinstance(source.rate, RateFacts) else None
        before = self._sent.get(name, 0)
        if sent is not None:
            self._sent[name] = sent
        covered = source.coverage if isinstance(source.coverage, Covered | CoveredList) else None
        log.info(
            "summary",
            source=name,
            state=source.headline.text,
            held=source.progress.held if source.progress else None,
            requests=None if sent is None else sent - before,
            owed=covered.owed if covered else None,
            dead=covered.dead if covered else None,
        )
