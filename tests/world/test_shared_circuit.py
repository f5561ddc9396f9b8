"""Does one circuit hold all processes that share a source, and does exactly one of them probe?"""

from itertools import pairwise

import pytest

from remora.core.rate.circuit_breaker import COOL_DOWN_NS, CircuitState
from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.pacing import interval_for
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.sim.clock import SimClock, run
from remora.sim.faults import NO_FAULTS, FaultKind, Faults
from tests.world.shared_rig import FleetRig

pytestmark = pytest.mark.slow

BROKEN = Faults(rates={FaultKind.SERVER_ERROR: 1.0})


async def broken(clock: SimClock, *, processes: int, rate: float) -> tuple[FleetRig, int]:
    """A fleet whose provider fails for good; and how many requests had arrived when all of them knew."""
    rig = FleetRig(clock, ceiling_ns=interval_for(rate), items=50_000)
    await rig.plan()
    for _ in range(processes):
        rig.start()
    await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS // 2)
    rig.provider.set_faults(BROKEN)
    while not any(worker.governor.state().circuit is CircuitState.OPEN for worker in rig.workers.values()):
        await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 100)
    await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
    return rig, len(rig.provider.arrivals)


@pytest.mark.parametrize("rate", [20.0, 400.0], ids=["turns", "windows"])
@pytest.mark.parametrize("processes", [2, 8])
def test_one_process_that_finds_the_provider_broken_holds_all_and_one_of_them_probes(
    processes: int, rate: float
) -> None:
    async def main(clock: SimClock) -> None:
        rig, known = await broken(clock, processes=processes, rate=rate)
        await clock.sleep_until(clock.monotonic_ns() + 3 * SECOND_NS)
        states = [worker.governor.state() for worker in rig.workers.values()]
        # A process that met too little trouble itself is held by the others.
        assert CircuitState.OPEN in {state.circuit for state in states}
        assert {(state.limited_by, state.provider_down is None) for state in states} == {(LimitedBy.CIRCUIT, False)}
        await clock.sleep_until(clock.monotonic_ns() + 5 * MINUTE_NS)
        probes = rig.provider.arrivals.times_ns[known:]
        await rig.stop()
        assert len(probes) >= 3
        assert all(later - earlier >= COOL_DOWN_NS for earlier, later in pairwise(probes))
        # The cool-down grows from probe to probe, whoever sends it.
        assert len(probes) <= 6

    run(main, seed=processes)


def test_the_first_good_answer_to_a_probe_frees_all_processes_within_seconds() -> None:
    async def main(clock: SimClock) -> None:
        rig, known = await broken(clock, processes=4, rate=20.0)
        rig.provider.set_faults(NO_FAULTS)
        while len(rig.provider.arrivals) == known:
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 10)
        await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
        states = [worker.governor.state() for worker in rig.workers.values()]
        departed = [state.departures for state in states]
        await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
        grown = [worker.governor.state().departures for worker in rig.workers.values()]
        await rig.stop()
        assert {state.circuit for state in states} == {CircuitState.CLOSED}
        assert all(later > earlier for earlier, later in zip(departed, grown, strict=True))

    run(main, seed=4)


def test_a_prober_that_is_killed_before_its_answer_is_replaced() -> None:
    async def main(clock: SimClock) -> None:
        rig, known = await broken(clock, processes=4, rate=20.0)
        rig.provider.set_faults(Faults(rates={FaultKind.HANG: 1.0}))
        while len(rig.provider.arrivals) == known:
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 10)
        rig.provider.set_faults(NO_FAULTS)
        prober = next(
            number
            for number, worker in rig.workers.items()
            if worker.governor.state().circuit is CircuitState.HALF_OPEN and worker.governor.state().in_flight
        )
        rig.kill(prober)
        await clock.sleep_until(clock.monotonic_ns() + 3 * MINUTE_NS)
        assert len(rig.provider.arrivals) > known + 100
        assert {worker.governor.state().circuit for worker in rig.workers.values()} == {CircuitState.CLOSED}
        await rig.stop()

    run(main, seed=9)
