"""Does every kind of request pass the one gate? The real gate and transport, counted by a server that misbehaves."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import cycle
from typing import NamedTuple

import pytest
import uvloop

from remora.collect import Collector
from remora.contracts import Source
from remora.core.lanes import ORDER, Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.units import SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.operate.jobs.clock import SystemClock
from remora.sim.meter import CountingMeter
from remora.sources.hackernews import HackerNews
from remora.sources.listed import Listed, ListedSettings
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from remora.stores.memory import MemoryStore
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.warm_start import learned_pace

NAME = "any"
PER_S = 500
FOR_S = 1.0
WORKERS = 24
NUMBERED = [Discovery.newest(), Discovery(Kind.USER, "pg", Lane.UPDATE)]
NUMBERED += [Discovery.item(number, via=lane) for number, lane in enumerate(ORDER, 1)]
LISTED = [Discovery(Kind.PAGE, "0", Lane.WALK), *(Discovery(Kind.DOCUMENT, key, Lane.DETAIL) for key in "abc")]


class Counts(NamedTuple):
    departures: int
    wire_sends: int
    arrived: int
    targets: set[str]


async def cut(_request: WireRequest, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    wire.reset()


async def elsewhere(_request: WireRequest, wire: Wire) -> None:
    await wire.answer(status="302 Found", headers="Location: /elsewhere\r\n")


async def refuse(_request: WireRequest, wire: Wire) -> None:
    await wire.answer(status="403 Forbidden")


async def half_close(_request: WireRequest, wire: Wire) -> None:
    await wire.answer()
    wire.half_close()


async def drop(_request: WireRequest, wire: Wire) -> None:
    wire.reset()


@asynccontextmanager
async def collecting(
    source_on: Callable[[HttpTransport], Source],
) -> AsyncIterator[tuple[Collector, Governor, CountingMeter]]:
    clock, store, meter = SystemClock(), MemoryStore(), CountingMeter()
    settings = HttpSettings(in_flight_max=16, read_timeout_s=0.2, total_timeout_s=1.0)
    await store.save_pace(NAME, learned_pace(PER_S))
    async with HttpTransport(settings, clock=clock, wire_sent=lambda: meter.wire_sent(NAME)) as transport:
        limits = Limits(SECOND_NS // PER_S, in_flight=16)
        governor = Governor(NAME, limits, clock=clock, home=LocalHome(NAME, store), meter=meter, chance=random.random)
        await governor.open()
        yield Collector(source_on(transport), store, governor, clock=clock, meter=meter), governor, meter
        await governor.close()


async def restless(ask: Callable[[], Awaitable[object]], dice: random.Random) -> None:
    """Ask again and again, and change one's mind at any moment."""
    until_s = asyncio.get_running_loop().time() + FOR_S
    while asyncio.get_running_loop().time() < until_s:
        asking = asyncio.ensure_future(ask())
        await asyncio.wait([asking], timeout=dice.choice([0.0, 0.002, 0.02, 2.0]))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def scene(things: list[Discovery]) -> Counts:
    dice, bad = random.Random(7), cycle([cut, elsewhere, refuse, half_close, drop])

    async def behave(request: WireRequest, wire: Wire) -> None:
        # Few enough that the circuit stays closed: most of what the gate lets leave should really leave.
        await (next(bad)(request, wire) if request.number % 6 == 0 else wire.answer())

    async with CountingServer(behave) as server:

        def source_on(transport: HttpTransport) -> Source:
            if things is LISTED:
                return Listed(transport, ListedSettings(url=server.url()), name=NAME)
            return HackerNews(transport, server.url("/v0"), name=NAME)

        async with collecting(source_on) as (collector, governor, meter):
            work = [restless(lambda: collector.ask(dice.choice(things)), dice) for _ in range(WORKERS)]
            await asyncio.gather(*work)
            await asyncio.sleep(0.05)  # what was written last may still be on its way to the server
            state = governor.state()
            assert state.departures == meter.total_departures(NAME)
            assert (state.in_flight, state.leaving, state.waiting) == (0, 0, 0)
            return Counts(state.departures, meter.wire_sends[NAME], server.count, {r.target for r in server.requests})


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("things", [NUMBERED, LISTED], ids=["numbered", "listed"])
def test_every_kind_of_request_and_every_retry_has_one_permit(
    things: list[Discovery], new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        counts = runner.run(scene(things))
    assert counts.wire_sends == counts.departures >= PER_S * FOR_S / 10
    # What was written just before its call was cancelled may be torn down before the server reads it.
    assert counts.departures / 4 < counts.arrived <= counts.departures
    assert len(counts.targets) >= len(things) // 2
