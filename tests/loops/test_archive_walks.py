"""Is every entry of a list that moves under the walk collected, whatever happens to it?"""

import pytest

from remora.core.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS
from remora.sim.clock import SimClock, run
from remora.sources.paging import Paging
from tests.loops.archive_rig import PAGINGS, ArchiveRig, SmallArchive


@pytest.mark.parametrize("paging", PAGINGS)
def test_a_run_collects_everything_that_is_listed(paging: Paging) -> None:
    async def main(clock: SimClock) -> None:
        rig = ArchiveRig(clock, SmallArchive(57), settings=PAGINGS[paging])
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE, summary
        assert (summary.owed, summary.counts.outcomes["new"]) == (0, 57)
        assert await rig.is_complete()
        assert max(rig.archive.requests("detail").values()) == 1

    run(main)
