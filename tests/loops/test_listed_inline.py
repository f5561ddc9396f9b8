"""Is a list that already holds its documents collected without a request for each?"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.core.ledger.run import StoppedBy
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response, ok
from remora.sources.json_path import raw_lines
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive, sqlite_store
from tests.loops.test_listed_kills import killed

INLINE = DetailSettings(inline=True)


def inline_truth(archive: SmallArchive) -> dict[str, object]:
    return {key: {"id": key, "update_time": mark} for key, mark in archive.listing()}


async def held(rig: ListedRig) -> dict[str, object]:
    return {key: json.loads(body) for key, body in (await rig.mirror()).items()}


def test_five_hundred_entries_cost_their_pages_and_nothing_more() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(page_size=250)
        rig = ListedRig(clock, SmallArchive(480), settings=settings, detail=INLINE)
        summary = await rig.run()
        assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 0)
        assert await held(rig) == inline_truth(rig.archive)
        assert rig.archive.requests("detail").total() == 0
        assert len(rig.archive.asked) == 4  # two pages, one for the overlap, and an empty one

    run(main)


@pytest.mark.parametrize("settings", [*PAGINGS.values(), ListSettings(page_size=10, updated="")])
def test_changes_are_found_in_the_list_itself(settings: ListSettings) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(37), settings=settings, detail=INLINE)
        await rig.run()
        rig.archive.add("new", "c5")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == inline_truth(rig.archive)

    run(main)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("die_at", range(8, 140, 11))
@pytest.mark.slow
def test_a_kill_at_any_moment_loses_nothing_of_an_inline_list(tmp_path: Path, die_at: int, after_effect: bool) -> None:
    async def main(clock: SimClock) -> None:
        async with sqlite_store(tmp_path / "mirror.db") as store:
            rig = ListedRig(clock, SmallArchive(37), store=store, detail=INLINE)
            await killed(rig, Generation(die_at_call=die_at, after_effect=after_effect))
            summary = await rig.run()
            assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 0)
            assert await held(rig) == inline_truth(rig.archive)

    run(main)


@pytest.mark.slow
def test_a_kill_between_the_last_page_and_its_documents_leaves_nothing_owed_for_good() -> None:
    async def main(clock: SimClock) -> None:
        die_at, died = 0, True
        while died:
            die_at += 1
            rig = ListedRig(clock, SmallArchive(25), settings=PAGINGS[Paging.CURSOR], detail=INLINE)
            died = await killed(rig, Generation(die_at_call=die_at))
            summary = await rig.run()
            assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 0), die_at
            assert await held(rig) == inline_truth(rig.archive), die_at
        assert die_at > 30

    run(main)


def test_a_run_that_is_cut_off_between_pages_goes_on() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(37), detail=INLINE)
        assert (await rig.run(RunOptions(max_fetches=2))).stopped_by is StoppedBy.MAX_FETCHES
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == inline_truth(rig.archive)

    run(main)


def test_an_entry_is_kept_byte_for_byte() -> None:
    body = b'\xef\xbb\xbf{"data": {"rows": [ {"id": 1,  "n": 1.50} , {"id":2,"text":"\\u00e9"}]}, "more": 1e3}'
    assert raw_lines(body, "data.rows") == [b'{"id": 1,  "n": 1.50}', b'{"id":2,"text":"\\u00e9"}']
    assert raw_lines(b"[1, 2]", ".") == [b"1", b"2"]
    assert raw_lines(b'{"rows": {}}', "rows") == []


def test_inline_is_declared_in_one_word_and_alone() -> None:
    table = {"kind": "listed", "url": "http://127.0.0.1:9", "detail": "inline"}
    assert read_source("orders", table).capabilities.inline_details
    with pytest.raises(ConfigurationError, match="detail is inline and has other settings"):
        read_source("orders", {**table, "detail": {"inline": True, "key": "id"}})
    with pytest.raises(ConfigurationError, match=r"list\.entries is the expression"):
        read_source("orders", {**table, "list": {"entries": "rows[?x]", "paging": "cursor"}})
    with pytest.raises(ConfigurationError, match="detail"):
        read_source("orders", {**table, "detail": "outline"})


@pytest.mark.slow
def test_what_a_kill_left_owed_and_was_then_deleted_is_gone_after_a_full_walk() -> None:
    """Only the list can show it, and the list has lost it: nobody can ask for it."""

    async def main(clock: SimClock) -> None:
        owed_once = 0
        for die_at in range(70, 116, 2):
            rig = ListedRig(clock, SmallArchive(25), settings=PAGINGS[Paging.CURSOR], detail=INLINE)
            await killed(rig, Generation(die_at_call=die_at))
            owed = [detail.key for detail in await rig.store.owed_details(NAME, limit=100)]
            owed_once += len(owed)
            rig.archive.remove(*owed)
            summary = await rig.run()
            assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 0), die_at
            assert await held(rig) == inline_truth(rig.archive), die_at
        assert owed_once

    run(main)


class SharesKeys(SmallArchive):
    """A list in which a few entries have the key of another one, and another content."""

    twins: tuple[dict[str, object], ...] = ()

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        answer = super()._page(path, query)
        assert isinstance(answer, Answer)
        lines = json.loads(answer.body)["items"]
        shown = [twin for line in lines for twin in (line, *self.twins) if twin is line or twin["of"] == line["id"]]
        return ok(json.dumps({"items": shown}).encode())


def test_documents_that_share_a_key_are_told_and_the_copy_is_never_called_complete() -> None:
    async def main(clock: SimClock) -> None:
        archive = SharesKeys(60)
        archive.twins = ({"id": "c50", "of": "c50", "update_time": 51, "text": "another document"},)
        rig = ListedRig(clock, archive, settings=ListSettings(page_size=20), detail=INLINE)
        for _ in range(2):
            summary = await rig.run()
            assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
            assert "1 of 21 entries has the key of another entry of the page and another content" in summary.because
            assert (await rig.store.walk_state(NAME)).watermark is None, "the next walk looks at it again"
            assert len(await rig.mirror()) == 60, "everything else is collected"
        archive.twins = ()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == inline_truth(archive)

    run(main)


def test_of_two_documents_with_one_key_the_newer_one_is_kept() -> None:
    async def main(clock: SimClock) -> None:
        archive = SharesKeys(60)
        archive.twins = ({"id": "c50", "of": "c50", "update_time": 41, "text": "an earlier one"},)
        settings = ListSettings(page_size=20)
        rig = ListedRig(clock, archive, settings=settings, detail=INLINE)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == inline_truth(archive)

    run(main)


def test_a_number_and_a_text_that_give_one_key_are_told() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(path="/cursor", paging=Paging.CURSOR, updated="", page_size=20)
        rig = ListedRig(clock, SmallArchive(), settings=settings, detail=INLINE)
        lines = [{"id": number} for number in range(9)] + [{"id": "5"}]
        rig.archive.hook = lambda _asked: ok(json.dumps({"items": lines}).encode())
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert "check list.key" in summary.because

    run(main)
