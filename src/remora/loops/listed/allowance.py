"""What has a run spent, and may it go on? Requests, time, repeats, and what the provider refused in a row.

A circuit that opens says "slow down, then continue". Only the run's own budget, or a provider that keeps asking for
less, ends a run. What the law or the circuit waits by itself is waited for in the gate and ends nothing.
"""

from typing import Final

from remora.contracts import Clock
from remora.core.ledger.asking import AskPolicy
from remora.core.ledger.budget import Budget
from remora.core.ledger.run import (
    REFUSED_IN_A_ROW_MAX,
    WAITS_IN_A_ROW_MAX,
    RunCounts,
    Stop,
    stop_for_cap,
    stop_for_pressure,
)
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.reasons import GapReason
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict
from remora.gate.governor import Governor

PRESSED_IN_A_ROW: Final = 2


class RunAllowance:
    """One run's allowance. It implements `Allowance`."""

    def __init__(
        self, governor: Governor, *, clock: Clock, budget: Budget, counts: RunCounts, policy: AskPolicy
    ) -> None:
        self._governor = governor
        self._clock = clock
        self._counts = counts
        self._policy = policy
        self._waits_in_a_row = 0
        self._last_wait_ns: int | None = None  # wall clock
        self._refused_in_a_row = 0
        self.budget = budget
        self.stop: Stop | None = None

    @property
    def is_pressed(self) -> bool:
        """Whether the provider asks for less right now, so that what can wait should wait. One refusal may be a stray."""
        return self._waits_in_a_row >= PRESSED_IN_A_ROW or (self._waits_in_a_row > 0 and self._is_circuit_open())

    @property
    def is_refused(self) -> bool:
        """Whether the provider refuses one thing after another: the account, not the things."""
        return self._refused_in_a_row >= REFUSED_IN_A_ROW_MAX

    @property
    def is_waiting(self) -> bool:
        """Whether the last answer asked for less: until there is a good one, one request after the other is sent."""
        return self._waits_in_a_row > 0

    def covers(self, asks: int) -> bool:
        """Whether the budget covers so many things at once, each with all its repeats."""
        most = self.budget.max_fetches
        return most is None or self.budget.fetches + asks * (1 + len(self._policy.retry_delays_ns)) <= most

    def resume(self) -> None:
        """Another part of the run begins. What stopped the last one need not stop this one."""
        self.stop = None

    def may_ask(self) -> bool:
        """Whether the budget covers one more request and any wait before it that is certain."""
        now_ns = self._clock.monotonic_ns()
        if (cap := self.budget.cap(now_ns=now_ns)) is not None:
            self.stop = stop_for_cap(cap, held_ns=self._held_ns())
        elif not self.budget.covers(self._certain_wait_ns(), now_ns=now_ns):
            self.out_of_time()
        return self.stop is None

    def left_ns(self) -> int | None:
        """How long a request may wait in the gate."""
        return self.budget.left_ns(now_ns=self._clock.monotonic_ns())

    def out_of_time(self) -> None:
        """The time is used up, or will be before the next request can be sent."""
        wait_ns = self._governor.wait_ahead_ns()
        self.stop = stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=wait_ns, held_ns=self._held_ns())

    def heard(self, verdict: Verdict, *, departed_wall_ns: int | None = None) -> None:
        """Count a request and what comes in a row: only an answer ends a row of waits.

        `departed_wall_ns` tells refusals of requests that were sent together: they are one.
        """
        self.budget = self.budget.after_fetch()
        self._counts.requests += 1
        match verdict:
            case Pressure() | Trouble():
                self._failed(verdict, departed_wall_ns)
            case Refused():
                self._waits_in_a_row = 0
                self._refused_in_a_row += 1
            case Found() | NotYet() | Missing() | Malformed() | Deferred():
                self._waits_in_a_row = self._refused_in_a_row = 0

    def may_retry(self) -> bool:
        """Whether the run may repeat one more request."""
        if not self._policy.covers_retry(retries=self._counts.retries, requests=self._counts.requests):
            self.stop = stop_for_cap(GapReason.RETRY_BUDGET)
            return False
        self._counts.retries += 1
        return True

    def _failed(self, verdict: Pressure | Trouble, departed_wall_ns: int | None) -> None:
        last_ns = self._last_wait_ns
        if departed_wall_ns is not None and last_ns is not None and self.is_waiting and departed_wall_ns < last_ns:
            return  # it was under way before anybody knew that the provider asks for less
        # A fault is a wait while the circuit is open, because then the next request is a probe. Pressure always is.
        if isinstance(verdict, Pressure) or self._is_circuit_open():
            self._waits_in_a_row += 1
            self._counts.waits += 1
            self._last_wait_ns = self._clock.wall_ns()
        if self._waits_in_a_row >= WAITS_IN_A_ROW_MAX:
            self.stop = stop_for_pressure(wait_ns=self._governor.wait_ahead_ns(), held_ns=self._held_ns())

    def _certain_wait_ns(self) -> int:
        """How long nothing can be sent, whatever happens: the provider asked for it, or the owner's ceiling does."""
        usual_ns = min(self._governor.wait_ahead_ns(), self._governor.state().ceiling_interval_ns)
        return max(self._held_ns(), usual_ns)

    def _held_ns(self) -> int:
        """How long the provider itself asked us to wait; 0 when it did not."""
        return self._governor.state().not_before_in_ns

    def _is_circuit_open(self) -> bool:
        return self._governor.state().circuit is not CircuitState.CLOSED
