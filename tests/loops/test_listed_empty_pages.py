"""When is a page without entries the end of the list? Not while the page itself says that more entries follow."""

import json
from collections.abc import Mapping

import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.ledger.walk_circle import EMPTY_PAGES_TOLD_MAX
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import Response, ok
from remora.sources.listed import ListSettings, Paging
from tests.loops.listed_rig import ListedRig, SmallArchive

PAGES = 40
SHOWN = {0: "c2", 25: "c1", 39: "c0"}  # the pages that show an entry


class Sparse(SmallArchive):
    """A list by cursor with long stretches of pages whose entries are not for us."""

    def __init__(self, *, around: int | None = None) -> None:
        super().__init__(3)
        self._around = around  # the page after which the cursor leads back to page 1

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        answer = super().respond(target, headers, body)
        if not self.asked[-1].startswith("page"):
            return answer
        at = int(self.asked[-1].removeprefix("page ") or "0")
        key = SHOWN.get(at)
        mine = [] if key is None else [{"id": key, "update_time": self._marks[key], "is_member": True}]
        others = [{"id": f"other {at}", "update_time": 0, "is_member": False}]
        following = 1 if at == self._around else at + 1 if at + 1 < PAGES else None
        told = {"more": following is not None, "next_cursor": following}
        return ok(json.dumps({"items": mine, "all": mine + others, **told}).encode())


TOLD = ListSettings(path="/cursor", paging=Paging.CURSOR, more="more")
FILTERED = ListSettings(path="/cursor", paging=Paging.CURSOR, entries="all[?is_member]")


@pytest.mark.parametrize(
    "settings",
    [TOLD, ListSettings(path="/cursor", paging=Paging.CURSOR, end="!more"), FILTERED],
    ids=["more", "end", "filtered"],
)
def test_a_long_stretch_of_empty_pages_is_not_the_end_where_the_page_says_that_more_follows(
    settings: ListSettings,
) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Sparse(), settings=settings)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.requests("page").total() == PAGES
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("settings", [TOLD, FILTERED], ids=["more", "filtered"])
def test_empty_pages_that_lead_back_to_one_that_was_read_are_a_contradiction(settings: ListSettings) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Sparse(around=20), settings=settings)
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "leads back to a page that was read before" in summary.because

    run(main)


class Endless(SmallArchive):
    """A list by cursor that says "more" for ever, with a new cursor each time."""

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        answer = super().respond(target, headers, body)
        if not self.asked[-1].startswith("page"):
            return answer
        at = int(self.asked[-1].removeprefix("page ") or "0")
        entries = [] if at else [{"id": key, "update_time": mark} for key, mark in self._marks.items()]
        return ok(json.dumps({"items": entries, "more": True, "next_cursor": at + 1}).encode())


@pytest.mark.slow
def test_a_list_that_says_more_for_ever_ends_the_run_and_the_next_one_goes_on_behind_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Endless(1), settings=TOLD)
        told = await rig.run()
        assert told.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "say that more follow" in told.because
        assert rig.archive.requests("page").total() == EMPTY_PAGES_TOLD_MAX + 1
        rig.archive.asked.clear()
        await rig.run(RunOptions(max_fetches=3))
        assert f"page {EMPTY_PAGES_TOLD_MAX + 1}" in rig.archive.asked[:2]

    run(main)
