"""What is said about a list that answers, but not with a list? What is odd about the answer, not that there is none."""

import json
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.reasons import GapReason
from remora.core.units import DAY_NS
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response
from remora.sources.listed import DetailSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

ODD = [
    (Answer(200, b"<html>please log in</html>"), "with a web page instead of data: check the url and the path"),
    (
        Answer(200, b"\n <!DOCTYPE HTML><title>502</title>"),
        "with a web page instead of data: check the url and the path",
    ),
    (Answer(200, b'<?xml version="1.0"?><list/>'), "with a body that cannot be read"),
    (Answer(200, b""), "with a body that cannot be read"),
    (Answer(204, b""), "with the status 204 instead of 200"),
    (Answer(206, b'{"items": []}'), "with the status 206 instead of 200"),
    (Answer(206, b'{"items": []}', {"content-range": "bytes 0-12/900"}), "with the status 206 instead of 200"),
    (Answer(206, b'{"items": []}', {"content-range": "*/*"}), "with the status 206 instead of 200"),
    (Answer(206, b'{"items": [', {"content-range": "0-4/5"}), "with a body that cannot be read"),
    (Answer(304, b""), "with the status 304 instead of 200"),
    (Answer(407, b""), "through a proxy that needs a login (407)"),
]


@pytest.mark.parametrize("answer, said", ODD)
def test_a_run_says_what_is_odd_about_the_answer_and_the_next_one_goes_on(answer: Answer, said: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(5))
        rig.archive.hook = lambda _asked: answer
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_TROUBLE
        assert f"the list answers, but {said}" in summary.because
        rig.archive.hook = lambda _asked: None
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


class InRanges(SmallArchive):
    """An archive that answers a page of a longer list with 206 and its range, as PostgREST does."""

    told = 25

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        response = super().respond(target, headers, body)
        if not self.asked[-1].startswith("page") or not isinstance(response, Answer) or response.status != 200:
            return response
        start, shown = int(self.asked[-1].removeprefix("page ")), len(json.loads(response.body)["items"])
        held = f"{start}-{start + shown - 1}" if shown else "*"
        return replace(response, status=206, headers={"content-range": f"{held}/{self.told}"})


def test_a_list_that_is_answered_in_ranges_is_walked_to_its_end() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, InRanges(25))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_page_that_shows_none_of_the_entries_that_its_range_counts_is_not_the_end() -> None:
    async def main(clock: SimClock) -> None:
        archive = InRanges(25)
        archive.told = 40
        rig = ListedRig(clock, archive)
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "shows no entries, but counts 40 of them" in summary.because

    run(main)


def test_what_a_proxy_refuses_is_never_dead() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(5))
        rig.archive.hook = lambda asked: Answer(407, b"") if asked == "detail c3" else None
        for _ in range(10):
            await rig.run()
            await rig.wait(DAY_NS)
        assert [gap.reason for gap in await rig.store.gaps(NAME, state=GapState.OWED, limit=9)] == [
            GapReason.CONNECTION
        ]
        assert not await rig.store.gaps(NAME, state=GapState.DEAD, limit=9)

    run(main)


class Guarded(SmallArchive):
    """An archive that writes a prefix before every answer, so that no page of another site can run it as a script."""

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        answer = super().respond(target, headers, body)
        return Answer(answer.status, b")]}'\n" + answer.body, answer.headers) if isinstance(answer, Answer) else answer


@pytest.mark.parametrize("detail", [DetailSettings(inline=True), DetailSettings(key="id", updated="update_time")])
def test_a_guard_against_hijacking_is_left_out_of_pages_and_documents(detail: DetailSettings) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Guarded(25), detail=detail)
        assert await killed(rig, Generation(die_at_call=40))
        rig.archive.add("new", "c3")
        await rig.wait(DAY_NS // 24)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


class NoContent(SmallArchive):
    """An archive that answers 204 for a page without entries."""

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        answer = super()._page(path, query)
        return Answer(204, b"") if isinstance(answer, Answer) and json.loads(answer.body) == {"items": []} else answer


UNCHOSEN = msgspec.structs.replace(PAGINGS[Paging.PAGE], size_param="")
COUNTED = {"page": PAGINGS[Paging.PAGE], "page of a size": UNCHOSEN, "offset": PAGINGS[Paging.OFFSET]}


@pytest.mark.slow
@pytest.mark.parametrize("way", COUNTED)
@pytest.mark.parametrize("die_at", [None, 30, 90])
@pytest.mark.parametrize("entries", [7, 37, 40])
def test_a_204_behind_the_last_page_is_the_end_of_the_list(way: str, die_at: int | None, entries: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, NoContent(entries), settings=COUNTED[way])
        if die_at is not None and await killed(rig, Generation(die_at_call=die_at)):
            rig.archive.remove("c0", "c1", "c2")
            await rig.wait(DAY_NS // 24)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.truth().items() <= (await rig.mirror()).items()
        await rig.wait(8 * DAY_NS)
        rig.archive.add("new")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.truth().items() <= (await rig.mirror()).items()

    run(main)


def test_a_204_for_a_page_that_must_be_there_is_no_end() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(37))
        await rig.run()
        await rig.wait(8 * DAY_NS)
        rig.archive.hook = lambda asked: Answer(204, b"") if asked == "page 8" else None
        assert (await rig.run()).stopped_by is StoppedBy.LIST_TROUBLE
        rig.archive.hook = lambda _asked: Answer(204, b"")
        assert (await rig.run()).stopped_by is StoppedBy.LIST_TROUBLE
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).counts.vanished == 0

    run(main)
