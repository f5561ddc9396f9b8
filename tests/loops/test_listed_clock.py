"""Does a machine whose clock is set back make a run ask for anything over and over?"""

import json

from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS
from remora.loops.listed.details import DETAILS_AT_ONCE
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import ok
from remora.sources.paging import ListSettings
from tests.loops.listed_rig import ListedRig, SmallArchive


def test_after_a_clock_that_steps_back_a_detail_that_lags_behind_its_list_is_asked_for_once_per_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(DETAILS_AT_ONCE + 20), settings=ListSettings(page_size=500))
        newest = [f"c{number}" for number in range(20, DETAILS_AT_ONCE + 20)]
        rig.archive.spoiled = {key: ok(json.dumps({"id": key, "update_time": 0}).encode()) for key in newest}
        await rig.run(RunOptions(max_fetches=1))
        clock.step_wall(-DAY_NS)
        summary = await rig.run()
        assert rig.archive.requests("detail") == dict.fromkeys(rig.archive.truth(), 1)
        assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, DETAILS_AT_ONCE)

    run(main)
