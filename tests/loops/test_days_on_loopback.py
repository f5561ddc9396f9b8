"""Does the mirror equal the world after bad days of real sockets, real files, real signals and real kills?

Only time is simulated: it passes while everybody rests, so three days take as long as the work in them. The
world is small: 100 items and 50 new ones a day. `test_week.py` has the whole week.
"""

import asyncio
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from remora.core.ledger.coverage import IdRange
from remora.core.ledger.freshness import pass_from_json
from remora.core.ledger.gap import GapState
from remora.core.ledger.notes import RESCAN_DONE_NOTE, RESCAN_WANTED_NOTE
from remora.core.rate.pacing import burst_allowance
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.sim.checks import Difference, compare, worst_window
from remora.sim.faults import Faults, Flood, Outage, StreamFaults, every_kind
from remora.sim.server import listen
from remora.sim.world import WorldSettings
from tests.loops.days_on_loopback import Stage
from tests.loops.loopback_daemon import NAME
from tests.world.lockstep import LockstepLoop

DAYS_NS = 3 * DAY_NS
RESTARTS = 12
CEILING_NS = SECOND_NS // 10
OUTAGE_S = 86_400
FLOOD_S = 2 * 86_400 + 43_200
# Between these nobody is restarted: a process that lives for longer than a day shows whether it grows.
LONG_LIFE_NS = (18 * HOUR_NS, 2 * DAY_NS)
GROWTH_MAX_BYTES = 4 << 20
WORLD = WorldSettings(items=100, new_per_day=50)
FAULTS = Faults(
    seed=7,
    rates=every_kind(0.02).rates,
    slow_s=0.5,
    outages=(Outage(OUTAGE_S, OUTAGE_S + 7_200),),
    stream=StreamFaults(
        drops_per_hour=1.0,
        zombies_per_hour=0.1,
        cancels_per_hour=0.1,
        floods=(Flood(FLOOD_S, FLOOD_S + 120, ids_per_second=200),),  # told every 5 s: 1,000 ids per event
    ),
)
CONFIGURATION = """
[store]
url = "sqlite:///{folder}/remora.db"
[sources.hackernews]
url = "{url}"
ceiling = "10/s"
poll_every = "2m"
rescan = {{ window = "14d" }}
"""


def ends_of_lives(chance: Random) -> list[tuple[int, bool]]:
    """When daemons end in the course of the days, and whether by a kill; one is killed in the middle of the flood."""
    begins_ns, ends_ns = LONG_LIFE_NS

    def moment_ns() -> int:
        moment = chance.randrange(HOUR_NS, DAYS_NS - (ends_ns - begins_ns))
        return moment if moment < begins_ns else moment + ends_ns - begins_ns

    kills = [FLOOD_S * SECOND_NS + MINUTE_NS, *(moment_ns() for _ in range(RESTARTS // 2 - 1))]
    stops = [begins_ns, *(moment_ns() for _ in range(RESTARTS // 2 - 1))]
    return sorted([(at_ns, True) for at_ns in kills] + [(at_ns, False) for at_ns in stops])


async def live_through(stage: Stage) -> None:
    """The days: many lives, one after another; after some the daemon stays down for a while."""
    chance = Random(1)
    watching = asyncio.get_running_loop().create_task(stage.watch(NAME))
    for number, (end_ns, kill) in enumerate([*ends_of_lives(chance), (DAYS_NS, False)]):
        life = stage.begin()
        await stage.clock.sleep_until(max(end_ns, stage.clock.monotonic_ns() + 5 * SECOND_NS))
        assert not watching.done(), watching
        await stage.end(life, kill=kill)
        if number % 5 == 0:
            await stage.clock.sleep_until(stage.clock.monotonic_ns() + chance.randrange(MINUTE_NS, 20 * MINUTE_NS))
    watching.cancel()


async def settle(stage: Stage) -> int:
    """The provider is well again, what is owed is asked for once more, and one rescan passes. Returns since when."""
    stage.provider.heal()
    async with stage.store(read_only=False) as store:
        await store.replay_gaps(NAME, now_ns=stage.clock.wall_ns())
        await store.keep_note(NAME, RESCAN_WANTED_NOTE, True)
    since_ns = stage.clock.wall_ns()
    life = stage.begin()
    done = None
    while done is None or done.started_at_ns < since_ns:
        await stage.clock.sleep_until(stage.clock.monotonic_ns() + 10 * MINUTE_NS)
        assert stage.clock.wall_ns() < since_ns + DAY_NS, "the rescan does not end"
        async with stage.store() as store:
            done = pass_from_json(await store.note(NAME, RESCAN_DONE_NOTE))
    await stage.end(life, kill=False)
    return since_ns


async def lasting_differences(stage: Stage, since_ns: int) -> list[Difference]:
    """Where the mirror differs from what has been true since a moment; what moved after it may not be fetched yet."""
    world, now_ns = stage.world, stage.clock.wall_ns()
    async with stage.store() as store:
        mirror = [pair async for pair in store.bodies(NAME)]
    return [
        difference
        for difference in compare(mirror, world.dump(now_ns))
        if world.body(difference.item_id, since_ns) == world.body(difference.item_id, now_ns)
    ]


def assert_flat(stage: Stage) -> None:
    """The process that lived longest holds at its end what it held once it was warm."""
    longest = max({size.life for size in stage.sizes}, key=[size.life for size in stage.sizes].count)
    sizes = [size for size in stage.sizes if size.life == longest]
    lived_ns = sizes[-1].at_ns - sizes[0].at_ns
    warm = next(size for size in sizes if size.at_ns >= sizes[0].at_ns + 6 * HOUR_NS)
    most = max(size.bytes for size in sizes)
    print(
        f"one process for {lived_ns / DAY_NS:.1f} days: {warm.bytes / 2**20:.1f} MiB after 6 hours, "
        f"{most / 2**20:.1f} MiB at most, {sizes[-1].bytes / 2**20:.1f} MiB at the end"
    )
    assert lived_ns >= DAY_NS
    assert most - warm.bytes <= GROWTH_MAX_BYTES


async def assert_all_is_well(stage: Stage, since_ns: int) -> None:
    assert await lasting_differences(stage, since_ns) == []
    async with stage.store() as store:
        (covered,) = (await store.coverage(NAME)).ranges
        assert covered == IdRange(1, max(covered.end, stage.world.max_id(since_ns)))
        assert not await store.gaps(NAME, state=GapState.DEAD)
    ends = stage.stream_ends()
    arrivals = stage.provider.arrivals
    worst = worst_window(arrivals.times_ns, CEILING_NS, burst_allowance(CEILING_NS))
    dropped = sum(stream.ended for stream in stage.provider.streams)
    print(f"{len(arrivals)} requests; {dropped} streams dropped; as the daemons saw it {dict(ends)}; {worst}")
    assert all(before <= after for before, after in pairwise(stage.frontiers)), "the frontier went back"
    assert worst.excess <= 0, worst
    assert dropped >= 80
    assert ends["silent"] >= 2, ends
    assert (stage.kills, len(stage.stops_ns)) == (RESTARTS // 2, RESTARTS // 2 + 2)
    assert max(stage.stops_ns) <= 10 * SECOND_NS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_bad_days_over_loopback_and_one_rescan_the_mirror_equals_the_world(tmp_path: Path) -> None:
    stage = Stage(tmp_path, WORLD, FAULTS)

    async def main() -> None:
        async with await listen(stage.provider) as server:
            (tmp_path / "remora.toml").write_text(CONFIGURATION.format(folder=tmp_path, url=server.url))
            await live_through(stage)
            since_ns = await settle(stage)
            await assert_all_is_well(stage, since_ns)
            assert_flat(stage)

    try:
        with asyncio.Runner(loop_factory=lambda: LockstepLoop(stage.conductor)) as runner:
            runner.run(main())
    finally:
        stage.clear()
