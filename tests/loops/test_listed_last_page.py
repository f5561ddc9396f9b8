"""Is the last page of a list, shown again for every page behind it, told from pages that repeat for another reason?"""

import json
from collections.abc import Mapping

import msgspec
import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response, ok
from remora.sources.listed import DetailSettings, Paging
from tests.loops.listed_rig import PAGINGS, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

CHOSEN = PAGINGS[Paging.PAGE]
FIXED = msgspec.structs.replace(CHOSEN, size_param="")
WAYS = {"size chosen": CHOSEN, "size fixed": FIXED}


class Clamped(SmallArchive):
    """An archive that shows its last page for every page behind it, or the last one that it is willing to show."""

    pages_max = 1_000

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        size = int(query.get("limit", "10"))
        last = min(self.pages_max, max(1, -(-len(self.listing()) // size)))
        return super()._page(path, {**query, "page": str(min(int(query["page"]), last))})


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("entries", [11, 37, 57])
@pytest.mark.parametrize("inline", [True, False])
def test_the_last_page_again_is_the_end_of_the_list(way: str, entries: int, inline: bool) -> None:
    async def main(clock: SimClock) -> None:
        detail = DetailSettings(inline=True) if inline else DetailSettings(key="id", updated="update_time")
        rig = ListedRig(clock, Clamped(entries), settings=WAYS[way], detail=detail)
        for _ in range(3):
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
            assert rig.archive.truth().items() <= (await rig.mirror()).items()
            await rig.wait(8 * DAY_NS)
            rig.archive.add("c3", f"new {len(rig.archive.listing())}")

    run(main)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("die_at", range(10, 130, 17))
def test_the_end_is_found_after_a_kill_wherever_the_walk_was(way: str, die_at: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Clamped(37), settings=WAYS[way], detail=DetailSettings(inline=True))
        await killed(rig, Generation(die_at_call=die_at))
        rig.archive.add("new")
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_budget_that_ends_anywhere_near_the_last_page_does_not_hide_the_end(way: str) -> None:
    async def main(clock: SimClock) -> None:
        for fetches in range(3, 12):
            rig = ListedRig(clock, Clamped(37), settings=WAYS[way], detail=DetailSettings(inline=True))
            for _ in range(3):
                await rig.run(RunOptions(max_fetches=fetches))
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
            assert await rig.is_complete()

    run(main)


def test_a_list_that_moves_by_a_whole_page_while_it_is_walked_does_not_end_there() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(67), settings=FIXED, detail=DetailSettings(inline=True))

        def move(asked: str) -> None:
            if asked in {"page 3", "page 4", "page 5"}:
                rig.archive.add(*(f"{asked} {number}" for number in range(10)))

        rig.archive.hook = move
        await rig.run()
        rig.archive.hook = lambda _asked: None
        await rig.run()
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("entries", [60, 7])
def test_a_full_last_page_or_an_only_page_that_repeats_stays_a_contradiction(entries: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Clamped(entries), settings=FIXED)
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "write list.end if the provider repeats its last page" in summary.because

    run(main)


def test_a_provider_that_shows_no_page_beyond_a_certain_one_is_no_end() -> None:
    async def main(clock: SimClock) -> None:
        archive = Clamped(57)
        archive.pages_max = 3
        assert (await ListedRig(clock, archive, settings=FIXED).run()).stopped_by is StoppedBy.LIST_CONTRADICTS

    run(main)


def test_a_page_number_that_is_ignored_while_the_list_changes_is_no_end() -> None:
    class Ignoring(SmallArchive):
        def _page(self, path: str, query: Mapping[str, str]) -> Response:
            if len(self.asked) == 2:
                self.remove("c56")
            listing = self.listing()[: 10 if len(self.asked) == 1 else 9]
            return super()._page("/all", query) if path != "/pages" else self.shown(listing)

        def shown(self, listing: list[tuple[str, int]]) -> Response:
            return ok(self._lines(listing))

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Ignoring(57), settings=FIXED)
        assert (await rig.run()).stopped_by is StoppedBy.LIST_CONTRADICTS

    run(main)


def test_a_declared_end_stops_at_a_full_last_page() -> None:
    class Telling(Clamped):
        def _page(self, path: str, query: Mapping[str, str]) -> Response:
            answer = super()._page(path, query)
            assert isinstance(answer, Answer)
            pages = -(-len(self.listing()) // 10)
            told = {"page": min(int(query["page"]), pages), "pages": pages}
            return ok(json.dumps({**json.loads(answer.body), **told}).encode())

    async def main(clock: SimClock) -> None:
        settings = msgspec.structs.replace(FIXED, end="page == pages")
        rig = ListedRig(clock, Telling(60), settings=settings)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)
