"""Is a name looked up without anybody waiting for a name server that hangs?"""

import asyncio
import socket
from threading import Event
from typing import Any

import pytest

from remora.sources.transport.aiohttp_lookup import LookupResolver
from remora.sources.transport.lookup import THREADS_MAX, Address, Lookups

FOUND: list[Address] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class NameServer:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.asked: list[str] = []

    def ask(self, host: str, *_more: Any) -> list[Address]:
        self.asked.append(host)
        self.go_on.wait(60)
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return FOUND


def test_a_lookup_that_hangs_does_not_hold_up_the_end() -> None:
    server = NameServer()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Lookups(server.ask).addresses("slow.example", 80)

    try:
        asyncio.run(main())
        assert server.asked == ["slow.example"]
        assert not server.go_on.is_set()
    finally:
        server.go_on.set()


async def test_one_host_is_looked_up_once_for_all_who_wait_and_again_later() -> None:
    server = NameServer()
    lookups = Lookups(server.ask)
    waiting = [asyncio.ensure_future(lookups.addresses("one.example", 80)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    server.go_on.set()
    assert await asyncio.gather(*waiting) == [FOUND] * 4
    assert await lookups.addresses("one.example", 80) == FOUND
    assert server.asked == ["one.example"] * 2


async def test_a_lookup_that_takes_too_long_is_begun_again_by_few() -> None:
    server = NameServer()
    lookups = Lookups(server.ask, joined_for_s=0.0)
    waiting = [asyncio.ensure_future(lookups.addresses("one.example", 80)) for _ in range(3 * THREADS_MAX)]
    await asyncio.sleep(0)
    server.go_on.set()
    assert await asyncio.gather(*waiting) == [FOUND] * len(waiting)
    assert len(server.asked) == THREADS_MAX


async def test_a_name_that_nobody_knows_is_an_error_of_the_network() -> None:
    server = NameServer()
    server.go_on.set()
    with pytest.raises(OSError, match="not known"):
        await Lookups(server.ask).addresses("unknown.example", 80)


async def test_aiohttp_gets_addresses_in_numbers() -> None:
    [found] = await LookupResolver().resolve("127.0.0.1", 80)
    assert (found["host"], found["port"], found["family"]) == ("127.0.0.1", 80, socket.AF_INET)
