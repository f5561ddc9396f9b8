"""Does Hacker News ask for the right things, and read users and the newest id?"""

from collections.abc import AsyncIterator, Mapping

import pytest

from remora.contracts import ConnectGate, NumberedSource, Permit, StreamPart, Transport
from remora.core.item import Newest, Nothing, Readable, Unreadable, User, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply, Reply
from remora.sources.hackernews import HackerNews
from tests.sources.permits import Gate, OnlyGets
from tests.sources.replies import replied


class Recorder(OnlyGets):
    """A transport that answers `null` and remembers what it was asked for."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.urls.append(url)
        return Reply(200, b"null", await permit.depart(), 0)

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        self.urls.append(url)
        yield b":\n"


def source(transport: Transport | None = None) -> NumberedSource:
    return HackerNews(transport or Recorder(), "http://host/v0/")


def user(name: str) -> Discovery:
    return Discovery(Kind.USER, name, Lane.UPDATE)


@pytest.mark.parametrize(
    "discovery, url",
    [
        (Discovery.item(8863, via=Lane.LIVE), "http://host/v0/item/8863.json"),
        (Discovery.newest(), "http://host/v0/maxitem.json"),
        (user("pg"), "http://host/v0/user/pg.json"),
        (user("../a b?c#d/é"), "http://host/v0/user/..%2Fa%20b%3Fc%23d%2F%C3%A9.json"),
        (user("\ud800"), "http://host/v0/user/%ED%A0%80.json"),
    ],
)
async def test_each_thing_has_its_address_and_odd_names_are_quoted(discovery: Discovery, url: str) -> None:
    transport, gate = Recorder(), Gate()
    await source(transport).fetch(discovery, gate.permit())
    assert transport.urls == [url]
    assert gate.departures == 1


async def test_the_streams_are_those_of_changes_and_of_the_newest_id() -> None:
    transport = Recorder()
    assert [part async for part in source(transport).changes(Gate().connect)] == [StreamPart()]
    assert [part async for part in source(transport).newest_ids(Gate().connect)] == [StreamPart()]
    assert transport.urls == ["http://host/v0/updates.json", "http://host/v0/maxitem.json"]


@pytest.mark.parametrize(
    "body", [b'{"id":"pg","karma":1}', b'\xef\xbb\xbf{"id":"pg"}', b'{"id":"pg","about":"\\ud800"}']
)
def test_a_profile_is_kept_as_it_came(body: bytes) -> None:
    assert source().decode(user("pg"), replied(body)) == Readable(User("pg", body))


@pytest.mark.parametrize(
    "body, decoded",
    [
        (b"null", Nothing()),
        (b" null", Nothing()),
        (b'{"id":"PG"}', WrongShape("another user")),
        (b'{"id":7}', WrongShape("another user")),
        (b"[]", WrongShape("another user")),
        (b'{"id":"pg"', Unreadable("not JSON")),
        (b'{"id":"pg","about":"\xff"}', Unreadable("not UTF-8")),
        (b"[" * 100_000, WrongShape("nested too deep")),
    ],
)
def test_what_is_not_this_profile_is_said_so(body: bytes, decoded: object) -> None:
    assert source().decode(user("pg"), replied(body)) == decoded


@pytest.mark.parametrize(
    "body, decoded",
    [
        (b"42000000", Readable(Newest(42_000_000))),
        (b"null", Nothing()),
        (b"true", WrongShape("not an id")),
        (b"-1", WrongShape("not an id")),
        (b"0", WrongShape("not an id")),
        (b"1.5", WrongShape("not an id")),
        (b'"7"', WrongShape("not an id")),
        (b"9" * 5000, WrongShape("not an id")),
        (b"", Unreadable("not JSON")),
    ],
)
def test_the_newest_id_is_a_positive_number_of_a_sane_size(body: bytes, decoded: object) -> None:
    assert source().decode(Discovery.newest(), replied(body)) == decoded


def test_an_item_is_decoded_by_its_id() -> None:
    decoded = source().decode(Discovery.item(7, via=Lane.BACKFILL), replied(b'{"id":8,"type":"story","time":1}'))
    assert decoded == WrongShape("another id")
