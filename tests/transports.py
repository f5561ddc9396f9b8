"""Which transports must keep the promises of a transport? All of them, in the same tests, one after the other."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from remora.sources.transport.aiohttp_client import AiohttpTransport
from remora.sources.transport.lean import LeanTransport
from remora.sources.transport.poller import EpollPoller, LoopPoller, Poller
from remora.sources.transport.settings import HttpSettings
from tests.sources.permits import LoopClock

MakePoller = Callable[[asyncio.AbstractEventLoop, Callable[[], bool]], Poller]


AnyTransport = AiohttpTransport | LeanTransport


def lean(make_poller: MakePoller) -> Callable[[HttpSettings, Callable[[], None]], LeanTransport]:
    return lambda settings, wire_sent: LeanTransport(
        settings, clock=LoopClock(), wire_sent=wire_sent, poller=make_poller
    )


TRANSPORTS: dict[str, Callable[[HttpSettings, Callable[[], None]], AnyTransport]] = {
    "aiohttp": lambda settings, wire_sent: AiohttpTransport(settings, clock=LoopClock(), wire_sent=wire_sent),
    "lean, one epoll": lean(EpollPoller),
    "lean, the loop's readers": lean(LoopPoller),
}
_in_use: ContextVar[str] = ContextVar("_in_use")


@contextmanager
def using(name: str) -> Iterator[None]:
    token = _in_use.set(name)
    try:
        yield
    finally:
        _in_use.reset(token)


def new_transport(settings: HttpSettings, wire_sent: Callable[[], None]) -> AnyTransport:
    """One of the kind that this test is run with."""
    return TRANSPORTS[_in_use.get()](settings, wire_sent)


@pytest.fixture(autouse=True, params=list(TRANSPORTS))
def every_transport(request: pytest.FixtureRequest) -> Iterator[None]:
    """Import this name into a module of tests: each of them then runs once for every transport."""
    with using(request.param):
        yield
