"""What is lost or repeated when a run is killed? Nothing is lost, and at most one page and one detail are repeated."""

import asyncio
import random
from pathlib import Path
from statistics import median

import pytest

from remora.contracts import Store
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Kind, fingerprint
from remora.core.ledger.gap import ATTEMPTS_BEFORE_DEAD
from remora.core.ledger.run import StoppedBy
from remora.core.rate.pace_record import Restore
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.limits import Limit
from remora.sim.listed import Archive, ArchiveSettings
from remora.sim.provider import Provider
from remora.sim.replies import Answer
from remora.sim.world import World, WorldSettings
from remora.sources.paging import ListSettings
from remora.stores.memory import MemoryStore
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive, sqlite_store

ENTRIES = 12
RUNS_MAX = 60
RECENT = 20  # entries at the top of the list
PAGES = 6  # of five entries, some of them shown twice


async def killed(rig: ListedRig, life: Generation, options: RunOptions | None = None) -> bool:
    """A run in a process that dies; whether it did."""

    async def life_of_it() -> None:
        async with rig.process(life) as process:
            await process.run(options).run_once()

    try:
        await life.live(life_of_it())
    except Crashed:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_kill_at_any_call_repeats_at_most_one_page_and_one_detail(
    store: str, after_effect: bool, tmp_path: Path
) -> None:
    """Every third call (of SQLite every 19th) to the store, the clock or the transport is the last one once."""

    small_pages = ListSettings(page_size=5)

    async def attempt(clock: SimClock, rig: ListedRig, die_at: int) -> bool:
        died = await killed(rig, Generation(die_at_call=die_at, after_effect=after_effect))
        if died:
            await rig.wait(HOUR_NS)
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert await rig.store.gap_counts(NAME) == ()
        pages, details = rig.archive.requests("page"), rig.archive.requests("detail")
        assert details.total() <= ENTRIES + 1
        # One page again, and where the walk was cut off in the middle, the top once more for what came since.
        assert pages.total() <= PAGES + 1 + 3
        return died

    async def main(clock: SimClock) -> None:
        die_at, step = 1, 3 if store == "memory" else 19
        while True:
            archive = SmallArchive(ENTRIES)
            if store == "memory":
                died = await attempt(clock, ListedRig(clock, archive, settings=small_pages), die_at)
            else:
                async with sqlite_store(tmp_path / f"{die_at}.db") as opened:
                    died = await attempt(clock, ListedRig(clock, archive, opened, small_pages), die_at)
            if not died:
                break
            die_at += step
        assert die_at > 100

    run(main)


def hot_account(clock: SimClock, archive: Archive, store: Store | None = None) -> ListedRig:
    """A rig in front of a simulated archive that wants a token and heats up."""
    provider = Provider(World(WorldSettings(items=10)), now=clock.true_ns, ticks=clock.monotonic_ns, archive=archive)
    return ListedRig(
        clock,
        SmallArchive(),
        store or MemoryStore(),
        ListSettings(page_size=100, total="total"),
        ceiling_ns=SECOND_NS // 4,
        provider=provider,
        url="http://sim/archive",
        headers={"Authorization": f"Bearer {archive.settings.token}"},
    )


async def killed_at_random(rig: ListedRig, chance: random.Random) -> bool:
    """A run of fifteen minutes that is killed at a random moment, unless it has ended by then."""
    life = Generation()
    loop = asyncio.get_running_loop()
    timer = loop.call_later(chance.uniform(60, 15 * 60), life.crash)
    died = await killed(rig, life, RunOptions(max_wall_ns=15 * MINUTE_NS))
    timer.cancel()
    return died


@pytest.mark.slow
def test_5800_conversations_behind_a_hot_account_are_complete_after_runs_that_are_all_killed() -> None:
    """The account heats after 150 requests, cools in minutes and answers bare 429s. Only the last run ends by itself."""

    async def main(clock: SimClock) -> None:
        archive = Archive(
            ArchiveSettings(
                conversations=5_800,
                added_per_day=0,
                removed_share=0,
                gone_share=0,
                malformed_share=0,
                limit=Limit(kind="heat", count=150, cools_in_s=240),
                start_ns=clock.true_ns() - 60 * DAY_NS,  # long ago: nothing changes any more
            )
        )
        rig, chance = hot_account(clock, archive), random.Random(7)
        paces_per_s: list[float] = []
        for _ in range(RUNS_MAX):
            if not await killed_at_random(rig, chance):
                break
            async with rig.process() as process:
                state = process.governor.state()
            assert state.restored is Restore.WARM, "a kill does not forget the learned pace"
            paces_per_s.append(SECOND_NS / state.interval_ns)
            await rig.wait(MINUTE_NS)
        assert len(paces_per_s) > 10, "the runs were killed"
        assert rig.provider is not None
        assert await rig.mirror() == archive.readable(clock.true_ns())
        requests = len(rig.provider.arrivals)
        assert requests <= 1.10 * (5_800 + 62), "one per item, the pages, and hardly anything else"
        # It compounds: what the first runs learned, the later ones start from. The account bears 150 requests in 240 s.
        assert 0.5 < median(paces_per_s[3:]) < 1.0, paces_per_s
        refused = rig.meter.verdicts[NAME, Lane.DETAIL, "Pressure"]
        assert refused < 0.02 * requests

    run(main)


@pytest.mark.slow
def test_a_living_archive_is_complete_once_it_rests_however_often_its_runs_were_killed(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        settings = ArchiveSettings(conversations=900, added_per_day=400, removed_share=0.05, large_share=0)
        archive = Archive(settings)
        async with sqlite_store(tmp_path / "remora.db") as store:
            rig, chance = hot_account(clock, archive, store), random.Random(3)
            for _ in range(12):
                await killed_at_random(rig, chance)
                await rig.wait(chance.randrange(HOUR_NS))
            for _ in range(3):
                await rig.wait(HOUR_NS)
                await rig.run(RunOptions(force=True))
            mirror, truth = await rig.mirror(), archive.readable(clock.true_ns())
            changed = {key for key in truth if mirror.get(key) != truth[key]}
            updated_since = {line.key for line in archive.listing(clock.true_ns())[:RECENT]}
            assert changed <= updated_since, "only what changed while the last run was at work may differ"
            owed = {gap.key for gap in await store.gaps(NAME) if gap.kind is Kind.DOCUMENT}
            odd = {line.key for line in archive.listing(clock.true_ns())} - set(truth)
            gone = {key for key in mirror if key not in truth}
            assert {fingerprint(NAME, key) for key in odd - gone} <= owed, "what cannot be had is owed"

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_kill_at_any_call_does_not_make_a_dead_entry_that_is_listed_anew_wait_for_a_week(after_effect: bool) -> None:
    async def attempt(clock: SimClock, die_at: int) -> bool:
        rig = ListedRig(clock, SmallArchive(3))
        rig.archive.spoiled = {"c1": Answer(403, b"{}")}
        for _ in range(ATTEMPTS_BEFORE_DEAD):
            await rig.run()
            await rig.wait(13 * HOUR_NS)
        assert (await rig.run()).dead == 1
        rig.archive.spoiled = {}
        rig.archive.add("c1")
        died = await killed(rig, Generation(die_at_call=die_at, after_effect=after_effect))
        for _ in range(2):
            await rig.wait(HOUR_NS)
            await rig.run()
        assert await rig.is_complete(), f"killed at call {die_at}"
        return died

    async def main(clock: SimClock) -> None:
        die_at = 1
        while await attempt(clock, die_at):
            die_at += 2  # most calls read the clock: before and after one of them is the same moment

    run(main)
