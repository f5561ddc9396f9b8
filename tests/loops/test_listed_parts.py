"""Is a document that takes several requests collected whole, its pieces owed one by one?"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from remora.core.errors import ConfigurationError
from remora.core.item import Piece
from remora.core.ledger.discovery import fingerprint
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.pieces import PIECES_MAX, Circle, joined
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sources.listed import DetailSettings
from remora.sources.paging import Paging
from remora.sources.parts import PartSettings
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive, sqlite_store
from tests.loops.test_listed_kills import killed

PAGES = {
    "page": PartSettings(name="comments", path="/detail/{key}/comments", paging=Paging.PAGE, page_size=10, entries="."),
    "offset": PartSettings(name="comments", path="/detail/{key}/comments", page_size=10, entries="."),
    "ids": PartSettings(
        name="comments", path="/detail/{key}/comments", ids="stream", ids_param="id[]", chunk=7, entries="."
    ),
    "detail": PartSettings(name="comments", paging=Paging.CURSOR, page_size=10, entries="messages", next_cursor="more"),
}


class Talk(SmallArchive):
    """Entries with comments. A comment changes its entry, as a person would expect."""

    def __init__(self, entries: int, comments: int) -> None:
        self.comments: dict[str, list[int]] = {}
        self.written = 0
        self.pieces: Counter[str] = Counter()
        self.spoiled_piece: str | None = None
        super().__init__(entries)
        for key in list(self._marks):
            self.comment(key, times=comments)

    def add(self, *keys: str) -> None:
        super().add(*keys)
        for key in keys:
            self.comments.setdefault(key, [])

    def comment(self, key: str, *, times: int = 1) -> None:
        for _ in range(times):
            self.written += 1
            self.comments[key].append(self.written)
        self.add(key)

    def lines(self, key: str) -> list[dict[str, object]]:
        return [{"id": number, "text": f"comment {number}"} for number in self.comments[key]]

    def whole(self, key: str) -> object:
        return {"id": key, "comments": self.lines(key), "update_time": self._marks[key]}

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        parts = urlsplit(target)
        key, _, kind = parts.path.removeprefix("/detail/").partition("/")
        if not parts.path.startswith("/detail/") or key not in self._marks:
            return super().respond(target, headers, body)
        query = parse_qs(parts.query)
        self.asked.append(f"{kind or 'detail'} {key}")
        self.departures_ns.append(self.ticks())
        self.pieces[target] += 1
        if (answer := self.hook(self.asked[-1])) is not None:
            return answer
        if self.spoiled_piece is not None and self.spoiled_piece in target:
            return Answer(500, b"{}")
        return ok(json.dumps(self._shown(key, kind, query)).encode())

    def _shown(self, key: str, kind: str, query: Mapping[str, list[str]]) -> object:
        lines, size = self.lines(key), int(query.get("limit", ["10"])[-1])
        if kind and "id[]" in query:
            return [line for line in lines if str(line["id"]) in query["id[]"]]
        if kind:
            start = int(query["offset"][-1]) if "offset" in query else (int(query["page"][-1]) - 1) * size
            return lines[start : start + size]
        after = int(query.get("cursor", ["0"])[-1])
        rest = [line for line in lines if isinstance(line["id"], int) and line["id"] > after]
        return {
            "id": key,
            "update_time": self._marks[key],
            "stream": self.comments[key],
            "messages": rest[:size],
            "more": rest[size - 1]["id"] if len(rest) > size else None,
        }


def rig_of(clock: SimClock, way: str, entries: int = 6, comments: int = 34) -> tuple[ListedRig, Talk]:
    archive = Talk(entries, comments)
    detail = DetailSettings(key="id", updated="update_time", parts=(PAGES[way],))
    return ListedRig(clock, archive, detail=detail, ceiling_ns=SECOND_NS // 50), archive


async def held(rig: ListedRig) -> dict[str, object]:
    whole = {key: json.loads(body) for key, body in (await rig.mirror()).items()}
    return {
        key: {"id": key, "comments": body["comments"], "update_time": body["detail"]["update_time"]}
        for key, body in whole.items()
    }


def truth(archive: Talk) -> dict[str, object]:
    return {key: archive.whole(key) for key in archive.truth()}


@pytest.mark.parametrize("way", PAGES)
def test_every_document_holds_all_its_comments_and_a_new_one_is_found(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock, way)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == truth(archive)
        archive.pieces.clear()
        archive.comment("c2", times=11)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == truth(archive)
        assert {target.split("/")[2].split("?")[0] for target in archive.pieces} == {"c2"}

    run(main)


@pytest.mark.parametrize("way", PAGES)
def test_a_piece_that_fails_is_owed_alone_and_the_others_are_not_asked_for_again(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock, way, entries=2)
        archive.spoiled_piece = {"page": "page=3", "offset": "offset=16", "ids": "=15&", "detail": "cursor=20"}[way]
        assert (await rig.run()).owed > 0
        asked = {target for target in archive.pieces if archive.spoiled_piece not in target and "/c0" in target}
        archive.spoiled_piece = None
        archive.pieces.clear()
        for _ in range(3):
            await rig.wait(DAY_NS)
            await rig.run()
        assert await held(rig) == truth(archive)
        again = {target for target in archive.pieces if target in asked}
        assert len(again) <= 1, "the detail alone is asked for again"

    run(main)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("way", ["page", "detail"])
@pytest.mark.slow
def test_a_kill_at_any_call_costs_a_piece_and_leaves_nothing_behind(
    way: str, after_effect: bool, tmp_path: Path
) -> None:
    async def main(clock: SimClock) -> None:
        for die_at in range(11, 131, 17):
            async with sqlite_store(tmp_path / f"{die_at}{after_effect}.db") as store:
                rig, archive = rig_of(clock, way, entries=2, comments=34)
                rig.store = store
                await killed(rig, Generation(die_at_call=die_at, after_effect=after_effect))
                await rig.wait(HOUR_NS)
                assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
                assert await held(rig) == truth(archive), die_at
                assert max(archive.pieces.values()) <= 2, die_at
                assert archive.pieces.total() <= len(archive.pieces) + 3, die_at

    run(main)


@pytest.mark.parametrize("max_fetches", [7, 20, 33])
def test_a_run_sends_no_more_requests_than_it_may_however_many_are_in_flight(max_fetches: int) -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock, "page", entries=8)
        rig.in_flight, rig.latency_ns = 8, 10 * SECOND_NS
        options = RunOptions(max_fetches=max_fetches, in_flight=8)
        assert (await rig.run(options)).stopped_by is StoppedBy.MAX_FETCHES
        assert len(archive.asked) == max_fetches
        rig.latency_ns = 0
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == truth(archive)

    run(main)


def test_pieces_of_different_versions_are_never_joined() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock, "page", entries=1, comments=34)
        archive.spoiled_piece = "page=3"
        await rig.run()
        archive.spoiled_piece = None
        archive.comments["c0"] = archive.comments["c0"][5:]  # five are deleted
        archive.comment("c0")
        for _ in range(3):
            await rig.wait(DAY_NS)
            await rig.run()
        assert await held(rig) == truth(archive)
        name = f"piece {fingerprint(NAME, 'c0')}"
        assert [at for at in range(9) if await rig.store.note(NAME, f"{name} {at}") is not None] == []

    run(main)


def test_a_part_that_moves_while_it_is_read_is_read_again() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock, "offset", entries=1, comments=34)

        def hook(asked: str) -> Response | None:
            if asked == "comments c0" and archive.requests("comments").total() == 2:
                archive.comments["c0"] = archive.comments["c0"][9:]  # nine go without a word
            return None

        archive.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await held(rig) == truth(archive)

    run(main)


@pytest.mark.parametrize("status", [404, 410])
def test_a_part_that_is_missing_does_not_make_its_document_gone(status: int) -> None:
    async def main(clock: SimClock) -> None:
        rig, talk = rig_of(clock, "page")
        talk.hook = lambda asked: Answer(status, b"{}") if asked == "comments c1" else None
        for _ in range(4):
            await rig.run()
            await rig.wait(DAY_NS)
        (gap,) = await rig.store.gaps(NAME)
        assert gap.state in {GapState.OWED, GapState.DEAD}
        talk.hook = lambda _asked: None
        await rig.wait(7 * DAY_NS)
        await rig.run()
        assert set(await rig.mirror()) == set(talk.truth())

    run(main)


def test_a_document_that_is_deleted_between_its_detail_and_its_part_is_gone_in_the_end() -> None:
    async def main(clock: SimClock) -> None:
        rig, talk = rig_of(clock, "page")

        def hook(asked: str) -> Response | None:
            if asked == "comments c1":
                talk.remove("c1")
                return NOT_FOUND
            return None

        talk.hook = hook
        for _ in range(3):
            await rig.run()
            await rig.wait(DAY_NS)
        assert [gap.state for gap in await rig.store.gaps(NAME)] == [GapState.GONE]

    run(main)


@pytest.mark.parametrize("way", ["page", "detail"])
def test_a_part_that_goes_round_in_a_circle_costs_a_few_requests_and_its_document_is_owed(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, talk = rig_of(clock, way, entries=3, comments=34)

        def hook(asked: str) -> Response | None:
            if asked == "comments c1":  # the number of the page is ignored
                return ok(json.dumps(talk.lines("c1")[:8]).encode())
            if asked == "detail c1" and way == "detail":  # the cursor leads from 1 to 2 and back to 1
                at = talk.requests("detail")["c1"] % 2 + 1
                return ok(json.dumps({**json.loads(talk.body("c1")), "messages": [{"id": at}], "more": at}).encode())
            return None

        talk.hook = hook
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(await rig.mirror()) == {"c0", "c2"}
        assert talk.requests("detail")["c1"] + talk.requests("comments")["c1"] <= 6
        talk.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        await rig.run()
        assert await held(rig) == truth(talk)

    run(main)


def test_lines_without_a_key_are_kept_once_although_their_only_page_is_asked_for_again() -> None:
    async def main(clock: SimClock) -> None:
        talk = Talk(entries=1, comments=10)
        only = PartSettings(
            name="comments", path="/detail/{key}/comments", paging=Paging.NONE, page_size=10, entries=".", key="none"
        )
        detail = DetailSettings(key="id", updated="update_time", parts=(only,))
        rig = ListedRig(clock, talk, detail=detail)
        whole = ok(json.dumps(talk.lines("c0")).encode())
        talk.hook = lambda asked: whole if asked.startswith("comments") else None
        await rig.run()
        assert talk.requests("comments")["c0"] == 2
        assert await held(rig) == truth(talk)

    run(main)


def test_lines_without_a_key_that_are_asked_for_by_their_ids_are_all_kept() -> None:
    async def main(clock: SimClock) -> None:
        talk = Talk(entries=2, comments=20)
        by_ids = replace(PAGES["ids"], key="none")
        rig = ListedRig(clock, talk, detail=DetailSettings(key="id", updated="update_time", parts=(by_ids,)))
        await rig.run()
        assert await held(rig) == truth(talk)

    run(main)


def test_a_part_may_have_many_pages_of_lines_that_share_one_key() -> None:
    circle = Circle()
    for page in range(50):
        lines = tuple(f'"{page} {line}"'.encode() for line in range(3))
        assert not circle.closes(str(page), Piece("k", part="likes", lines=lines, line_keys=("1",) * 3))


def test_a_document_of_more_pieces_than_any_has_is_not_read_for_ever() -> None:
    circle = Circle()
    pieces = (Piece("k", part="likes", following=str(at + 1)) for at in range(PIECES_MAX))
    assert [circle.closes(str(at), piece) for at, piece in enumerate(pieces)].index(True) == PIECES_MAX - 1


def test_lines_of_one_page_that_share_a_key_and_differ_are_all_kept() -> None:
    pieces = [
        Piece("k", part="likes", lines=(b'"x"', b'"y"', b'"x"'), line_keys=("1", "1", "1")),
        Piece("k", part="likes", lines=(b'"y"', b'"z"'), line_keys=("1", "2")),
    ]
    assert joined(Piece("k", b"{}"), pieces).body == b'{"detail":{},"likes":["x","y","z"]}'


def test_a_detail_that_begins_with_a_byte_order_mark_is_joined_to_readable_json() -> None:
    head = Piece("c1", b'\xef\xbb\xbf {"id": "c1"}\n', "7")
    assert joined(head, [Piece("c1", part="notes", lines=(b"1",), line_keys=("1",))]).body == (
        b'{"detail":{"id": "c1"},"notes":[1]}'
    )


def test_a_joined_document_keeps_each_line_once_and_byte_for_byte() -> None:
    head = Piece("k", b' {"id":  1}\n', "m")
    pieces = [
        Piece("k", part="comments", lines=(b'{"a": 1}', b'{"a":2}'), line_keys=("1", "2")),
        Piece("k", part="comments", lines=(b'{"a":2}', b"3"), line_keys=("2", "3")),
        Piece("k", part="likes"),
    ]
    assert joined(head, pieces).body == b'{"detail":{"id":  1},"comments":[{"a": 1},{"a":2},3],"likes":[]}'


@pytest.mark.parametrize(
    "part, said, write",
    [
        ({"name": "detail"}, 'a part has the name "detail"', 'name = "comments"'),
        ({"name": "a", "entries": "x[?y]", "path": "/a"}, "entries is the expression", 'entries = "comments"'),
        ({"name": "a", "ids": "stream"}, "has ids, but no path", "asked for"),
        ({"name": "a", "path": "a"}, '.path is "a"', 'begins with one "/"'),
        ({"path": "/a"}, "has no name", "name ="),
        ({"name": "a", "path": "/a", "since": {}}, "has since", "read whole"),
    ],
)
def test_a_wrong_part_is_refused_with_what_to_write(part: dict[str, object], said: str, write: str) -> None:
    table = {"kind": "listed", "url": "https://a.example", "detail": {"path": "/d/{key}", "parts": [part]}}
    with pytest.raises(ConfigurationError) as refused:
        read_source("talk", table)
    assert said in str(refused.value)
    assert write in (refused.value.hint or "")
