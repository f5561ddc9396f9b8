"""What if the owner corrects a declaration between two runs? What the old one left must not hide what changes."""

import json
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.translation import Means
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import Answer, Response
from remora.sources.listed import DetailSettings, ListSettings, Paging
from remora.sources.rules import Rule
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


class BlockArchive(SmallArchive):
    """Says of every third page that it is the last one of its block. Somebody may take that for the end of the list."""

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        return super()._lines(lines, is_last=self.asked[-1] in {"page 3", "page 6"}, **more)


def test_after_the_end_of_the_list_was_corrected_the_next_run_finds_what_is_behind_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, BlockArchive(80))
        rig.settings = ListSettings(path="/pages", paging=Paging.PAGE, page_size=10, size_param="", end="is_last")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert not await rig.is_complete()
        rig.settings = msgspec.structs.replace(rig.settings, end=None)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        rig.archive.asked.clear()
        await rig.run()
        assert len(rig.archive.asked) < 4  # only the top

    run(main)


def test_after_a_rule_that_ended_the_list_was_taken_out_the_next_run_finds_what_is_behind_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, BlockArchive(80), rules=(Rule("body.is_last", Means.END),))
        rig.settings = ListSettings(path="/pages", paging=Paging.PAGE, page_size=10, size_param="")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert not await rig.is_complete()
        rig.rules = ()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


class WordyArchive(SmallArchive):
    """Shows the whole text of a document only to those who ask for it; entries may have no marks."""

    has_marks = True

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        self.is_whole = "full=1" in target
        return super().respond(target, headers, body)

    def _detail(self, key: str) -> Response:
        return Answer(200, json.dumps({"id": key, "text": "whole" if self.is_whole else "cut"}).encode())

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": key, **({"update_time": mark} if self.has_marks else {})} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


@pytest.mark.parametrize("updated", ["update_time", ""])
def test_after_the_detail_was_declared_anew_every_document_is_asked_for_once_more(updated: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, archive := WordyArchive(25), detail=DetailSettings(key="id"))
        archive.has_marks = bool(updated)
        rig.settings = msgspec.structs.replace(rig.settings, updated=updated)
        await rig.run()
        rig.detail = DetailSettings(path="/detail/{key}?full=1", key="id")
        archive.asked.clear()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert {json.loads(body)["text"] for body in (await rig.mirror()).values()} == {"whole"}
        assert archive.requests("detail") == {f"c{number}": 1 for number in range(25)}
        archive.asked.clear()
        await rig.run()
        assert not archive.requests("detail")

    run(main)


def test_what_a_wrong_detail_left_dead_or_gone_is_asked_for_at_once_when_it_is_declared_anew() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(3), detail=DetailSettings(path="/detail/x/{key}"))
        rig.archive.spoiled = {"x/c0": Answer(410, b""), "x/c1": Answer(403, b""), "x/c2": Answer(404, b"")}
        await rig.run()
        assert not await rig.mirror()
        rig.detail = DetailSettings(key="id")
        await rig.run()
        assert await rig.is_complete()

    run(main)


def test_after_a_detail_became_inline_the_documents_are_those_of_the_list() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, WordyArchive(25), detail=DetailSettings(key="id"))
        await rig.run()
        rig.detail = DetailSettings(inline=True)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert all("update_time" in json.loads(body) for body in (await rig.mirror()).values())

    run(main)


def test_the_same_declaration_asks_for_nothing_twice() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        await rig.run()
        rig.settings = msgspec.structs.replace(rig.settings, page_size=7)
        rig.detail = DetailSettings(key="id")  # without its mark: the documents are the same
        rig.archive.asked.clear()
        await rig.run()
        assert not rig.archive.requests("detail")

    run(main)
