"""What holds the next request back? One wait, never a sum: the latest of the pace, the provider's wishes and the limits."""

from remora.contracts import Clock, GateHome
from remora.core.lanes import Lane
from remora.core.rate.gate_types import Hold, LimitedBy
from remora.core.rate.held_time import pacing_limit
from remora.core.rate.limits import Limits
from remora.gate.admission_queue import AdmissionQueue
from remora.gate.canary import Canaries
from remora.gate.departure_queue import DepartureQueue
from remora.gate.learner import Learner
from remora.gate.permit import GovernedPermit
from remora.gate.schedule import Schedule


class Holding:
    """Looks at everything that may hold a request of one gate back. `in_flight` is how many are on their way."""

    def __init__(
        self,
        limits: Limits,
        home: GateHome,
        learner: Learner,
        schedule: Schedule,
        canaries: Canaries,
        departing: DepartureQueue,
        admissions: AdmissionQueue,
        *,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._home = home
        self._learner = learner
        self._schedule = schedule
        self._canaries = canaries
        self._departing = departing
        self._admissions = admissions
        self._clock = clock
        self.unhindered_since_ns = clock.monotonic_ns()  # since then nothing but the pace held a turn back

    def turn(self, lanes: list[Lane], in_flight: int) -> Hold | None:
        """Why none of these lanes may get a turn now; None: one may."""
        if in_flight >= self._limits.in_flight:
            return Hold(LimitedBy.IN_FLIGHT, None)
        now_ns = self._clock.monotonic_ns()
        if (hold := self._learner.refusals.hold(now_ns=now_ns)) is not None:
            return hold
        if self._home.sees_departures and self._departing.standing and self._admissions.is_one_batch(lanes):
            return self._without_time(now_ns=now_ns, is_probe=False)  # it would only queue behind them
        before, stretch = self._schedule.granting_in, self._schedule.turn_in(now_ns=now_ns)
        if stretch is None:
            return self._without_time(now_ns=now_ns, is_probe=False)
        if stretch is not before and not stretch.binds:
            self.unhindered_since_ns = max(self.unhindered_since_ns, stretch.starts_ns)
        paced_until_ns = max(self._schedule.granted.turn_ns(), self._admissions.ready_at_ns(lanes))
        return self.until(paced_until_ns, now_ns=now_ns, is_probe=False)

    def departure(self, permit: GovernedPermit, in_flight: int, *, now_ns: int) -> Hold | None:
        """Why this request may not depart now; None: it may."""
        is_full = in_flight >= self._limits.in_flight or self._learner.refusals.is_full(now_ns=now_ns)
        if self._canaries.will_probe and not permit.is_canary and not (is_full and self._admissions.has_canary):
            return Hold(LimitedBy.CIRCUIT, None)  # it was still connecting when the circuit opened
        if self._schedule.departure_in(now_ns=now_ns) is None:
            return self._without_time(now_ns=now_ns, is_probe=permit.is_probe)
        return self.until(self._schedule.departed.earliest_ns(), now_ns=now_ns, is_probe=permit.is_probe)

    def until(self, paced_until_ns: int, *, now_ns: int, is_probe: bool) -> Hold | None:
        """The later of the pacer's and the learner's moments."""
        hold = self._learner.hold(now_ns=now_ns, is_probe=is_probe)
        if hold is not None and (hold.until_ns is None or hold.until_ns >= paced_until_ns):
            return hold
        return Hold(self._paced_by(), paced_until_ns) if paced_until_ns > now_ns else None

    def _without_time(self, *, now_ns: int, is_probe: bool) -> Hold:
        """No stretch is held: wait until the gate home grants more time."""
        if self._home.is_silent:
            return Hold(LimitedBy.STORE, None)
        if self._learner.not_before_ns > now_ns:  # until then no time is asked for, and nobody would end another wait
            return Hold(LimitedBy.RETRY_AFTER, self._learner.not_before_ns)
        if not self._learner.circuit.passes(now_ns=now_ns):
            return Hold(LimitedBy.CIRCUIT, None)
        return self._learner.hold(now_ns=now_ns, is_probe=is_probe) or Hold(self._paced_by(), None)

    def _paced_by(self) -> LimitedBy:
        return pacing_limit(self._learner.pace, interval_ns=self._schedule.granted.interval_ns)
