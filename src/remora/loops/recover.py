"""How are gaps closed? Due gaps are leased in fair order and requested again, through the same gate."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import msgspec
import structlog

from remora.collect import Collector
from remora.contracts import Clock, Outcome, Store
from remora.contracts.allowance import UNBOUNDED, Allowance
from remora.core.errors import StoreError
from remora.core.lanes import Lane
from remora.core.ledger.asking import AskPolicy
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import Gap, is_too_soon
from remora.core.reasons import GapReason
from remora.core.repeats import Repeats
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred

log = structlog.get_logger()

GAPS_AT_ONCE: Final = 100
GAP_LEASE_NS: Final = 5 * MINUTE_NS
# The last request under a lease starts this long before the lease ends: it may have to wait in the gate.
LEASE_LEFT_NS: Final = MINUTE_NS
IDLE_NS: Final = SECOND_NS
ASKED_MAX: Final = 10_000  # gaps whose last request is remembered; the longest ago is forgotten first
# An item that is owed because it hung usually hangs again. Next to walks, recovery uses this part of the places.
PART_BESIDE_WALKS: Final = 4
WIDTH_LEAST: Final = 2

Served = tuple[Kind, str]  # which gap


class Recovery(msgspec.Struct, frozen=True):
    """What differs between recoveries: how many at once, for how long, and how often each gap is requested."""

    width: int  # requests in flight at once
    at_once: int = GAPS_AT_ONCE  # gaps leased together
    lease_ns: int = GAP_LEASE_NS
    asks: AskPolicy | None = None  # None: the collector's own policy


def beside_walks(in_flight: int) -> Recovery:
    """How recovery works when walks also need places in flight."""
    return Recovery(width=max(WIDTH_LEAST, in_flight // PART_BESIDE_WALKS))


class Recover:
    """Fetches owed items of one source, as its policy says."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        owner: str,
        policy: Recovery,
        allowance: Allowance = UNBOUNDED,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._owner = owner
        self._policy = policy
        self._allowance = allowance
        self._places = asyncio.Semaphore(policy.width)
        self._under_way: set[Served] = set()
        self._not_released = Repeats()
        self._asked: dict[Served, int] = {}  # when each gap was last requested here (monotonic), oldest first
        self._served: set[Served] = set()  # by `run_through`
        self._outcomes: Counter[Outcome] = Counter()

    async def run(self, idle_ns: Callable[[], int] = lambda: IDLE_NS) -> None:
        """Fetch whatever is due, for ever. A slow item keeps its place, and the others continue."""
        async with self._serving() as group:
            while True:
                if not await self._begin(group):
                    await self._clock.sleep_until(self._clock.monotonic_ns() + idle_ns())

    async def run_once(self, *, without: Sequence[GapReason] = ()) -> Counter[Outcome]:
        """Lease one batch of due gaps and request each once more; empty when nothing was due."""
        self._outcomes = Counter()
        async with self._serving() as group:
            await self._begin(group, without=without)
        return self._outcomes

    async def run_through(
        self, *, without: Sequence[GapReason] = (), may_go_on: Callable[[], bool] = lambda: True
    ) -> Counter[Outcome]:
        """Request everything that is due, each gap once over all calls. What is owed after that is left for later."""
        self._outcomes = Counter()
        async with self._serving() as group:
            while begun := await self._begin(group, without=without, besides=self._served):
                self._served |= begun
                async with self._places:  # wait until one is free, so that `may_go_on` knows the last answer
                    if not may_go_on():
                        break
        return self._outcomes

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Release the gaps that are leased but not requested at the end."""
        try:
            async with asyncio.TaskGroup() as group:
                yield group
        except BaseExceptionGroup as failed:
            if len(failed.exceptions) == 1:
                raise failed.exceptions[0] from None
            raise
        finally:
            await self._let_go()

    async def _begin(
        self, group: asyncio.TaskGroup, *, without: Sequence[GapReason] = (), besides: Collection[Served] = ()
    ) -> set[Served]:
        """Lease a batch and start each gap as places become free. Returns the gaps; none when nothing was due."""
        # Before the lease: a gap that is leased but not requested would lose its turn.
        if not self._allowance.may_ask():
            return set()
        gaps = await self._store.lease_gaps(
            self._source,
            owner=self._owner,
            limit=self._policy.at_once,
            lease_ns=self._policy.lease_ns,
            now_ns=self._clock.wall_ns(),
            without=without,
        )
        # If a lease expired while its request is still in flight, it has just been renewed.
        not_now = {*self._under_way, *besides}
        begun: set[Served] = set()
        begin_until_ns = self._clock.monotonic_ns() + self._policy.lease_ns - LEASE_LEFT_NS
        for gap in gaps:
            if (gap.kind, gap.key) in not_now or self._is_too_soon(gap):
                continue
            await self._places.acquire()
            if self._clock.monotonic_ns() >= begin_until_ns:
                self._places.release()
                break  # a slow source: the others are released and come first next time
            begun.add((gap.kind, gap.key))
            self._under_way.add((gap.kind, gap.key))
            self._note(gap)
            group.create_task(self._serve(gap)).add_done_callback(partial(self._end, gap))
        return begun

    def _is_too_soon(self, gap: Gap) -> bool:
        asked_ns = self._asked.get((gap.kind, gap.key))
        return asked_ns is not None and is_too_soon(gap, asked_ago_ns=self._clock.monotonic_ns() - asked_ns)

    def _note(self, gap: Gap) -> None:
        self._asked.pop((gap.kind, gap.key), None)
        self._asked[gap.kind, gap.key] = self._clock.monotonic_ns()
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]

    def _end(self, gap: Gap, _task: "asyncio.Task[None]") -> None:
        self._under_way.discard((gap.kind, gap.key))
        self._places.release()

    async def _let_go(self) -> None:
        try:
            await self._store.release_gaps(self._source, owner=self._owner)
        except StoreError as error:
            # The leases expire by themselves.
            if self._not_released.is_worth_telling(now_ns=self._clock.monotonic_ns()):
                log.warning("gaps_not_released", source=self._source, why=error.message)
        else:
            self._not_released.over()

    async def _serve(self, gap: Gap) -> None:
        if gap.kind is Kind.PAGE:
            return  # the rest of a list: the walk and the details fetch it
        if not self._collector.capabilities.can_ask(gap.kind):
            return  # an earlier declaration could: it stays owed until one can again
        key: str | None = gap.key
        if gap.kind is Kind.DOCUMENT:
            key = await self._store.key_of(self._source, gap.key)
        assert key is not None, "a gap names a document that was never listed"
        discovery = Discovery(gap.kind, key, Lane.RECOVER, FromGap(self._owner, gap.reason))
        asked = await self._collector.ask(discovery, self._allowance, self._policy.asks)
        if not isinstance(asked.verdict, Deferred):  # otherwise it was not requested, and its lease is released
            self._outcomes[await self._collector.record(discovery, asked)] += 1
