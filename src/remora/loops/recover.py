"""How is what we owe collected? Due gaps are leased in fair order and asked for again, through the same gate."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Outcome, Store
from remora.core.errors import StoreError
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import Gap
from remora.core.reasons import GapReason
from remora.core.units import MINUTE_NS, SECOND_NS

log = structlog.get_logger()

GAPS_AT_ONCE: Final = 100
GAP_LEASE_NS: Final = 5 * MINUTE_NS
# What is left of a lease when the last request under it is begun: it may have to wait for its turn at the gate.
LEASE_LEFT_NS: Final = MINUTE_NS
IDLE_NS: Final = SECOND_NS
# What is owed because it hangs will mostly hang again: beside walks it may take this part of the places in flight.
PART_BESIDE_WALKS: Final = 4
WIDTH_LEAST: Final = 2

Served = tuple[Kind, str]  # which gap


def width_beside_walks(in_flight: int) -> int:
    """How many of the places in flight recovery may take where walks want them, too."""
    return max(WIDTH_LEAST, in_flight // PART_BESIDE_WALKS)


class Recover:
    """Serves owed items of one source, up to `width` at once."""

    def __init__(
        self, source: str, collector: Collector, store: Store, *, clock: Clock, owner: str, width: int
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._owner = owner
        self._places = asyncio.Semaphore(width)
        self._under_way: set[Served] = set()

    async def run(self, idle_ns: Callable[[], int] = lambda: IDLE_NS) -> None:
        """Serve whatever is due, for ever. One slow item keeps its place, and the others go on."""
        outcomes: Counter[Outcome] = Counter()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    if not await self._begin(group, outcomes):
                        await self._clock.sleep_until(self._clock.monotonic_ns() + idle_ns())
        except asyncio.CancelledError:
            await self._let_go()
            raise

    async def run_once(self, *, without: Sequence[GapReason] = ()) -> Counter[Outcome]:
        """Lease one batch of due gaps and ask for each once more; empty when nothing was due."""
        outcomes: Counter[Outcome] = Counter()
        try:
            async with asyncio.TaskGroup() as group:
                await self._begin(group, outcomes, without=without)
        except asyncio.CancelledError:
            await self._let_go()
            raise
        return outcomes

    async def run_through(self) -> Counter[Outcome]:
        """Ask for everything that is due, each once. What is owed after that is left for later, however soon it is due."""
        outcomes: Counter[Outcome] = Counter()
        served: set[Served] = set()
        try:
            async with asyncio.TaskGroup() as group:
                while begun := await self._begin(group, outcomes, besides=served):
                    served |= begun
        finally:
            await self._let_go()  # what came up a second time was leased with the rest
        return outcomes

    async def _begin(
        self,
        group: asyncio.TaskGroup,
        outcomes: Counter[Outcome],
        *,
        without: Sequence[GapReason] = (),
        besides: Collection[Served] = (),
    ) -> set[Served]:
        """Lease a batch and begin with each gap in it as places become free; which ones, none when nothing was due."""
        gaps = await self._store.lease_gaps(
            self._source,
            owner=self._owner,
            limit=GAPS_AT_ONCE,
            lease_ns=GAP_LEASE_NS,
            now_ns=self._clock.wall_ns(),
            without=without,
        )
        # A lease that ran out under a request that is still on its way has just been renewed.
        not_now = {*self._under_way, *besides}
        gaps = [gap for gap in gaps if (gap.kind, gap.key) not in not_now]
        begun: set[Served] = set()
        begin_until_ns = self._clock.monotonic_ns() + GAP_LEASE_NS - LEASE_LEFT_NS
        for gap in gaps:
            await self._places.acquire()
            if self._clock.monotonic_ns() >= begin_until_ns:
                self._places.release()
                break  # a slow source: what is left is anybody's again, and first in line
            begun.add((gap.kind, gap.key))
            self._under_way.add((gap.kind, gap.key))
            group.create_task(self._serve(gap, outcomes)).add_done_callback(partial(self._end, gap))
        return begun

    def _end(self, gap: Gap, _task: "asyncio.Task[None]") -> None:
        self._under_way.discard((gap.kind, gap.key))
        self._places.release()

    async def _let_go(self) -> None:
        try:
            await self._store.release_gaps(self._source, owner=self._owner)
        except StoreError as error:
            # The leases run out by themselves; the stop goes on.
            log.warning("gaps_not_released", source=self._source, why=error.message)

    async def _serve(self, gap: Gap, outcomes: Counter[Outcome]) -> None:
        key: str | None = gap.key
        if gap.kind is Kind.DOCUMENT:
            key = await self._store.key_of(self._source, gap.key)
        assert key is not None, "a gap names a document that was never listed"
        discovery = Discovery(gap.kind, key, Lane.RECOVER, FromGap(self._owner, gap.reason))
        outcomes[await self._collector.collect(discovery)] += 1
