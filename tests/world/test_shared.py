"""Do many simulated processes keep one ceiling, learn one pace and lose nothing, whoever is killed and whenever?"""

import asyncio
from collections import Counter

import pytest

from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.pacing import burst_allowance, interval_for
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.sim.checks import worst_window
from remora.sim.clock import SimClock, run
from remora.sim.faults import FaultKind, Faults
from remora.sim.limits import Limit
from remora.sim.sharing import SimGate
from tests.world.shared_rig import NAME, FleetRig

pytestmark = pytest.mark.slow


def test_64_workers_with_kills_and_restarts_keep_the_ceiling_and_lose_nothing() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(400), items=20_000)
        await rig.plan()
        for _ in range(64):
            rig.start()
        for _ in range(20):
            await clock.sleep_until(clock.monotonic_ns() + 2 * SECOND_NS)
            rig.kill(clock.random.choice(sorted(rig.workers)))
            rig.start()
        await rig.finish()
        assert await rig.differences() == []
        assert rig.worst().excess <= 0
        asked = Counter(rig.provider.arrivals.paths)
        twice = sum(count - 1 for count in asked.values())
        assert twice <= 20 * 100, "a killed worker repeats a batch at most"
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert (covered.start, covered.end) == (1, 20_000)

    run(main, seed=64)


@pytest.mark.parametrize("rate", [5.0, 50.0, 250.0, 2_000.0])
def test_the_ceiling_holds_over_all_processes_at_every_rate(rate: float) -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(rate), items=6_000)
        await rig.plan()
        for _ in range(8):
            rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        await rig.stop()
        assert rig.worst().excess <= 0
        assert len(rig.provider.arrivals) >= min(6_000, 0.5 * rate * 30)

    run(main, seed=8)


def test_a_process_alone_uses_the_ceiling_although_each_turn_must_be_asked_for() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(100), items=20_000, in_flight=64)
        rig.gate_store = SimGate(clock, round_trip_ns=MILLISECOND_NS)
        await rig.plan()
        rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        before = len(rig.provider.arrivals)
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        await rig.stop()
        assert len(rig.provider.arrivals) - before >= 0.95 * 100 * 60
        assert rig.worst().excess <= 0

    run(main)


def test_many_processes_learn_as_fast_as_one_from_the_answers_of_all() -> None:
    async def seconds_to_the_ceiling(clock: SimClock, workers: int) -> float:
        rig = FleetRig(clock, ceiling_ns=interval_for(200), items=20_000)
        await rig.plan()
        for _ in range(workers):
            rig.start()
        while not any(worker.governor.state().interval_ns <= rig.ceiling_ns for worker in rig.workers.values()):
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 10)
        await rig.stop()
        return clock.monotonic_ns() / SECOND_NS

    alone_s = run(lambda clock: seconds_to_the_ceiling(clock, 1))
    together_s = run(lambda clock: seconds_to_the_ceiling(clock, 8))
    assert together_s <= 1.5 * alone_s


def test_a_hidden_limit_is_found_once_for_all_and_rarely_touched() -> None:
    async def main(clock: SimClock) -> None:
        faults = Faults(limit=Limit(kind="token_bucket", per_second=40, burst=10))
        rig = FleetRig(clock, ceiling_ns=interval_for(400), items=20_000, faults=faults)
        await rig.plan()
        for _ in range(8):
            rig.start()
        await clock.sleep_until(clock.monotonic_ns() + 4 * MINUTE_NS)
        refused, asked = sum(rig.refusals()), len(rig.provider.arrivals)
        # All of them go at one pace, also if it changed a moment ago; and together at nearly what is let through.
        async with asyncio.timeout(3):
            while max(rig.intervals_ns()) > 1.1 * min(rig.intervals_ns()):
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 100)
        await rig.stop()
        assert asked - refused >= 0.65 * 40 * 210
        assert refused <= 0.03 * asked

    run(main, seed=3)


def test_what_one_process_is_told_by_the_provider_stops_all_within_a_moment() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(400), items=20_000)
        await rig.plan()
        for _ in range(8):
            rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        rig.provider.set_faults(Faults(rates={FaultKind.RATE_LIMITED: 1.0}))
        pressed_at_ns = clock.monotonic_ns()
        await clock.sleep_until(pressed_at_ns + 10 * SECOND_NS)
        at_once = sum(
            pressed_at_ns <= at_ns < pressed_at_ns + SECOND_NS // 2 for at_ns in rig.provider.arrivals.times_ns
        )
        later = sum(at_ns >= pressed_at_ns + SECOND_NS // 2 for at_ns in rig.provider.arrivals.times_ns)
        await rig.stop()
        # One round trip and one reservation of eight processes, then the probes of a fleet that backs off.
        assert at_once <= 120
        assert later <= 60

    run(main, seed=5)


def test_without_the_store_nothing_leaves_and_all_goes_on_when_it_is_back() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(100), items=5_000)
        await rig.plan()
        for _ in range(4):
            rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        rig.gate_store.is_down = True
        await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)  # what was granted before may still leave
        asked = len(rig.provider.arrivals)
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        assert len(rig.provider.arrivals) == asked
        assert {worker.governor.state().limited_by for worker in rig.workers.values()} == {LimitedBy.STORE}
        rig.gate_store.is_down = False
        await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
        assert len(rig.provider.arrivals) > asked + 100
        await rig.stop()
        assert rig.worst().excess <= 0

    run(main, seed=7)


def test_a_process_that_joins_late_starts_with_what_the_others_know() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(100), items=20_000)
        await rig.plan()
        rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        late = rig.start()
        await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
        assert late.governor.state().interval_ns == rig.ceiling_ns
        asked = len(rig.provider.arrivals)
        await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
        assert len(rig.provider.arrivals) - asked >= 800
        await rig.stop()
        times_ns = rig.provider.arrivals.times_ns
        assert worst_window(times_ns, rig.ceiling_ns, burst_allowance(rig.ceiling_ns)).excess <= 0

    run(main)


def test_a_fleet_that_was_off_for_a_day_starts_slowly_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = FleetRig(clock, ceiling_ns=interval_for(100), items=20_000)
        await rig.plan()
        rig.start()
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        await rig.stop()
        await clock.sleep_until(clock.monotonic_ns() + 24 * 60 * MINUTE_NS)
        again = rig.start()
        await asyncio.sleep(0.5)
        assert again.governor.state().interval_ns >= 0.9 * SECOND_NS
        await rig.stop()

    run(main)
