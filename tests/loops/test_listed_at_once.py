"""Are details asked for at once, within every bound that one after the other keeps?"""

from itertools import pairwise

import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.limits import Limit
from remora.sim.replies import NOT_FOUND, SERVER_ERROR, Response, rate_limited
from remora.sources.paging import ListSettings
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.warm_start import learned_pace

FAST_NS = 20 * MILLISECOND_NS  # 50/s
LATENCY_NS = 200 * MILLISECOND_NS


def rig_of(clock: SimClock, archive: SmallArchive) -> ListedRig:
    settings = ListSettings(page_size=100)
    return ListedRig(clock, archive, settings=settings, ceiling_ns=FAST_NS, latency_ns=LATENCY_NS, in_flight=16)


async def most_at_once(clock: SimClock, in_flight: int) -> int:
    """How many requests of a run at a learned pace were under way together."""
    rig = rig_of(clock, SmallArchive(300))
    await rig.store.save_pace(NAME, learned_pace(50.0, now_wall_ns=clock.wall_ns()))
    assert (await rig.run(RunOptions(in_flight=in_flight))).stopped_by is StoppedBy.COMPLETE
    assert await rig.is_complete()
    sent_ns = rig.archive.departures_ns
    assert min(later - earlier for earlier, later in pairwise(sent_ns)) >= FAST_NS * 0.99, "the ceiling holds"
    return max(sum(at <= other < at + LATENCY_NS for other in sent_ns) for at in sent_ns)


@pytest.mark.slow
def test_in_flight_has_an_effect_and_the_ceiling_holds() -> None:
    async def main(clock: SimClock) -> None:
        one, sixteen = await most_at_once(clock, 1), await most_at_once(clock, 16)
        assert one < sixteen / 2, (one, sixteen)

    run(main)


@pytest.mark.parametrize("most", [1, 7, 20, 33])
def test_the_budget_of_requests_is_never_crossed_also_with_faults(most: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, SmallArchive(60))
        rig.archive.hook = lambda asked: SERVER_ERROR if len(rig.archive.asked) % 5 == 0 else None
        summary = await rig.run(RunOptions(max_fetches=most, in_flight=16))
        assert len(rig.archive.asked) <= most, summary

    run(main)


def test_refusals_that_come_together_do_not_end_a_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, SmallArchive(90))
        refused_until_ns = 0

        def hook(asked: str) -> Response | None:
            nonlocal refused_until_ns
            if len(rig.archive.asked) == 40:
                refused_until_ns = clock.monotonic_ns() + 2 * SECOND_NS
            return rate_limited(None) if clock.monotonic_ns() < refused_until_ns else None

        rig.archive.hook = hook
        summary = await rig.run(RunOptions(in_flight=16))
        assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 0)
        assert await rig.is_complete()

    run(main)


@pytest.mark.slow
def test_a_limit_is_met_without_a_storm_and_everything_is_collected() -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(200, limit=Limit(kind="fixed_window", count=60))
        rig = rig_of(clock, archive)
        for _ in range(6):
            if (await rig.run(RunOptions(in_flight=16))).stopped_by is StoppedBy.COMPLETE:
                break
            await rig.wait(10 * MINUTE_NS)
        assert await rig.is_complete()

    run(main)


def test_what_is_gone_or_wrong_stays_a_gap_of_its_own() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, SmallArchive(60))
        rig.archive.spoiled = {f"c{number}": NOT_FOUND for number in (3, 30, 59)}
        summary = await rig.run(RunOptions(in_flight=16))
        assert summary.owed == 3
        assert set(await rig.mirror()) == set(rig.archive.truth()) - set(rig.archive.spoiled)

    run(main)


def test_a_run_out_of_time_leaves_the_rest_owed_and_the_next_one_collects_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, SmallArchive(90))
        summary = await rig.run(RunOptions(in_flight=16, max_wall_ns=3 * SECOND_NS))
        assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
        assert (await rig.run(RunOptions(in_flight=16))).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert max(rig.archive.requests("detail").values()) == 1

    run(main)
