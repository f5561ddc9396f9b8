"""Which single process may do this? One at a time; another takes over within seconds if it dies or freezes.

It takes two locks. The first is an advisory lock on a separate session: the server frees it when the process dies and
ends the session when it is silent. The second is a lease row with a fencing token, judged by the database's clock: a
successor waits until the holder must have noticed. A holder counts its lease on its own monotonic clock from before its
last heartbeat was sent, so holder and successor never overlap.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from remora.contracts import Clock
from remora.core.errors import StoreError, StoreRefused, StoreUnavailable
from remora.core.units import SECOND_NS
from remora.stores.postgres.connections import Connection, Row, check_address, connect, explaining
from remora.stores.postgres.statements import SQL

# Together with one polling interval it is below 15 s, the time in which a successor must have taken over.
LEASE_NS: Final = 9 * SECOND_NS
BEAT_EVERY_NS: Final = 2 * SECOND_NS
ASK_EVERY_NS: Final = SECOND_NS
# The server ends a session that is silent for one lease, so a frozen process cannot keep the advisory lock.
SESSION_SILENT_MS: Final = LEASE_NS // 1_000_000
BEAT_TIMEOUT_MS: Final = 2_000

# A database that is restored, or whose rights are corrected, refuses for a while.
AWAY: Final = (StoreUnavailable, StoreRefused)

T = TypeVar("T")


class Superseded(StoreUnavailable):
    """Another process has taken over."""

    def __init__(self, name: str) -> None:
        super().__init__(f"another process may run {name} now", hint="nothing to do; this one stands by")


@dataclass(slots=True)
class _Held:
    fence: int
    until_ns: int  # on our own monotonic clock, rounded to the safe side


class Singleton:
    """The right to do one named thing alone. `take`, then `beat` at least every two seconds while `holds`."""

    def __init__(self, url: str, name: str, *, owner: str, clock: Clock) -> None:
        check_address(url)
        self._url = url
        self.name = name
        self._owner = owner
        self._clock = clock
        self._session: Connection | None = None
        self._is_locked = False
        self._held: _Held | None = None
        self.unanswered: StoreError | None = None  # why the database did not answer the last question

    @property
    def fence(self) -> int | None:
        """The fencing token, which grows with every holder; None while this process is not the holder."""
        return self._held.fence if self.holds() and self._held is not None else None

    def holds(self) -> bool:
        """Whether this process is the holder now. Cheap; asked before every action; false at once after a freeze."""
        return self._held is not None and self._clock.monotonic_ns() < self._held.until_ns

    def check(self) -> None:
        """Raise `Superseded` unless this process is the holder."""
        if not self.holds():
            raise Superseded(self.name)

    async def take(self) -> bool:
        """Become the holder if there is none."""
        assert not self.holds(), f"{self.name} is taken already"
        self._held = None
        asked_at_ns = self._clock.monotonic_ns()
        row = await self._ask("take_singleton", {"owner": self._owner, "lease_ns": LEASE_NS})
        if row is None:
            return False
        self._held = _Held(int(row[0]), asked_at_ns + LEASE_NS)
        return self.holds()

    async def beat(self) -> bool:
        """Extend the lease. False: another process has taken over, or may have, and this one must stop."""
        if self._held is None:
            return False
        asked_at_ns = self._clock.monotonic_ns()
        row = await self._ask("beat_singleton", {"fence": self._held.fence, "lease_ns": LEASE_NS})
        if row is None:
            self._held = None
            return False
        self._held.until_ns = asked_at_ns + LEASE_NS
        return self.holds()

    async def release(self) -> None:
        """Let another process take over at once."""
        held, self._held = self._held, None
        with suppress(*AWAY):
            if held is not None and self._session is not None:
                await self._ask("release_singleton", {"fence": held.fence})
                await self._ask("unlock_singleton", {})
        await self._drop_session()

    async def run(self, work: Callable[["Singleton"], Awaitable[T]]) -> T:
        """Wait to become the holder, do the work, and start again whenever the lease is lost.

        The work is cancelled as soon as the loss is known. Until then the work itself must `check`.
        """
        while True:
            await self._wait_to_take()
            working = asyncio.ensure_future(work(self))
            try:
                await self._beat_while(working)
                if working.done() and not working.cancelled():
                    return working.result()
            finally:
                working.cancel()
                await asyncio.wait([working])
                await self.release()

    async def _wait_to_take(self) -> None:
        while True:
            with suppress(*AWAY):
                if await self.take():
                    return
            await self._clock.sleep_until(self._clock.monotonic_ns() + ASK_EVERY_NS)

    async def _beat_while(self, working: "asyncio.Future[T]") -> None:
        while not working.done():
            await self._pause(working)
            # A failed heartbeat may be repeated while the lease lasts.
            with suppress(*AWAY):
                if not working.done() and not await self.beat():
                    return
            if not self.holds():
                return

    async def _pause(self, working: "asyncio.Future[T]") -> None:
        """Wait until the next heartbeat is due or the work has ended."""
        pause: asyncio.Future[Any] = asyncio.ensure_future(
            self._clock.sleep_until(self._clock.monotonic_ns() + BEAT_EVERY_NS)
        )
        either: list[asyncio.Future[Any]] = [working, pause]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()

    async def _ask(self, statement: str, parameters: dict[str, object]) -> Row | None:
        """Run one statement on the session that holds the advisory lock. Without the lock the answer is no."""
        try:
            if self._session is None:
                self._session = await self._open_session()
            async with explaining(self._session):
                if not self._is_locked and not await self._lock(self._session):
                    self.unanswered = None
                    return None
                row = await (await self._session.execute(SQL[statement], {"name": self.name, **parameters})).fetchone()
                self.unanswered = None
                return row
        except AWAY as error:
            self.unanswered = error
            await self._drop_session()
            raise

    async def _lock(self, session: Connection) -> bool:
        row = await (await session.execute(SQL["lock_singleton"], {"name": self.name})).fetchone()
        self._is_locked = bool(row and row[0])
        return self._is_locked

    async def _open_session(self) -> Connection:
        limits = {
            "statement_timeout": str(BEAT_TIMEOUT_MS),
            "lock_timeout": str(BEAT_TIMEOUT_MS),
            "idle_session_timeout": str(SESSION_SILENT_MS),
            "idle_in_transaction_session_timeout": str(SESSION_SILENT_MS),
        }
        return await connect(self._url, settings=limits)

    async def _drop_session(self) -> None:
        session, self._session = self._session, None
        self._is_locked = False
        if session is not None:
            await session.close()
