"""What does a transport make of everything a server can answer? A reply or a reason, within bounds, and no secrets."""

import asyncio
import gzip
import logging
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from remora.core.errors import ConfigurationError
from remora.core.units import SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply, has_content
from remora.sources.transport.lean import LeanTransport
from remora.sources.transport.settings import HttpSettings
from tests.counting_server import Behaviour, CountingServer, Wire, WireRequest, hang
from tests.sources.permits import Gate
from tests.transports import AnyTransport, every_transport, new_transport

pytestmark = pytest.mark.slow

__all__ = ["every_transport"]

CAP = 10_000
SETTINGS = HttpSettings(
    contact="ops@example.org", connect_timeout_s=30.0, read_timeout_s=1.0, total_timeout_s=2.0, body_max_bytes=CAP
)
STOPPED_S = 2.2  # longer than an answer may take
TIMERS_DUE_S = 0.15
OPENING_STEPS = 7  # of the event loop, until a request is sent


def zipped(body: bytes) -> bytes:
    """The same bytes at every moment: they are part of test names, which all workers must agree on."""
    return gzip.compress(body, mtime=0)


def answering(body: bytes, *, status: str = "200 OK", headers: str = "") -> Behaviour:
    async def behave(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(body, status=status, headers=headers)

    return behave


def sending(data: bytes, *, then_close: bool = True) -> Behaviour:
    async def behave(_request: WireRequest, wire: Wire) -> None:
        await wire.send(data)
        if then_close:
            wire.close()

    return behave


async def drip(_request: WireRequest, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        await wire.send(b" ")
        await asyncio.sleep(0.05)


async def pour(_request: WireRequest, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await wire.send(b"400\r\n" + b"x" * 0x400 + b"\r\n")


async def pour_trailer(_request: WireRequest, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Long: ")
    while True:
        await wire.send(b"x" * 0x4000)


async def answer_while_nobody_reads(_request: WireRequest, wire: Wire) -> None:
    """The process is stopped after the answer has come, and wakes with its timers before it reads."""

    async def answer_and_stop() -> None:
        await wire.answer(b"{}")
        time.sleep(STOPPED_S)  # noqa: ASYNC251 - nothing else may run

    stopping = asyncio.create_task(answer_and_stop())
    time.sleep(TIMERS_DUE_S)  # noqa: ASYNC251 - until the timers are due that come right after the answer
    await stopping


@asynccontextmanager
async def exchange(
    behaviour: Behaviour, settings: HttpSettings = SETTINGS
) -> AsyncIterator[tuple[CountingServer, AnyTransport, Gate]]:
    gate = Gate()
    async with (
        CountingServer(behaviour) as server,
        new_transport(settings, gate.wire_sent) as transport,
    ):
        yield server, transport, gate
        assert server.count == gate.departures == gate.wire_sends


async def reply_to(behaviour: Behaviour) -> Reply | NoReply:
    async with exchange(behaviour) as (server, transport, gate):
        return await transport.get(server.url(), gate.permit())


async def body_of(behaviour: Behaviour) -> bytes:
    reply = await reply_to(behaviour)
    assert isinstance(reply, Reply)
    return reply.body


async def fault_of(behaviour: Behaviour) -> Fault:
    reply = await reply_to(behaviour)
    assert isinstance(reply, NoReply)
    assert reply.departed_at_ns is not None
    assert reply.answered_at_ns >= reply.departed_at_ns
    return reply.fault


async def test_what_a_provider_tells_about_its_quota_arrives() -> None:
    told = 'X-RateLimit-Remaining: 5\r\nX-RateLimit-Reset: 60\r\nRateLimit: "a";r=1;t=9\r\nRateLimit: "b";r=2;t=9\r\n'
    reply = await reply_to(answering(b"{}", headers=told))
    assert isinstance(reply, Reply)
    assert dict(reply.headers) == {
        "x-ratelimit-remaining": "5",
        "x-ratelimit-reset": "60",
        "ratelimit": '"a";r=1;t=9, "b";r=2;t=9',
    }


async def test_a_page_in_a_range_is_content_over_the_wire() -> None:
    reply = await reply_to(answering(b"[]", status="206 Partial Content", headers="Content-Range: 0-24/100\r\n"))
    assert has_content(reply, is_page=True)


async def test_a_reply_carries_its_status_body_times_and_the_headers_that_are_read() -> None:
    reply = await reply_to(answering(b"{}", status="429 Slow", headers="RETRY-AFTER: 7\r\nX-Other: 1\r\n"))
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, dict(reply.headers)) == (429, b"{}", {"retry-after": "7"})
    assert reply.answered_at_ns >= reply.departed_at_ns


async def test_an_answer_that_came_while_the_process_was_stopped_is_no_timeout_and_did_not_take_that_long() -> None:
    async with exchange(answer_while_nobody_reads) as (server, transport, gate):
        reply = await transport.get(server.url(), gate.permit())
        assert isinstance(reply, Reply)
        assert reply.body == b"{}"
        if isinstance(transport, LeanTransport):  # the other does not tell how late it reads
            assert reply.answered_at_ns - reply.departed_at_ns - reply.late_ns < SECOND_NS * STOPPED_S / 2


async def test_a_stop_of_the_process_while_a_connection_is_opened_is_no_timeout() -> None:
    for steps in range(OPENING_STEPS):
        async with exchange(answering(b"{}"), replace(SETTINGS, connect_timeout_s=0.2)) as (server, transport, gate):
            getting = asyncio.create_task(transport.get(server.url(), gate.permit()))
            for _ in range(steps):
                await asyncio.sleep(0)
            time.sleep(0.4)  # noqa: ASYNC251 - nothing else may run
            assert isinstance(await getting, Reply), steps


async def test_a_body_of_exactly_the_bound_is_read_and_one_byte_more_is_too_large() -> None:
    assert await body_of(answering(b"x" * CAP)) == b"x" * CAP
    assert await fault_of(answering(b"x" * (CAP + 1))) is Fault.TOO_LARGE


async def test_a_body_without_a_length_is_cut_off_at_the_bound() -> None:
    assert await fault_of(pour) is Fault.TOO_LARGE


async def test_what_follows_a_body_is_bounded_like_what_comes_before_it() -> None:
    assert await fault_of(pour_trailer) is Fault.CONNECTION


async def test_a_trailer_changes_nothing_of_the_answer_before_it() -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Encoding: gzip\r\n\r\n"
    assert await body_of(sending(whole)) == b"hello"


async def test_silence_and_a_slow_drip_both_run_into_a_timeout() -> None:
    assert await fault_of(hang) is Fault.TIMEOUT
    assert await fault_of(drip) is Fault.TIMEOUT


@pytest.mark.parametrize(
    "encoding, body",
    [
        ("gzip", zipped(b"hello")),
        ("gzip", zipped(b"hel") + zipped(b"lo")),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello", wbits=-15)),
        ("identity", b"hello"),
    ],
)
async def test_a_body_compressed_against_our_wish_is_read(encoding: str, body: bytes) -> None:
    assert await body_of(answering(body, headers=f"Content-Encoding: {encoding}\r\n")) == b"hello"


@pytest.mark.parametrize(
    "encoding, body",
    [
        ("gzip", zipped(b"hello")[:-4]),
        ("gzip", b"hello"),
        ("gzip", zipped(b"") * 100),
        ("deflate", b"\xff\xff"),
        ("br", b"hello"),
        ("gzip, gzip", zipped(zipped(b"hello"))),
    ],
)
async def test_a_body_that_is_not_what_its_encoding_says_is_a_bad_encoding(encoding: str, body: bytes) -> None:
    assert await fault_of(answering(body, headers=f"Content-Encoding: {encoding}\r\n")) is Fault.BAD_ENCODING


async def test_a_small_body_that_unpacks_beyond_the_bound_is_too_large() -> None:
    bomb = zipped(b"\0" * 50_000_000)[:CAP] if CAP > 60_000 else zipped(b"\0" * (CAP * 200))
    assert len(bomb) < CAP
    assert await fault_of(answering(bomb, headers="Content-Encoding: gzip\r\n")) is Fault.TOO_LARGE


async def test_what_is_not_http_is_no_reply() -> None:
    assert await fault_of(sending(b"220 mail.example ESMTP\r\n\r\n")) is Fault.CONNECTION
    assert await fault_of(sending(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")) is Fault.CONNECTION


async def test_a_body_shorter_than_promised_is_no_reply() -> None:
    assert await fault_of(sending(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"id"')) is Fault.CONNECTION


async def test_a_length_with_thousands_of_zeros_before_it_is_still_that_length() -> None:
    padded = b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5_000
    assert await body_of(sending(padded + b"5\r\n\r\nhello")) == b"hello"
    assert await fault_of(sending(padded + b"%d\r\n\r\n" % (CAP + 1))) is Fault.TOO_LARGE


async def test_a_body_is_as_long_as_promised_also_where_a_rule_looks_at_the_length() -> None:
    settings = replace(SETTINGS, further_headers=("content-length",))
    for body in (b'{"id"', b'{"id":4}'):
        promised = sending(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + body)
        async with exchange(promised, settings) as (server, transport, gate):
            reply = await transport.get(server.url(), gate.permit())
        if len(body) < 8:
            assert isinstance(reply, NoReply)
        else:
            assert isinstance(reply, Reply)
            assert reply.headers["content-length"] == "8"


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async with CountingServer() as elsewhere:
        reply = await reply_to(answering(b"", status="302 Found", headers=f"Location: {elsewhere.url()}\r\n"))
        assert isinstance(reply, Reply)
        assert reply.status == 302
        assert elsewhere.connections == 0


async def test_requests_name_the_tool_and_its_contact_and_carry_no_cookies() -> None:
    async with exchange(answering(b"{}", headers="Set-Cookie: track=1\r\n")) as (server, transport, gate):
        await transport.get(server.url("/a%2Fb"), gate.permit(), headers={"Authorization": "Bearer t"})
        await transport.get(server.url(), gate.permit())
        first, second = server.requests
    assert first.target == "/a%2Fb"
    assert first.headers["user-agent"].startswith("remora/")
    assert "ops@example.org" in first.headers["user-agent"]
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["authorization"] == "Bearer t"
    assert "cookie" not in second.headers
    assert "authorization" not in second.headers


async def test_a_header_of_the_owner_replaces_the_one_that_every_request_has() -> None:
    async with exchange(answering(b"{}")) as (server, transport, gate):
        own = {"user-agent": "mine/1", "Accept": "application/json"}
        await transport.get(server.url(), gate.permit(), headers=own)
        await transport.post(server.url(), gate.permit(), b"{}", headers=own)
        arrived = [request.headers for request in server.requests]  # of two with one name, the later
    for headers in arrived:
        assert (headers["user-agent"], headers["accept"]) == ("mine/1", "application/json")
        assert headers["accept-encoding"] == "identity"


def test_a_contact_that_no_header_can_carry_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="contact"):
        HttpSettings(contact="ops@example.org\r\nX-Evil: 1")


async def test_neither_address_nor_token_appears_in_what_is_returned_or_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    for behaviour in (hang, sending(b"junk\r\n\r\n"), sending(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")):
        async with exchange(behaviour) as (server, transport, gate):
            url = server.url("/canary-path?canary-query")
            reply = await transport.get(url, gate.permit(), headers={"Authorization": "canary-token"})
            assert "canary" not in repr(reply)
    assert "canary" not in caplog.text


async def test_what_was_left_unread_is_never_taken_for_the_next_answer() -> None:
    for unfinished in (answering(b"x" * (CAP + 1)), pour, drip, hang):
        async with exchange(unfinished) as (server, transport, gate):
            assert isinstance(await transport.get(server.url(), gate.permit()), NoReply)
            server.behaviour = answering(b"next")
            reply = await transport.get(server.url(), gate.permit())
            assert isinstance(reply, Reply)
            assert reply.body == b"next"
