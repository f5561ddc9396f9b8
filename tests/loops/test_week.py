"""Does the mirror equal the world after a bad week? Drops, zombies, an outage, a flood, faults, restarts and kills."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from remora.contracts import ConnectGate, Store, StreamBroken
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.gap import GapState
from remora.core.rate.pacing import burst_allowance
from remora.loops.numbered.inbox import MEMORY_MAX
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.loops.numbered.service import NumberedService, ServiceSettings
from remora.loops.recover import Recover, Recovery
from remora.sim.checks import Difference, worst_window
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.faults import FaultKind, Faults, Flood, Outage, StreamFaults, every_kind
from remora.sim.transport import SimTransport
from remora.sim.world import WorldSettings
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore
from tests.loops.rig import DAY_NS, HOUR_NS, MINUTE_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time

WEEK_NS = 7 * DAY_NS
RESTARTS = 50
CEILING_NS = SECOND_NS // 10
# Everything the service may have under way at once: live, workers, walkers, gaps, loops and timers. Far above normal.
TASKS_MAX = 400
FATES_NS = 14 * DAY_NS  # items of this world change for longer than three days, so the window is wider
# The newest id is asked for once a minute: in a world of 120 new items a day, more often would be most of the work.
SETTINGS = ServiceSettings(rescan=RescanSettings(window_ns=FATES_NS), poll_every_ns=MINUTE_NS)
BAD_WEEK = Faults(
    seed=7,
    rates=every_kind(0.02).rates,
    slow_s=0.5,
    outages=(Outage(3 * 86_400, 3 * 86_400 + 7_200),),
    stream=StreamFaults(
        drops_per_hour=1.4,
        zombies_per_hour=0.03,
        floods=(Flood(5 * 86_400, 5 * 86_400 + 600, ids_per_second=200),),
    ),
)


@dataclass(slots=True)
class Log:
    """What was seen during the week."""

    frontiers: list[int] = field(default_factory=list)
    in_memory: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    stream_ends: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    stops_ns: list[int] = field(default_factory=list)
    service: NumberedService | None = None


class ListedEnds(SimTransport):
    """A transport that remembers why streams ended."""

    ends: Counter[str]

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        try:
            async for chunk in super().stream(url, connect, headers=headers):
                yield chunk
        except StreamBroken as broken:
            self.ends[broken.reason] += 1
            raise


async def watch(rig: Rig, log: Log) -> None:
    """Look at what must hold at every moment."""
    while True:
        await rig.clock.sleep_until(rig.clock.monotonic_ns() + 10 * MINUTE_NS)
        log.frontiers.append((await rig.store.coverage(NAME)).frontier(first_id=1))
        log.tasks.append(len(asyncio.all_tasks()))
        if log.service is not None:
            log.in_memory.append(log.service.state().inbox_in_memory)


async def one_life(rig: Rig, log: Log, settings: ServiceSettings, *, until_ns: int, kill: bool, number: int) -> None:
    """A daemon from its start to its end: asked to stop, or killed."""
    life = Generation()
    transport = ListedEnds(rig.provider, rig.clock, silence_ns=55 * SECOND_NS)
    transport.ends = log.stream_ends

    async def main() -> None:
        async with rig.process(settings=settings, life=life, transport=transport, owner=f"life-{number}") as process:
            log.service = process.service
            running = asyncio.get_running_loop().create_task(process.service.run())
            await process.clock.sleep_until(until_ns)
            assert not running.done(), f"the service ended by itself: {running}"
            asked_ns = rig.clock.monotonic_ns()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            log.stops_ns.append(rig.clock.monotonic_ns() - asked_ns)

    if not kill:
        await life.live(main())
        return
    asyncio.get_running_loop().call_later((until_ns - rig.clock.monotonic_ns()) / SECOND_NS - 0.5, life.crash)
    with pytest.raises(Crashed):
        await life.live(main())
    log.kills += 1


async def live_through(
    rig: Rig, log: Log, settings: ServiceSettings, *, restarts: int, for_ns: int, stay_down: bool
) -> None:
    """Many lives, one after another; after some the daemon stays down for a while."""
    chance = Random(1)
    ends = sorted(chance.randrange(HOUR_NS, for_ns) for _ in range(restarts))
    watching = asyncio.get_running_loop().create_task(watch(rig, log))
    for number, end_ns in enumerate((*ends, for_ns)):
        until_ns = max(end_ns, rig.clock.monotonic_ns() + 5 * SECOND_NS)
        await one_life(rig, log, settings, until_ns=until_ns, kill=number % 2 == 1, number=number)
        if stay_down and number % 5 == 0:
            await rig.clock.sleep_until(rig.clock.monotonic_ns() + chance.randrange(MINUTE_NS, 20 * MINUTE_NS))
    watching.cancel()


async def settle(rig: Rig, process: Process, *, rescan: bool) -> int:
    """The provider is well again: collect what is owed, and look at everything young once more. Returns since when."""
    rig.provider.heal()
    running = asyncio.get_running_loop().create_task(process.service.run())
    await rig.clock.sleep_until(rig.clock.monotonic_ns() + HOUR_NS)
    since_ns = rig.clock.true_ns()
    await rig.clock.sleep_until(rig.clock.monotonic_ns() + MINUTE_NS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    if rescan:
        again = Rescan(
            NAME,
            process.collector,
            rig.store,
            clock=rig.clock,
            settings=RescanSettings(window_ns=FATES_NS),
            ages=lambda: process.service.state().update_ages,
            owner="last",
            width=32,
        )
        await again.want()
        assert await again.run_once() is not None
    await rig.store.replay_gaps(NAME, now_ns=rig.clock.wall_ns())
    recover = Recover(NAME, process.collector, rig.store, clock=rig.clock, owner="last", policy=Recovery(32))
    while await recover.run_once():
        pass
    return since_ns


async def lasting_differences(rig: Rig, since_ns: int) -> list[Difference]:
    """Where the mirror differs from what has been true since a moment; what moved after it may not be fetched yet."""
    now_ns = rig.clock.true_ns()

    def moved(item_id: int) -> bool:
        return rig.world.body(item_id, since_ns) != rig.world.body(item_id, now_ns)

    return [difference for difference in await rig.differences() if not moved(difference.item_id)]


def assert_all_is_well(rig: Rig, log: Log) -> None:
    assert all(before <= after for before, after in pairwise(log.frontiers)), "the frontier went back"
    worst = worst_window(rig.provider.arrivals.times_ns, rig.ceiling_ns, burst_allowance(rig.ceiling_ns))
    assert worst.excess <= 0, worst
    assert max(log.in_memory) <= MEMORY_MAX
    assert max(log.tasks) <= TASKS_MAX
    assert max(log.stops_ns) <= 10 * SECOND_NS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_bad_week_and_one_rescan_the_mirror_equals_the_world() -> None:
    async def main(clock: SimClock) -> None:
        world = WorldSettings(items=300, new_per_day=120)
        rig = Rig.make(clock, world=world, faults=BAD_WEEK, ceiling_ns=CEILING_NS)
        log = Log()
        await live_through(rig, log, SETTINGS, restarts=RESTARTS, for_ns=WEEK_NS, stay_down=True)
        async with rig.process(settings=SETTINGS, owner="last") as process:
            since_ns = await settle(rig, process, rescan=True)
        assert await lasting_differences(rig, since_ns) == []
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert covered == IdRange(1, process.collector.newest_id or 0)
        assert log.stream_ends["closed"] >= 200, log.stream_ends
        assert log.stream_ends["silent"] >= 2, log.stream_ends
        assert log.kills == RESTARTS // 2
        assert not await rig.store.gaps(NAME, state=GapState.DEAD)
        assert_all_is_well(rig, log)

    in_virtual_time(main, seed=3)


# A stale body is true, of another moment: no single look can tell, only the next one.
HONEST = [kind for kind in FaultKind if kind is not FaultKind.STALE]
NOTHING_LOST = Faults(
    seed=11,
    rates=dict.fromkeys(HONEST, 0.02 / len(HONEST)),
    slow_s=0.5,
    stream=StreamFaults(drops_per_hour=3, zombies_per_hour=0.2, cancels_per_hour=0.5, missed_share=0.0),
)
NO_BACKSTOP = ServiceSettings(rescan=None, poll_every_ns=MINUTE_NS)


async def without_backstop(clock: SimClock, store: Store, *, restarts: int, for_ns: int) -> Log:
    """The backstop hides the bugs of what it backs up: here the stream, the inbox and the repair stand alone.

    Every change is announced, and the list that opens each connection reaches back for minutes, so drops, silent
    streams and quick restarts lose no event.
    """
    world = WorldSettings(items=400, new_per_day=240)
    rig = Rig.make(clock, world=world, faults=NOTHING_LOST, store=store, ceiling_ns=CEILING_NS)
    log = Log()
    await live_through(rig, log, NO_BACKSTOP, restarts=restarts, for_ns=for_ns, stay_down=False)
    async with rig.process(settings=NO_BACKSTOP, owner="last") as process:
        since_ns = await settle(rig, process, rescan=False)
    assert await lasting_differences(rig, since_ns) == []
    (covered,) = (await rig.store.coverage(NAME)).ranges
    assert covered == IdRange(1, process.collector.newest_id or 0)
    assert_all_is_well(rig, log)
    return log


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_the_rescan_the_mirror_equals_the_world_where_no_event_was_lost() -> None:
    log = in_virtual_time(
        lambda clock: without_backstop(clock, MemoryStore(), restarts=14, for_ns=2 * DAY_NS),
        seed=5,
    )
    assert log.stream_ends["closed"] >= 150, log.stream_ends


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_holds_in_a_sqlite_file(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> Log:
        store = SqliteStore(tmp_path / "remora.db", offload=InPlace)
        await store.open()
        try:
            return await without_backstop(clock, store, restarts=20, for_ns=8 * HOUR_NS)
        finally:
            await store.close()

    assert in_virtual_time(main, seed=6).kills == 10
