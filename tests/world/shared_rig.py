"""What does a simulated fleet need around it? One provider, one store, one gate, and workers that come, work and are killed."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from remora.collect import Collector
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.pacing import burst_allowance
from remora.core.units import SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.loops.numbered.backfill import SegmentWorker
from remora.loops.recover import Recover, Recovery
from remora.sim.checks import Difference, WorstWindow, compare, worst_window
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.faults import NO_FAULTS, Faults
from remora.sim.meter import CountingMeter
from remora.sim.provider import Provider
from remora.sim.sharing import SimGate
from remora.sim.transport import SimTransport
from remora.sim.world import World, WorldSettings
from remora.sources.hackernews import HackerNews
from remora.stores.memory import MemoryStore

NAME = "hackernews"


@dataclass(slots=True)
class Worker:
    """One process: its life, and the governor that speaks for it."""

    number: int
    life: Generation
    governor: Governor
    meter: CountingMeter
    task: "asyncio.Task[None]"


@dataclass(slots=True)
class FleetRig:
    """The world around a fleet; it outlives every worker."""

    clock: SimClock
    ceiling_ns: int
    items: int
    faults: Faults = NO_FAULTS
    in_flight: int = 8
    store: MemoryStore = field(default_factory=MemoryStore)
    workers: dict[int, Worker] = field(default_factory=dict)
    started: int = 0
    world: World = field(init=False)
    provider: Provider = field(init=False)
    gate_store: SimGate = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(WorldSettings(items=self.items, new_per_day=1.0))
        self.provider = Provider(self.world, self.faults, now=self.clock.true_ns, ticks=self.clock.monotonic_ns)
        self.gate_store = SimGate(self.clock)

    async def plan(self) -> None:
        await self.store.plan(NAME, SegmentKind.BACKFILL, (IdRange(1, self.items),), now_ns=self.clock.wall_ns())

    def start(self) -> Worker:
        """One more process."""
        self.started += 1
        number, life, clock = self.started, Generation(), self.clock.restarted()
        meter = CountingMeter()
        home = SharedHome(NAME, life.guard(self.gate_store), ceiling_interval_ns=self.ceiling_ns, clock=clock)
        governor = Governor(
            NAME,
            Limits(ceiling_interval_ns=self.ceiling_ns, in_flight=self.in_flight),
            clock=clock,
            home=home,
            meter=meter,
            chance=self.clock.random.random,
        )
        task = asyncio.get_running_loop().create_task(self._live(self._work(number, life, governor, meter), life))
        self.workers[number] = Worker(number, life, governor, meter, task)
        return self.workers[number]

    async def _live(self, work: Coroutine[Any, Any, None], life: Generation) -> None:
        try:
            await life.live(work)
        except Crashed:
            return

    async def _work(self, number: int, life: Generation, governor: Governor, meter: CountingMeter) -> None:
        clock = self.clock.restarted()
        store = life.guard(self.store)
        source = HackerNews(life.guard(SimTransport(self.provider, clock)), "http://sim/v0")
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        collector.newest_id = self.items
        owner = f"worker-{number}"
        worker = SegmentWorker(
            NAME, collector, store, clock=clock, owner=owner, kinds=(SegmentKind.BACKFILL,), width=self.in_flight
        )
        recover = Recover(NAME, collector, store, clock=clock, owner=owner, policy=Recovery(self.in_flight))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(governor.close)
            await asyncio.gather(worker.run(), recover.run())

    def kill(self, number: int) -> None:
        """The way a power cut does."""
        self.workers.pop(number).life.crash()

    async def finish(self) -> None:
        """Until every id is settled or owed for good, then stop all."""
        while (await self.store.open_segments(NAME)).get(SegmentKind.BACKFILL, 0):
            await self.clock.sleep_until(self.clock.monotonic_ns() + SECOND_NS)
        await self.stop()

    async def stop(self) -> None:
        for worker in self.workers.values():
            worker.task.cancel()
        await asyncio.gather(*(worker.task for worker in self.workers.values()), return_exceptions=True)

    async def differences(self) -> list[Difference]:
        """Where the mirror and the world disagree."""
        mirror = [pair async for pair in self.store.bodies(NAME)]
        return compare(mirror, self.world.dump(self.clock.true_ns()))

    def intervals_ns(self) -> list[int]:
        """The pace of each living process."""
        return [worker.governor.state().interval_ns for worker in self.workers.values()]

    def refusals(self) -> list[int]:
        """How many requests each living process saw refused."""
        return [
            sum(count for (_, _, verdict), count in worker.meter.verdicts.items() if verdict == "Pressure")
            for worker in self.workers.values()
        ]

    def worst(self) -> WorstWindow:
        """The fullest window of all departures of all processes."""
        return worst_window(self.provider.arrivals.times_ns, self.ceiling_ns, burst_allowance(self.ceiling_ns))
