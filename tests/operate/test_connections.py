"""Can visitors use up what collecting needs? The table's decisions in invented time, then real half-open connections."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from aiohttp import web

from remora.core.units import SECOND_NS
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.console.connections import (
    CONNECTIONS_LEAST,
    CONNECTIONS_MAX,
    PATIENCE_NS,
    VIEWERS_MAX,
    Bounds,
    ConnectionTable,
    Phase,
    bounds_for,
    reserved_descriptors,
)
from tests.operate.test_server import Console, visitor

FEW = Bounds(connections=4, viewers=2)


def full_table(phases: dict[str, Phase]) -> ConnectionTable:
    """Connections that came one second after the other, in these phases."""
    table = ConnectionTable(Bounds(connections=len(phases), viewers=2))
    for second, (name, phase) in enumerate(phases.items()):
        assert table.admit(name, now_ns=second * SECOND_NS) == (True, None)
        table.move(name, phase, now_ns=second * SECOND_NS)
    return table


def test_room_is_made_by_the_oldest_idle_connection_first() -> None:
    table = full_table({"silent": Phase.SILENT, "answering": Phase.ANSWERING, "old": Phase.IDLE, "new": Phase.IDLE})
    went = [table.admit(f"newcomer {number}", now_ns=9 * SECOND_NS)[1] for number in range(4)]
    assert went == ["old", "new", "silent", "newcomer 0"]
    assert len(table) == 4


def test_nobody_who_is_answered_or_watches_makes_room() -> None:
    table = full_table({"a": Phase.ANSWERING, "b": Phase.WATCHING, "c": Phase.ANSWERING})
    assert table.admit("newcomer", now_ns=0) == (False, None)
    assert len(table) == 3
    assert table.take_ended() == 1


@pytest.mark.parametrize("phase", PATIENCE_NS)
def test_a_connection_that_stays_too_long_in_one_phase_is_overdue(phase: Phase) -> None:
    table = full_table({"one": phase})
    assert table.overdue(now_ns=PATIENCE_NS[phase] - 1) == []
    assert table.overdue(now_ns=PATIENCE_NS[phase]) == ["one"]
    assert (len(table), table.take_ended(), table.take_ended()) == (0, 1, 0)


def test_a_viewer_may_watch_for_ever() -> None:
    assert full_table({"viewer": Phase.WATCHING}).overdue(now_ns=10**9 * SECOND_NS) == []


def test_a_byte_now_and_then_does_not_make_a_request_last_longer() -> None:
    table = full_table({"drip": Phase.SILENT})
    for second in range(1, 10):
        table.heard("drip", now_ns=second * SECOND_NS)
    assert table.overdue(now_ns=PATIENCE_NS[Phase.SILENT]) == ["drip"]


def test_the_first_byte_of_a_next_request_begins_its_own_time() -> None:
    table = full_table({"one": Phase.IDLE})
    table.heard("one", now_ns=5 * SECOND_NS)
    assert table.overdue(now_ns=5 * SECOND_NS + PATIENCE_NS[Phase.SILENT]) == ["one"]


def test_viewers_have_a_bound_of_their_own() -> None:
    table = full_table({"a": Phase.WATCHING, "b": Phase.SILENT, "c": Phase.SILENT})
    assert table.may_watch()
    table.move("b", Phase.WATCHING, now_ns=0)
    assert not table.may_watch()
    table.forget("a")
    assert table.may_watch()


@pytest.mark.parametrize("descriptors", [64, 256, 1_024, 65_536, 1_048_576])
@pytest.mark.parametrize("in_flight", [1, 64, 512])
def test_what_collecting_may_need_is_never_given_to_visitors(descriptors: int, in_flight: int) -> None:
    bounds = bounds_for(descriptors, in_flight=in_flight, sources=2)
    reserved = reserved_descriptors(in_flight=in_flight, sources=2)
    assert reserved > in_flight
    assert bounds.connections + reserved <= descriptors or bounds.connections == CONNECTIONS_LEAST
    assert CONNECTIONS_LEAST <= bounds.connections <= CONNECTIONS_MAX
    assert 0 < bounds.viewers <= min(VIEWERS_MAX, bounds.connections // 2)


# -- over a socket -----------------------------------------------------------------------------------------------------


class Giant(web.Response):
    """More than the buffers of two sockets hold."""

    SIZE = 20_000_000
    sent: ClassVar["weakref.WeakSet[Giant]"] = weakref.WeakSet()

    def __init__(self) -> None:
        super().__init__(body=bytes(self.SIZE))
        self.sent.add(self)


async def giant(request: web.Request) -> web.StreamResponse:
    return Giant()


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    made = Console(load(Flags(listen="127.0.0.1:0"), {}, directory=tmp_path), bounds=FEW)
    made.server.add_pages([web.get("/giant", giant)])
    await made.server.open()
    yield made
    await made.server.close()


@asynccontextmanager
async def half_open(console: Console, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that begin a request and never end it."""
    port = int(console.server.url.rpartition(":")[2])
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in opened:
        writer.write(b"GET / HT")
    yield [reader for reader, _ in opened]
    for _, writer in opened:
        writer.transport.abort()


async def is_closed(connection: asyncio.StreamReader) -> bool:
    try:
        return await connection.read(1) == b""
    except ConnectionError:
        return True


async def test_a_visitor_is_answered_however_many_half_open_connections_there_are(console: Console) -> None:
    async with half_open(console, 50) as opened:
        async with visitor(console) as session, session.get("/api/status") as reply:
            assert reply.status == 200
        gone = [await is_closed(each) for each in opened[:40]]
        assert all(gone)


async def test_more_viewers_than_may_watch_are_told_so_and_others_are_served(console: Console) -> None:
    async with visitor(console) as session:
        watching = [await session.get("/api/events") for _ in range(FEW.viewers)]
        async with session.get("/api/events") as reply:
            assert reply.status == 503
            assert "2 viewers are connected already" in (await reply.json())["error"]
        async with session.get("/api/status") as reply:
            assert reply.status == 200
        for each in watching:
            each.close()


@asynccontextmanager
async def answered_with_a_giant(console: Console) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection whose answer has begun to arrive and is not read on."""
    host = console.server.url.removeprefix("http://")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
    writer.write(f"GET /giant HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    yield reader, writer
    writer.transport.abort()


async def test_whoever_still_receives_an_answer_is_not_idle_and_makes_no_room(console: Console) -> None:
    async with answered_with_a_giant(console) as (reader, _), half_open(console, 2 * FEW.connections):
        assert len(await reader.readexactly(Giant.SIZE)) == Giant.SIZE


async def test_an_answer_does_not_outlive_a_visitor_who_vanished_while_it_was_sent(console: Console) -> None:
    gc.collect()
    gc.disable()
    try:
        async with answered_with_a_giant(console):
            assert len(Giant.sent) == 1
        async with visitor(console) as session, asyncio.timeout(10):
            while Giant.sent:
                await (await session.get("/console.css")).read()
    finally:
        gc.enable()
