"""Is everything that is owed asked for again, fairly, once per lease, and given back when the loop stops?"""

import asyncio

import pytest

from remora.collect import Asked
from remora.contracts import Outcome, Store
from remora.core.errors import StoreUnavailable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapReason
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault, Pressure
from remora.gate.governor import Limits
from remora.loops.recover import GAP_LEASE_NS, GAPS_AT_ONCE, Recover, Recovery
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, NULL, Numbers, Process, process
from tests.gate.rig import BROKEN, GOOD, REFUSED, Answer, simulated

HANGS = Answer(fault=Fault.TIMEOUT, latency_ns=20 * SECOND_NS)


def recover(one: Process, *, owner: str = "one", width: int = 4) -> Recover:
    return Recover(NAME, one.collector, one.store, clock=one.clock, owner=owner, policy=Recovery(width))


async def owe(clock: SimClock, source: Numbers, store: Store, ids: range) -> None:
    """Make these ids owed, as a walk over a broken provider would."""
    usual, source.says = source.says, lambda _id, _attempt: REFUSED
    async with process(clock, source, store) as one:
        for item_id in ids:
            await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
    source.says = usual
    source.asked.clear()


async def hourly(one: Process, *, days: int) -> None:
    """Serve what is due once an hour for some days."""
    for _ in range(24 * days):
        await recover(one).run_once()
        await one.clock.sleep_until(one.clock.monotonic_ns() + HOUR_NS)


async def states(store: Store) -> dict[int, GapState]:
    every = [gap for state in GapState for gap in await store.gaps(NAME, state=state)]
    return {int(gap.key): gap.state for gap in every}


def test_what_is_due_is_asked_for_once_more_and_settled_when_found() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 31))
        async with process(clock, source, store) as one:
            assert await recover(one).run_once() == {}  # nothing is due yet
            await clock.sleep_until(clock.monotonic_ns() + 2 * MINUTE_NS)
            assert await recover(one).run_once() == {Outcome.NEW: 30}
            assert await recover(one).run_once() == {}
        assert sorted(source.ids) == list(range(1, 31))
        assert set((await states(store)).values()) == {GapState.SETTLED}

    simulated(main)


def test_what_fails_again_is_owed_with_one_more_attempt_and_a_longer_wait() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, says=lambda _id, _attempt: REFUSED), MemoryStore()
        await owe(clock, source, store, range(7, 8))
        (before,) = await store.gaps(NAME)
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            assert await recover(one).run_once() == {Outcome.OWED: 1}
        (after,) = await store.gaps(NAME)
        assert after.attempts == before.attempts + 1
        assert after.not_before_ns - after.last_seen_ns > before.not_before_ns - before.last_seen_ns

    simulated(main)


def test_a_batch_is_bounded_and_everybody_gets_a_turn_before_anybody_gets_two() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, says=lambda _id, _attempt: REFUSED), MemoryStore()
        await owe(clock, source, store, range(1, 251))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + DAY_NS)
            counts = [sum((await recover(one).run_once()).values()) for _ in range(3)]
        assert counts == [GAPS_AT_ONCE, GAPS_AT_ONCE, 50]
        assert sorted(source.ids) == list(range(1, 251))

    simulated(main)


def test_everything_that_is_due_is_asked_for_once_and_what_fails_again_is_left_for_later() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 251))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            # So slowly that the first ones are due again long before the last ones were asked for.
            source.says = lambda item_id, _attempt: HANGS if item_id % 2 else GOOD
            assert await recover(one, width=8).run_through() == {Outcome.OWED: 125, Outcome.NEW: 125}
        assert set(source.ids) == set(range(1, 251))
        assert all(item_id % 2 == 0 for item_id in source.repeated), "only canaries ask again, for what is good"
        found = await states(store)
        assert {state for item_id, state in found.items() if item_id % 2} == {
            GapState.OWED
        }  # nobody holds them any more

    simulated(main)


def test_no_more_than_the_width_are_served_at_once() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=SECOND_NS)), MemoryStore()
        await owe(clock, source, store, range(1, 41))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            started_ns = clock.monotonic_ns()
            await recover(one, width=4).run_once()
            assert clock.monotonic_ns() - started_ns >= 10 * SECOND_NS

    simulated(main)


def test_one_slow_item_holds_up_nothing_that_falls_due_meanwhile() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 2))
        await clock.sleep_until(clock.monotonic_ns() + 55 * SECOND_NS)
        await owe(clock, source, store, range(2, 6))
        source.says = lambda item_id, _attempt: Answer(latency_ns=HOUR_NS if item_id == 1 else SECOND_NS)
        async with process(clock, source, store) as one:
            serving = asyncio.ensure_future(recover(one, width=2).run())
            await clock.sleep_until(clock.monotonic_ns() + 30 * MINUTE_NS)
            found = await states(store)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        assert {item_id for item_id, state in found.items() if state is GapState.SETTLED} == {2, 3, 4, 5}
        # Its lease ran out long ago, and still nobody here asked for it a second time.
        assert source.ids.count(1) == 1

    simulated(main)


def test_reasons_can_be_left_out_without_touching_their_gaps() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 6))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            assert await recover(one).run_once(without=[GapReason.FORBIDDEN]) == {}
            assert set((await states(store)).values()) == {GapState.OWED}
            assert await recover(one).run_once(without=[GapReason.TIMEOUT]) == {Outcome.NEW: 5}

    simulated(main)


def test_a_stop_on_request_gives_the_leases_back_at_once() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 31))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            source.says = lambda _id, _attempt: Answer(latency_ns=HOUR_NS)
            serving = asyncio.ensure_future(recover(one).run())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert GapState.LEASED in (await states(store)).values()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            assert set((await states(store)).values()) == {GapState.OWED}
            source.says = lambda _id, _attempt: GOOD
            assert await recover(one, owner="two").run_once() == {Outcome.NEW: 30}

    simulated(main)


def test_after_a_kill_the_leases_run_out_and_nothing_is_lost() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 31))
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
        life = Generation(die_at_call=10)

        async def live() -> None:
            async with process(clock, source, store, life=life) as one:
                await recover(one).run_once()

        with pytest.raises(Crashed):
            await life.live(live())
        async with process(clock, source, store) as two:
            assert await recover(two, owner="two").run_once() == {}
            await clock.sleep_until(clock.monotonic_ns() + GAP_LEASE_NS)
            await recover(two, owner="two").run_once()
        assert set((await states(store)).values()) == {GapState.SETTLED}
        # Only what was under way when it died was asked for twice.
        assert len(source.repeated) <= 4

    simulated(main)


@pytest.mark.slow
def test_on_a_slow_source_nothing_is_served_after_its_lease_ran_out() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 101))
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
        slow = Limits(20 * SECOND_NS, in_flight=2)
        async with process(clock, source, store, limits=slow) as one:
            two = recover(one, owner="two", width=1)
            serving = [asyncio.ensure_future(recover(one, width=1).run()), asyncio.ensure_future(two.run())]
            await clock.sleep_until(clock.monotonic_ns() + 45 * MINUTE_NS)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
        assert set((await states(store)).values()) == {GapState.SETTLED}
        # Two loops over the same gaps, each slower than its leases, and still next to nothing is asked for twice.
        assert len(source.ids) <= 100 + 4

    simulated(main)


def test_an_item_that_is_absent_is_not_served_and_a_dead_one_is_on_its_slow_schedule() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, bodies={1: NULL}), MemoryStore()
        source.says = lambda item_id, _attempt: GOOD if item_id == 1 else REFUSED
        async with process(clock, source, store) as one:
            for item_id in (1, 2):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            await hourly(one, days=2)
            assert await states(store) == {1: GapState.ABSENT, 2: GapState.DEAD}
            asked = source.times(1), source.times(2)
            await hourly(one, days=8)
            assert (source.times(1), source.times(2)) == (asked[0], asked[1] + 1)

    simulated(main)


def test_an_id_far_above_the_newest_is_soon_let_be_and_asked_for_once_it_is_assigned() -> None:
    async def main(clock: SimClock) -> None:
        far_id = 900_000_000
        source, store = Numbers(clock, bodies={far_id: NULL}), MemoryStore()
        async with process(clock, source, store) as one:
            await one.collector.collect(Discovery.item(far_id, via=Lane.UPDATE))
            await hourly(one, days=2)
            assert await states(store) == {far_id: GapState.ABSENT}
            assert source.times(far_id) <= 3
            del source.bodies[far_id]
            assert await one.collector.collect(Discovery.item(far_id, via=Lane.LIVE)) is Outcome.NEW
            assert await states(store) == {far_id: GapState.SETTLED}

    simulated(main)


@pytest.mark.slow
def test_a_provider_that_is_down_for_a_day_makes_nothing_dead() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        source.says = lambda _id, _attempt: BROKEN if clock.monotonic_ns() < DAY_NS else GOOD
        async with process(clock, source, store) as one:
            for item_id in range(1, 6):
                assert await one.collector.collect(Discovery.item(item_id, via=Lane.LIVE)) is Outcome.OWED
            serving = asyncio.ensure_future(recover(one).run())
            await clock.sleep_until(DAY_NS)
            assert set((await states(store)).values()) <= {GapState.OWED, GapState.LEASED}
            await clock.sleep_until(DAY_NS + 2 * HOUR_NS)
            assert set((await states(store)).values()) == {GapState.SETTLED}
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    simulated(main)


@pytest.mark.slow
def test_two_processes_whose_clocks_disagree_do_not_ask_again_without_a_pause() -> None:
    async def main(clock: SimClock) -> None:
        young = range(999_998, 1_000_001)
        source, store = Numbers(clock, bodies=dict.fromkeys(young, NULL)), MemoryStore()
        clock.wall_ns()
        clock.step_wall(-25 * HOUR_NS)  # a running process keeps its time; one that starts now begins a day earlier
        async with process(clock, source, store) as one, process(clock.restarted(), source, store) as two:
            assert one.clock.wall_ns() - two.clock.wall_ns() > DAY_NS
            for item_id in young:
                await one.collector.collect(Discovery.item(item_id, via=Lane.LIVE))
            serving = [
                asyncio.ensure_future(recover(one).run()),
                asyncio.ensure_future(recover(two, owner="two").run()),
            ]
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
        # The schedule of one process has twelve attempts in the first hour; without a pause there were thousands.
        assert max(source.times(item_id) for item_id in young) <= 30
        assert set((await states(store)).values()) == {GapState.OWED}

    simulated(main)


def test_what_an_operator_replays_is_asked_for_at_once_although_it_was_just_asked_for() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, says=lambda _id, _attempt: REFUSED), MemoryStore()
        await owe(clock, source, store, range(1, 2))
        async with process(clock, source, store) as one:
            serving = recover(one)
            await store.replay_gaps(NAME, now_ns=clock.wall_ns())
            assert await serving.run_once() == {Outcome.OWED: 1}
            assert await serving.run_once() == {}
            await store.replay_gaps(NAME, now_ns=clock.wall_ns())
            assert await serving.run_once() == {Outcome.OWED: 1}

    simulated(main)


class Leaving(MemoryStore):
    """A store that goes away before anything can be given back."""

    async def release_gaps(self, source: str, *, owner: str) -> int:
        raise StoreUnavailable("the store does not answer", hint="wait")


def test_a_store_that_is_down_does_not_keep_a_stop_from_ending() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), Leaving()
        await owe(clock, source, store, range(1, 6))
        async with process(clock, source, store) as one:
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            source.says = lambda _id, _attempt: Answer(latency_ns=HOUR_NS)
            serving = asyncio.ensure_future(recover(one).run_once())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            assert serving.cancelled()

    simulated(main)


def test_what_only_an_earlier_declaration_could_ask_for_stays_owed_and_stops_nothing() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock), MemoryStore()
        await owe(clock, source, store, range(1, 4))
        asked = Asked(Pressure(GapReason.RATE_LIMITED), clock.wall_ns(), 1)
        async with process(clock, source, store) as one:
            for kind, key in ((Kind.USER, "ada"), (Kind.UNREAD_PAGE, "there")):
                await one.collector.record(Discovery(kind, key, Lane.UPDATE), asked)
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            assert await recover(one).run_once() == {Outcome.NEW: 3}
        assert {gap.kind for gap in await store.gaps(NAME, state=GapState.OWED)} == {Kind.USER, Kind.UNREAD_PAGE}

    simulated(main)
