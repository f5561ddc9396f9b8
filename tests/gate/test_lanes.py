"""Does each lane get its share at the gate, and does a live item wait for nobody for long? All lanes saturated."""

import asyncio
from collections import Counter

import pytest

from remora.core.lanes import LIVE_OVERTAKEN_AT_MOST, ORDER, SHARE_PERCENT, Lane
from remora.core.rate.pacing import burst_allowance
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.gate.admission_queue import AdmissionQueue
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import gate, simulated, warm

pytestmark = pytest.mark.slow


def live_slots_at_most(interval_ns: int) -> int:
    """More than the lanes allow: what already has its turn is not called back, and more leaves while the jitter lasts."""
    return LIVE_OVERTAKEN_AT_MOST + 2 * burst_allowance(interval_ns)


@pytest.mark.parametrize("rate_per_s, in_flight", [(4, 1), (50, 8), (250, 64), (2_000, 128)])
def test_with_all_lanes_saturated_each_gets_its_share_and_nothing_starves(rate_per_s: int, in_flight: int) -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // rate_per_s, in_flight=in_flight)
        async with gate(clock, limits, book=warm(clock, limits)) as busy:
            for_ns = max(4 * SECOND_NS, 2_000 * limits.ceiling_interval_ns)
            await asyncio.gather(*(busy.send_until(for_ns, lane, workers=in_flight + 4) for lane in ORDER))
            counts = Counter(lane for _, lane in busy.departures)
            total = len(busy.departures)
            for lane in ORDER:
                assert counts[lane] >= 0.97 * SHARE_PERCENT[lane] / 100 * total - 3
            assert counts[Lane.LIVE] == max(counts.values())

    simulated(main)


@pytest.mark.parametrize("rate_per_s, in_flight", [(4, 4), (50, 8), (100, 16), (250, 64), (1_000, 128)])
def test_a_flood_in_every_other_lane_delays_a_live_item_by_a_stated_number_of_slots(
    rate_per_s: int, in_flight: int
) -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // rate_per_s, in_flight=in_flight)
        async with gate(clock, limits, book=warm(clock, limits)) as flooded:
            until_ns = max(10 * SECOND_NS, 500 * limits.ceiling_interval_ns)
            floods = [
                asyncio.ensure_future(flooded.send_until(until_ns, lane, workers=in_flight + 5))
                for lane in ORDER
                if lane is not Lane.LIVE
            ]
            overtaken = []
            while clock.monotonic_ns() < until_ns - SECOND_NS:
                await clock.sleep_until(clock.monotonic_ns() + clock.random.randrange(SECOND_NS))
                before = len(flooded.departures)
                await flooded.send(Lane.LIVE)
                lanes = [lane for _, lane in flooded.departures[before:]]
                overtaken.append(lanes.index(Lane.LIVE))
            await asyncio.gather(*floods)
            assert len(overtaken) >= 10
            assert max(overtaken) <= live_slots_at_most(limits.ceiling_interval_ns)

    simulated(main)


def test_a_live_item_is_not_overtaken_by_everything_that_stands_ready_at_once_after_a_stall() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 50, in_flight=64)

        def connects_ns() -> int:
            """Every third second no connection opens, and then all of them do at once."""
            into_ns = clock.monotonic_ns() % (3 * SECOND_NS)
            return max(0, SECOND_NS - into_ns)

        async with gate(clock, limits, book=warm(clock, limits)) as stalling:
            until_ns = 30 * SECOND_NS

            async def flood(lane: Lane) -> None:
                while clock.monotonic_ns() < until_ns:
                    await stalling.send(lane, connect_ns=connects_ns())

            lanes = [lane for lane in ORDER if lane is not Lane.LIVE for _ in range(64)]
            floods = [asyncio.ensure_future(flood(lane)) for lane in lanes]
            overtaken = []
            while clock.monotonic_ns() < until_ns - SECOND_NS:
                await clock.sleep_until(clock.monotonic_ns() + clock.random.randrange(SECOND_NS // 2))
                before = len(stalling.departures)
                await stalling.send(Lane.LIVE)
                overtaken.append([lane for _, lane in stalling.departures[before:]].index(Lane.LIVE))
            await asyncio.gather(*floods)
            assert max(overtaken) <= live_slots_at_most(limits.ceiling_interval_ns)

    simulated(main)


def test_a_lone_lane_gets_the_whole_rate() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 50, in_flight=8)
        async with gate(clock, limits, book=warm(clock, limits)) as calm:
            await calm.send_until(MINUTE_NS, Lane.BACKFILL, workers=12)
            assert len(calm.departures) >= 0.98 * 50 * 60

    simulated(main)


def test_a_canary_takes_one_turn_and_leaves_the_others_in_their_places() -> None:
    async def main(clock: SimClock) -> None:
        queue, now_ns = AdmissionQueue(), clock.monotonic_ns()
        queue.join_many(Lane.LIVE, 3, lambda _permit: None, ready_at_ns=now_ns)
        queue.join(Lane.LIVE, ready_at_ns=now_ns, is_canary=True)
        _, canary = queue.take_next(queue.lanes(), now_ns=now_ns)
        assert (canary.is_canary, canary.left, len(queue)) == (True, 0, 3)

    simulated(main)
