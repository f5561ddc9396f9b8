"""Does a run keep its budget when the gate of all processes holds its request back?"""

from remora.collect import Collector
from remora.core.lanes import Lane
from remora.core.ledger.asking import LISTED
from remora.core.ledger.budget import Budget
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.run import RunCounts, StoppedBy
from remora.core.reasons import GapReason
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.loops.listed.allowance import RunAllowance
from remora.sim.clock import SimClock
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, Numbers
from tests.gate.rig import simulated


def test_a_wait_in_the_gate_of_all_processes_ends_with_the_budget() -> None:
    async def main(clock: SimClock) -> None:
        gate_store, store, meter = SimGate(clock), MemoryStore(), CountingMeter()
        home = SharedHome(NAME, gate_store, ceiling_interval_ns=SECOND_NS, clock=clock)
        chance = clock.random.random
        governor = Governor(NAME, Limits(SECOND_NS), clock=clock, home=home, meter=meter, chance=chance)
        await governor.open()
        collector = Collector(Numbers(clock), store, governor, clock=clock, meter=meter, policy=LISTED)
        await collector.newest()
        await gate_store.shut(NAME, for_ns=10 * MINUTE_NS, cool_down_ns=MINUTE_NS, was_prober=False)
        began_ns = clock.monotonic_ns()
        budget = Budget(began_ns, max_wall_ns=30 * SECOND_NS)
        allowance = RunAllowance(governor, clock=clock, budget=budget, counts=RunCounts(), policy=LISTED)
        asked = await collector.ask(Discovery.item(1, via=Lane.DETAIL), allowance)
        assert (asked.verdict, asked.requests) == (Deferred(GapReason.MAX_WALL_CLOCK), 0)
        assert allowance.stop is not None
        assert allowance.stop.by is StoppedBy.MAX_WALL_CLOCK
        assert clock.monotonic_ns() - began_ns <= 31 * SECOND_NS
        await governor.close()

    simulated(main)
