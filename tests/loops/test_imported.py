"""Does a mirror that began with a dump become equal to the source, without fetching the dump again?"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from remora.core.ledger.sampling import draw_ids
from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import ServiceSettings
from remora.loops.verify import Finding, Verify, item_again
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.importing import import_files
from remora.sim.checks import compare
from remora.sim.clock import SimClock
from remora.sim.provider import Provider
from remora.sim.world import World, WorldSettings
from remora.stores.sqlite import InPlace, SqliteStore
from tests.loops.rig import DAY_NS, MINUTE_NS, NAME, Rig, in_virtual_time

# Five days of history; the rescan looks at the last three.
WORLD: Final = WorldSettings(items=1_000, new_per_day=200, absent_share=0.02)
OFTEN: Final = ServiceSettings(rescan=RescanSettings(every_ns=20 * MINUTE_NS))
SAMPLE: Final = 50


def imported(path: Path) -> list[int]:
    """A store that holds a dump of the world's first moment; returns the ids that the dump has."""
    bodies = dict(World(WORLD).dump(WORLD.start_ns))
    dump = path.with_name("dump.ndjson")
    dump.write_bytes(b"".join(body.replace(b"\n", b" ") + b"\n" for body in bodies.values()))
    settings = load(Flags(store=f"sqlite:///{path}", source=NAME), {})
    asyncio.run(import_files(settings, NAME, [dump], tell=lambda _file, _rows: None))
    return sorted(bodies)


def requested(rig: Rig) -> Counter[int]:
    """How often each item was asked for."""
    items = ((path, count) for path, count in rig.provider.arrivals.counts().items() if path.startswith("/v0/item/"))
    return Counter({int(path.removeprefix("/v0/item/").removesuffix(".json")): count for path, count in items})


@pytest.mark.slow
def test_import_verify_up_and_a_rescan_make_the_mirror_equal_to_the_world_and_fetch_nothing_twice(
    tmp_path: Path,
) -> None:
    held = imported(tmp_path / "remora.db")

    async def main(clock: SimClock) -> None:
        store = SqliteStore(tmp_path / "remora.db", offload=InPlace)
        await store.open()
        truth = World(WORLD)
        # The world moves on for a quarter of an hour and then rests: a moving one is never equal to a copy of it.
        rests_ns = WORLD.start_ns + 15 * MINUTE_NS
        provider = Provider(truth, now=lambda: min(clock.true_ns(), rests_ns), ticks=clock.monotonic_ns)
        rig = Rig(clock, truth, provider, store)
        async with rig.process() as process:
            await process.collector.newest()
            sample = draw_ids(await store.coverage(NAME), SAMPLE, below=clock.random.randrange)
            findings = await Verify(NAME, process.collector, store, width=8).run(map(item_again, sample))
            assert findings == {Finding.SAME: SAMPLE}
        assert requested(rig) == Counter(sample)
        # The service asks for what the dump lacks, for what is announced, and twice for everything young: a dump may be
        # old, and a rescan comes after it.
        await rig.live_for(45 * MINUTE_NS, settings=OFTEN)
        mirror = [pair async for pair in store.bodies(NAME)]
        await store.close()
        assert compare(mirror, truth.dump(rests_ns)) == []
        assert truth.max_id(rests_ns) > WORLD.items
        old = [each for each in held if truth.life(each).assigned_ns < WORLD.start_ns - 4 * DAY_NS]
        assert len(old) > SAMPLE
        changed = {each for each in old if truth.body(each, rests_ns) != truth.body(each, WORLD.start_ns)}
        again = requested(rig) - Counter(sample)
        assert {each for each in old if again[each]} <= changed
        assert {each for each in range(1, WORLD.items + 1) if each not in held} <= set(again)

    in_virtual_time(main, seed=1)
