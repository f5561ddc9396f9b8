"""Does a command that must be the only one work once, refuse in time, and end when it no longer is?"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from remora.core.errors import SourceBusy, StoreUnavailable
from remora.operate.cli.common import if_busy
from remora.operate.jobs.alone import alone
from tests.gate.rig import simulated
from tests.gate.test_sole import Lease

NAME = "chats"


def in_simulated_time(main: Callable[[Lease], Awaitable[None]]) -> None:
    simulated(lambda _clock: main(Lease()))


async def seven() -> int:
    await asyncio.sleep(60)
    return 7


def test_it_returns_what_the_work_returned_and_gives_the_lease_back() -> None:
    async def main(lease: Lease) -> None:
        lease.give()
        assert await alone(Once(lease), NAME, seven) == 7
        assert not lease.is_held

    in_simulated_time(main)


class Once(Lease):
    """A lease whose run ends with its work."""

    def __init__(self, other: Lease) -> None:
        super().__init__()
        self._other = other

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        await self._other.given.wait()
        await work()


def test_it_refuses_while_another_process_holds_the_lease() -> None:
    async def main(lease: Lease) -> None:
        with pytest.raises(SourceBusy, match="another process runs chats on this store"):
            await alone(lease, NAME, seven)

    in_simulated_time(main)


def test_it_says_so_if_the_store_did_not_tell_who_holds_the_lease() -> None:
    async def main(lease: Lease) -> None:
        lease.unanswered = StoreUnavailable("PostgreSQL has no free connection", hint="raise max_connections")
        with pytest.raises(StoreUnavailable, match="no free connection"):
            await alone(lease, NAME, seven)

    in_simulated_time(main)


def test_it_ends_when_the_lease_is_lost_and_does_not_begin_again() -> None:
    async def main(lease: Lease) -> None:
        begun = 0

        async def work() -> None:
            nonlocal begun
            begun += 1
            await asyncio.Event().wait()

        lease.give()
        working = asyncio.get_running_loop().create_task(alone(lease, NAME, work))
        await asyncio.sleep(5)
        lease.take()
        with pytest.raises(SourceBusy, match="another process may run chats now"):
            await working
        assert begun == 1

    in_simulated_time(main)


@pytest.mark.parametrize(
    "error", [ValueError("our own mistake"), TimeoutError(), StoreUnavailable("gone", hint="wait")]
)
def test_what_the_work_or_the_lease_raises_is_raised_at_once(error: Exception) -> None:
    class Broken(Lease):
        async def run(self, work: Callable[[], Awaitable[None]]) -> None:
            del work
            raise error

    async def broken() -> None:
        raise error

    async def main(lease: Lease) -> None:
        lease.give()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for right, work in ((Broken(), seven), (Once(lease), broken)):
            with pytest.raises(type(error)):
                await alone(right, NAME, work)
        assert loop.time() - began_s < 1

    in_simulated_time(main)


def test_a_busy_source_keeps_its_own_hint() -> None:
    with pytest.raises(SourceBusy, match="wait for it"), if_busy("use PostgreSQL"):
        raise SourceBusy("another process runs chats on this store", hint="wait for it")
