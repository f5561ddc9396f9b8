"""Does every numbered source keep the contract? Hacker News and one that is only declared pass the same sentences."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import (
    Announced,
    Announcement,
    ConnectGate,
    Ignored,
    NewestAnnounced,
    NumberedSource,
    Permit,
    StreamPart,
    Unread,
)
from remora.core.item import Item, Newest, Nothing, Readable, Unreadable, User, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.reasons import GapReason
from remora.core.verdict import Missing, NoReply, NotYet, Refused, Reply, Verdict, classify
from remora.sim.streams import event
from remora.sources.declaration import (
    AbsentSettings,
    Declaration,
    ItemSettings,
    NewestSettings,
    UpdatesSettings,
    UserSettings,
)
from remora.sources.hackernews import HackerNews
from remora.sources.numbered import Numbered
from remora.sources.secret import Secret
from tests.sources.permits import Gate, OnlyGets
from tests.sources.replies import replied

URL = "https://host.example/api"
DECLARED = Declaration(
    item=ItemSettings(
        path="/notes/{id}?format=json",
        id="properties.number",
        time="properties.opened",
        type="kind",
        by="properties.author.name",
        parent="properties.parent",
        title="properties.title",
        url="links.0",
    ),
    newest=NewestSettings(path="/notes/newest", at="rows.0.number", stream="/newest-stream"),
    updates=UpdatesSettings(path="/changes", items="changed", users="people"),
    user=UserSettings(path="/people/{name}"),
    absent=AbsentSettings(status=(404, 410, 403), at="error", equals="no such note"),
)
NOTE = {
    "kind": "note",
    "properties": {
        "number": 7,
        "opened": "2026-01-02T03:04:05Z",
        "author": {"name": "ann"},
        "parent": "3",
        "title": "A hole in the road",
        "mood": "unknown to everybody",
    },
    "links": ["https://host.example/notes/7"],
}


class Recorder(OnlyGets):
    """A transport that remembers what it was asked for, and plays a stream."""

    def __init__(self, *chunks: bytes) -> None:
        self.asked: list[tuple[str, Mapping[str, str] | None]] = []
        self._chunks = chunks

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.asked.append((url, headers))
        return Reply(200, b"null", await permit.depart(), 0)

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        self.asked.append((url, headers))
        for chunk in self._chunks:
            yield chunk


@dataclass(frozen=True)
class Speaker:
    """One numbered source: how it is made, and how its provider says the same things."""

    make: Callable[[Recorder], NumberedSource]
    urls: dict[Kind, str]
    item: Callable[[int], bytes]
    newest: Callable[[int], bytes]
    user: Callable[[str], bytes]
    newest_event: Callable[[int], bytes]
    change_event: Callable[[list[int], list[str]], bytes]

    def source(self, *chunks: bytes) -> NumberedSource:
        return self.make(Recorder(*chunks))


def data(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


HACKERNEWS = Speaker(
    make=lambda transport: HackerNews(transport, f"{URL}/"),
    urls={
        Kind.ITEM: f"{URL}/item/7.json",
        Kind.NEWEST: f"{URL}/maxitem.json",
        Kind.USER: f"{URL}/user/a%2Fb.json",
    },
    item=lambda number: json.dumps({"id": number, "type": "story", "time": 5}).encode(),
    newest=lambda number: str(number).encode(),
    user=lambda name: json.dumps({"id": name}).encode(),
    newest_event=lambda number: event("put", "/", number),
    change_event=lambda ids, names: event("put", "/", {"items": ids, "profiles": names}),
)
BY_DECLARATION = Speaker(
    make=lambda transport: Numbered(transport, f"{URL}/", DECLARED, name="notes"),
    urls={
        Kind.ITEM: f"{URL}/notes/7?format=json",
        Kind.NEWEST: f"{URL}/notes/newest",
        Kind.USER: f"{URL}/people/a%2Fb",
    },
    item=lambda number: json.dumps({**NOTE, "properties": {"number": number}}).encode(),
    newest=lambda number: json.dumps({"rows": [{"number": number}]}).encode(),
    user=lambda name: json.dumps({"name": name}).encode(),
    newest_event=lambda number: data({"rows": [{"number": number}]}),
    change_event=lambda ids, names: data({"changed": ids, "people": names}),
)


@pytest.fixture(params=[HACKERNEWS, BY_DECLARATION], ids=["hackernews", "declared"])
def speaker(request: pytest.FixtureRequest) -> Speaker:
    found: Speaker = request.param
    return found


def item(number: int) -> Discovery:
    return Discovery.item(number, via=Lane.LIVE)


def user(name: str) -> Discovery:
    return Discovery(Kind.USER, name, Lane.UPDATE)


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discovery", [item(7), Discovery.newest(), user("a/b")], ids=lambda found: str(found.kind))
async def test_one_permit_is_one_request_for_one_address(speaker: Speaker, discovery: Discovery) -> None:
    transport, gate = Recorder(), Gate()
    await speaker.make(transport).fetch(discovery, gate.permit())
    assert [url for url, _ in transport.asked] == [speaker.urls[discovery.kind]]
    assert gate.departures == 1


def test_a_body_is_kept_as_it_came_and_only_under_its_own_id(speaker: Speaker) -> None:
    body = b" " + speaker.item(7)
    found = speaker.source().decode(item(7), replied(body))
    assert isinstance(found, Readable)
    assert isinstance(found.thing, Item)
    assert (found.thing.item_id, found.thing.body) == (7, body)
    assert speaker.source().decode(item(8), replied(body)) == WrongShape("another id")


def test_fields_in_another_order_are_the_same_content(speaker: Speaker) -> None:
    value = json.loads(speaker.item(7))
    turned = json.dumps(dict(reversed(value.items())), indent=2).encode()
    first, second = (speaker.source().decode(item(7), replied(body)) for body in (speaker.item(7), turned))
    assert isinstance(first, Readable)
    assert isinstance(second, Readable)
    assert isinstance(first.thing, Item)
    assert isinstance(second.thing, Item)
    contents = [thing.content_in(thing.body) for thing in (first.thing, second.thing)]
    assert contents[0] == contents[1]
    assert contents[0]


def test_a_null_is_nothing_whatever_was_asked_for(speaker: Speaker) -> None:
    for discovery in (item(7), Discovery.newest(), user("ann")):
        assert speaker.source().decode(discovery, replied(b"null")) == Nothing()


@pytest.mark.parametrize("body", [b"", b'{"cut', b"\xff", b"<html>"])
def test_a_damaged_body_is_unreadable_and_worth_a_retry(speaker: Speaker, body: bytes) -> None:
    for discovery in (item(7), Discovery.newest(), user("ann")):
        assert isinstance(speaker.source().decode(discovery, replied(body)), Unreadable)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'"7"', b"true", b"[" * 100_000])
def test_a_whole_body_that_is_not_the_item_has_the_wrong_shape(speaker: Speaker, body: bytes) -> None:
    assert isinstance(speaker.source().decode(item(7), replied(body)), WrongShape)


def test_the_newest_id_is_read_and_a_body_without_one_is_refused(speaker: Speaker) -> None:
    assert speaker.source().decode(Discovery.newest(), replied(speaker.newest(42))) == Readable(Newest(42))
    for body in (b'{"rows":[]}', b'{"rows":[{"number":-1}]}', b'{"rows":[{"number":true}]}', b'"x"', b"0"):
        assert isinstance(speaker.source().decode(Discovery.newest(), replied(body)), WrongShape)


def test_a_profile_is_kept_as_it_came(speaker: Speaker) -> None:
    body = speaker.user("ann")
    assert speaker.source().decode(user("ann"), replied(body)) == Readable(User("ann", body))


async def test_its_streams_announce_changes_and_the_newest_id(speaker: Speaker) -> None:
    changes = [part async for part in speaker.source(speaker.change_event([3, 1, 3], ["ann"])).changes(Gate().connect)]
    assert changes == [StreamPart((Announced((3, 1), ("ann",)),))]
    newest = [part async for part in speaker.source(speaker.newest_event(42)).newest_ids(Gate().connect)]
    assert newest == [StreamPart((NewestAnnounced(42),))]


def test_it_says_what_it_can_do(speaker: Speaker) -> None:
    can = speaker.source().capabilities
    assert (can.newest_id, can.change_stream, can.newest_stream) == (True, True, True)
    assert (can.users, can.item_times, can.list, can.inline_details) == (True, True, False, False)


@given(st.binary(max_size=60), st.sampled_from([item(7), Discovery.newest(), user("ann")]))
def test_no_body_makes_a_reading_raise(body: bytes, discovery: Discovery) -> None:
    for each in (HACKERNEWS, BY_DECLARATION):
        decoded = each.source().decode(discovery, replied(body))
        assert isinstance(decoded, Readable | Nothing | Unreadable | WrongShape)


# -- what is only declared ---------------------------------------------------------------------------------------------


def read(value: object, number: int = 7) -> Item:
    found = BY_DECLARATION.source().decode(item(number), replied(json.dumps(value).encode()))
    assert isinstance(found, Readable)
    assert isinstance(found.thing, Item)
    return found.thing


def test_columns_are_found_where_they_are_declared_and_unknown_fields_are_kept() -> None:
    found = read(NOTE)
    assert (found.type, found.by, found.parent) == ("note", "ann", 3)
    assert (found.title, found.url) == ("A hole in the road", "https://host.example/notes/7")
    assert found.time == 1_767_323_045
    assert b"unknown to everybody" in found.body
    assert found.anomalies == ()


def test_a_column_that_is_not_there_is_an_oddity_and_costs_nothing() -> None:
    found = read({"properties": {"number": "7", "opened": "soon", "title": None}})
    assert (found.item_id, found.time, found.title) == (7, None, None)
    assert set(found.anomalies) == {"no_type", "no_by", "no_parent", "no_url"}


@pytest.mark.parametrize(
    "written, seconds",
    [
        (1_767_323_045, 1_767_323_045),
        (1_767_323_045_123, 1_767_323_045),
        (1_767_323_045.9, 1_767_323_045),
        ("1767323045", 1_767_323_045),
        ("2026-01-02T03:04:05Z", 1_767_323_045),
        ("2026-01-02T04:04:05+01:00", 1_767_323_045),
        ("2026-01-02", 1_767_312_000),
        ("2026-1-2", 1_767_312_000),
        ("2026-1-2 3:04:05", 1_767_323_045),
        ("2026-1-234", None),
        ("yesterday", None),
        ("1926-01-02", None),
        (-5, None),
        (0, None),
        (True, None),
        (1e300, None),
        (["2026"], None),
    ],
)
def test_a_time_is_seconds_milliseconds_or_a_date(written: object, seconds: int | None) -> None:
    assert read({"properties": {"number": 7, "opened": written}}).time == seconds


@pytest.mark.parametrize(
    "body, decoded",
    [
        ({"error": "no such note"}, Nothing()),
        ({"error": "out of cheese"}, WrongShape("another id")),
        ({"error": None}, WrongShape("another id")),
    ],
)
def test_what_absent_looks_like_in_a_body_is_declared(body: dict[str, Any], decoded: object) -> None:
    assert BY_DECLARATION.source().decode(item(7), replied(json.dumps(body).encode())) == decoded


def judged(status: int, source: NumberedSource, *, behind: int) -> Verdict:
    statuses = source.capabilities.absent_statuses
    return classify(Reply(status, b"", 0, 0), None, behind_newest=behind, now_wall_ns=0, absent_statuses=statuses)


def test_which_statuses_mean_absent_is_declared() -> None:
    declared, usual = BY_DECLARATION.source(), HACKERNEWS.source()
    assert judged(403, declared, behind=500) == Missing(GapReason.NOT_FOUND)
    assert judged(403, declared, behind=3) == NotYet()
    assert judged(403, usual, behind=500) == Refused(GapReason.FORBIDDEN)
    assert judged(404, usual, behind=500) == judged(404, declared, behind=500) == Missing(GapReason.NOT_FOUND)
    assert judged(410, usual, behind=500) == Missing(GapReason.GONE)


@pytest.mark.parametrize(
    "said, announced",
    [
        ({"changed": 5}, Announced((5,))),
        ({"changed": ["5", 6, None, -1, "x"]}, Announced((5, 6), dropped=2)),
        ({"people": ["ann", ""]}, Announced((), ("ann",), dropped=1)),
        ({"chnged": [5]}, Ignored("nothing_there")),
        ([5], Ignored("nothing_there")),
    ],
)
async def test_an_event_announces_what_is_at_the_declared_places(said: object, announced: Announcement) -> None:
    source = BY_DECLARATION.source(data(said))
    assert [part async for part in source.changes(Gate().connect)] == [StreamPart((announced,))]


async def test_an_event_that_is_no_json_is_told_as_unread() -> None:
    noise = b"data: hello\n\n"
    changes = BY_DECLARATION.source(noise).changes(Gate().connect)
    assert [part async for part in changes] == [StreamPart((Unread("not_json"),))]
    newest = BY_DECLARATION.source(noise).newest_ids(Gate().connect)
    assert [part async for part in newest] == [StreamPart((Ignored("no_number_there"),))]


async def test_a_token_goes_with_every_request_and_every_stream_and_into_no_repr() -> None:
    transport = Recorder()
    source = Numbered(transport, URL, DECLARED, name="notes", headers={"X-A": "b"}, token=Secret("s3cret"))
    await source.fetch(item(7), Gate().permit())
    assert [part async for part in source.changes(Gate().connect)] == []
    expected = {"X-A": "b", "Authorization": "Bearer s3cret"}
    assert [headers for _, headers in transport.asked] == [expected, expected]
    assert "s3cret" not in repr(source)


def test_a_declaration_without_extras_can_do_less_and_says_so() -> None:
    bare = Declaration(item=ItemSettings(path="/{id}"), newest=NewestSettings(path="/newest"))
    can = bare.capabilities
    assert (can.newest_id, can.change_stream, can.newest_stream, can.users, can.item_times) == (
        True, False, False, False, False,
    )  # fmt: skip
    assert not can.public
