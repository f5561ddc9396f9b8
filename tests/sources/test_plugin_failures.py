"""What if the code of a plug-in fails while it asks? One thing is owed, everything else is collected."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from remora.contracts import Capabilities, Permit, SourceSetup
from remora.contracts.plugin import SourcePlugin
from remora.contracts.source import Source
from remora.core.item import Decoded, Document, Entry, Page, Readable, Unreadable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import Reply
from remora.sources.plugins import open_plugin
from remora.testing import Answer, CountingGate, Fake, FakeTransport, Request, World, mirror_plugin, not_found

Fail = Callable[[SourceSetup, Permit], Any]


class Shop(Fake):
    """A list of numbers and their texts."""

    def answer(self, request: Request) -> Answer:
        if request.path == "/all":
            lines = [f"{thing.number} {thing.updated_s}\n" for thing in self.world.newest_change_first()]
            return Answer(200, "".join(lines).encode() + b"END\n")
        body = self.truth().get(request.path.removeprefix("/"))
        return not_found() if body is None else Answer(200, body)

    def truth(self) -> dict[str, bytes]:
        return {str(thing.number): f"{thing.text}\nEND\n".encode() for thing in self.world.things()}

    def is_signed(self, request: Request) -> bool:
        return True


class Failing:
    """Asks for one key in a way that fails, the first times."""

    capabilities = Capabilities(list=True)

    def __init__(self, setup: SourceSetup, fail: Fail, failures: list[str]) -> None:
        self.name, self._setup, self._fail, self._failures = setup.name, setup, fail, failures

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply:
        if self._failures and discovery.key == self._failures[0]:
            self._failures.pop()
            return cast("Reply", await self._fail(self._setup, permit))
        path = "/all" if discovery.kind is Kind.PAGE else f"/{discovery.key}"
        return cast("Reply", await self._setup.transport.get(f"{self._setup.url}{path}", permit))

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        if not reply.body.endswith(b"END\n"):
            return Unreadable("cut off")
        if discovery.kind is Kind.DOCUMENT:
            return Readable(Document(discovery.key, reply.body))
        lines = (line.split() for line in reply.body.decode().splitlines()[:-1])
        return Readable(Page(tuple(Entry(key, mark) for key, mark in lines), None))


async def raises_before_it_asks(_setup: SourceSetup, _permit: Permit) -> None:
    raise KeyError("secret-of-the-owner")


async def raises_after_it_asked(setup: SourceSetup, permit: Permit) -> None:
    await setup.transport.get(f"{setup.url}/all", permit)
    raise TimeoutError("secret-of-the-owner")


async def asks_twice(setup: SourceSetup, permit: Permit) -> object:
    await setup.transport.get(f"{setup.url}/all", permit)
    return await setup.transport.get(f"{setup.url}/all", permit)


async def returns_nothing(_setup: SourceSetup, _permit: Permit) -> None:
    return None


async def cancels_what_it_awaits(setup: SourceSetup, permit: Permit) -> None:
    asking = asyncio.ensure_future(setup.transport.get(f"{setup.url}/all", permit))
    asking.cancel()
    await asking


FAILURES = {
    raises_before_it_asks: "KeyError",
    raises_after_it_asked: "TimeoutError",
    asks_twice: "SourceFailed",
    returns_nothing: "WrongResult",
    cancels_what_it_awaits: "CancelledError",
}


def plugin(fail: Fail, failures: list[str], kind: type[Failing] = Failing) -> SourcePlugin:
    return SourcePlugin(
        make=lambda setup: cast("Source", kind(setup, fail, failures)),
        capabilities=Failing.capabilities,
        url="https://shop.example",
    )


@pytest.mark.slow
@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("key", ["", "3"], ids=["the list", "a detail"])
def test_a_fetch_that_fails_costs_one_attempt_of_one_thing(fail: Fail, key: str) -> None:
    shop = Shop(World(things=8), faults=0.0)
    with capture_logs() as events:
        mirrored = mirror_plugin(plugin(fail, [key, key]), shop, kills=0)
    assert mirrored.documents == shop.truth()
    told = [event for event in events if event["event"] == "plugin_failed"]
    assert [event["error"] for event in told] == [FAILURES[fail]] * 2
    assert "secret-of-the-owner" not in str(events)


class Busy(Shop):
    """A shop that takes few requests at once."""

    limit = (5, 60)


class Picky(Failing):
    """Raises where others return what the provider answered."""

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply:
        reply = await super().fetch(discovery, permit)
        if reply.status != 200:
            raise OSError(f"HTTP {reply.status}")
        return reply


@pytest.mark.slow
@pytest.mark.parametrize("others_every", [0, 7])
def test_a_refusal_slows_down_a_plugin_that_raises_as_it_does_one_that_returns_it(others_every: int) -> None:
    def refusals(kind: type[Failing]) -> tuple[int, int]:
        shop = Busy(World(things=40), others_every=others_every)
        mirrored = mirror_plugin(plugin(returns_nothing, [], kind), shop, kills=0)
        assert mirrored.documents == shop.truth()
        return mirrored.refusals, mirrored.requests

    assert refusals(Picky) == refusals(Failing)


async def test_a_plugin_that_ignores_its_cancellation_is_cancelled_all_the_same() -> None:
    begun = asyncio.Event()

    class Deaf(Failing):
        async def fetch(self, discovery: Discovery, permit: Permit) -> Reply:
            try:
                begun.set()
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                pass
            return await super().fetch(discovery, permit)

    setup = SourceSetup("shop", "https://shop.example", FakeTransport(Shop(World(things=1))))
    source = open_plugin("shop", plugin(returns_nothing, [], Deaf), setup)
    asking = asyncio.ensure_future(source.fetch(Discovery(Kind.PAGE, "", Lane.WALK), CountingGate().permit()))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


class GateClosed(Exception):
    """What a gate says that cannot be passed."""


async def test_a_gate_that_fails_is_not_called_a_failure_of_the_plugin() -> None:
    class Closed:
        async def depart(self) -> int:
            raise GateClosed

        def sent(self) -> None:
            raise AssertionError

    setup = SourceSetup("shop", "https://shop.example", FakeTransport(Shop(World(things=1))))
    source = open_plugin("shop", plugin(returns_nothing, []), setup)
    asked = Discovery(Kind.PAGE, "", Lane.WALK)
    with capture_logs() as events, pytest.raises(GateClosed):
        await source.fetch(asked, cast("Permit", Closed()))
    assert not events
    assert isinstance(await source.fetch(asked, CountingGate().permit()), Reply)
