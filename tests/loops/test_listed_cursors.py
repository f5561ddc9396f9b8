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
from remora.sources.json_path import load
from remora.sources.paging import (
    SHORTER,
    ListSettings,
    NoNextPage,
    PageRead,
    Paging,
    next_position,
    page_request,
)
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


async def killed_while_the_list_moves(rig: ListedRig, die_at: int) -> None:
    """A run is killed, and an hour later the list has new, changed and deleted entries."""
    assert await killed(rig, Generation(die_at_call=die_at))
    rig.archive.add("new", "c3")
    rig.archive.remove("c20")
    await rig.wait(HOUR_NS)


@pytest.mark.parametrize("way", FIRST_CURSORS)
@pytest.mark.parametrize("die_at", [20, 45, 80, 140])
def test_a_list_with_a_first_cursor_survives_a_kill_while_it_moves(way: str, die_at: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Deep(37), settings=FIRST_CURSORS[way])
        await killed_while_the_list_moves(rig, die_at)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.truth().items() <= (await rig.mirror()).items()

    run(main)


class Sorted(SmallArchive):
    """An archive whose cursors have several members: the values its list is sorted by, or parameters to repeat."""

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        parts = urlsplit(target)
        match parts.path:
            case "/search":
                asked = json.loads(body or b"{}")
                after = asked.get("search_after", [self._clock + 1.5, ""])
                size = asked["size"]
            case "/api.php":
                query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
                if ("from" in query) is not (query.get("continue") == "-||"):
                    return REFUSED
                after, size = [float(query.get("from", self._clock + 1)), ""], int(query["limit"])
            case _:
                return super().respond(target, headers, body)
        self.asked.append(f"page {after}")
        rest = [(key, mark) for key, mark in self.listing() if (-mark, key) > (-after[0], after[1])]
        lines = rest[:size]
        key, mark = lines[-1] if lines else ("", 0)
        more: dict[str, object] = {"sort": [mark, key] if lines else None}
        if parts.path == "/api.php":
            more = {"continue": {"from": mark, "continue": "-||"}} if len(rest) > size else {}
        return Answer(200, self._lines(lines, **more), {})


SEVERAL_MEMBERS = {
    "list in a body": ListSettings(
        path="/search",
        paging=Paging.CURSOR,
        page_size=10,
        next_cursor="sort",
        method=Method.POST,
        body={"size": "{size}", "search_after": "{cursor}"},
    ),
    "object in a query": ListSettings(
        path="/api.php?action=query", paging=Paging.CURSOR, page_size=10, next_cursor="continue", cursor_param=""
    ),
}


@pytest.mark.parametrize("way", SEVERAL_MEMBERS)
@pytest.mark.parametrize("die_at", [20, 45, 80, 140])
def test_a_cursor_of_several_members_is_followed_through_kills_while_the_list_moves(way: str, die_at: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Sorted(37), settings=SEVERAL_MEMBERS[way])
        await killed_while_the_list_moves(rig, die_at)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert rig.archive.truth().items() <= (await rig.mirror()).items()
        assert rig.archive.requests("page").total() <= 10

    run(main)


def following(settings: ListSettings, cursor: str) -> str | None:
    """The position that a page leads to which names this cursor, as it is written in JSON."""
    value = load(f'{{"next_cursor": {cursor}}}'.encode())
    return next_position(settings, "abc", PageRead(value, [1], {}, "https://a.example/list"))


POSTED = ListSettings(
    paging=Paging.CURSOR, method=Method.POST, body={"limit": "{size}", "start": {"at": "{cursor}"}, "is": ["{cursor}"]}
)


@pytest.mark.parametrize("cursor", ['[1700000000.10,"id7",null]', '{"id":{"S":"ü\\n"},"at":{"N":"1E+3"}}', "[1E+3]"])
def test_a_cursor_of_several_members_goes_back_in_a_body_as_it_came(cursor: str) -> None:
    position = following(POSTED, cursor)
    assert position is not None
    sent = page_request(POSTED, "https://a.example", position).body or b""
    assert sent.decode() == f'{{"limit":100,"start":{{"at":{cursor}}},"is":[{cursor}]}}'


def test_each_member_of_a_cursor_is_a_parameter_where_the_cursor_has_none() -> None:
    declared = ListSettings(path="/api.php?a=1", paging=Paging.CURSOR, cursor_param="", size_param="")
    position = following(declared, '{"rccontinue": "2026|7", "offset": 10, "continue": ""}')
    assert position is not None
    url = page_request(declared, "https://a.example", position).url
    assert url == "https://a.example/api.php?a=1&rccontinue=2026%7C7&offset=10&continue="
    assert page_request(declared, "https://a.example", "").url == "https://a.example/api.php?a=1"


@pytest.mark.parametrize(
    "param, cursor, told",
    [
        ("cursor", '{"a": 1}', '"next_cursor" has several members; write cursor_param = ""'),
        ("cursor", "[1, 2]", '"next_cursor" is a list, which only the body of a POST can take back'),
        ("", "[1, 2]", '"next_cursor" is a list, which only the body of a POST can take back'),
        ("", '{"a": [1]}', 'a member of "next_cursor" is no text and no number'),
        ("", '"abc"', 'has no members, but list.cursor_param is ""; write the name of its parameter'),
        ("", '{"a": "' + "x" * 5_000 + '"}', "holds more than 4,096 characters"),
        ("", '{"a": "\\ud800"}', "cannot be printed"),
        ("", "{}", "is no text and no number"),
    ],
)
def test_a_cursor_of_several_members_that_cannot_be_sent_says_what_to_write(param: str, cursor: str, told: str) -> None:
    with pytest.raises(NoNextPage) as odd:
        following(ListSettings(paging=Paging.CURSOR, cursor_param=param), cursor)
    assert told in str(odd.value)


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
        (
            {"paging": "cursor", "cursor_param": "", "cursor_header": "x-next"},
            'list.cursor_param is "", but list.cursor_header is given, which has no members',
            'cursor_param = "cursor"',
        ),
        (
            {"paging": "cursor", "cursor_param": "", "first_cursor": "*"},
            'list.cursor_param is "", but list.first_cursor is given, which has no members',
            'cursor_param = "cursor"',
        ),
    ],
)
def test_settings_of_a_cursor_that_contradict_each_other_are_refused_with_what_to_write(
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
