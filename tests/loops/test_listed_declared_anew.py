"""What if the owner corrects a declaration between two runs? What the old one left must not hide what changes."""

import json
from collections.abc import Mapping, Sequence

import msgspec

from remora.core.ledger.run import StoppedBy
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import Response
from remora.sources.listed import DetailSettings
from tests.loops.listed_rig import ListedRig, SmallArchive


class NumberedArchive(SmallArchive):
    """Entries have a number, too. It is higher than every update mark, and stays when an entry changes."""

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": key, "number": 50_000 + int(key[1:]), "update_time": mark} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


def mistaken(clock: SimClock) -> ListedRig:
    """A rig whose declaration takes the number for the update mark."""
    rig = ListedRig(clock, NumberedArchive(30), detail=DetailSettings(key="id"))
    rig.settings = msgspec.structs.replace(rig.settings, updated="number")
    return rig


def correct(rig: ListedRig) -> None:
    rig.settings = msgspec.structs.replace(rig.settings, updated="update_time")


def test_changes_are_found_after_the_place_of_the_update_mark_was_corrected() -> None:
    async def main(clock: SimClock) -> None:
        rig = mistaken(clock)
        await rig.run()
        assert await rig.is_complete()
        correct(rig)
        rig.archive.add("c7")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        rig.archive.add("c3")
        rig.archive.asked.clear()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert rig.archive.requests("detail") == {"c3": 1}  # the others were asked for once, by the run before

    run(main)


def test_a_walk_that_the_old_declaration_left_unfinished_begins_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = mistaken(clock)
        await rig.run(RunOptions(max_fetches=2))
        correct(rig)
        rig.archive.add("c29", "c28")
        await rig.run()
        assert await rig.is_complete()

    run(main)


class FilteredArchive(SmallArchive):
    """Shows no entry that is old, unless it is asked for all."""

    shows_all = False

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        self.shows_all = query.get("state") == "all"
        return super()._page(path, query)

    def listing(self) -> list[tuple[str, int]]:
        return [line for line in super().listing() if self.shows_all or int(line[0][1:]) >= 15]


def test_after_the_filter_of_the_list_was_widened_the_next_run_finds_the_older_entries() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, FilteredArchive(30))
        rig.settings = msgspec.structs.replace(rig.settings, path="/list?state=open", page_size=5)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert not await rig.is_complete()
        rig.settings = msgspec.structs.replace(rig.settings, path="/list?state=all")
        rig.archive.asked.clear()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert rig.archive.requests("detail") == {f"c{number}": 1 for number in range(15)}

    run(main)


def test_the_same_declaration_asks_for_nothing_twice() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        await rig.run()
        rig.settings = msgspec.structs.replace(rig.settings, page_size=7)
        rig.archive.asked.clear()
        await rig.run()
        assert not rig.archive.requests("detail")

    run(main)
