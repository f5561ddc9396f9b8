"""How are the details of a list collected? Newest first, several at once, and none waits for another.

While the provider asks for less, details are requested one at a time.

A refused detail is requested again after the rest of its batch. If it is refused again, it becomes a gap of its own: a
key that the provider always refuses must not slow down or stop the rest.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from remora.collect import Asked, Collector
from remora.contracts import Outcome, Store
from remora.core.item import Batch
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.run import RunCounts, Stop, StoppedBy
from remora.core.reasons import GapReason
from remora.core.verdict import Deferred, Found, Missing, Pressure, Refused, Verdict
from remora.loops.listed.allowance import RunAllowance

DETAILS_AT_ONCE: Final = 100


class Details:
    """Fetches every owed detail of one source, within the allowance of one run."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        allowance: RunAllowance,
        *,
        counts: RunCounts,
        width: int = 1,
    ) -> None:
        """`width`: how many details may be in flight at once."""
        self._source = source
        self._collector = collector
        self._store = store
        self._allowance = allowance
        self._counts = counts
        self._width = width
        self.answers: dict[str, tuple[Verdict, Outcome]] = {}  # to those that were asked for last
        self._answered: set[Discovery] = set()  # not recorded yet
        self._refused: dict[Discovery, Asked] = {}  # refused once, in this batch, in the order of the requests
        self._refused_alone = 0  # how many of them were refused before another detail was answered

    async def run(self) -> Stop | None:
        """Fetch all of them. A detail that is refused, gone or wrong becomes a gap; the rest continues."""
        batch: list[str] = []
        stuck: set[str] = set()
        while batch := await self._owed(batch, stuck):
            if (stop := await self.ask(batch)) is not None:
                return stop
        return None

    async def ask(self, keys: Sequence[str]) -> Stop | None:
        """Request these details, owed or not. `answers` then has what became of each that was recorded."""
        self._refused_alone = 0
        self.answers.clear()
        if (stop := await self._ask_batch(keys)) is not None:
            return await self._set_aside(stop)
        while self._refused:
            if (stop := await self._ask_again(next(iter(self._refused)))) is not None:
                return await self._set_aside(stop)
        return None

    async def _ask_batch(self, batch: Sequence[str]) -> Stop | None:
        """Request each of them once. After a stop nothing more is sent; requests in flight are awaited and recorded."""
        waiting = [*reversed(self._requests(batch, self._collector.capabilities.details_per_request))]
        under_way: dict[Discovery, asyncio.Task[Stop | None]] = {}
        stop: Stop | None = None
        try:
            while under_way or (waiting and stop is None):
                while waiting and stop is None and self._may_begin(len(under_way)):
                    discovery = waiting.pop()
                    under_way[discovery] = asyncio.get_running_loop().create_task(self._ask_first(discovery))
                await asyncio.wait(under_way.values(), return_when=asyncio.FIRST_COMPLETED)
                for discovery, task in [*under_way.items()]:
                    if task.done():
                        del under_way[discovery]
                        stop = task.result() or stop
                    elif stop is not None and not self._is_out(discovery):
                        del under_way[discovery]
                        await _cancelled(task)
        finally:
            for task in under_way.values():
                await _cancelled(task)
        return stop

    def _may_begin(self, under_way: int) -> bool:
        if under_way == 0:
            return True
        can = self._collector.capabilities
        takes_several = can.joined_details or can.details_per_request > 1
        if takes_several and self._allowance.budget.max_fetches is not None:
            return False  # it is unknown how many requests one of them takes, and the budget is exact
        is_slow = self._allowance.is_waiting or self._allowance.is_pressed
        return not is_slow and under_way < self._width and self._allowance.covers(under_way + 1)

    def _is_out(self, discovery: Discovery) -> bool:
        return discovery in self._answered or self._collector.is_sent(discovery)

    async def _ask_first(self, discovery: Discovery) -> Stop | None:
        asked = await self._collector.ask(discovery, self._allowance)
        if isinstance(asked.verdict, Pressure):
            self._refused[discovery] = asked
            return self._allowance.stop
        if discovery.further_keys and not isinstance(asked.verdict, Found | Deferred):
            return await self._ask_halves(discovery, asked)
        self._answered.add(discovery)
        try:
            return await self._record(discovery, asked)
        finally:
            self._answered.discard(discovery)

    async def _ask_halves(self, discovery: Discovery, asked: Asked) -> Stop | None:
        """One document may spoil the request for all of them: the halves are asked for, down to single documents."""
        if isinstance(asked.verdict, Refused):
            self._allowance.several_were_refused()
        keys = (discovery.key, *discovery.further_keys)
        for half in self._requests(keys, -(-len(keys) // 2)):
            if (stop := await self._ask_first(half)) is not None:
                return stop
        return None

    async def _ask_again(self, discovery: Discovery) -> Stop | None:
        asked = await self._collector.ask(discovery, self._allowance)
        if not isinstance(asked.verdict, Deferred):
            del self._refused[discovery]
        if discovery.further_keys and not isinstance(asked.verdict, Found | Deferred | Pressure):
            return await self._ask_halves(discovery, asked)
        return await self._record(discovery, asked)

    async def _record(self, discovery: Discovery, asked: Asked) -> Stop | None:
        if isinstance(asked.verdict, Deferred):
            return self._allowance.stop  # it was not requested, and stays as it is
        await self._keep(discovery, asked)
        if not isinstance(asked.verdict, Pressure):
            self._refused_alone = len(self._refused)
        if isinstance(asked.verdict, Refused) and self._allowance.is_refused:
            return Stop(StoppedBy.REFUSED, asked.verdict.reason)
        return self._allowance.stop

    async def _set_aside(self, stop: Stop) -> Stop:
        """The run stops. Details refused while others were answered become gaps; so does the first of the last row.

        The next run then begins with other details. The rest of a row was refused because everything was.
        """
        for discovery in list(self._refused)[: max(1, self._refused_alone)]:
            await self._keep(discovery, self._refused.pop(discovery))
        return stop

    async def _keep(self, discovery: Discovery, asked: Asked) -> None:
        """Record the answer. Each document of a batch is accounted for alone."""
        if not discovery.further_keys:
            await self._keep_one(discovery, asked)
            return
        documents = {}
        if isinstance(asked.verdict, Found) and isinstance(asked.verdict.thing, Batch):
            documents = {document.key: document for document in asked.verdict.thing.documents}
        for key in (discovery.key, *discovery.further_keys):
            verdict: Verdict = asked.verdict
            if isinstance(verdict, Found):
                verdict = Found(documents[key]) if key in documents else Missing(GapReason.NOT_FOUND)
            await self._keep_one(Discovery(Kind.DOCUMENT, key, Lane.DETAIL), replace(asked, verdict=verdict))

    async def _keep_one(self, discovery: Discovery, asked: Asked) -> None:
        outcome = await self._collector.record(discovery, asked)
        self._counts.outcomes[outcome] += 1
        self.answers[discovery.key] = (asked.verdict, outcome)

    def _requests(self, keys: Sequence[str], at_once: int) -> list[Discovery]:
        """One discovery for each request, in order. A request asks for documents that the source takes together."""
        walked, together = self._collector.walked, dict[str, list[str]]()
        for key in keys:
            together.setdefault("" if walked is None else walked.asked_with(key), []).append(key)
        chunks = [
            tuple(group[start : start + at_once])
            for group in together.values()
            for start in range(0, len(group), at_once)
        ]
        return [Discovery(Kind.DOCUMENT, chunk[0], Lane.DETAIL, further_keys=chunk[1:]) for chunk in chunks]

    async def _owed(self, asked: Sequence[str], stuck: set[str]) -> list[str]:
        """What to request next. A detail that was just requested and is still owed is stuck.

        It was listed before the clock stepped back. It stays owed, and this run does not request it again.
        """
        while True:
            details = await self._store.owed_details(self._source, limit=DETAILS_AT_ONCE + len(stuck))
            owed = [detail.key for detail in details if detail.key not in stuck]
            if not (again := set(asked).intersection(owed)):
                return owed
            stuck |= again


async def _cancelled(task: "asyncio.Task[Stop | None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
