"""What has a run spent, and may it continue? Requests, time, retries, and how many refusals came in a row.

An open circuit breaker means "slow down, then continue". Only the run's own budget, or a provider that keeps asking for
less, ends a run. Waits for the pace or the circuit breaker happen in the gate and do not end a run.
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
        self.budget = self._whole = budget
        self.stop: Stop | None = None

    @property
    def is_pressed(self) -> bool:
        """Whether the provider asks for less now, so that less urgent work should wait. One refusal is not enough."""
        return self._waits_in_a_row >= PRESSED_IN_A_ROW or (self._waits_in_a_row > 0 and self._is_circuit_open())

    @property
    def is_refused(self) -> bool:
        """Whether the provider refuses one thing after another: then the account is refused, not the things."""
        return self._refused_in_a_row >= REFUSED_IN_A_ROW_MAX

    @property
    def is_waiting(self) -> bool:
        """Whether the last answer asked for less. Until there is a good one, requests are sent one at a time."""
        return self._waits_in_a_row > 0

    def covers(self, asks: int) -> bool:
        """Whether the budget covers this many things at once, each with all its retries."""
        most = self.budget.max_fetches
        return most is None or self.budget.fetches + asks * (1 + len(self._policy.retry_delays_ns)) <= most

    def resume(self) -> None:
        """Another part of the run begins. The reason that stopped the last part may not apply to this one."""
        self.stop = None

    def spend_half(self) -> None:
        """Spend only half of what is left, until `spend_all`."""
        self.budget = self._whole.half(now_ns=self._clock.monotonic_ns())

    def spend_all(self) -> None:
        """Spend all of the budget."""
        self.budget = self._whole

    def may_ask(self) -> bool:
        """Whether the budget covers one more request and the certain wait before it."""
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
        wait_ns = self._governor.state().next_in_ns
        self.stop = stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=wait_ns, held_ns=self._held_ns())

    def heard(self, verdict: Verdict, *, departed_wall_ns: int | None = None) -> None:
        """Count a request, and waits and refusals in a row: only a good answer ends a row of waits.

        `departed_wall_ns` identifies refusals of requests that were sent together: they count as one.
        """
        self.budget, self._whole = self.budget.after_fetch(), self._whole.after_fetch()
        self._counts.requests += 1
        match verdict:
            case Pressure() | Trouble():
                self._failed(verdict, departed_wall_ns)
            case Refused():
                self._waits_in_a_row = 0
                self._refused_in_a_row += 1
            case Found() | NotYet() | Missing() | Malformed() | Deferred():
                self._waits_in_a_row = self._refused_in_a_row = 0

    def several_were_refused(self) -> None:
        """A request for several things was refused, perhaps because of one of them. Only single things count."""
        self._refused_in_a_row = max(0, self._refused_in_a_row - 1)

    def may_retry(self) -> bool:
        """Whether the run may send one more retry."""
        if not self._policy.covers_retry(retries=self._counts.retries, requests=self._counts.requests):
            self.stop = stop_for_cap(GapReason.RETRY_BUDGET)
            return False
        self._counts.retries += 1
        return True

    def _failed(self, verdict: Pressure | Trouble, departed_wall_ns: int | None) -> None:
        last_ns = self._last_wait_ns
        if departed_wall_ns is not None and last_ns is not None and self.is_waiting and departed_wall_ns < last_ns:
            return  # it was sent before we knew that the provider asks for less
        # A fault counts as a wait while the circuit breaker is open, because the next request is a probe then. Pressure
        # always counts.
        if isinstance(verdict, Pressure) or self._is_circuit_open():
            self._waits_in_a_row += 1
            self._counts.waits += 1
            self._last_wait_ns = self._clock.wall_ns()
        if self._waits_in_a_row >= WAITS_IN_A_ROW_MAX:
            self.stop = stop_for_pressure(wait_ns=self._governor.state().next_in_ns, held_ns=self._held_ns())

    def _certain_wait_ns(self) -> int:
        """How long nothing can be sent, whatever happens: the provider asked to wait, or the ceiling requires it."""
        gate = self._governor.state()
        return max(gate.not_before_in_ns, min(gate.next_in_ns, gate.ceiling_interval_ns))

    def _held_ns(self) -> int:
        """How long the provider itself asked us to wait; 0 when it did not."""
        return self._governor.state().not_before_in_ns

    def _is_circuit_open(self) -> bool:
        return self._governor.state().circuit is not CircuitState.CLOSED
