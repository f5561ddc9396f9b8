"""Does history get in whole, however often a worker is killed, stalled, stopped or given poison?"""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.contracts import Outcome, Store
from remora.core.errors import StoreUnavailable
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.segment import BATCH_MAX, LEASE_NS, Segment, SegmentKind
from remora.core.reasons import GapReason
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.loops.numbered.backfill import SegmentWorker
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, NULL, POISON, Numbers, Process, process
from tests.gate.rig import BROKEN, GOOD, PRESSED, Answer, simulated

KINDS = (SegmentKind.BLIND_WINDOW, SegmentKind.BACKFILL, SegmentKind.RESCAN, SegmentKind.REPLAY)
WIDTH = 8


def worker(one: Process, *, owner: str = "one", width: int = WIDTH) -> SegmentWorker:
    return SegmentWorker(NAME, one.collector, one.store, clock=one.clock, owner=owner, kinds=KINDS, width=width)


async def plan(store: Store, clock: SimClock, first: int, last: int) -> int:
    return await store.plan(NAME, SegmentKind.BACKFILL, (IdRange(first, last),), now_ns=clock.wall_ns())


async def missing(store: Store, first: int, last: int) -> list[int]:
    return [item_id for item_id in range(first, last + 1) if await store.item(NAME, item_id) is None]


@pytest.mark.slow
def test_uncovered_ids_become_segments_once_and_are_walked_newest_first() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await store.cover(NAME, IdRange(1_500, 2_200))
        assert await plan(store, clock, 1, 3_000) == 2, "a row for each hole; walkers cut off what they walk"
        assert await plan(store, clock, 1, 3_000) == 0
        async with process(clock, source, store) as one:
            await worker(one).run_until_done()
        assert sorted(source.ids) == [*range(1, 1_500), *range(2_201, 3_001)]
        assert source.ids[0] == 2_201, "the newest hole first"
        assert await store.coverage(NAME) == Coverage((IdRange(1, 3_000),))
        assert await store.open_segments(NAME) == {}

    simulated(main)


@settings(max_examples=25)
@given(
    calls=st.lists(st.integers(1, 700), min_size=1, max_size=4),
    after_effect=st.booleans(),
    width=st.sampled_from([1, 8, 60]),
    seed=st.integers(0, 100),
)
@pytest.mark.slow
def test_however_often_it_is_killed_nothing_is_lost_and_each_kill_repeats_at_most_what_was_in_flight(
    calls: list[int], after_effect: bool, width: int, seed: int
) -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await plan(store, clock, 1, 700)
        for die_at_call in calls:
            life = Generation(die_at_call=die_at_call, after_effect=after_effect)
            before = Counter(source.ids)

            async def live(life: Generation = life) -> None:
                async with process(clock, source, store, life=life) as one:
                    await worker(one, width=width).run_until_done()

            try:
                await life.live(live())
            except Crashed:
                await clock.sleep_until(clock.monotonic_ns() + LEASE_NS)
            again = [item_id for item_id in source.ids[sum(before.values()) :] if before[item_id]]
            assert len(again) <= width
        async with process(clock, source, store) as one:
            await worker(one, width=width).run_until_done()
        assert await missing(store, 1, 700) == []
        assert await store.coverage(NAME) == Coverage((IdRange(1, 700),))
        assert len(source.ids) <= 700 + width * len(calls)

    simulated(main, seed=seed)


def test_a_live_lease_is_never_taken_and_an_expired_one_is_after_a_kill() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await plan(store, clock, 1, 500)
        life = Generation(die_at_call=100)

        async def live() -> None:
            async with process(clock, source, store, life=life) as one:
                await worker(one).run_until_done()

        with pytest.raises(Crashed):
            await life.live(live())
        async with process(clock, source, store) as two:
            assert await worker(two, owner="two").run_once() is None
            await clock.sleep_until(clock.monotonic_ns() + LEASE_NS)
            assert await worker(two, owner="two").run_once() is not None
        assert await missing(store, 1, 500) == []

    simulated(main)


@pytest.mark.slow
def test_several_workers_share_the_segments_without_asking_twice() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await plan(store, clock, 1, 5_000)
        async with process(clock, source, store) as one:
            await asyncio.gather(*(worker(one, owner=str(number)).run_until_done() for number in range(4)))
        assert sorted(source.ids) == list(range(1, 5_001))

    simulated(main)


@pytest.mark.slow
def test_poison_ids_become_gaps_and_never_stop_a_segment() -> None:
    async def main(clock: SimClock) -> None:
        broken = {3: BROKEN, 77: PRESSED, 500: Answer(403), 650: Answer(latency_ns=20 * SECOND_NS)}
        source = Numbers(clock, says=lambda item_id, _attempt: broken.get(item_id, GOOD))
        source.bodies = {10: POISON, 20: NULL, 30: b'{"id":31}'}
        store = MemoryStore()
        await plan(store, clock, 1, 999)
        async with process(clock, source, store) as one:
            outcomes = await worker(one).run_once()
        owed = {int(gap.key): gap.reason for gap in await store.gaps(NAME)}
        assert owed == {
            3: GapReason.SERVER_ERROR,
            77: GapReason.RATE_LIMITED,
            500: GapReason.FORBIDDEN,
            10: GapReason.MALFORMED,
            20: GapReason.NOT_FOUND,
            30: GapReason.MALFORMED,
            650: GapReason.TIMEOUT,
        }
        assert outcomes == {Outcome.NEW: 992, Outcome.OWED: 7}
        assert await missing(store, 1, 999) == sorted(owed)
        assert await store.coverage(NAME) == Coverage((IdRange(1, 999),))

    simulated(main)


def test_a_worker_whose_lease_was_lost_stops_and_the_new_owner_finishes() -> None:
    async def main(clock: SimClock) -> None:
        frozen = [True]

        def says(_item_id: int, _attempt: int) -> Answer:
            return Answer(latency_ns=10 * MINUTE_NS) if frozen[0] else GOOD

        source, store = Numbers(clock, says=says), _Deaf(MemoryStore())
        await plan(store.inner, clock, 1, 300)
        async with process(clock, source, store.inner) as one, process(clock, source, store.inner) as two:
            # Its renewals do not reach the store: to everybody else it is gone.
            stalled = SegmentWorker(NAME, one.collector, store, clock=clock, owner="one", kinds=KINDS, width=WIDTH)
            first = asyncio.ensure_future(stalled.run_once())
            await clock.sleep_until(clock.monotonic_ns() + LEASE_NS + SECOND_NS)
            frozen[0] = False
            assert await worker(two, owner="two").run_once() == {Outcome.NEW: 300}
            store.is_deaf = False
            assert isinstance(await first, Counter)
        assert await missing(store.inner, 1, 300) == []
        assert await store.inner.coverage(NAME) == Coverage((IdRange(1, 300),))

    simulated(main)


class _Deaf(MemoryStore):
    """A store that one worker cannot reach with its renewals for a while."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__()
        self.inner = inner
        self.is_deaf = True

    async def claim(self, source: str, kinds: object, *, owner: str, lease_ns: int, now_ns: int) -> Segment | None:
        return await self.inner.claim(source, KINDS, owner=owner, lease_ns=lease_ns, now_ns=now_ns)

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        if self.is_deaf:
            return True
        return await self.inner.advance(source, segment, cursor, lease_ns=lease_ns, now_ns=now_ns)


def test_a_slow_walk_renews_its_lease() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await plan(store, clock, 1, 20)
        async with process(clock, source, store, limits=Limits(MINUTE_NS)) as slow:
            walking = asyncio.ensure_future(worker(slow, width=1).run_once())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            while not walking.done():
                assert await worker(slow, owner="other").run_once() is None
                await clock.sleep_until(clock.monotonic_ns() + 7 * SECOND_NS)
            assert await walking == {Outcome.NEW: 20}
        assert source.ids == list(range(1, 21))

    simulated(main)


@pytest.mark.parametrize("after_ns", [0, 1, SECOND_NS // 20, SECOND_NS // 5, SECOND_NS])
@pytest.mark.slow
def test_a_stop_on_request_keeps_what_is_done_and_gives_the_rest_back_at_once(after_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await plan(store, clock, 1, 999)
        async with process(clock, source, store) as one:
            walking = asyncio.ensure_future(worker(one).run_until_done())
            await clock.sleep_until(clock.monotonic_ns() + after_ns)
            walking.cancel()
            await asyncio.gather(walking, return_exceptions=True)
            assert walking.cancelled()
            before = len(source.ids)
            await worker(one, owner="two").run_until_done()
        assert await missing(store, 1, 999) == []
        # Only what was under way at the stop is asked for again.
        assert len(source.repeated) <= WIDTH
        assert len(source.ids) - before >= 999 - before

    simulated(main)


class Slow(MemoryStore):
    """A store whose cursor writes take a while; checks what a kill would repeat."""

    def __init__(self, clock: SimClock, source: Numbers) -> None:
        super().__init__()
        self._clock = clock
        self._source = source
        self._stored = 0
        self.most_beyond = 0
        self.is_down = False

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        if self.is_down:
            raise StoreUnavailable("the store does not answer", hint="wait")
        await self._clock.sleep_until(self._clock.monotonic_ns() + 5 * SECOND_NS)
        self.most_beyond = max(self.most_beyond, max(self._source.ids, default=0) - self._stored)
        self._stored = cursor
        return await super().advance(source, segment, cursor, lease_ns=lease_ns, now_ns=now_ns)


@pytest.mark.parametrize("width", [1, 8, 200])
@pytest.mark.slow
def test_a_slow_store_never_lets_a_walk_run_more_than_a_batch_ahead(width: int) -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock)
        store = Slow(clock, source)
        await plan(store, clock, 1, 999)
        async with process(clock, source, store) as one:
            started_ns = clock.monotonic_ns()
            await worker(one, width=width).run_until_done()
            assert clock.monotonic_ns() - started_ns <= 5 * MINUTE_NS
        assert store.most_beyond <= BATCH_MAX
        assert sorted(source.ids) == list(range(1, 1_000))

    simulated(main)


def test_a_store_that_is_down_does_not_keep_a_stop_from_ending() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=HOUR_NS))
        store = Slow(clock, source)
        await plan(store, clock, 1, 999)
        async with process(clock, source, store) as one:
            walking = asyncio.ensure_future(worker(one).run_once())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            store.is_down = True
            walking.cancel()
            await asyncio.gather(walking, return_exceptions=True)
            assert walking.cancelled()

    simulated(main)


class StoppedAndLost(MemoryStore):
    """A store that refuses a cursor, because the lease was lost, at the very moment at which the walk is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stop: Callable[[], object] = lambda: None

    async def advance(self, source: str, segment: Segment, cursor: int, *, lease_ns: int, now_ns: int) -> bool:
        del source, segment, cursor, lease_ns, now_ns
        stop, self.stop = self.stop, lambda: None
        stop()
        return False


def test_a_lease_that_is_lost_at_the_moment_of_a_stop_does_not_hide_the_stop() -> None:
    async def main(clock: SimClock) -> None:
        store = StoppedAndLost()
        await plan(store, clock, 1, 999)
        async with process(clock, Numbers(clock), store) as one:
            walking = asyncio.ensure_future(worker(one).run())
            store.stop = walking.cancel
            await asyncio.wait({walking}, timeout=HOUR_NS / SECOND_NS)
            assert walking.cancelled()

    simulated(main)


@pytest.mark.parametrize("kind", [SegmentKind.REPLAY, SegmentKind.RESCAN])
def test_a_replay_and_a_rescan_ask_again_for_what_is_covered_and_touch_no_coverage(kind: SegmentKind) -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await store.cover(NAME, IdRange(1, 150))
        source.bodies[42] = b'{"id":42,"text":"edited"}'
        assert await store.plan(NAME, kind, (IdRange(40, 200),), now_ns=clock.wall_ns()) == 1
        async with process(clock, source, store) as one:
            assert await worker(one).run_once() == {Outcome.NEW: 161}
        assert sorted(source.ids) == list(range(40, 201))
        before = await store.coverage(NAME)
        assert 150 in before
        assert (200 in before) == (kind is SegmentKind.REPLAY)

    simulated(main)


def test_each_outcome_is_told_with_the_kind_of_its_segment() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        told: Counter[tuple[SegmentKind, Outcome]] = Counter()
        await store.plan(NAME, SegmentKind.RESCAN, (IdRange(1, 10),), now_ns=clock.wall_ns())
        await plan(store, clock, 100, 104)
        async with process(clock, source, store) as one:
            walking = SegmentWorker(
                NAME,
                one.collector,
                store,
                clock=clock,
                owner="one",
                kinds=KINDS,
                width=2,
                on_outcomes=lambda kind, counts: told.update((kind, outcome) for outcome in counts.elements()),
            )
            await walking.run_until_done()
        assert told == {(SegmentKind.RESCAN, Outcome.NEW): 10, (SegmentKind.BACKFILL, Outcome.NEW): 5}

    simulated(main)
