"""Which of several simulated services watches the source, and what does its successor find?"""

import asyncio
from dataclasses import dataclass

import pytest

from remora.collect import Collector
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.loops.numbered.service import NumberedService, ServiceSettings
from remora.loops.numbered.worker import Worker
from remora.sim.checks import compare
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.meter import CountingMeter
from remora.sim.provider import Provider
from remora.sim.sharing import SimGate, SimNames, SimSharing
from remora.sim.transport import SimTransport
from remora.sim.world import World, WorldSettings
from remora.sources.hackernews import HackerNews
from remora.stores.memory import MemoryStore

pytestmark = pytest.mark.slow

NAME = "hackernews"
CEILING_NS = SECOND_NS // 250


@dataclass(slots=True)
class Running:
    service: NumberedService
    life: Generation
    task: "asyncio.Task[None]"


class Hosts:
    """Services on several hosts, over one store and one gate."""

    def __init__(self, clock: SimClock, world: WorldSettings) -> None:
        self.clock = clock
        self.world = World(world)
        self.provider = Provider(self.world, now=clock.true_ns, ticks=clock.monotonic_ns)
        self.store = MemoryStore()
        self.gate_store = SimGate(clock)
        self.names = SimNames()

    async def start(self, owner: str) -> Running:
        life, clock, meter = Generation(), self.clock.restarted(), CountingMeter()
        sharing = SimSharing(self.gate_store, self.names, clock)
        store = life.guard(self.store)
        source = HackerNews(life.guard(SimTransport(self.provider, clock)), "http://sim/v0")
        home = SharedHome(NAME, life.guard(sharing.gate_store), ceiling_interval_ns=CEILING_NS, clock=clock)
        governor = Governor(
            NAME,
            Limits(ceiling_interval_ns=CEILING_NS, in_flight=32),
            clock=clock,
            home=home,
            meter=meter,
            chance=self.clock.random.random,
        )
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        service = NumberedService(
            source,
            store,
            collector,
            governor,
            clock=clock,
            owner=owner,
            settings=ServiceSettings(),
            alone=sharing.leader_lease(f"watch:{NAME}"),
        )
        return Running(service, life, asyncio.get_running_loop().create_task(_live(life, service)))

    async def sleep(self, for_ns: int) -> None:
        await self.clock.sleep_until(self.clock.monotonic_ns() + for_ns)


async def _live(life: Generation, service: NumberedService) -> None:
    try:
        await life.live(service.run())
    except Crashed:
        return


async def stop(*running: Running) -> None:
    for one in running:
        one.task.cancel()
    await asyncio.gather(*(one.task for one in running), return_exceptions=True)


def test_one_watches_the_others_stand_by_and_a_killed_one_is_replaced_within_fifteen_seconds() -> None:
    async def main(clock: SimClock) -> None:
        hosts = Hosts(clock, WorldSettings(items=2_000, new_per_day=12_000))
        one = await hosts.start("one")
        await hosts.sleep(SECOND_NS)
        two, three = await hosts.start("two"), await hosts.start("three")
        await hosts.sleep(2 * MINUTE_NS)
        assert [running.service.state().stands_by for running in (one, two, three)] == [False, True, True]
        assert hosts.provider.streams_opened == 2  # updates and newest ids, of one process
        assert "updates" not in two.service.state().loops
        one.life.crash()
        await hosts.sleep(15 * SECOND_NS)
        assert sorted(running.service.state().stands_by for running in (two, three)) == [False, True]
        await hosts.sleep(10 * MINUTE_NS)
        mirror = [pair async for pair in hosts.store.bodies(NAME)]
        await stop(two, three)
        held = {item_id for item_id, _ in mirror}
        truth = hosts.world.dump(clock.true_ns())
        missing = [item_id for item_id, _ in truth if item_id not in held]
        # Only what is not readable yet, at the very end, may be missing.
        assert all(item_id > 2_000 for item_id in missing)
        assert len(missing) <= 5

    run(main, seed=1)


@pytest.mark.slow
def test_changes_of_the_blind_window_between_two_watchers_are_repaired_by_the_successor() -> None:
    async def main(clock: SimClock) -> None:
        hosts = Hosts(clock, WorldSettings(items=1_000, new_per_day=2_000))
        one, two = await hosts.start("one"), await hosts.start("two")
        await hosts.sleep(HOUR_NS)
        one.life.crash()
        await hosts.sleep(6 * HOUR_NS)
        mirror = [pair async for pair in hosts.store.bodies(NAME)]
        differences = compare(mirror, hosts.world.dump(clock.true_ns()))
        await stop(two)
        # A living world: what changed in the last moments may still be on its way.
        assert len({difference.item_id for difference in differences}) <= 10

    run(main, seed=2)


def test_a_worker_works_off_what_others_planned_and_watches_nothing() -> None:
    async def main(clock: SimClock) -> None:
        hosts = Hosts(clock, WorldSettings(items=3_000, new_per_day=1.0))
        meter, sharing = CountingMeter(), SimSharing(hosts.gate_store, hosts.names, clock)
        source = HackerNews(SimTransport(hosts.provider, clock), "http://sim/v0")
        home = SharedHome(NAME, sharing.gate_store, ceiling_interval_ns=CEILING_NS, clock=clock)
        governor = Governor(
            NAME,
            Limits(ceiling_interval_ns=CEILING_NS, in_flight=16),
            clock=clock,
            home=home,
            meter=meter,
            chance=clock.random.random,
        )
        await governor.open()
        collector = Collector(source, hosts.store, governor, clock=clock, meter=meter)
        worker = Worker(NAME, collector, hosts.store, clock=clock, owner="helper", width=16)
        helping = asyncio.get_running_loop().create_task(worker.run())
        await hosts.sleep(MINUTE_NS)
        assert len(hosts.provider.arrivals) == 0
        one = await hosts.start("one")
        await hosts.sleep(5 * MINUTE_NS)
        await stop(one)
        helping.cancel()
        await asyncio.gather(helping, return_exceptions=True)
        await governor.close()
        assert sum(meter.outcomes.values()) > 300
        assert collector.newest_id == 3_000
        assert all(loop.restarts == 0 for loop in worker.state().values())

    run(main, seed=3)
