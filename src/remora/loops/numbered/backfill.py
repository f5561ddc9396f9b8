"""How is history read? Uncovered ids become segments; each is claimed, walked and covered, and survives any kill.

The same worker walks every kind of segment: history, blind windows, rescans and replays.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, Outcome, Store
from remora.core.errors import StoreError
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import BATCH_MAX, FIRST_FENCE, LEASE_NS, Segment, SegmentKind, Walk
from remora.core.units import SECOND_NS
from remora.loops.supervisor import pass_on_cancellation

log = structlog.get_logger()

# The cursor is stored after this many ids: half a batch, so that the next half continues while it is written.
ADVANCE_EVERY_IDS: Final = BATCH_MAX // 2
# A lease is at most twice this old when it is renewed: half of it is left for a busy machine or store.
RENEW_EVERY_NS: Final = LEASE_NS // 4
IDLE_NS: Final = SECOND_NS
# How often a walk checks whether a few ids hold it up, and how often while they do.
LOOK_EVERY_NS: Final = SECOND_NS
LOOK_WHILE_HELD_UP_NS: Final = SECOND_NS // 4

# How many segments are walked in parallel: an item that hangs holds up only its own segment, and the others use the
# pace. Eight reach 84 % of 250 requests a second when one item in a hundred hangs. More would fetch more again after a
# kill: each segment may repeat a batch.
WALKERS: Final = 8

OnOutcomes = Callable[[SegmentKind, Counter[Outcome]], None]
OnWalked = Callable[[], Awaitable[None]]
Advance = Callable[[Segment, int], Awaitable[None]]


class Looking:
    """What workers of one process share until nothing is left: who looks for segments, and what the others should know."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.walked = asyncio.Event()  # one of them has walked a segment to its end since the last pause
        self.is_done = False  # one of them has found nothing left

    async def pause(self, idle_ns: int) -> None:
        """Wait for the next look, unless a segment was walked to its end: it may have been the last."""
        if not self.is_done:
            with suppress(TimeoutError):
                async with asyncio.timeout(idle_ns / SECOND_NS):
                    await self.walked.wait()
        self.walked.clear()


class LeaseLost(Exception):
    """Another worker owns the segment now. What we fetched is recorded; that worker fetches the rest."""


class SegmentWorker:
    """Claims segments of the given kinds and walks them, up to `width` ids at once."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        owner: str,
        kinds: Sequence[SegmentKind],
        width: int,
        on_outcomes: OnOutcomes | None = None,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._owner = owner
        self._kinds = kinds
        self._width = width
        self._on_outcomes = on_outcomes

    async def run(self, *, looking: asyncio.Lock | None = None, idle_ns: int = IDLE_NS) -> None:
        """Walk all segments, for ever. While there are none, only one of the workers that share `looking` polls."""
        looking = looking or asyncio.Lock()
        while True:
            async with looking:
                while (segment := await self._claim()) is None:
                    await self._clock.sleep_until(self._clock.monotonic_ns() + idle_ns)
            await self._walk_to_its_end(segment)

    async def run_until_done(
        self, *, looking: "Looking | None" = None, idle_ns: int = IDLE_NS, on_walked: OnWalked | None = None
    ) -> None:
        """Walk until nothing is left. Waits for segments that other workers hold, in case a worker never returns.

        Only one of the workers that share `looking` waits and polls.
        """
        looking = looking or Looking()
        while True:
            async with looking.turn:
                segment = None
                while not looking.is_done and (segment := await self._claim()) is None:
                    left = await self._store.open_segments(self._source)
                    looking.is_done = not any(left.get(kind) for kind in self._kinds)
                    await looking.pause(idle_ns)
            if segment is None:
                return
            await self._walk_to_its_end(segment)
            looking.walked.set()
            if on_walked is not None:
                await on_walked()

    async def run_once(self) -> Counter[Outcome] | None:
        """Claim one segment and walk it to its end; None when there is none to claim."""
        segment = await self._claim()
        return None if segment is None else await self._walk_to_its_end(segment)

    async def _claim(self) -> Segment | None:
        now_ns = self._clock.wall_ns()
        return await self._store.claim(self._source, self._kinds, owner=self._owner, lease_ns=LEASE_NS, now_ns=now_ns)

    async def _walk_to_its_end(self, segment: Segment) -> Counter[Outcome]:
        outcomes: Counter[Outcome] = Counter()
        assert segment.left is not None, "the store gave out a segment that is finished"
        walk = _DurableWalk(segment, self._advance, await self._recorded(segment))
        try:
            await self._walk(segment, walk, outcomes)
        except asyncio.CancelledError:
            await self._let_go(segment, walk)
            raise
        return outcomes

    async def _recorded(self, segment: Segment) -> Collection[int]:
        """What an earlier owner of this segment recorded beyond its cursor: a kill costs only what was in flight.

        Other kinds of segments ask for ids that are recorded already.
        """
        assert segment.left is not None, "nothing to walk"
        if segment.fence == FIRST_FENCE or segment.kind is not SegmentKind.BACKFILL:
            return ()
        last = min(segment.left.end, segment.left.start + BATCH_MAX - 1)
        return await self._store.recorded_ids(self._source, IdRange(segment.left.start, last))

    async def _walk(self, segment: Segment, walk: "_DurableWalk", outcomes: Counter[Outcome]) -> None:
        try:
            if walk.has_moved:
                await walk.store_cursor()
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._renew(walk)), group.create_task(self._hurry(segment, walk))]
                fetching: list[asyncio.Task[None]] = []
                while ids := await walk.take(self._width):
                    fetching = [task for task in fetching if not task.done()]
                    fetching.append(group.create_task(self._fetch(ids, segment, walk, outcomes)))
                await asyncio.gather(*fetching)
                for task in beside:
                    task.cancel()
            await walk.store_cursor()
        except* LeaseLost:
            log.warning("lease_lost", source=self._source, kind=str(segment.kind))
        pass_on_cancellation()

    async def _fetch(
        self, ids: Sequence[int], segment: Segment, walk: "_DurableWalk", outcomes: Counter[Outcome]
    ) -> None:
        async def durable(collected: Sequence[tuple[Discovery, Outcome]]) -> None:
            counts = Counter([outcome for _, outcome in collected])
            outcomes.update(counts)
            if self._on_outcomes is not None:
                self._on_outcomes(segment.kind, counts)
            await walk.complete([int(discovery.key) for discovery, _ in collected])

        lane = segment.kind.lane
        await self._collector.collect_many([Discovery.item(item_id, via=lane) for item_id in ids], durable)

    async def _hurry(self, segment: Segment, walk: "_DurableWalk") -> None:
        """Give up a request that hangs while later ones are answered: the walk continues, and the item is owed."""
        lane = segment.kind.lane
        held_up_by: Sequence[int] = ()
        while True:
            due_ns = self._clock.monotonic_ns() + (LOOK_WHILE_HELD_UP_NS if held_up_by else LOOK_EVERY_NS)
            await self._clock.sleep_until(due_ns)
            if self._clock.monotonic_ns() - due_ns > LOOK_WHILE_HELD_UP_NS:
                # This process was stopped. What came meanwhile is read before anything is given up.
                await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_WHILE_HELD_UP_NS)
            if held_up_by := walk.held_up_by:
                self._collector.give_up_what_hangs([Discovery.item(item_id, via=lane) for item_id in held_up_by])

    async def _renew(self, walk: "_DurableWalk") -> None:
        """Renew the lease of a slow walk: at one request a minute a batch takes longer than any lease."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic_ns() + RENEW_EVERY_NS)
            if not walk.was_renewed:
                await walk.store_cursor()
            walk.was_renewed = False

    async def _advance(self, segment: Segment, cursor: int) -> None:
        now_ns = self._clock.wall_ns()
        if not await self._store.advance(self._source, segment, cursor, lease_ns=LEASE_NS, now_ns=now_ns):
            raise LeaseLost

    async def _let_go(self, segment: Segment, walk: "_DurableWalk") -> None:
        """Stopped on request: store the progress and release the rest at once instead of letting the lease expire."""
        try:
            await walk.store_cursor()
            if not walk.finished:
                await self._store.release(self._source, segment)
        except LeaseLost:
            return
        except StoreError as error:
            # The lease expires by itself; the stop continues.
            log.warning("segment_not_released", source=self._source, why=error.message)


def walkers(
    source: str,
    collector: Collector,
    store: Store,
    *,
    clock: Clock,
    owner: str,
    kinds: Sequence[SegmentKind],
    width: int,
    on_outcomes: OnOutcomes | None = None,
) -> Sequence[SegmentWorker]:
    """The workers for these kinds of segments in one process. Each has its own name, because a lease has one holder."""
    return [
        SegmentWorker(
            source,
            collector,
            store,
            clock=clock,
            owner=f"{owner}:{number}",
            kinds=kinds,
            width=width,
            on_outcomes=on_outcomes,
        )
        for number in range(WALKERS)
    ]


async def walk_for_ever(walking: Iterable[SegmentWorker], *, idle_ns: int = IDLE_NS) -> None:
    """Walk all segments of these workers' kinds, now and later. While there are none, one worker polls."""
    looking = asyncio.Lock()
    await side_by_side(walker.run(looking=looking, idle_ns=idle_ns) for walker in walking)


async def walk_until_done(
    walking: Iterable[SegmentWorker], *, idle_ns: int = IDLE_NS, on_walked: OnWalked | None = None
) -> None:
    """Walk all segments of these workers' kinds to their end. One worker polls for what others hold."""
    looking = Looking()
    await side_by_side(
        walker.run_until_done(looking=looking, idle_ns=idle_ns, on_walked=on_walked) for walker in walking
    )


async def side_by_side(walks: Iterable[Coroutine[None, None, None]]) -> None:
    """Run until all of them end, or one fails: then the others release their segments."""
    async with asyncio.TaskGroup() as group:
        for walk in walks:
            group.create_task(walk)


class _DurableWalk:
    """A walk whose cursor is stored every half batch, by one writer at a time."""

    def __init__(self, segment: Segment, advance: Advance, recorded: Collection[int] = ()) -> None:
        assert segment.left is not None, "nothing to walk"
        self._segment = segment
        self._advance = advance
        self._walk = Walk(segment.left, recorded)
        self._storing = asyncio.Lock()
        self.was_renewed = True  # since the last look: each stored cursor extends the lease
        self._in_progress = 0
        self._may_take: asyncio.Future[None] | None = None  # waits for ids to take

    @property
    def has_moved(self) -> bool:
        """Whether the cursor is ahead of the stored one."""
        return self._walk.cursor > self._walk.stored_cursor

    @property
    def finished(self) -> bool:
        """Whether the end of the segment is stored."""
        return self._walk.stored_cursor == self._segment.ids.end

    async def take(self, width: int) -> Sequence[int]:
        """The next ids, so that at most `width` are in progress; waits for at least one; none at the end."""
        while True:
            ids = self._walk.take(width - self._in_progress)
            self._in_progress += len(ids)
            if ids or self._walk.all_taken:
                return ids
            self._may_take = asyncio.get_running_loop().create_future()
            await self._may_take

    async def complete(self, ids: Sequence[int]) -> None:
        """The outcomes of these ids are durable; now and then this also stores the cursor."""
        self._walk.complete(*ids)
        self._in_progress -= len(ids)
        self._wake()
        if self._half_a_batch_unstored() and not self._storing.locked():
            await self.store_cursor()

    @property
    def held_up_by(self) -> Sequence[int]:
        """The few ids that the whole walk waits for."""
        return self._walk.held_up_by

    async def store_cursor(self) -> None:
        """Store the cursor and extend the lease; at the end of the segment this also finishes it."""
        async with self._storing:
            while not self.finished:
                cursor = self._walk.cursor
                await self._advance(self._segment, cursor)
                self._walk.stored(cursor)
                self.was_renewed = True
                self._wake()
                # Ids completed during this write could not store the cursor themselves, so check again.
                if not self._half_a_batch_unstored():
                    return

    def _wake(self) -> None:
        if self._may_take is not None and not self._may_take.done():
            self._may_take.set_result(None)

    def _half_a_batch_unstored(self) -> bool:
        return self._walk.cursor - self._walk.stored_cursor >= ADVANCE_EVERY_IDS
