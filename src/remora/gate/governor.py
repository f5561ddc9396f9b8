"""May this request leave now? The governor is the only thing a request waits for before it leaves.

Every wait is the latest of three moments, never a sum: a small jitter, the pacer's next slot, and the provider's own
not-before. A request is allowed in turn (`admit`) and its departure is fixed when its connection is ready (`depart`):
what is spaced is what leaves, however long a connection took to open.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from remora.contracts import Clock, CommonGate, Meter, PaceBook, Slot
from remora.core.errors import StoreError
from remora.core.lanes import Lane
from remora.core.rate.circuit_breaker import CircuitEvent, CircuitState
from remora.core.rate.gate_types import PACING, STOPS, Hold, LimitedBy, RateFacts, Sent
from remora.core.rate.held_time import HeldTime, limiting
from remora.core.rate.limits import JITTER_NS as JITTER_NS
from remora.core.rate.limits import Limits as Limits
from remora.core.rate.pacing import Pacer, burst_allowance, new_pacer
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import NoReply, Reply, Verdict
from remora.gate.admission_queue import AdmissionQueue
from remora.gate.departure_queue import DepartureQueue
from remora.gate.hold_timer import HoldTimer
from remora.gate.learner import Learner
from remora.gate.pace_events import WaitEvents
from remora.gate.permit import Admission
from remora.gate.permit import GovernedPermit as GovernedPermit

log = structlog.get_logger()

# How long a request waits before it asks a shared store again that did not answer.
STORE_AGAIN_NS: Final = SECOND_NS
# How long ahead of its moment a request may ask the gate of all processes for it.
ASKED_AHEAD_NS: Final = 10 * MILLISECOND_NS


class Governor:
    """One source's gate."""

    def __init__(
        self,
        source: str,
        limits: Limits,
        *,
        clock: Clock,
        book: PaceBook,
        meter: Meter,
        chance: Callable[[], float],
        common: CommonGate | None = None,
    ) -> None:
        """`common` is the gate of all processes that share the store; without one this process is alone."""
        self._source = source
        self._limits = limits
        self._clock = clock
        self._meter = meter
        self._chance = chance
        self._common = common
        self._learner = Learner(
            source,
            ceiling_interval_ns=limits.ceiling_interval_ns,
            stale_after_ns=limits.stale_after_ns,
            clock=clock,
            book=book,
            meter=meter,
            on_change=self._on_change,
            common=common,
        )
        # `_departed` holds what left; `_granted` runs ahead of it by the permits that are still on their way out.
        self._departed: Pacer = self._new_pacer()
        self._granted: Pacer = self._departed
        self._line = AdmissionQueue()
        self._waiting = HoldTimer(clock)
        self._door = DepartureQueue()
        self._in_flight = 0
        self._leaving = 0  # got their turn and have not left yet
        self._store_is_silent = False
        self._unhindered_since_ns = clock.monotonic_ns()
        self._departures = 0
        self._storing = 0  # answers that wait for the store
        self._turn_hold: Hold | None = None  # what the dispatcher waits for
        self._departure_hold: Hold | None = None  # what the next departure waits for
        self._wait_events = WaitEvents(source, clock=clock)
        self._held = HeldTime(now_ns=clock.monotonic_ns())
        self._dispatcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take up the learned pace where the last process left it."""
        await self._learner.open()
        self._departed = self._granted = self._new_pacer()

    async def close(self) -> None:
        """Store what was learned. Whoever still waits is cancelled."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)
        self._line.cancel()
        await self._learner.close()

    def admit(self, lane: Lane) -> Admission:
        """Wait for this request's turn. The permit is held until its answer was learned from, or it is given up."""
        return Admission(self, lane)

    async def depart(self, permit: GovernedPermit) -> int:
        """The moment the request leaves. Between the last check and the return nothing else can run."""
        slot, now_ns = await self._until_free(permit)
        assert permit.departed_at_ns is None, "a permit is for one request"
        assert not permit.was_given_back, "a permit that was given back"
        if slot is not None and slot.is_probe:
            permit.is_probe = True
            self._learner.circuit.probe_for_all(slot.pace.cool_down_ns)
        elif self._learner.circuit.state is CircuitState.OPEN and not permit.is_probe:
            self._make_probe(permit)  # it was still connecting when the circuit opened, and is now the first to leave
        self._departed = self._departed.departed(now_ns=now_ns)  # asserts the ceiling
        self._granted = self._granted.no_earlier_than(self._departed)
        self._departures += 1
        self._leaving -= 1
        if self._departure_hold is not None:
            self._departure_hold = None
            self._note_unless_held()
        if slot is not None:
            permit.use(slot, now_ns=now_ns, is_ahead=self._learner.is_ahead_of_all())
            self._waiting.changed()
        self._learner.departed(now_ns=now_ns)
        permit.departed_at_ns, permit.departed_wall_ns = now_ns, self._clock.wall_ns()
        self._meter.departed(self._source, permit.lane)
        return now_ns

    async def _until_free(self, permit: GovernedPermit) -> tuple[Slot | None, int]:
        """Until nothing holds the request back, here or in any other process, and the moment at which that was so."""
        if self._common is not None:
            return await self._until_slot(permit, self._common)
        standing = self._door.join(permit)
        try:
            while True:
                await self._door.until_first(standing)
                now_ns = self._clock.monotonic_ns()
                hold = self._hold(self._departed.earliest_ns(), now_ns=now_ns, is_probe=permit.is_probe)
                if hold is None:
                    return None, now_ns
                self._departure_hold = hold
                self._note_unless_held()
                await self._waiting.until_over(hold)
        finally:
            self._door.leave(standing)

    async def _until_slot(self, permit: GovernedPermit, common: CommonGate) -> tuple[Slot, int]:
        """The same where several processes share a gate, which keeps an order of its own."""
        slot: Slot | None = None
        while True:
            now_ns = self._clock.monotonic_ns()
            hold = self._hold(self._departed.earliest_ns(), now_ns=now_ns, is_probe=permit.is_probe)
            if hold is None and slot is not None and slot.is_fresh(now_ns=now_ns):
                return slot, now_ns
            if slot is not None:
                slot.end()
                slot = None
            self._departure_hold = hold or Hold(self._common_limit(), None)
            self._note_unless_held()
            if hold is None or self._may_ask_ahead(hold, now_ns=now_ns):
                slot = await self._ask_for_slot(common)
            else:
                await self._waiting.until_over(hold)

    def _may_ask_ahead(self, hold: Hold, *, now_ns: int) -> bool:
        """Whether the gate of all may be asked already: the answer takes a moment, and comes no earlier than our own.

        Not where requests leave in bursts: there what is not used at its moment is forfeited.
        """
        if (
            hold.limited_by not in PACING
            or hold.until_ns is None
            or burst_allowance(self._limits.ceiling_interval_ns) > 1
        ):
            return False
        return hold.until_ns - now_ns <= ASKED_AHEAD_NS

    async def _ask_for_slot(self, common: CommonGate) -> Slot | None:
        """None: the store did not answer, and a moment has passed."""
        try:
            slot = await common.slot(interval_ns=self._learner.pace.interval_ns)
        except StoreError as error:
            if not error.retryable:
                raise
            if not self._store_is_silent:
                log.warning("gate_waits_for_store", source=self._source, why=error.message)
            self._store_is_silent = True
            await self._clock.sleep_until(self._clock.monotonic_ns() + STORE_AGAIN_NS)
            return None
        self._store_is_silent = False
        self._learner.adopt(slot.pace)
        return slot

    def learn(
        self, permit: GovernedPermit, reply: Reply | NoReply, verdict: Verdict, *, already_counted: bool = False
    ) -> None:
        """Hear what an answer says about the rate and about the provider as a whole.

        `already_counted` marks what was met before, by an earlier attempt or when the item became owed: it slows nothing down a
        second time.
        """
        permit.was_heard = True
        sent = Sent(permit.departed_at_ns, permit.pace_bound, permit.is_probe)
        self._learner.hear(sent, reply, verdict, already_counted=already_counted)

    def wait_ahead_ns(self) -> int:
        """How long a request that asked now would wait, as far as can be known. Changes nothing."""
        return self.state().next_in_ns

    def state(self) -> RateFacts:
        """A readout; reading it changes nothing."""
        now_ns = self._clock.monotonic_ns()
        pace, circuit = self._learner.pace, self._learner.circuit
        held = self._held.shares(now_ns=now_ns)
        hold = self._hold(self._granted.earliest_ns(), now_ns=now_ns, is_probe=False)
        return RateFacts(
            at_ns=self._clock.wall_ns(),
            interval_ns=pace.interval_ns,
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            edge_per_s=pace.edges_per_s[0] if pace.edges_per_s else None,
            limited_by=self._stopped_by() or limiting(held),
            held=dict(held),
            circuit=CircuitState.OPEN if circuit.is_shut(now_ns=now_ns) else circuit.state,
            circuit_wait_ns=circuit.wait_ns(now_ns=now_ns),
            provider_down=circuit.down,
            not_before_in_ns=max(0, self._learner.not_before_ns - now_ns),
            next_in_ns=0 if hold is None or hold.until_ns is None else max(0, hold.until_ns - now_ns),
            next_held_by=None if hold is None else hold.limited_by,
            in_flight=self._in_flight,
            in_flight_bound=self._limits.in_flight,
            leaving=self._leaving,
            waiting=len(self._line),
            last_back_off=self._learner.last_back_off,
            restored=self._learner.restored,
            departures=self._departures,
        )

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def turn(self, lane: Lane) -> GovernedPermit:
        """Stand in line; use `admit`, which also gives the permit back."""
        self._learner.check()
        ready_at_ns = self._clock.monotonic_ns() + self._limits.jitter_ns(self._chance())
        waiter = self._line.join(lane, ready_at_ns=ready_at_ns)
        self._waiting.changed()
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch(), name=f"gate:{self._source}")
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            self._line.leave(lane, waiter)
            if (permit := waiter.permit) is not None:
                self.give_back(permit)
            raise

    def give_back(self, permit: GovernedPermit) -> None:
        """The request is over; its place is free."""
        assert not permit.was_given_back, "a permit was given back twice"
        permit.was_given_back = True
        if permit.departed_at_ns is None:
            self._leaving -= 1
        permit.sent()
        if permit.is_probe and not permit.was_heard:
            self._learner.circuit.move(CircuitEvent.PROBE_LOST)
        if self._in_flight >= self._limits.in_flight:
            self._unhindered_since_ns = self._clock.monotonic_ns()
        self._in_flight -= 1
        if not self._leaving:
            self._departure_hold = None
        self._note_unless_held()
        self._waiting.changed()

    async def _dispatch(self) -> None:
        """Hand out turns while anybody waits. The clock is read again before every turn: timers lie."""
        try:
            while lanes := self._line.lanes():
                hold = self._turn_hold = self._hold_for_turn(lanes)
                if hold is None:
                    self._give_turn(lanes)
                    continue
                self._note_hold()
                if hold.limited_by in PACING and hold.until_ns is not None:
                    self._wait_events.tell(hold)
                    in_bursts = burst_allowance(self._granted.interval_ns) > 1
                    await self._waiting.until_turn(hold.until_ns, in_bursts=in_bursts)
                else:
                    self._wait_events.tell(hold)
                    await self._waiting.until_over(hold)
                    self._unhindered_since_ns = self._clock.monotonic_ns()
        except Exception as error:
            self._line.fail(error)
            raise
        finally:
            self._turn_hold = None
            self._note_hold()

    def _give_turn(self, lanes: list[Lane]) -> None:
        now_ns = self._clock.monotonic_ns()
        is_probe = self._learner.circuit.state is CircuitState.OPEN
        lane, waiter = self._line.take_next(lanes, now_ns=now_ns, is_probe=is_probe)
        # Only a request that the pacer alone held back proves that the pace is what limits us.
        slot_ns = max(self._granted.turn_ns(), self._granted.earliest_ns())
        bound = slot_ns > max(waiter.ready_at_ns, self._unhindered_since_ns)
        permit = GovernedPermit(self, lane, pace_bound=bound)
        if is_probe:
            self._make_probe(permit)
        self._granted = self._granted.took_turn(now_ns=now_ns)
        self._in_flight += 1
        self._leaving += 1
        assert self._in_flight <= self._limits.in_flight, "more requests in flight than the owner allows"
        waiter.turn.set_result(permit)

    def _make_probe(self, permit: GovernedPermit) -> None:
        permit.is_probe = True
        self._learner.circuit.move(CircuitEvent.PROBE)

    # ── what holds a request back ───────────────────────────────────────────────────────────────────────────────────

    def _hold_for_turn(self, lanes: list[Lane]) -> Hold | None:
        if self._in_flight >= self._limits.in_flight:
            return Hold(LimitedBy.IN_FLIGHT, None)
        if self._common is not None and self._leaving >= self._leaving_at_most():
            return Hold(self._common_limit(), None)
        paced_until_ns = max(self._granted.turn_ns(), self._line.ready_at_ns(lanes))
        return self._hold(paced_until_ns, now_ns=self._clock.monotonic_ns(), is_probe=False)

    def _hold(self, paced_until_ns: int, *, now_ns: int, is_probe: bool) -> Hold | None:
        """The later of what the pacer and the lessons say: one wait, never a sum."""
        hold = self._learner.hold(now_ns=now_ns, is_probe=is_probe)
        if hold is not None and (hold.until_ns is None or hold.until_ns >= paced_until_ns):
            return hold
        return Hold(self._pacing_limit(), paced_until_ns) if paced_until_ns > now_ns else None

    def _leaving_at_most(self) -> int:
        """Enough stand ready to fill the next window; more would only take turns from lanes that come first."""
        return 2 * burst_allowance(self._learner.pace.interval_ns) - 1

    def _common_limit(self) -> LimitedBy:
        """What holds back a request that waits for the gate of all processes."""
        circuit, now_ns = self._learner.circuit, self._clock.monotonic_ns()
        if self._store_is_silent:
            return LimitedBy.STORE
        is_closed = circuit.state is CircuitState.CLOSED and not circuit.is_shut(now_ns=now_ns)
        return self._pacing_limit() if is_closed else LimitedBy.CIRCUIT

    def _pacing_limit(self) -> LimitedBy:
        at_ceiling = self._learner.pace.interval_ns <= self._limits.ceiling_interval_ns
        return LimitedBy.CEILING if at_ceiling else LimitedBy.PACE

    def _note_hold(self) -> None:
        """Record what holds requests back from this moment on."""
        hold = self._turn_hold or self._departure_hold
        until_ns = None if hold is None else hold.until_ns
        self._held.switch(self._cause(hold), until_ns=until_ns, now_ns=self._clock.monotonic_ns())

    def _note_unless_held(self) -> None:
        """The same, where it would change nothing while the dispatcher waits for something."""
        if self._turn_hold is None:
            self._note_hold()

    def _cause(self, hold: Hold | None) -> LimitedBy:
        if hold is not None:
            return hold.limited_by
        if self._in_flight >= self._limits.in_flight:
            return LimitedBy.IN_FLIGHT
        if not self._in_flight and not self._storing:
            return LimitedBy.NO_WORK
        return LimitedBy.ANSWERS if self._in_flight >= self._storing else LimitedBy.STORE

    def _stopped_by(self) -> LimitedBy | None:
        hold = self._turn_hold or self._departure_hold
        return hold.limited_by if hold is not None and hold.limited_by in STOPS else None

    def storing(self, change: int) -> None:
        """One more answer waits for the store (+1), or one less (-1)."""
        self._storing += change
        self._note_unless_held()

    def _on_change(self) -> None:
        interval_ns = self._own_interval_ns()
        self._departed = self._departed.at_interval(interval_ns)
        self._granted = self._granted.at_interval(interval_ns)
        self._waiting.changed()

    def _new_pacer(self) -> Pacer:
        return new_pacer(
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            interval_ns=self._own_interval_ns(),
            now_ns=self._clock.monotonic_ns(),
            idle_ns=self._learner.idle_ns,
        )

    def _own_interval_ns(self) -> int:
        """The pace is kept by the common gate, where there is one; the ceiling by both."""
        return self._learner.pace.interval_ns if self._common is None else self._limits.ceiling_interval_ns
