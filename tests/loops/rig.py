"""What does a loop need to run in a test? A whole small world: provider, gate, collector and store, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from remora.collect import Collector
from remora.contracts import Clock, NumberedSource, Store, Transport
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.numbered.service import NumberedService, ServiceSettings
from remora.sim.checks import Difference, compare
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.faults import NO_FAULTS, Faults
from remora.sim.meter import CountingMeter
from remora.sim.provider import Provider
from remora.sim.transport import SimTransport
from remora.sim.world import World, WorldSettings
from remora.sources.hackernews import HackerNews
from remora.stores.memory import MemoryStore

__all__ = ["DAY_NS", "HOUR_NS", "MINUTE_NS", "SECOND_NS", "Process", "Rig", "in_virtual_time"]

T = TypeVar("T")
NAME = "hackernews"
CEILING_NS = SECOND_NS // 250
IN_FLIGHT = 64


@dataclass(slots=True)
class Process:
    """One life of a daemon: everything it was given, and the service it composes of it."""

    source: NumberedSource
    governor: Governor
    collector: Collector
    store: Store
    clock: Clock
    service: NumberedService


@dataclass(slots=True)
class Rig:
    """The world around a daemon; it outlives every process."""

    clock: SimClock
    world: World
    provider: Provider
    store: Store
    ceiling_ns: int = CEILING_NS
    meter: CountingMeter = field(default_factory=CountingMeter)

    @classmethod
    def make(
        cls,
        clock: SimClock,
        *,
        world: WorldSettings | None = None,
        faults: Faults = NO_FAULTS,
        store: Store | None = None,
        ceiling_ns: int = CEILING_NS,
    ) -> "Rig":
        truth = World(world or WorldSettings(items=1_000))
        provider = Provider(truth, faults, now=clock.true_ns, ticks=clock.monotonic_ns)
        return cls(clock, truth, provider, store or MemoryStore(), ceiling_ns)

    @asynccontextmanager
    async def process(
        self,
        *,
        settings: ServiceSettings | None = None,
        life: Generation | None = None,
        transport: Transport | None = None,
        owner: str = "one",
    ) -> AsyncIterator[Process]:
        """A daemon that has started but whose loops do not run yet."""
        # The clock needs no guard: a dead process that still sleeps can neither store nor send anything.
        clock = self.clock.restarted()
        store = _guarded(self.store, life)
        wire: Transport = transport or SimTransport(self.provider, clock)
        source = HackerNews(_guarded(wire, life), "http://sim/v0")
        limits = Limits(ceiling_interval_ns=self.ceiling_ns, in_flight=IN_FLIGHT)
        chance = self.clock.random.random
        governor = Governor(NAME, limits, clock=clock, home=LocalHome(NAME, store), meter=self.meter, chance=chance)
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=self.meter)
        service = NumberedService(source, store, collector, governor, clock=clock, owner=owner, settings=settings)
        try:
            yield Process(source, governor, collector, store, clock, service)
        finally:
            await governor.close()

    async def live_for(self, for_ns: int, *, settings: ServiceSettings | None = None, owner: str = "one") -> None:
        """Run the whole service for a while and stop it on request."""
        async with self.process(settings=settings, owner=owner) as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            await self.clock.sleep_until(self.clock.monotonic_ns() + for_ns)
            if running.done():
                raise AssertionError("the service ended by itself") from running.exception()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def differences(self) -> list[Difference]:
        """Where the mirror and the world disagree right now."""
        mirror = [pair async for pair in self.store.bodies(NAME)]
        return compare(mirror, self.world.dump(self.clock.true_ns()))


def _guarded(port: T, life: Generation | None) -> T:
    return port if life is None else life.guard(port)


def in_virtual_time(main: Callable[[SimClock], Awaitable[T]], *, seed: int = 0) -> T:
    """Run a test's body in the loop whose time jumps."""
    return run(main, seed=seed)
