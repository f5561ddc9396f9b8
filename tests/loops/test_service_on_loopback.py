"""Does the same service stay fresh over real connections, with real drops, resets and a real clock?"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from remora.collect import Collector
from remora.core.pacing import bunch_for
from remora.governor import Governor, Limits
from remora.loops.rescan import RescanSettings
from remora.loops.service import NumberedService, ServiceSettings
from remora.operate.clock import SystemClock
from remora.sim.checks import Difference, compare, worst_window
from remora.sim.faults import Faults, StreamFaults, every_kind
from remora.sim.meter import CountingMeter
from remora.sim.server import ServerHandle, serve
from remora.sim.world import WorldSettings
from remora.sources.hackernews import HackerNews
from remora.sources.http import HttpSettings, HttpTransport
from remora.stores.memory import MemoryStore
from tests.loops.rig import DAY_NS, NAME, SECOND_NS

CEILING_NS = SECOND_NS // 200
# Between leaving and arriving a request crosses a busy machine; that much a window may seem too full.
ON_THE_WAY_NS = 60_000_000
# The items must be young on the real clock's scale of this world: its own clock started long before.
SETTLING_NS = 12 * SECOND_NS
SETTINGS = ServiceSettings(rescan=RescanSettings(every_ns=8 * SECOND_NS, window_ns=14 * DAY_NS))


@asynccontextmanager
async def daemon(server: ServerHandle, store: MemoryStore, meter: CountingMeter) -> AsyncIterator[NumberedService]:
    """One life of a daemon, ended on request."""
    clock = SystemClock()
    async with HttpTransport(HttpSettings(in_flight_max=32), clock=clock, wire_sent=lambda: None) as transport:
        source = HackerNews(transport, server.url)
        limits = Limits(ceiling_interval_ns=CEILING_NS, in_flight=32)
        governor = Governor(NAME, limits, clock=clock, book=store, meter=meter, chance=random.random)
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        service = NumberedService(source, store, collector, governor, clock=clock, owner="one", settings=SETTINGS)
        running = asyncio.get_running_loop().create_task(service.run())
        try:
            yield service
            assert not running.done(), f"the service ended by itself: {running}"
        finally:
            asked_s = asyncio.get_running_loop().time()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert asyncio.get_running_loop().time() - asked_s < 10
            await governor.close()


async def lasting_differences(server: ServerHandle, store: MemoryStore) -> list[Difference]:
    """Where mirror and world differ, apart from what changed in the world a moment ago."""
    world, now_ns = server.provider.world, server.provider.now()
    since_ns = now_ns - SETTLING_NS
    newest_id = world.max_id(since_ns)
    mirror = [pair async for pair in store.bodies(last_id=newest_id)]
    return [
        difference
        for difference in compare(mirror, world.dump(now_ns, last_id=newest_id))
        if world.body(difference.item_id, since_ns) == world.body(difference.item_id, now_ns)
    ]


@pytest.mark.slow
async def test_over_loopback_drops_faults_and_a_restart_leave_a_mirror_that_equals_the_world() -> None:
    faults = Faults(
        seed=3,
        rates=every_kind(0.02).rates,
        slow_s=0.2,
        stream=StreamFaults(drops_per_hour=1_200, cancels_per_hour=300),
    )
    settings = WorldSettings(items=400, new_per_day=86_400)
    store, meter = MemoryStore(), CountingMeter()
    async with await serve(settings, faults=faults) as server:
        async with daemon(server, store, meter) as service:
            await asyncio.sleep(25)  # the climb from one request per second takes most of it
            assert service.state().stream.reconnects >= 1
            assert service.state().workers_alive == 8
        server.provider.heal()
        async with daemon(server, store, meter) as service:
            # How long it takes depends on the machine; that it gets there does not.
            for _ in range(15):
                await asyncio.sleep(4)
                if not await lasting_differences(server, store):
                    break
            state = service.state()
        newest_id = server.provider.world.max_id(server.provider.now() - SETTLING_NS)
        assert await lasting_differences(server, store) == []
        (covered,) = (await store.coverage(NAME)).ranges
        assert covered.start == 1
        assert covered.end >= newest_id
        assert state.stream.connected
        assert state.rescan is not None
        assert state.rescan.processed >= 400
        worst = worst_window(server.provider.arrivals.times_ns, CEILING_NS, bunch_for(CEILING_NS))
        assert worst.excess_ns <= ON_THE_WAY_NS
