"""How does a run ask within its budget? Pressure is waited out in the gate, faults are tried again, caps end it at once.

A circuit that opens says "slow down, then continue": the same thing is asked for again after the cool-down. Only the
run's own budget, or a provider that keeps asking for less, makes a stop of it.
"""

import asyncio
from typing import Final

from remora.collect import Asked, Collector, is_worth_a_retry
from remora.contracts import Clock
from remora.core.ledger.budget import Budget
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.run import (
    REFUSED_IN_A_ROW_MAX,
    WAITS_IN_A_ROW_MAX,
    RunCounts,
    Stop,
    stop_for_cap,
    stop_for_pressure,
)
from remora.core.rate.circuit_breaker import COOL_DOWN_NS, CircuitState
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict
from remora.gate.governor import Governor

TROUBLE_DELAYS_NS: Final = (200 * MILLISECOND_NS, 500 * MILLISECOND_NS, 1_000 * MILLISECOND_NS)
PRESSED_IN_A_ROW: Final = 2
# A run may repeat this many requests after faults, and one in ten of a long one.
RETRIES_LEAST: Final = 100
RETRIES_ONE_IN: Final = 10


class Asker:
    """Asks for one thing after another and keeps the account of it."""

    def __init__(
        self, collector: Collector, governor: Governor, *, clock: Clock, budget: Budget, counts: RunCounts
    ) -> None:
        self._collector = collector
        self._governor = governor
        self._clock = clock
        self._counts = counts
        self._waits_in_a_row = 0
        self._refused_in_a_row = 0
        self.budget = budget

    @property
    def is_pressed(self) -> bool:
        """Whether the provider asks for less right now, so that what can wait should wait. One refusal may be a stray."""
        return self._waits_in_a_row >= PRESSED_IN_A_ROW or (self._waits_in_a_row > 0 and self._is_circuit_open())

    @property
    def is_refused(self) -> bool:
        """Whether the provider refuses one thing after another: the account, not the things."""
        return self._refused_in_a_row >= REFUSED_IN_A_ROW_MAX

    def cap(self) -> Stop | None:
        """Whether the budget is used up, or would be before the gate lets the next request leave."""
        now_ns = self._clock.monotonic_ns()
        if (cap := self.budget.cap(now_ns=now_ns)) is not None:
            return stop_for_cap(cap)
        if not self.budget.covers(self._governor.wait_ahead_ns(), now_ns=now_ns):
            return self._out_of_time()
        return None

    async def ask(self, discovery: Discovery) -> Asked | Stop:
        """Ask for the same thing until there is an answer.

        Every turn of this loop sends a request, so it moves towards a cap, the guard or an answer; it cannot spin.
        """
        troubles = 0
        while True:
            asked = await self.ask_once(discovery)
            if isinstance(asked, Stop) or not is_worth_a_retry(asked.verdict):
                return asked
            if self._waits_in_a_row >= WAITS_IN_A_ROW_MAX:
                return stop_for_pressure(wait_ns=self._governor.wait_ahead_ns(), held_ns=self._held_ns())
            if isinstance(asked.verdict, Pressure):
                continue
            # A fault may be this one thing's own: it is tried again a few times, and then its neighbours have their turn.
            if troubles >= len(TROUBLE_DELAYS_NS):
                return asked
            if self._counts.retries >= RETRIES_LEAST + self._counts.requests // RETRIES_ONE_IN:
                return stop_for_cap(GapReason.RETRY_BUDGET)
            self._counts.retries += 1
            await self._clock.sleep_until(self._clock.monotonic_ns() + TROUBLE_DELAYS_NS[troubles])
            troubles += 1

    async def ask_once(self, discovery: Discovery) -> Asked | Stop:
        """Ask once, if the budget allows it."""
        if (stop := self.cap()) is not None:
            return stop
        asked = await self._within_budget(discovery)
        if isinstance(asked, Stop):
            return asked
        for _ in range(asked.requests):
            self.budget = self.budget.after_fetch()
        self._counts.requests += asked.requests
        self._count(asked.verdict)
        return asked

    def _count(self, verdict: Verdict) -> None:
        """What comes in a row: waits, which only an answer ends, and refusals, which only another answer ends."""
        match verdict:
            case Pressure() | Trouble():
                if self._is_wait(verdict):
                    self._waits_in_a_row += 1
                    self._counts.waits += 1
            case Refused():
                self._waits_in_a_row = 0
                self._refused_in_a_row += 1
            case Found() | NotYet() | Missing() | Malformed() | Deferred():
                self._waits_in_a_row = self._refused_in_a_row = 0

    async def _within_budget(self, discovery: Discovery) -> Asked | Stop:
        """A wait in the gate ends with the budget; a request that has left is let finish, its own timeout bounds it."""
        left_ns = self.budget.left_ns(now_ns=self._clock.monotonic_ns())
        if left_ns is None:
            return await self._collector.ask(discovery)
        asking = asyncio.get_running_loop().create_task(self._collector.ask(discovery), name="asking")
        try:
            await asyncio.wait({asking}, timeout=left_ns / SECOND_NS)
            gate = self._governor.state()
            if asking.done() or gate.in_flight > gate.leaving:
                return await asking
            return self._out_of_time()
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    def _out_of_time(self) -> Stop:
        wait_ns = self._governor.wait_ahead_ns()
        return stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=wait_ns, held_ns=self._held_ns())

    def _held_ns(self) -> int:
        """How long the provider keeps the gate shut; 0 when only the usual spacing of requests does."""
        wait_ns = self._governor.wait_ahead_ns()
        usual_ns = max(COOL_DOWN_NS, self._governor.state().ceiling_interval_ns)
        return wait_ns if wait_ns >= usual_ns else 0

    def _is_wait(self, verdict: Verdict) -> bool:
        """Pressure always is; a fault is while the circuit is open, because then the next request is a probe."""
        return isinstance(verdict, Pressure) or (isinstance(verdict, Trouble) and self._is_circuit_open())

    def _is_circuit_open(self) -> bool:
        return self._governor.state().circuit is not CircuitState.CLOSED
