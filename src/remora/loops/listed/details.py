"""How are the details of a list collected? Newest first, one batch after the other, and nobody waits for a neighbour.

A detail that is refused is asked for again after the others of its batch had their turn. Refused a second time, it is
owed on its own: a key that the provider always refuses must not slow down or stop the rest.
"""

from collections.abc import Sequence
from typing import Final

from remora.collect import Asked, Collector
from remora.contracts import Store
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.run import RunCounts, Stop, StoppedBy
from remora.core.verdict import Deferred, Pressure, Refused
from remora.loops.listed.allowance import RunAllowance

DETAILS_AT_ONCE: Final = 100


class Details:
    """Fetches every owed detail of one source, within the allowance of one run."""

    def __init__(
        self, source: str, collector: Collector, store: Store, allowance: RunAllowance, *, counts: RunCounts
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._allowance = allowance
        self._counts = counts
        self._refused: dict[Discovery, Asked] = {}  # once, in this batch, in the order of asking
        self._refused_alone = 0  # so many of them were refused before another detail was answered

    async def run(self) -> Stop | None:
        """Ask for all of them. One that is refused, gone or wrong is a gap; the rest goes on."""
        batch: list[str] = []
        stuck: set[str] = set()
        while batch := await self._owed(batch, stuck):
            self._refused_alone = 0
            for key in batch:
                if (stop := await self._ask_first(Discovery(Kind.DOCUMENT, key, Lane.DETAIL))) is not None:
                    return await self._set_aside(stop)
            while self._refused:
                if (stop := await self._ask_again(next(iter(self._refused)))) is not None:
                    return await self._set_aside(stop)
        return None

    async def _ask_first(self, discovery: Discovery) -> Stop | None:
        asked = await self._collector.ask(discovery, self._allowance)
        if isinstance(asked.verdict, Pressure):
            self._refused[discovery] = asked
            return self._allowance.stop
        return await self._record(discovery, asked)

    async def _ask_again(self, discovery: Discovery) -> Stop | None:
        asked = await self._collector.ask(discovery, self._allowance)
        if not isinstance(asked.verdict, Deferred):
            del self._refused[discovery]
        return await self._record(discovery, asked)

    async def _record(self, discovery: Discovery, asked: Asked) -> Stop | None:
        if isinstance(asked.verdict, Deferred):
            return self._allowance.stop  # it was not asked for, and stays where it is
        self._counts.outcomes[await self._collector.record(discovery, asked)] += 1
        if not isinstance(asked.verdict, Pressure):
            self._refused_alone = len(self._refused)
        if isinstance(asked.verdict, Refused) and self._allowance.is_refused:
            return Stop(StoppedBy.REFUSED, asked.verdict.reason)
        return self._allowance.stop

    async def _set_aside(self, stop: Stop) -> Stop:
        """The run stops. What was refused while others were answered is owed on its own; so is the first of the last row.

        The next run then begins with their neighbours. The others of a row were refused because all were.
        """
        for discovery in list(self._refused)[: max(1, self._refused_alone)]:
            self._counts.outcomes[await self._collector.record(discovery, self._refused.pop(discovery))] += 1
        return stop

    async def _owed(self, asked: Sequence[str], stuck: set[str]) -> list[str]:
        """What to ask for next. What was asked for a moment ago and is owed all the same is stuck.

        It was listed by a clock that has since stepped back. It stays owed, and this run has done what it can.
        """
        while True:
            details = await self._store.owed_details(self._source, limit=DETAILS_AT_ONCE + len(stuck))
            owed = [detail.key for detail in details if detail.key not in stuck]
            if not (again := set(asked).intersection(owed)):
                return owed
            stuck |= again
