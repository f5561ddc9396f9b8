"""Is a list collected whole whatever its cursors look like?"""

import json
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

import pytest

from remora.core.errors import ConfigurationError
from remora.core.ledger.run import StoppedBy
from remora.core.units import HOUR_NS
from remora.operate.config.reader import read_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response
from remora.sources.paging import SHORTER, ListSettings, Paging, page_request
from remora.sources.request_body import Method
from tests.loops.listed_rig import ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

REFUSED = Answer(400, b'{"message": "cursor"}')


class Deep(SmallArchive):
    """An archive that wants exactly one cursor in every request, `*` in the first, and always names a next one."""

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        query = parse_qs(urlsplit(target).query)
        query |= {name: [str(value)] for name, value in json.loads(body or b"{}").items()}
        if not urlsplit(target).path.startswith("/deep"):
            return super().respond(target, headers, body)
        cursors = query.get("cursor", [])
        self.asked.append(f"page {cursors}")
        if len(cursors) != 1:
            return REFUSED
        below = self._clock + 1 if cursors == ["*"] else int(cursors[0].removeprefix("after-"))
        lines = [(key, mark) for key, mark in self.listing() if mark < below][: int(query["limit"][0])]
        onward = f"after-{lines[-1][1]}" if lines else cursors[0]
        return Answer(200, self._lines(lines, next_cursor=onward), {})


FIRST_CURSORS = {
    "query": ListSettings(path="/deep?sort=new", paging=Paging.CURSOR, page_size=10, first_cursor="*"),
    "body": ListSettings(
        path="/deep",
        paging=Paging.CURSOR,
        page_size=10,
        first_cursor="*",
        method=Method.POST,
        body={"limit": "{size}", "cursor": "{cursor}"},
    ),
}


@pytest.mark.parametrize("way", FIRST_CURSORS)
@pytest.mark.parametrize("entries", [0, 7, 10, 37])
def test_a_list_that_wants_a_first_cursor_is_collected_and_then_only_what_is_new(way: str, entries: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Deep(entries), settings=FIRST_CURSORS[way])
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        rig.archive.add("new")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("way", FIRST_CURSORS)
@pytest.mark.parametrize("die_at", [20, 45, 80, 140])
def test_a_list_with_a_first_cursor_survives_a_kill_while_it_moves(way: str, die_at: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Deep(37), settings=FIRST_CURSORS[way])
        assert await killed(rig, Generation(die_at_call=die_at))
        rig.archive.add("new", "c3")
        rig.archive.remove("c20")
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.truth().items() <= (await rig.mirror()).items()

    run(main)


def test_the_first_cursor_is_sent_with_the_first_page_only() -> None:
    declared = FIRST_CURSORS["query"]
    first, shorter, later = (page_request(declared, "https://a.example", at).url for at in ("", SHORTER, "abc"))
    assert first == "https://a.example/deep?sort=new&cursor=%2A&limit=10"
    assert shorter == "https://a.example/deep?sort=new&cursor=%2A&limit=9"
    assert later == "https://a.example/deep?sort=new&cursor=abc&limit=10"


@pytest.mark.parametrize(
    "declared, said, write",
    [
        ({"first_cursor": "*"}, 'list.first_cursor is given, but list.paging is "offset"', 'write paging = "cursor"'),
        (
            {"paging": "cursor", "path": "/works?rows=5&cursor=*"},
            'list.path holds the parameter "cursor", which every later page would have twice',
            'first_cursor = "*"',
        ),
    ],
)
def test_a_first_cursor_that_cannot_be_is_refused_with_what_to_write(
    declared: dict[str, object], said: str, write: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("works", {"kind": "listed", "url": "https://a.example", "list": declared})
    assert said in str(refused.value)
    assert write in (refused.value.hint or "")


def test_a_first_cursor_of_a_part_whose_first_page_is_the_detail_is_refused() -> None:
    part = {"name": "replies", "paging": "cursor", "first_cursor": "*"}
    with pytest.raises(ConfigurationError, match="its first page is the detail itself"):
        read_source("threads", {"kind": "listed", "url": "https://a.example", "detail": {"parts": [part]}})
