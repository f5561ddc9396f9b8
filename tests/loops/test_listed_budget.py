"""Does a run with a budget get on with everything, also if its walk alone would use all of it?"""

import pytest

from remora.core.item import Order
from remora.core.ledger.run import StoppedBy
from remora.core.units import HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sources.paging import ListSettings
from tests.loops.listed_rig import ListedRig, SmallArchive

UNSORTED = ListSettings(
    page_size=10, order=Order.NONE
)  # every walk reads the whole list, with at least one request for ten entries


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [RunOptions(max_fetches=4), RunOptions(max_fetches=1), RunOptions(max_wall_ns=4 * SECOND_NS)]
)
def test_details_are_fetched_although_every_walk_is_longer_than_the_budget(options: RunOptions) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40), settings=UNSORTED)
        for _ in range(80):
            await rig.run(options)
            await rig.wait(HOUR_NS)
        assert await rig.is_complete()

    run(main)


def test_a_walk_uses_half_of_the_budget_while_details_are_owed_and_all_of_it_otherwise() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(300), settings=UNSORTED)
        first = await rig.run(RunOptions(max_fetches=20))
        second = await rig.run(RunOptions(max_fetches=20))
        assert [first.counts.pages, second.counts.pages] == [20, 10]
        assert first.stopped_by is second.stopped_by is StoppedBy.MAX_FETCHES
        assert second.counts.requests == 20
        assert second.because == "all 20 requests that the run may send are sent"

    run(main)


@pytest.mark.slow
def test_what_the_details_leave_of_the_budget_goes_to_the_walk() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(100), settings=UNSORTED)
        await rig.run(RunOptions(max_fetches=2))
        last = await rig.run(RunOptions(max_fetches=1_000))
        assert last.stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)
