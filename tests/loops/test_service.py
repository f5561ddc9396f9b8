"""Do all loops together keep the mirror fresh, one beside the other, and stop as one?"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from remora.contracts import Observation, Outcome, Permit
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.pacing import burst_allowance
from remora.core.verdict import NoReply, Reply
from remora.loops.numbered.inbox import WorkersDead
from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import ServiceSettings
from remora.sim.checks import worst_window
from remora.sim.clock import SimClock
from remora.sim.faults import NO_FAULTS, Faults, Flood, Outage, StreamFaults
from remora.sim.lives import Chances
from remora.sim.transport import SimTransport
from remora.sim.world import WorldSettings
from remora.stores.memory import MemoryStore
from tests.loops.rig import DAY_NS, HOUR_NS, MINUTE_NS, NAME, SECOND_NS, Rig, in_virtual_time
from tests.loops.test_live import delays_s

pytestmark = pytest.mark.slow


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


# ── one beside the other ────────────────────────────────────────────────────────────────────────────────────────────

# Every new item is readable at once, so that its delay is ours alone.
PUNCTUAL = replace(Chances(), late=0.0, delayed=0.0)
MILLION = 1_000_000
PER_SECOND = 40
ALONE = ServiceSettings(backfill=False, rescan=None)
CLIMB_NS = MINUTE_NS  # from one request per second to the ceiling
MEASURED_NS = 4 * MINUTE_NS


@dataclass(frozen=True, slots=True)
class Measured:
    """What new items waited for, and how busy the gate was meanwhile."""

    p99_s: float
    share_of_ceiling: float
    backfill_left: int


def measured(settings: ServiceSettings = ALONE, faults: Faults = NO_FAULTS, *, history: int = 20_000) -> Measured:
    async def main(clock: SimClock) -> Measured:
        world = WorldSettings(items=history, new_per_day=43_200, chances=PUNCTUAL)
        rig = Rig.make(clock, world=world, faults=faults, ceiling_ns=SECOND_NS // PER_SECOND)
        await rig.live_for(CLIMB_NS + MEASURED_NS, settings=settings)
        times_ns = rig.provider.arrivals.times_ns
        worst = worst_window(times_ns, rig.ceiling_ns, burst_allowance(rig.ceiling_ns))
        assert worst.excess <= 0
        delays = await delays_s(rig, history + 60)
        assert len(delays) > 80
        requests = sum(at_ns >= CLIMB_NS for at_ns in times_ns)
        left = (await rig.store.open_segments(NAME)).get(SegmentKind.BACKFILL, 0)
        return Measured(percentile(delays, 99), requests * rig.ceiling_ns / MEASURED_NS, left)

    return in_virtual_time(main)


@pytest.mark.slow
def test_a_backfill_of_a_million_ids_at_the_ceiling_does_not_delay_new_items() -> None:
    alone = measured(history=MILLION)
    beside = measured(ServiceSettings(backfill=True, rescan=None), history=MILLION)
    print(f"p99 of the delay: {alone.p99_s:.2f} s alone, {beside.p99_s:.2f} s beside {beside.backfill_left:,} ids")
    assert beside.backfill_left > MILLION - PER_SECOND * 5 * 60, "nearly all of it was pending all the time"
    assert beside.share_of_ceiling > 0.98, "the gate was not busy"
    assert beside.p99_s <= 2 * alone.p99_s
    assert beside.p99_s <= 2.0


@pytest.mark.slow
def test_a_flood_of_old_ids_does_not_delay_new_items() -> None:
    flood = Faults(stream=StreamFaults(floods=(Flood(0, 10_000, ids_per_second=200),)))
    flooded = measured(faults=flood)
    assert flooded.share_of_ceiling > 0.98, "the gate was not busy"
    assert flooded.p99_s <= 2 * measured().p99_s


def test_history_is_read_beside_the_live_edge_until_everything_is_covered() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=3_000))
        await rig.live_for(2 * MINUTE_NS)
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert covered.start == 1
        assert covered.end >= 3_010

    in_virtual_time(main)


def test_without_backfill_history_stays_uncovered() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=3_000))
        await rig.live_for(2 * MINUTE_NS, settings=ServiceSettings(backfill=False))
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert covered.start == 3_000
        assert await rig.store.open_segments(NAME) == {}

    in_virtual_time(main)


def test_after_a_long_absence_without_backfill_the_ids_between_are_repaired_all_the_same() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        settings = ServiceSettings(backfill=False)
        await rig.live_for(MINUTE_NS, settings=settings)
        await clock.sleep_until(clock.monotonic_ns() + 3 * HOUR_NS)
        await rig.live_for(5 * MINUTE_NS, settings=settings)
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert covered.start == 1_000
        assert len(covered) > 1_500

    in_virtual_time(main)


# ── ordering ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Overtaken(SimTransport):
    """The first request is answered last, with what was true when it was asked."""

    asked = 0

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.asked += 1
        is_first = self.asked == 1
        reply = await super().get(url, permit, headers=headers)
        if is_first:
            await asyncio.sleep(4 * 3_600)
        return reply


def test_an_answer_that_was_overtaken_never_rolls_an_item_back() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=2_000))
        # A story whose score grows while the slow answer is on its way.
        story = next(item_id for item_id in range(1_950, 0, -1) if rig.world.life(item_id).score_steps > 5)
        async with rig.process(transport=Overtaken(rig.provider, clock)) as process:
            slow = asyncio.get_running_loop().create_task(
                process.collector.collect(Discovery.item(story, via=Lane.RESCAN))
            )
            await asyncio.sleep(3 * 3_600)
            assert await process.collector.collect(Discovery.item(story, via=Lane.UPDATE)) is Outcome.NEW
            newer = await rig.store.item(NAME, story)
            assert await slow is Outcome.STALE
            assert await rig.store.item(NAME, story) == newer

    in_virtual_time(main)


@pytest.mark.slow
def test_moved_comments_new_ranks_and_deaths_are_followed_and_the_earlier_words_stay_readable() -> None:
    chances = replace(Chances(), deleted=0.1, dead=0.1, edited=0.2)

    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(seed=2, items=300, new_per_day=300, chances=chances))
        settings = ServiceSettings(rescan=RescanSettings(window_ns=5 * DAY_NS))
        await rig.live_for(DAY_NS, settings=settings)
        lost_text, moved, reranked = 0, 0, 0
        for item_id in range(1, 590):
            for stored in await rig.store.revisions(NAME, item_id):
                now = await rig.store.item(NAME, item_id)
                assert now is not None
                before, after = json.loads(stored.body), json.loads(now.body)
                lost_text += "text" in before and after.get("text") in {None, "[dead]", "[flagged]"}
                moved += before.get("parent") != after.get("parent")
                reranked += before.get("kids") != after.get("kids")
        assert lost_text > 10
        assert moved > 0
        assert reranked > 10
        # A change is told within seconds, or found by the next pass.
        assert len({difference.item_id for difference in await rig.differences()}) <= 10

    in_virtual_time(main)


# ── supervision ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_gives_back_what_is_held_within_ten_seconds() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=20_000))
        async with rig.process() as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            await asyncio.sleep(30)
            asked_ns = clock.monotonic_ns()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert clock.monotonic_ns() - asked_ns <= 10 * SECOND_NS
        claimed = await rig.store.claim(
            NAME, (SegmentKind.BACKFILL,), owner="two", lease_ns=SECOND_NS, now_ns=clock.wall_ns()
        )
        assert claimed is not None
        assert claimed.ids.end == 19_999 or claimed.cursor >= claimed.ids.start, "the segment in work is free at once"

    in_virtual_time(main)


def test_a_provider_that_is_away_at_the_start_leaves_the_service_up_and_retrying() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, faults=Faults(outages=(Outage(0, 1_800),)))
        async with rig.process() as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            await asyncio.sleep(1_700)
            assert not running.done()
            state = process.service.state()
            assert state.stream is not None
            assert (state.stream.connected, state.newest_id, state.stream.last_byte_at_ns) == (False, None, None)
            assert all(loop.alive for loop in state.loops.values())
            await asyncio.sleep(1_800)
            state = process.service.state()
            assert state.stream is not None
            assert state.stream.connected
            assert state.newest_id is not None
            assert len(await rig.store.coverage(NAME)) > 900
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)


class Broken(MemoryStore):
    """A store with a mistake of ours in it, met only by what the stream announces."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        if observation.discovery.via is Lane.UPDATE:
            raise RuntimeError("a mistake of our own")
        return await super().record(source, observation)


def test_when_no_update_worker_is_left_the_service_ends_with_the_reason() -> None:
    async def main(clock: SimClock) -> None:
        await Rig.make(clock, store=Broken()).live_for(HOUR_NS)

    async def alone(clock: SimClock) -> None:
        rig = Rig.make(clock, store=Broken())
        async with rig.process() as process:
            await process.service.run()

    with pytest.raises(WorkersDead, match="RuntimeError"):
        in_virtual_time(alone)
    with pytest.raises(AssertionError, match="ended by itself"):
        in_virtual_time(main)


@pytest.mark.slow
def test_every_number_an_operator_watches_moves_when_it_should() -> None:
    async def main(clock: SimClock) -> None:
        faults = Faults(stream=StreamFaults(drops_per_hour=6))
        rig = Rig.make(clock, world=WorldSettings(items=2_000), faults=faults)
        settings = ServiceSettings(rescan=RescanSettings(every_ns=HOUR_NS))
        async with rig.process(settings=settings) as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            await asyncio.sleep(3 * 3_600)
            state = process.service.state()
            assert state.stream is not None
            assert state.stream.connected
            assert clock.wall_ns() - (state.stream.last_byte_at_ns or 0) < MINUTE_NS
            assert clock.wall_ns() - (state.stream.last_event_at_ns or 0) < MINUTE_NS
            assert 5 < state.stream.reconnects < 60
            assert (state.workers_alive, state.worker_restarts) == (8, 0)
            assert state.inbox is not None
            assert state.inbox.depth < 100
            assert state.update_ages.total > 500
            assert state.rescan is not None
            assert state.rescan.processed > 3_000
            assert state.rescan.changed > 10
            assert clock.wall_ns() - (state.rescan.last_success_at_ns or 0) < HOUR_NS + MINUTE_NS
            assert state.newest_id == rig.world.max_id(clock.true_ns() - 5 * SECOND_NS)
            assert clock.wall_ns() - (state.newest_id_at_ns or 0) < MINUTE_NS
            assert set(state.loops) == {
                "updates", "inbox", "live", "recover", "repair", "update_ages", "rescan", "backfill",
            }  # fmt: skip
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            ended = process.service.state()
            assert ended.workers_alive == 0
            assert ended.stream is not None
            assert not ended.stream.connected

    in_virtual_time(main)


def test_profiles_named_by_the_stream_are_fetched() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        await rig.live_for(10 * MINUTE_NS, settings=ServiceSettings(backfill=False))
        names = {rig.world.author(item_id) for item_id in range(1, 1_050)}
        assert len([name for name in names if await rig.store.user(NAME, name) is not None]) > 10

    in_virtual_time(main)


def test_an_id_range_is_what_the_first_start_covers() -> None:
    """The two halves of the first start, history and live, meet without a hole."""

    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=1_500))
        await rig.live_for(MINUTE_NS, settings=ServiceSettings(first_id=501))
        (covered,) = (await rig.store.coverage(NAME)).ranges
        assert covered == IdRange(501, covered.end)
        assert covered.end >= 1_500

    in_virtual_time(main)
