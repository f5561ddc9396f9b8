"""Who may send where refusals are limited and processes share a store? One process at a time: only it can count them.

The others stand by. When it ends, dies or freezes, another one takes over within seconds. That one opens its gate only
then, so it counts what the last one has stored, and as refused what that one may have had in flight.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from remora.contracts import GateHome, Json, LeaderLease, SharedPace
from remora.core.errors import StoreError, StoreUnavailable
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Stretch
from remora.gate.home_around import HomeAround

# Without the right a gate looks again so soon.
AGAIN_S: Final = 1.0


class SoleRight:
    """`contracts.LeaderLease` that all sources of one account in this process hold together."""

    def __init__(self, lease: LeaderLease) -> None:
        self._lease = lease
        self._holder: asyncio.Task[None] | None = None
        self._users = 0
        self._lost: asyncio.Future[None] | None = None  # None: this process does not have the right
        self._given = asyncio.Event()
        self._working: set[asyncio.Future[None]] = set()

    @property
    def unanswered(self) -> StoreError | None:
        """Why the store did not answer the last question for the right."""
        return self._lease.unanswered

    def holds(self) -> bool:
        """Whether this process may send right now."""
        return self._lost is not None and self._lease.holds()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the right and do the work. If it is lost, stop at once and start again, until it is done."""
        self._users += 1
        if self._holder is None:
            self._holder = asyncio.get_running_loop().create_task(self._lease.run(self._hold), name="sole_right")
        try:
            while not await self._work(work, self._holder):
                pass
        finally:
            self._users -= 1
            if not self._users:
                holder, self._holder = self._holder, None
                holder.cancel()
                await _until_ended(holder)

    async def _work(self, work: Callable[[], Awaitable[None]], holder: "asyncio.Task[None]") -> bool:
        """Whether the work is done. Not if the right was lost meanwhile."""
        loop = asyncio.get_running_loop()
        given = loop.create_task(self._given.wait())
        try:
            await asyncio.wait([given, holder], return_when=asyncio.FIRST_COMPLETED)
        finally:
            given.cancel()
        if holder.done():
            holder.result()  # the lease itself has failed
        lost = self._lost
        if lost is None:
            return False
        working = asyncio.ensure_future(work())
        self._working.add(working)
        try:
            await asyncio.wait([working, lost], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return False
            working.result()
            return True
        finally:
            working.cancel()
            await _until_ended(working)
            self._working.discard(working)

    async def _hold(self) -> None:
        """While this runs, the right is ours. All work has ended before anybody gets it again, we ourselves included."""
        self._lost = asyncio.get_running_loop().create_future()
        self._given.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._given.clear()
            self._lost.set_result(None)
            self._lost = None
            if self._working:
                await asyncio.wait(self._working)


async def _until_ended(task: "asyncio.Future[None]") -> None:
    """Wait for its end, also if whoever waits is cancelled meanwhile: nobody else may begin before."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class SoleHome(HomeAround):
    """`contracts.GateHome` that has time only while this process has the right to send."""

    def __init__(self, inner: GateHome, right: LeaderLease) -> None:
        super().__init__(inner)
        self._right = right
        self._again: asyncio.TimerHandle | None = None

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        """None as soon as another process may send, even if this one was frozen and does not know it yet."""
        if self._right.holds():
            return super().stretch(pacer, now_ns=now_ns)
        if self._again is None:  # a heartbeat that was late, but not too late, renews the right without a word
            self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._look_again)
        return None

    def _look_again(self) -> None:
        self._again = None
        if self._gate is not None:
            self._gate.changed()

    async def close(self) -> None:
        """Stop borrowing."""
        if self._again is not None:
            self._again.cancel()
        self._gate = None
        await super().close()

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Store what was learned, unless another process counts by now."""
        if not self._right.holds():
            raise StoreUnavailable("another process may send now", hint="nothing to do: this one stands by")
        return await super().share(
            record, interval_ns=interval_ns, not_before_in_ns=not_before_in_ns, seen_version=seen_version
        )
