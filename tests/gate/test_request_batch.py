"""Are many items collected together exactly as each would be alone? One turn, permit and departure for each."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from remora.contracts import Observation, OnReply, Outcome, Permit, PromptPermit, Sent
from remora.core.errors import StoreUnavailable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.rate.gate_types import Hold
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Stretch
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.gate.governor import Limits
from remora.gate.holding import Holding
from remora.gate.local import LocalHome
from remora.gate.request_batch import RequestBatch
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, POISON, Numbers, PromptNumbers, collect, items, process
from tests.gate.rig import BROKEN, LATENCY_NS, Answer, warm

CONNECTED_NS = 5 * SECOND_NS
SLOW = Limits(SECOND_NS // 10, in_flight=64)


@dataclass
class SlowlyConnected(PromptNumbers):
    """Opens a connection for each of the first ids, which takes a while, and has one for the others."""

    connects: range = range(1, 21)

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        return None if discovery.item_id in self.connects else super().fetch_now(discovery, permit, on_reply)

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        if discovery.item_id in self.connects:
            await self.clock.sleep_until(CONNECTED_NS)
        return await super().fetch(discovery, permit)


class GrantingHome(LocalHome):
    """Has time for all requests or for none, as a home that several processes share."""

    sees_departures = True
    has_time = True

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:  # type: ignore[override]
        return super().stretch(pacer, now_ns=now_ns) if self.has_time else None


@dataclass
class LatePermits(Numbers):
    """Sends at once, and answers when it is told to."""

    answer: Callable[[], None] = lambda: None

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        departed_ns = permit.depart_now()
        if departed_ns is None:
            return None

        def answer() -> None:
            on_reply(Reply(200, self.body(discovery), departed_ns, self.clock.monotonic_ns()))

        self.answer = answer
        return _Nothing()


class _Nothing:
    def cancel(self) -> None:
        """Nothing to do."""


class SlowStore(MemoryStore):
    """Waits before it records."""

    def __init__(self) -> None:
        super().__init__()
        self.may_record = asyncio.Event()
        self.batches: list[int] = []

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        await self.may_record.wait()
        self.batches.append(len(observations))
        return await super().record_many(source, observations)


class DeadStore(MemoryStore):
    """Records nothing."""

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        raise StoreUnavailable("the store does not answer", hint="wait")


@pytest.fixture(params=[Numbers, PromptNumbers])
def kind(request: pytest.FixtureRequest) -> type[Numbers]:
    """A source that needs a task for each request, and one that sends at once."""
    chosen: type[Numbers] = request.param
    return chosen


def test_each_item_is_asked_for_once_and_durable(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        source, store = kind(clock), MemoryStore()
        async with process(clock, source, store) as one:
            outcomes = await collect(one, range(1, 301))
            assert outcomes == dict.fromkeys(range(1, 301), Outcome.NEW)
            assert sorted(source.ids) == list(range(1, 301))
            assert one.governor.state().departures == 300
            assert [item_id async for item_id, _ in store.bodies(NAME)] == list(range(1, 301))

    run(scenario)


def test_a_batch_that_waits_alone_gets_its_due_turns_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class Looking(Holding):
        def turn(self, lanes: list[Lane], in_flight: int) -> Hold | None:
            nonlocal looks
            looks += 1
            return super().turn(lanes, in_flight)

    monkeypatch.setattr("remora.gate.governor.Holding", Looking)

    async def scenario(clock: SimClock) -> None:
        async with process(clock, PromptNumbers(clock), limits=Limits(SECOND_NS // 40_000, in_flight=32)) as one:
            await collect(one, range(1, 301))
            assert 0 < looks < one.governor.state().departures / 2

    run(scenario)


@pytest.mark.parametrize("per_s", [2, 90, 1_000, 1_200, 1_500, 40_000])
def test_a_batch_departs_at_the_moments_at_which_its_requests_would_depart_alone(per_s: int) -> None:
    async def moments(clock: SimClock, *, together: bool) -> list[int]:
        source = PromptNumbers(clock)
        async with process(clock, source, limits=Limits(SECOND_NS // per_s, in_flight=32)) as one:
            if together:
                await collect(one, range(1, 201))
            else:
                await asyncio.gather(*(one.collector.collect(each) for each in items(range(1, 201))))
        first_ns = min(source.asked)[0]
        return sorted(departed_ns - first_ns for departed_ns, _ in source.asked)

    async def scenario(clock: SimClock) -> None:
        assert await moments(clock, together=True) == await moments(clock, together=False)

    run(scenario)


def test_a_batch_gets_no_turns_to_queue_behind_requests_that_wait_for_shared_time() -> None:
    async def scenario(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 40_000, in_flight=64, jitter_max_ns=0)
        source, home = SlowlyConnected(clock), GrantingHome(NAME, warm(clock, limits))
        async with process(clock, source, limits=limits, home=home) as one:
            connecting = asyncio.ensure_future(collect(one, source.connects))
            await clock.sleep_until(CONNECTED_NS - 1)
            home.has_time = False
            together = asyncio.ensure_future(collect(one, range(101, 141)))
            await clock.sleep_until(CONNECTED_NS + SECOND_NS)
            assert source.ids == []
            home.has_time = True
            one.governor.changed()
            await asyncio.gather(connecting, together)
        assert source.ids == [*source.connects, *range(101, 141)]
        assert source.sent_at_once == 40
        assert source.asked[-1][0] - source.asked[0][0] < LATENCY_NS  # no answer woke it

    run(scenario)


def batches_in_memory() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, RequestBatch)]


@pytest.mark.slow
def test_a_batch_that_is_over_is_freed_at_once(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        async with process(clock, kind(clock)) as one:
            gc.collect()
            gc.disable()  # a long walk has thousands of batches between two collections
            try:
                earlier = batches_in_memory()  # of other tests
                for first in range(1, 101, 10):
                    await collect(one, range(first, first + 10))
                assert {id(each) for each in batches_in_memory()} <= {id(each) for each in earlier}
            finally:
                gc.enable()

    run(scenario)


def test_what_was_answered_together_is_recorded_together() -> None:
    async def scenario(clock: SimClock) -> None:
        source, store = PromptNumbers(clock), SlowStore()
        async with process(clock, source, store) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 41)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert (
                one.governor.state().in_flight == 0
            )  # all answers were heard, although the store has not answered yet
            store.may_record.set()
            assert len(await collecting) == sum(store.batches) == 40
            assert len(store.batches) <= 3
            assert source.sent_at_once == 40

    run(scenario)


def test_an_item_that_needs_another_request_holds_up_no_other(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        source = kind(clock, says=lambda item_id, attempt: BROKEN if item_id == 5 and attempt == 1 else Answer())
        source.bodies = {7: POISON}
        async with process(clock, source) as one:
            outcomes = await collect(one, range(1, 21))
            assert outcomes == {**dict.fromkeys(range(1, 21), Outcome.NEW), 7: Outcome.OWED}
            assert list(outcomes)[-1] == 5
            assert source.repeated == {5}

    run(scenario)


def test_a_batch_that_is_cancelled_gives_everything_back(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        source = kind(clock, says=lambda _item_id, _attempt: Answer(latency_ns=60 * SECOND_NS))
        async with process(clock, source, limits=Limits(SECOND_NS // 1_000, in_flight=4)) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 101)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert (one.governor.state().in_flight, one.governor.state().waiting) == (4, 96)
            collecting.cancel()
            assert isinstance((await asyncio.gather(collecting, return_exceptions=True))[0], asyncio.CancelledError)
            assert (one.governor.state().in_flight, one.governor.state().waiting) == (0, 0)
            assert len(source.asked) == 4

    run(scenario)


def test_a_request_that_hangs_is_given_up_and_its_item_is_owed(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        hangs = Answer(latency_ns=600 * SECOND_NS)
        source = kind(clock, says=lambda item_id, _attempt: hangs if item_id == 3 else Answer())
        async with process(clock, source) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 6)))
            began_ns = clock.monotonic_ns()
            for _ in range(30):
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 4)
                one.collector.give_up_what_hangs([Discovery.item(3, via=Lane.BACKFILL)])
            assert (await collecting)[3] is Outcome.OWED
            assert clock.monotonic_ns() - began_ns < 10 * SECOND_NS

    run(scenario)


def test_a_live_item_does_not_wait_behind_a_batch(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        source = kind(clock)
        async with process(clock, source, limits=SLOW) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 101)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            asked = len(source.asked)
            await one.collector.collect(Discovery.item(1_000, via=Lane.LIVE))
            assert source.ids.index(1_000) <= asked + 2
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)

    run(scenario)


def test_a_store_that_fails_ends_the_batch_and_frees_its_places(kind: type[Numbers]) -> None:
    async def scenario(clock: SimClock) -> None:
        async with process(clock, kind(clock), DeadStore()) as one:
            with pytest.raises(StoreUnavailable):
                await collect(one, range(1, 101))
            assert (one.governor.state().in_flight, one.governor.state().waiting) == (0, 0)

    run(scenario)


def test_a_gate_that_closes_cancels_a_batch_that_waits() -> None:
    async def scenario(clock: SimClock) -> None:
        async with process(clock, Numbers(clock), limits=SLOW) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 101)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            await one.governor.close()
            with pytest.raises(asyncio.CancelledError):
                await collecting

    run(scenario)


def test_a_request_that_is_answered_and_given_up_in_one_tick_is_heard_once() -> None:
    async def scenario(clock: SimClock) -> None:
        source = LatePermits(clock)
        async with process(clock, source) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 2)))
            await clock.sleep_until(clock.monotonic_ns() + 60 * SECOND_NS)
            source.answer()
            one.collector.give_up_what_hangs(items(range(1, 2)))
            assert await collecting == {1: Outcome.NEW}
            assert one.governor.state().in_flight == 0

    run(scenario)
