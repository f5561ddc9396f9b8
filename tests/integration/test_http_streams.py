"""How does an event stream begin, go silent, move and end? Each in its own word, never at a foreign host."""

import asyncio
import zlib
from contextlib import aclosing

import pytest

from remora.contracts import StreamBroken
from remora.core.units import SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.aiohttp_client import STREAM_HOPS_MAX, _belongs_to
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from tests.counting_server import Behaviour, CountingServer, Wire, WireRequest, hang
from tests.sources.permits import Gate, LoopClock


def streaming_transport(*hosts: str) -> HttpTransport:
    settings = HttpSettings(connect_timeout_s=1.0, read_timeout_s=1.0, stream_idle_timeout_s=1.0, stream_hosts=hosts)
    return HttpTransport(settings, clock=LoopClock(), wire_sent=Gate().wire_sent)


async def two_events_then_the_end(_request: WireRequest, wire: Wire) -> None:
    await wire.open_event_stream()
    await wire.send(b"event: put\n")
    await asyncio.sleep(0.01)
    await wire.send(b"data: null\n\n")
    wire.close()


def moved_to(location: str, status: str = "307 Temporary Redirect") -> Behaviour:
    async def behave(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(b"", status=status, headers=f"Location: {location}\r\n")

    return behave


async def collected(server: CountingServer, *hosts: str) -> bytes:
    async with streaming_transport(*hosts) as transport:
        return b"".join([chunk async for chunk in transport.stream(server.url("/updates.json"), Gate().connect)])


async def reason(server: CountingServer, *hosts: str) -> str:
    with pytest.raises(StreamBroken) as broken:
        await collected(server, *hosts)
    assert "127.0.0.1" not in str(broken.value)
    assert broken.value.__cause__ is None
    return broken.value.reason


async def test_a_stream_gives_its_bytes_and_ends_without_an_error() -> None:
    async with CountingServer(two_events_then_the_end) as server:
        assert await collected(server) == b"event: put\ndata: null\n\n"
        assert server.requests[0].headers["accept"] == "text/event-stream"


async def test_a_stream_without_a_byte_for_too_long_is_silent() -> None:
    async def fall_silent(_request: WireRequest, wire: Wire) -> None:
        await wire.open_event_stream()
        await asyncio.Event().wait()

    async with CountingServer(fall_silent) as server:
        assert await reason(server) == "silent"


async def test_a_byte_now_and_then_keeps_a_stream_alive() -> None:
    async def breathe(_request: WireRequest, wire: Wire) -> None:
        await wire.open_event_stream()
        for _ in range(6):
            await wire.send(b":\n")
            await asyncio.sleep(0.1)
        wire.close()

    async with CountingServer(breathe) as server:
        assert await collected(server) == b":\n" * 6


async def test_a_stream_that_does_not_open_says_why_and_is_asked_for_once() -> None:
    async def refuse(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(b"", status="503 Busy")

    async def be_a_page(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(b"<html>", headers="Content-Type: text/html\r\n")

    async def drop(_request: WireRequest, wire: Wire) -> None:
        wire.reset()

    expected: list[tuple[Behaviour, str]] = [
        (refuse, "status_503"),
        (be_a_page, "not_an_event_stream"),
        (drop, "connection"),
        (hang, "timeout"),
    ]
    for behaviour, why in expected:
        async with CountingServer(behaviour) as server:
            assert await reason(server) == why
            assert server.count == 1


def compressed_as(encoding: str, *chunks: bytes) -> Behaviour:
    """A stream that sends these bytes as its content."""

    async def behave(_request: WireRequest, wire: Wire) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {encoding}\r\n"
        await wire.send(f"{head}Connection: close\r\n\r\n".encode())
        for chunk in chunks:
            await wire.send(chunk)
            await asyncio.sleep(0.01)
        wire.close()

    return behave


def compressed(*events: bytes, wbits: int) -> list[bytes]:
    """Each event as it leaves a server that compresses its stream."""
    deflater = zlib.compressobj(wbits=wbits)
    return [deflater.compress(event) + deflater.flush(zlib.Z_SYNC_FLUSH) for event in events]


@pytest.mark.parametrize("encoding, wbits", [("gzip", 31), ("X-GZIP", 31), ("deflate", 15)])
async def test_a_stream_that_is_compressed_unasked_gives_its_events_in_bounded_parts(encoding: str, wbits: int) -> None:
    events = (b"data: 1\n\n", b"data: 2\r", b"\n\r\n", b"data: " + b"x" * 300_000 + b"\n\n")
    chunks = compressed(*events, wbits=wbits)
    split = [chunk[at : at + 1_000] for chunk in chunks for at in range(0, len(chunk), 1_000)]
    async with CountingServer(compressed_as(encoding, *split)) as server, streaming_transport() as transport:
        stream = transport.stream(server.url("/updates"), Gate().connect)
        given = [chunk async for chunk in stream]
        assert b"".join(given) == b"".join(events)
        assert max(map(len, given)) <= 64 * 1024


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_a_stream_in_another_encoding_than_it_says_or_in_an_unknown_one_is_broken(encoding: str) -> None:
    async with CountingServer(compressed_as(encoding, b"data: 1\n\n")) as server:
        assert await reason(server) == "bad_encoding"


async def test_a_stream_that_is_reset_breaks() -> None:
    async def reset_later(_request: WireRequest, wire: Wire) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await wire.send(head + b"b\r\nevent: put\n\r\n")
        await asyncio.sleep(0.02)
        wire.reset()

    async with CountingServer(reset_later) as server:
        assert await reason(server) == "connection"


async def test_a_move_within_the_provider_is_followed() -> None:
    async with (
        CountingServer(two_events_then_the_end, host="localhost") as second,
        CountingServer(moved_to(second.url("/elsewhere?ns=a%2Fb"))) as first,
    ):
        assert await collected(first, ".localhost") == b"event: put\ndata: null\n\n"
        assert second.requests[0].target == "/elsewhere?ns=a%2Fb"


async def test_a_token_goes_to_the_address_that_its_owner_wrote_and_not_to_where_a_stream_moved() -> None:
    gate = Gate()
    async with (
        CountingServer(two_events_then_the_end, host="localhost") as second,
        CountingServer(moved_to(second.url("/elsewhere"))) as first,
        HttpTransport(
            HttpSettings(stream_hosts=(".localhost",)), clock=LoopClock(), wire_sent=gate.wire_sent
        ) as transport,
    ):
        stream = transport.stream(first.url("/updates"), gate.connect, headers={"Authorization": "Bearer s3cret"})
        assert [chunk async for chunk in stream]
        assert first.requests[0].headers["authorization"] == "Bearer s3cret"
        assert "authorization" not in second.requests[0].headers


@pytest.mark.parametrize("location", ["{foreign}", "ftp://127.0.0.1/", "http://user:pw@127.0.0.1/", "http://[", ""])
async def test_a_move_anywhere_else_is_refused_before_a_connection_is_made(location: str) -> None:
    async with CountingServer(host="localhost") as foreign:
        async with CountingServer(moved_to(location.replace("{foreign}", foreign.url()))) as server:
            assert await reason(server, "example.com", "host") in {"foreign_host", "bad_redirect"}
        assert foreign.connections == 0


@pytest.mark.parametrize(
    "name, host, belongs",
    [
        ("provider.example", "provider.example", True),
        ("s1.provider.example", "provider.example", True),
        ("evilprovider.example", "provider.example", False),
        ("provider.example.evil.example", "provider.example", False),
        ("evil.example", "example", False),
        ("127.0.0.2", "0.0.2", False),
        ("", "provider.example", False),
    ],
)
def test_only_a_name_or_one_below_it_belongs_to_a_provider(name: str, host: str, belongs: bool) -> None:
    assert _belongs_to(name, host) is belongs


@pytest.mark.parametrize("location", ["http://127.0.0.1:99999/", "http://127.0.0.1:port/", "http://xn--a/"])
async def test_a_move_to_an_address_that_nobody_can_connect_to_breaks_the_stream_and_nothing_else(
    location: str,
) -> None:
    async with CountingServer(moved_to(location)) as server:
        assert await reason(server) == "bad_redirect"
        assert server.count == 1


async def test_only_a_temporary_move_is_followed() -> None:
    async with CountingServer(moved_to("/again", "301 Moved")) as server:
        assert await reason(server) == "status_301"


async def test_a_stream_that_moves_in_circles_is_given_up() -> None:
    async with CountingServer(moved_to("/again")) as server:
        assert await reason(server) == "too_many_redirects"
        assert server.count == STREAM_HOPS_MAX + 1


async def test_closing_a_stream_lets_go_of_its_connection_at_once() -> None:
    gone = asyncio.Event()

    async def send_until_gone(_request: WireRequest, wire: Wire) -> None:
        await wire.open_event_stream()
        try:
            while True:
                await wire.send(b":\n")
                await asyncio.sleep(0.01)
        except ConnectionError:
            gone.set()

    async with CountingServer(send_until_gone) as server, streaming_transport() as transport:
        async with aclosing(transport.stream(server.url(), Gate().connect)) as chunks:
            assert await anext(chunks) == b""
            assert await anext(chunks)
        await asyncio.wait_for(gone.wait(), timeout=120)
        assert server.connections == 1


@pytest.mark.parametrize("header, wait_s", [("Retry-After: 90\r\n", 90), ("Retry-After: soon\r\n", 0), ("", 0)])
async def test_a_stream_that_is_refused_says_how_long_the_provider_asks_to_wait(header: str, wait_s: int) -> None:
    async def too_many(_request: WireRequest, wire: Wire) -> None:
        await wire.answer(b"", status="429 Too Many Requests", headers=header)

    async with CountingServer(too_many) as server:
        with pytest.raises(StreamBroken) as broken:
            await collected(server)
    assert (broken.value.reason, broken.value.wait_ns) == ("status_429", wait_s * SECOND_NS)


async def test_every_connect_takes_a_permit_and_tells_the_gate_what_it_was_answered() -> None:
    gate = Gate()
    async with CountingServer(two_events_then_the_end) as last, CountingServer(moved_to(last.url("/b"))) as first:
        settings = HttpSettings(stream_hosts=("127.0.0.1",))
        async with HttpTransport(settings, clock=LoopClock(), wire_sent=gate.wire_sent) as transport:
            assert [chunk async for chunk in transport.stream(first.url("/a"), gate.connect)]
        assert gate.departures == gate.wire_sends == len(first.requests) + len(last.requests) == 2
        assert [reply.status for reply in gate.connects if isinstance(reply, Reply)] == [307, 200]


async def test_a_connect_that_nobody_answers_is_told_to_the_gate() -> None:
    gate = Gate()
    async with HttpTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent) as transport:
        with pytest.raises(StreamBroken, match="connection"):
            await anext(transport.stream("http://127.0.0.1:9/", gate.connect))
    (answer,) = gate.connects
    assert answer == NoReply(Fault.CONNECTION, None, answer.answered_at_ns)
    assert gate.departures == 0
