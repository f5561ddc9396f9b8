"""Does the lean transport send at once what it can send at once, exactly once, and leave alone what it cannot?"""

import asyncio

from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.lean import LeanTransport
from remora.sources.transport.places import Places
from remora.sources.transport.settings import HttpSettings
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.sources.permits import Gate, LoopClock

SETTINGS = HttpSettings(connect_timeout_s=2.0, read_timeout_s=1.0, total_timeout_s=2.0)


def wire(gate: Gate, settings: HttpSettings = SETTINGS) -> LeanTransport:
    return LeanTransport(settings, clock=LoopClock(), wire_sent=gate.wire_sent)


class Heard:
    """What came back by the callback."""

    def __init__(self) -> None:
        self.replies: list[Reply | NoReply] = []
        self._came = asyncio.Event()

    def __call__(self, reply: Reply | NoReply) -> None:
        self.replies.append(reply)
        self._came.set()

    async def wait(self) -> None:
        async with asyncio.timeout(30):
            await self._came.wait()


async def test_on_an_idle_connection_a_request_is_sent_at_once_and_called_back_once() -> None:
    gate, heard = Gate(), Heard()
    async with CountingServer() as server, wire(gate) as transport:
        await transport.get(server.url(), gate.permit())
        assert transport.get_now((server.url(),), "", gate.permit(), heard) is not None
        assert gate.departures == gate.wire_sends == 2
        await heard.wait()
        assert [isinstance(reply, Reply) for reply in heard.replies] == [True]
        assert isinstance(await transport.get(server.url(), gate.permit()), Reply)
        assert server.count == gate.departures == 3


async def test_without_an_idle_connection_nothing_happens() -> None:
    gate, heard = Gate(), Heard()
    async with CountingServer() as server, wire(gate) as transport:
        permit = gate.permit()
        assert transport.get_now((server.url(),), "", permit, heard) is None
        assert (permit.used, gate.departures, server.count) == (False, 0, 0)


async def test_while_the_gate_holds_it_back_nothing_happens_and_the_connection_stays_usable() -> None:
    gate, held, heard = Gate(), Gate(held_s=0.01), Heard()
    async with CountingServer() as server, wire(gate) as transport:
        await transport.get(server.url(), gate.permit())
        assert transport.get_now((server.url(),), "", held.permit(), Heard()) is None
        assert transport.get_now((server.url(),), "", gate.permit(), heard) is not None
        await heard.wait()
        assert server.count == gate.departures == 2


async def test_a_connection_on_which_something_came_unasked_is_not_taken() -> None:
    told, said = asyncio.Event(), asyncio.Event()

    async def behave(_request: WireRequest, link: Wire) -> None:
        await link.answer()
        await told.wait()
        await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
        said.set()

    gate = Gate()
    async with CountingServer(behave) as server, wire(gate) as transport:
        await transport.get(server.url(), gate.permit())
        told.set()
        await said.wait()
        assert transport.get_now((server.url(),), "", gate.permit(), Heard()) is None
        assert (gate.departures, server.count) == (1, 1)


async def test_with_all_places_taken_nothing_happens() -> None:
    gate, first = Gate(), Heard()
    settings = HttpSettings(connect_timeout_s=2.0, read_timeout_s=1.0, total_timeout_s=2.0, in_flight_max=1)
    async with CountingServer() as server, wire(gate, settings) as transport:
        await transport.get(server.url(), gate.permit())
        assert transport.get_now((server.url(),), "", gate.permit(), first) is not None
        assert transport.get_now((server.url(),), "", gate.permit(), Heard()) is None
        await first.wait()
        assert isinstance(await transport.get(server.url(), gate.permit()), Reply)


async def test_a_request_that_was_given_up_is_never_called_back_and_its_answer_is_nobody_elses() -> None:
    may_answer = asyncio.Event()

    async def behave(request: WireRequest, link: Wire) -> None:
        if request.target == "/late":
            await may_answer.wait()
        await link.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + (b"late" if request.target == "/late" else b"fine")
        )

    gate, heard = Gate(), Heard()
    async with CountingServer(behave) as server, wire(gate) as transport:
        await transport.get(server.url(), gate.permit())
        sent = transport.get_now((server.url(), ""), "late", gate.permit(), heard)
        assert sent is not None
        sent.cancel()
        may_answer.set()
        reply = await transport.get(server.url(), gate.permit())
        assert isinstance(reply, Reply)
        assert (reply.body, heard.replies) == (b"fine", [])


async def test_a_request_that_gets_no_answer_is_called_back_with_the_reason() -> None:
    async def behave(request: WireRequest, link: Wire) -> None:
        if request.target == "/gone":
            link.close()
        else:
            await link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")

    gate, heard = Gate(), Heard()
    async with CountingServer(behave) as server, wire(gate) as transport:
        await transport.get(server.url(), gate.permit())
        assert transport.get_now((server.url(), ""), "gone", gate.permit(), heard) is not None
        await heard.wait()
        (reply,) = heard.replies
        assert isinstance(reply, NoReply)
        assert reply.fault is Fault.CONNECTION


async def test_a_place_that_is_freed_goes_to_the_first_that_waits_and_not_to_one_that_gave_up() -> None:
    places, order = Places(1), list[str]()

    async def use(name: str) -> None:
        async with places:
            order.append(name)
            await asyncio.sleep(0)

    async with places:
        waiting = [asyncio.ensure_future(use(name)) for name in ("given up", "second", "third")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        assert not places.is_free
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["second", "third"]
    assert places.is_free


async def test_a_place_that_was_given_to_somebody_who_gives_up_in_that_moment_is_not_lost() -> None:
    places = Places(1)

    async def use() -> None:
        async with places:
            raise AssertionError("it was cancelled")

    async with places:
        waiting = asyncio.ensure_future(use())
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert places.is_free
