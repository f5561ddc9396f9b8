"""Which request of this process leaves next, as far as all processes are concerned? Whoever has waited longest for a slot.

Two schemes stand on one row that all processes share (`Plans`). Where departures may come in bursts, a window with a few
of them is reserved at a time and handed to whoever stands ready; what is late is forfeited. Where every gap counts, or
where requests are rare, the only turn of all processes is held over the wait and the send.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from remora.contracts import Clock, Json, SharedPace
from remora.core.errors import StoreError
from remora.core.rate.pacing import BURST_NS, burst_allowance
from remora.core.units import MILLISECOND_NS, SECOND_NS

# Two windows may meet inside one burst, so each is half of it.
WINDOW_NS: Final = BURST_NS // 2
# How late a request may leave in its turn; planned for in advance, given back when it left in time.
LATE_AT_MOST_NS: Final = 10 * MILLISECOND_NS
# Nothing is planned further ahead than this, and no window is open for longer: a pace that rises need not wait for more.
AHEAD_AT_MOST_NS: Final = SECOND_NS
OPEN_AT_MOST_NS: Final = 100 * MILLISECOND_NS
# Slower than this, a turn costs nothing that anybody would notice, and leaves nothing behind when the pace rises.
TURNS_FROM_NS: Final = 100 * MILLISECOND_NS
# From its departure to the wire a request takes well under a millisecond; a process that needs longer has stalled.
TURN_AT_MOST_S: Final = 1.0
# A probe is answered within a minute, or its request has failed; after this its process is dead or lost.
PROBE_AT_MOST_NS: Final = 90 * SECOND_NS
# Where a record says when it was shared, on the clock that all processes share.
SHARED_AT: Final = "shared_at_ns"


@dataclass(frozen=True, slots=True)
class Reservation:
    """`count` departures between two moments (monotonic). 0: nothing may leave, ask again at `starts_at_ns`."""

    count: int
    starts_at_ns: int
    expires_at_ns: int
    interval_ns: int  # the one that was planned with: the slowest of ceiling, own pace and shared pace
    pace: SharedPace
    next_ns: int  # the end of the plan on the database's clock; names the plan when it is given back
    binds: bool = False  # whether it had to be planned behind other departures
    is_probe: bool = False  # the circuit is open: nobody else leaves until its answer is told


@dataclass(slots=True)
class Turn:
    """The only right to send in all processes, until it expires. Say `departed` when the request has left."""

    plan: Reservation
    departed_at_ns: int | None = None

    @property
    def pace(self) -> SharedPace:
        """What all processes know about the provider."""
        return self.plan.pace

    def is_fresh(self, *, now_ns: int) -> bool:
        """Whether the request may leave now; to be asked right before it is written. Never when `count` is 0."""
        return self.plan.count > 0 and self.plan.starts_at_ns <= now_ns <= self.plan.expires_at_ns

    def departed(self, *, now_ns: int) -> None:
        """The request has left."""
        assert self.departed_at_ns is None, "a turn is for one request"
        self.departed_at_ns = now_ns


def is_strict(interval_ns: int) -> bool:
    """Whether an interval is kept by turns (`hold`) rather than by windows (`reserve`)."""
    return burst_allowance(interval_ns) < 2


class Plans(Protocol):
    """The row that all processes share."""

    async def reserve(self, source: str, *, ceiling_interval_ns: int, want: int, interval_ns: int = 0) -> Reservation:
        """A window with up to `want` departures, right behind the last plan of any process."""

    def hold(self, source: str, *, ceiling_interval_ns: int, interval_ns: int = 0) -> AbstractAsyncContextManager[Turn]:
        """Wait for the only turn and hold it while the body sends."""

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int = 0,
        seen_version: int | None = None,
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned."""

    async def look(self, source: str) -> SharedPace:
        """What all processes know."""

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Nobody leaves for so long; then whoever holds the next turn, and nobody else until its answer is told."""

    async def open_again(self, source: str) -> None:
        """All leave as they did before it was shut."""


class PlannedSlot:
    """`fleet.Slot` out of a window or a turn."""

    __slots__ = ("_turn", "ended")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.ended = asyncio.Event()

    @property
    def pace(self) -> SharedPace:
        """What all processes know by now."""
        return self._turn.pace

    @property
    def binds(self) -> bool:
        """Whether the pace held this request back."""
        return self._turn.plan.binds

    @property
    def is_probe(self) -> bool:
        """Whether this is the only request of all processes."""
        return self._turn.plan.is_probe

    def is_fresh(self, *, now_ns: int) -> bool:
        """Whether the request may leave now."""
        return not self.ended.is_set() and self._turn.is_fresh(now_ns=now_ns)

    def departed(self, *, now_ns: int) -> None:
        """The request leaves."""
        assert self.is_fresh(now_ns=now_ns), "left with a slot that had expired"
        self._turn.departed(now_ns=now_ns)

    def end(self) -> None:
        """The request is on the wire, or will not leave with this slot."""
        self.ended.set()


class Slots:
    """`fleet.CommonGate` for one source in one process: one plan at a time, for all requests that stand ready."""

    def __init__(self, plans: Plans, source: str, *, ceiling_interval_ns: int, clock: Clock) -> None:
        self._plans = plans
        self._source = source
        self._ceiling_interval_ns = ceiling_interval_ns
        self._clock = clock
        self._interval_ns = ceiling_interval_ns
        self._version = 0
        self._ahead_ns = 0
        self._ask_at_ns = 0
        self._is_shut = False
        self._waiting: deque[asyncio.Future[PlannedSlot]] = deque()
        self._planner: asyncio.Task[None] | None = None

    async def slot(self, *, interval_ns: int) -> PlannedSlot:
        """Wait until one request of this process may leave."""
        self._interval_ns = max(interval_ns, self._ceiling_interval_ns)
        waiter: asyncio.Future[PlannedSlot] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._planner is None or self._planner.done():
            self._planner = asyncio.get_running_loop().create_task(self._plan(), name=f"slots:{self._source}")
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().end()
            raise

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned on top of a version."""
        was_taken, stands = await self._plans.share(
            self._source,
            record={**record, SHARED_AT: self._clock.monotonic_ns() + self._ahead_ns},
            interval_ns=interval_ns,
            not_before_in_ns=not_before_in_ns,
            seen_version=seen_version,
        )
        if was_taken:
            self._version = max(self._version, stands.version)
            return True, stands
        return False, await self.look()

    async def look(self) -> SharedPace:
        """What all processes know by now."""
        return self._dated(await self._plans.look(self._source))

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Nobody leaves for so long, and then one probe."""
        await self._plans.shut(self._source, for_ns=for_ns, cool_down_ns=cool_down_ns, was_prober=was_prober)

    async def open_again(self) -> None:
        """The probe was answered well."""
        await self._plans.open_again(self._source)
        self._ask_at_ns = 0

    async def _plan(self) -> None:
        """Plan while anybody waits. What goes wrong is told to everybody who does."""
        try:
            while self._anybody_waits():
                await self._clock.sleep_until(self._ask_at_ns)
                # A probe that nobody used must not be lost, so it is a turn: what is not used is given back.
                if self._is_shut or is_strict(self._ceiling_interval_ns) or self._interval_ns >= TURNS_FROM_NS:
                    await self._use_a_turn()
                else:
                    await self._use_a_window()
        except StoreError as error:
            self._tell_all(error)
        except Exception as error:
            self._tell_all(error)
            raise

    async def _use_a_window(self) -> None:
        most = max(1, WINDOW_NS // self._interval_ns)
        window = await self._plans.reserve(
            self._source,
            ceiling_interval_ns=self._ceiling_interval_ns,
            want=min(most, len(self._waiting)),
            interval_ns=self._interval_ns,
        )
        if window.count == 0:
            self._come_again(replace(window, pace=self._dated(window.pace)))
            return
        dated = replace(window, pace=self._dated(window.pace))
        await self._clock.sleep_until(window.starts_at_ns)
        for _ in range(window.count):
            if (waiter := self._next()) is None:
                return  # what nobody uses is forfeited
            waiter.set_result(PlannedSlot(Turn(dated)))

    async def _use_a_turn(self) -> None:
        async with self._plans.hold(
            self._source, ceiling_interval_ns=self._ceiling_interval_ns, interval_ns=self._interval_ns
        ) as turn:
            turn.plan = replace(turn.plan, pace=self._dated(turn.plan.pace))
            if turn.plan.count == 0:
                self._come_again(turn.plan)
            elif turn.is_fresh(now_ns=self._clock.monotonic_ns()) and (waiter := self._next()) is not None:
                slot = PlannedSlot(turn)
                waiter.set_result(slot)
                with suppress(TimeoutError):
                    async with asyncio.timeout(TURN_AT_MOST_S):
                        await slot.ended.wait()
                slot.end()  # whoever stalled for so long must not leave with it any more

    def _come_again(self, plan: Reservation) -> None:
        """Nothing may leave yet. Whoever waits hears of it when there is news, and asks again."""
        # Not for longer than a second at once: the pace may rise in another process.
        self._ask_at_ns = min(plan.starts_at_ns, self._clock.monotonic_ns() + AHEAD_AT_MOST_NS)
        if plan.pace.version > self._version or plan.pace.not_before_in_ns or plan.pace.shut_in_ns:
            self._version = plan.pace.version
            while (waiter := self._next()) is not None:
                waiter.set_result(PlannedSlot(Turn(plan)))

    def _dated(self, pace: SharedPace) -> SharedPace:
        """What all know, and how old it is."""
        self._ahead_ns = pace.ahead_ns
        if pace.shut_in_ns is not None:
            self._is_shut = pace.shut_in_ns > 0
        shared_at_ns = pace.record.get(SHARED_AT) if isinstance(pace.record, dict) else None
        now_ns = self._clock.monotonic_ns() + pace.ahead_ns
        age_ns = now_ns - shared_at_ns if isinstance(shared_at_ns, int) else 0
        return replace(pace, age_ns=max(0, age_ns))

    def _anybody_waits(self) -> bool:
        while self._waiting and self._waiting[0].done():
            del self._waiting[0]
        return bool(self._waiting)

    def _next(self) -> "asyncio.Future[PlannedSlot] | None":
        return self._waiting.popleft() if self._anybody_waits() else None

    def _tell_all(self, error: Exception) -> None:
        while (waiter := self._next()) is not None:
            waiter.set_exception(error)
