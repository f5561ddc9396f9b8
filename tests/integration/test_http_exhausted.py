"""What if this machine has no free descriptors? That is told as our own fault, and nothing leaves."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from remora.contracts import StreamBroken
from remora.core.verdict import Fault, NoReply, Reply
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.sources.permits import Gate, LoopClock

HOSTS = ["127.0.0.1", "localhost"]


async def fine(_request: WireRequest, wire: Wire) -> None:
    await wire.answer(b"{}")


@contextmanager
def no_free_descriptors() -> Iterator[None]:
    """As if everything else in this process held all it may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    held = []
    try:
        while True:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("host", HOSTS)
async def test_a_request_without_a_free_descriptor_is_our_own_fault(host: str) -> None:
    gate = Gate()
    async with (
        CountingServer(fine) as server,
        HttpTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent) as transport,
    ):
        url = server.url().replace("127.0.0.1", host)
        with no_free_descriptors():
            reply = await transport.get(url, gate.permit())
        assert isinstance(reply, NoReply)
        assert (reply.fault, reply.departed_at_ns) == (Fault.EXHAUSTED, None)
        assert gate.departures == 0
        assert isinstance(await transport.get(url, gate.permit()), Reply)


async def test_a_stream_without_a_free_descriptor_is_our_own_fault() -> None:
    async with (
        CountingServer(fine) as server,
        HttpTransport(HttpSettings(), clock=LoopClock(), wire_sent=lambda: None) as transport,
    ):
        with no_free_descriptors(), pytest.raises(StreamBroken, match="exhausted"):
            await anext(transport.stream(server.url(), Gate().connect))


async def test_a_provider_that_is_not_there_is_still_the_providers_trouble() -> None:
    gate = Gate()
    async with HttpTransport(HttpSettings(), clock=LoopClock(), wire_sent=gate.wire_sent) as transport:
        reply = await transport.get("http://127.0.0.1:9/", gate.permit())
    assert isinstance(reply, NoReply)
    assert reply.fault is Fault.CONNECTION
