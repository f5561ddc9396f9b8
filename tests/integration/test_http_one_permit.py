"""Is one permit exactly one request on the wire? Counted by a server, whatever happens to the connection."""

import asyncio
import random
from collections.abc import Callable

import aiohttp
import pytest

from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.settings import HttpSettings
from tests.counting_server import CountingServer, Wire, WireRequest, hang, polite
from tests.sources.permits import Gate
from tests.transports import AnyTransport, every_transport, new_transport

pytestmark = pytest.mark.slow

__all__ = ["every_transport"]

QUICK = HttpSettings(in_flight_max=8, connect_timeout_s=30.0, read_timeout_s=1.0, total_timeout_s=30.0)


def transport_for(gate: Gate, settings: HttpSettings = QUICK) -> AnyTransport:
    return new_transport(settings, gate.wire_sent)


async def drop(_request: WireRequest, wire: Wire) -> None:
    wire.reset()


async def close(_request: WireRequest, wire: Wire) -> None:
    wire.close()


async def answer_then_half_close(_request: WireRequest, wire: Wire) -> None:
    await wire.answer()
    wire.half_close()


async def answer_first_then_drop(request: WireRequest, wire: Wire) -> None:
    if request.number == 1:
        await wire.answer()
    else:
        wire.reset()


async def cut_the_body_short(_request: WireRequest, wire: Wire) -> None:
    await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id":')
    wire.reset()


async def test_the_server_notices_the_second_send_of_a_client_that_sends_twice() -> None:
    async with CountingServer(drop) as server, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(server.url())
        assert server.count == 2


@pytest.mark.parametrize("behaviour", [drop, close, cut_the_body_short])
async def test_a_dropped_connection_is_not_asked_again(behaviour: Callable[..., object]) -> None:
    gate = Gate()
    async with CountingServer(behaviour) as server, transport_for(gate) as transport:  # type: ignore[arg-type]
        reply = await transport.get(server.url(), gate.permit())
        assert isinstance(reply, NoReply)
        assert reply.fault is Fault.CONNECTION
        assert reply.departed_at_ns is not None
        assert server.count == gate.departures == gate.wire_sends == 1


async def test_a_kept_connection_that_drops_is_not_asked_again() -> None:
    gate = Gate()
    async with CountingServer(answer_first_then_drop) as server, transport_for(gate) as transport:
        first = await transport.get(server.url(), gate.permit())
        second = await transport.get(server.url(), gate.permit())
        assert isinstance(first, Reply)
        assert isinstance(second, NoReply)
        assert server.connections == 1
        assert server.count == gate.departures == gate.wire_sends == 2


async def test_half_closed_connections_cost_no_second_request() -> None:
    gate = Gate()
    async with CountingServer(answer_then_half_close) as server, transport_for(gate) as transport:
        for _ in range(20):
            await transport.get(server.url(), gate.permit())
        await server.counted(20)
        assert server.count == gate.departures == gate.wire_sends == 20


async def test_a_cancelled_request_is_sent_at_most_once_and_its_connection_is_not_used_again() -> None:
    gate = Gate()
    async with CountingServer(hang) as server, transport_for(gate) as transport:
        calls = [asyncio.create_task(transport.get(server.url(), gate.permit())) for _ in range(8)]
        await server.counted(len(calls))
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        server.behaviour = polite
        assert isinstance(await transport.get(server.url(), gate.permit()), Reply)
        assert server.count == gate.departures == gate.wire_sends == 9
        assert server.connections == 9


async def test_a_request_that_finds_no_server_never_leaves() -> None:
    gate = Gate()
    async with CountingServer() as server:
        nowhere = server.url()
    async with transport_for(gate) as transport:
        reply = await transport.get(nowhere, gate.permit())
    assert isinstance(reply, NoReply)
    assert (reply.fault, reply.departed_at_ns) == (Fault.CONNECTION, None)
    assert gate.departures == gate.wire_sends == 0


async def test_the_permit_departs_when_the_connection_is_ready_and_the_request_follows_at_once() -> None:
    seen: list[str] = []
    loop = asyncio.get_running_loop()

    def note_departure() -> None:
        seen.append("departed")
        loop.call_soon(seen.append, "the loop turned")

    gate = Gate(on_departure=note_departure)
    async with CountingServer() as server:
        transport = new_transport(QUICK, lambda: seen.append("written"))
        async with transport:
            await transport.get(server.url(), gate.permit())
            await transport.get(server.url(), gate.permit())
    assert seen == ["departed", "written", "the loop turned"] * 2


async def test_waiting_in_the_gate_is_not_counted_as_the_providers_slowness() -> None:
    gate = Gate(held_s=1.5)
    settings = HttpSettings(connect_timeout_s=1.0, read_timeout_s=1.0, total_timeout_s=1.0)
    async with CountingServer() as server, transport_for(gate, settings) as transport:
        assert isinstance(await transport.get(server.url(), gate.permit()), Reply)


async def test_a_connection_that_dies_while_the_gate_holds_the_permit_sends_nothing() -> None:
    wires: list[Wire] = []

    async def remember(_request: WireRequest, wire: Wire) -> None:
        wires.append(wire)
        await wire.answer()

    quick, slow = Gate(), Gate(held_s=1.0)
    async with CountingServer(remember) as server, transport_for(quick) as transport:
        await transport.get(server.url(), quick.permit())
        call = asyncio.create_task(transport.get(server.url(), slow.permit()))
        await asyncio.sleep(0.02)
        wires[0].reset()
        reply = await call
        assert isinstance(reply, NoReply)
        assert server.count == 1
        # Its permit is spent. Were it not counted, one request without a permit could later hide behind it.
        assert quick.wire_sends == quick.departures + slow.departures == 2


async def test_no_more_than_the_bound_is_in_flight() -> None:
    gate = Gate()
    settings = HttpSettings(in_flight_max=3, read_timeout_s=1.0)
    async with CountingServer(hang) as server, transport_for(gate, settings) as transport:
        await asyncio.gather(*(transport.get(server.url(), gate.permit()) for _ in range(6)))
        assert server.connections == 6
        assert gate.departures == server.count == 6
    most = {request.connection for request in server.requests[:3]}
    assert most == {1, 2, 3}


@pytest.mark.parametrize("seed", range(4))
async def test_under_random_weather_wire_sends_equal_departures(seed: int) -> None:
    dice = random.Random(seed)

    async def weather(_request: WireRequest, wire: Wire) -> None:
        match dice.randrange(7):
            case 0:
                wire.reset()
            case 1:
                wire.close()
            case 2:
                await answer_then_half_close(_request, wire)
            case 3:
                await cut_the_body_short(_request, wire)
            case 4:
                await asyncio.sleep(dice.random() / 50)
                await wire.answer(b"null", status="503 Busy")
            case _:
                await wire.answer()

    gate = Gate()
    async with CountingServer(weather) as server, transport_for(gate) as transport:

        async def one_call() -> None:
            await asyncio.sleep(dice.random() / 10)
            call = asyncio.create_task(transport.get(server.url(), gate.permit()))
            done, _waiting = await asyncio.wait([call], timeout=dice.choice([0.005, 5.0]))
            if not done:
                call.cancel()
                await asyncio.wait([call])

        await asyncio.gather(*(one_call() for _ in range(200)))
        await asyncio.sleep(0.05)  # what was written last may still be on its way to the server
        assert gate.wire_sends == gate.departures
        # A request written just before its call was cancelled may be torn down before the server reads it.
        assert gate.departures - 100 < server.count <= gate.departures


def test_the_same_holds_on_the_faster_event_loop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def scene() -> tuple[int, int, int]:
        gate = Gate()
        async with CountingServer(answer_first_then_drop) as server, transport_for(gate) as transport:
            for _ in range(5):
                await transport.get(server.url(), gate.permit())
            return server.count, gate.departures, gate.wire_sends

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scene()) == (5, 5, 5)
