"""May this request be sent now? A request waits for nothing but the governor before it is sent.

Every wait is the latest of three moments, never a sum: a small jitter, the pacer's next moment, and the provider's own
not-before. A request gets its turn (`admit`) and departs when its connection is ready (`depart`): the departures are
spaced, however long a connection takes to open.

The gate home grants the time for it: all of time to a process alone, stretches to processes that share a store.
"""

import asyncio
from collections.abc import Callable, Sequence

from remora.contracts import Clock, GateHome, Meter, SharedPace
from remora.core.lanes import Lane
from remora.core.rate.circuit_breaker import CircuitEvent, CircuitState
from remora.core.rate.gate_types import PACING, RateFacts
from remora.core.rate.limits import Limits as Limits
from remora.core.rate.pacing import SEND_NS, Pacer, heard_within_ns, new_pacer, turns_every_ns
from remora.core.rate.signal import good_answer
from remora.core.translation import NOTHING_SAID, Translation
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply, Verdict
from remora.gate.admission_queue import AdmissionQueue, Waiter
from remora.gate.canary import Canaries
from remora.gate.departure_queue import DepartureQueue
from remora.gate.hold_record import HoldRecord
from remora.gate.hold_timer import HoldTimer
from remora.gate.holding import Holding
from remora.gate.learner import Learner
from remora.gate.pace_events import WaitEvents
from remora.gate.permit import Admission
from remora.gate.permit import GovernedPermit as GovernedPermit
from remora.gate.rate_facts import Counts, rate_facts
from remora.gate.schedule import Schedule
from remora.gate.unheard import Unheard


class Governor:
    """The gate of one account, with one source or several."""

    def __init__(
        self,
        source: str,
        limits: Limits,
        *,
        clock: Clock,
        home: GateHome,
        meter: Meter,
        chance: Callable[[], float],
    ) -> None:
        self._source = source
        self._limits = limits
        self._clock = clock
        self._home = home
        self._chance = chance
        self.canaries = Canaries(source)
        self._learner = Learner(
            source,
            limits,
            clock=clock,
            home=home,
            meter=meter,
            on_change=self._on_change,
            send_canary=self.canaries.send,
        )
        self._refusals = self._learner.refusals
        self.canaries.serve(self._learner.circuit)
        self._schedule = Schedule(home, self._new_pacer())
        self._is_paced = False  # requests wait, and for nothing but the pace
        self._is_unheld = False  # while turns are given in a block: then only the schedule can hold a request back
        self._admissions = AdmissionQueue()
        self._timer = HoldTimer(clock)
        self.unheard = Unheard(self._answers_may_wait_ns)
        self._departing = DepartureQueue(on_empty=self._timer.changed)
        self._in_flight = 0
        self._leaving = 0  # admitted, not departed yet
        self._departures = self._departures_before = 0  # before the present block
        self._wall_ahead_ns = 0  # of the monotonic clock, in the present block
        self._wait_events = WaitEvents(source, clock=clock)
        self._holds = HoldRecord(clock, in_flight_max=limits.in_flight)
        self._holding = Holding(
            limits, home, self._learner, self._schedule, self.canaries, self._departing, self._admissions, clock=clock
        )
        self._dispatcher: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Continue with the pace that the last process stored."""
        self._home.serve(self)
        await self._learner.open()
        self._schedule.restart(self._new_pacer())

    async def close(self) -> None:
        """Store what was learned. Requests that still wait are cancelled, and so are those that come later."""
        self._is_closed = True
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)
        await self.canaries.close()
        self._admissions.cancel()
        try:
            await self._learner.close()
        finally:
            await self._home.close()

    def admit(self, lane: Lane, source: str | None = None, *, is_canary: bool = False) -> Admission:
        """Wait for this request's turn. The permit is held until its answer is learned, or the request is given up."""
        return Admission(self, lane, source or self._source, is_canary=is_canary)

    async def depart(self, permit: GovernedPermit) -> int:
        """Wait for the departure and return its time. Between the last check and the return nothing else can run."""
        return self._depart(permit, now_ns=await self._until_free(permit))

    def depart_now(self, permit: GovernedPermit) -> int | None:
        """Depart without waiting; None: something holds the request back, or another one is first."""
        now_ns = self._clock.monotonic_ns()
        if self._is_unheld and self._departures > self._departures_before:
            self._check_sent(self._schedule.departed.last_departure_ns, now_ns=now_ns)
        is_free = self._is_unheld and self._schedule.has_departure(now_ns=now_ns)  # fast path
        if self._departing.standing or not (
            is_free or self._holding.departure(permit, self._in_flight, now_ns=now_ns) is None
        ):
            return None
        return self._depart(permit, now_ns=now_ns)

    def _depart(self, permit: GovernedPermit, *, now_ns: int) -> int:
        permit.assert_unused()
        stretch = self._schedule.departing_in
        assert stretch is not None, "departed without time"
        if stretch.is_probe:
            permit.is_probe = True
            self._learner.circuit.probe_for_all()
        if not self._is_unheld:  # in a block nothing of this can have changed
            if self._learner.circuit.state is CircuitState.OPEN and not permit.is_probe:
                self._make_probe(permit)  # it was still connecting when the circuit opened, and departs first now
            self._refusals.check(now_ns=now_ns)
        self._schedule.depart(stretch, now_ns=now_ns, was_ready=permit.was_ready)
        if not self._schedule.is_kept and self._learner.pace.edges_per_s:  # before the first refusal, climb on
            permit.pace_bound = False
        self._departures += 1
        self._leaving -= 1
        if self._holds.departure is not None:
            self._holds.note_departure(None, self._in_flight)
        if permit.is_canary:
            self.canaries.departed()
        permit.departed_at_ns = now_ns
        permit.departed_wall_ns = now_ns + self._wall_ahead_ns if self._is_unheld else self._clock.wall_ns()
        if not self._is_unheld:  # else all of the block are counted together
            self._learner.departed(self._schedule.departed, permit.source, permit.lane)
        return now_ns

    def sent(self, permit: GovernedPermit) -> None:
        """The request is on the wire. If the process stalled before that, the next departure counts from now."""
        if permit.departed_at_ns is not None and not self._is_unheld:  # in a block, the next one looks at the clock
            self._check_sent(permit.departed_at_ns, now_ns=self._clock.monotonic_ns())

    def _check_sent(self, departed_at_ns: int, *, now_ns: int) -> None:
        if now_ns - departed_at_ns > SEND_NS:
            self._schedule.sent_late(now_ns=now_ns)

    async def _until_free(self, permit: GovernedPermit) -> int:
        """Wait until nothing holds the request back, and return that moment."""
        place = self._departing.join(permit)
        try:
            while True:
                await self._departing.until_first(place)
                now_ns = self._clock.monotonic_ns()
                hold = self._holding.departure(permit, self._in_flight, now_ns=now_ns)
                if hold is None:
                    return now_ns
                permit.was_ready = permit.pace_bound and hold.until_ns == self._schedule.departed.earliest_ns()
                self._holds.note_departure(hold, self._in_flight)
                await self._timer.until_over(hold)
        finally:
            self._departing.leave(place)

    def learn(
        self,
        permit: GovernedPermit,
        reply: Reply | NoReply,
        verdict: Verdict,
        *,
        already_counted: bool = False,
        said: Translation = NOTHING_SAID,
    ) -> None:
        """Learn what an answer says about the rate and about the provider; see `Learner.hear`."""
        self.unheard.hear()  # they came before
        if not permit.was_heard:
            self._refusals.heard(reply, verdict)
        permit.was_heard = True
        self._learner.hear(permit.as_sent(), reply, verdict, already_counted=already_counted, said=said)

    def _answers_may_wait_ns(self) -> int:
        """How long plain answers may wait to be heard together: only while requests wait for nothing but the pace."""
        if not self._is_paced or self._refusals.limit is not None or not self._learner.circuit.is_untroubled:
            return 0
        return heard_within_ns(self._schedule.departed.interval_ns, places=self._limits.in_flight - self._in_flight)

    def learn_found(self, answers: Sequence[tuple[GovernedPermit, Reply, Verdict]]) -> None:
        """The same for ordinary good answers, in one go."""
        for permit, _, _ in answers:
            assert not permit.was_heard, "an answer that was heard before"
            permit.was_heard = True
        self._refusals.heard_well(len(answers))
        if not self._learner.hear_run([good_answer(reply, permit.pace_bound) for permit, reply, _ in answers]):
            for permit, reply, verdict in answers:
                self._learner.hear(permit.as_sent(), reply, verdict, already_counted=False)

    def state(self) -> RateFacts:
        """The facts about the rate. Reading them changes nothing."""
        now_ns = self._clock.monotonic_ns()
        counts = Counts(self._in_flight, self._leaving, len(self._admissions), self._departures)
        hold = self._holding.until(self._schedule.granted.earliest_ns(), now_ns=now_ns, is_probe=False)
        if hold is None or hold.limited_by in PACING:
            hold = self._refusals.hold(now_ns=now_ns) or hold
        wall_ns = self._clock.wall_ns()
        return rate_facts(self._limits, self._learner, self._holds, counts, hold, now_ns=now_ns, wall_ns=wall_ns)

    # ── what the home asks ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def pacer(self) -> Pacer:
        """The schedule of what was sent."""
        return self._schedule.departed

    @property
    def interval_ns(self) -> int:
        """The slower of this process's pace and the one that its home names."""
        return max(self._learner.pace.interval_ns, self._home.interval_ns)

    def demand(self) -> int:
        """How many requests could be sent now if time were granted."""
        if self._learner.not_before_ns > self._clock.monotonic_ns() + SECOND_NS:
            return 0  # the provider asked for a wait
        return self._leaving + min(len(self._admissions), self._limits.in_flight - self._in_flight)

    def adopt(self, pace: SharedPace) -> None:
        """Take over what all processes know."""
        self._learner.adopt(pace)
        self._on_change()

    def changed(self) -> None:
        """Time was granted or withdrawn, or the home names another pace: waiting requests check again."""
        self._schedule.at_interval(self.interval_ns)
        self._timer.changed()

    async def turn(self, lane: Lane, *, is_canary: bool = False) -> GovernedPermit:
        """Wait for a turn; use `admit`, which also gives the permit back."""
        waiter = self._admissions.join(lane, ready_at_ns=self._ready_at_ns(is_canary=is_canary), is_canary=is_canary)
        self._wake_dispatcher()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            self._admissions.leave(lane, waiter)
            if (permit := waiter.permit) is not None:
                self.give_back(permit)
            raise

    def many_turns(self, lane: Lane, count: int, on_turns: Callable[[Sequence[GovernedPermit]], None]) -> Waiter:
        """Wait for many turns without a task: `on_turns` gets the permits, and must give them back (`give_back`)."""
        waiter = self._admissions.join_many(lane, count, on_turns, ready_at_ns=self._ready_at_ns())
        self._wake_dispatcher()
        return waiter

    def _ready_at_ns(self, *, is_canary: bool = False) -> int:
        self._learner.check()
        self.canaries.check()
        return self._clock.monotonic_ns() + (0 if is_canary else self._limits.jitter_ns(self._chance()))

    def _wake_dispatcher(self) -> None:
        self._timer.changed()
        if self._is_closed:
            self._admissions.cancel()
        elif self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch(), name=f"gate:{self._source}")

    def give_back(self, *permits: GovernedPermit) -> None:
        """These requests are over; their places are free."""
        for permit in permits:
            assert not permit.was_given_back, "a permit was given back twice"
            permit.was_given_back = True
            if permit.departed_at_ns is None:
                self._leaving -= 1
            if not permit.was_heard:
                self._refusals.given_up(was_sent=permit.departed_at_ns is not None)
                if permit.is_probe:
                    self._learner.circuit.move(CircuitEvent.PROBE_LOST)
        if permits and self._in_flight >= self._limits.in_flight:
            self._holding.unhindered_since_ns = self._clock.monotonic_ns()
        self._in_flight -= len(permits)
        if not self._leaving:
            self._holds.departure = None
        self._holds.note_unless_turn(self._in_flight)
        self._timer.changed()

    async def _dispatch(self) -> None:
        """Give turns while requests wait. The clock is read again before every turn: timers are not exact."""
        try:
            while lanes := self._admissions.lanes():
                hold = self._holds.turn = self._holding.turn(lanes, self._in_flight)
                if hold is None:
                    self._give_turns(lanes)
                    continue
                self._holds.note(self._in_flight)
                self._wait_events.tell(hold)
                self._is_paced = hold.limited_by in PACING
                if self._is_paced:
                    await self._timer.until_turn(hold, least_ns=turns_every_ns(self._schedule.granted.interval_ns))
                else:
                    await self._timer.until_over(hold)
                    self._holding.unhindered_since_ns = self._clock.monotonic_ns()
        except Exception as error:
            self._admissions.fail(error)
            raise
        finally:
            self._is_paced = False
            self._holds.turn = None
            self._holds.note(self._in_flight)

    def _give_turns(self, lanes: list[Lane]) -> None:
        """Give one turn; where many requests wait together and nobody else does, all that are due.

        Nothing else runs while these are sent, so nothing but the schedule needs another look.
        """
        is_probe = self._learner.circuit.state is CircuitState.OPEN
        now_ns = self._clock.monotonic_ns()
        lane, waiter = self._admissions.take_next(lanes, now_ns=now_ns, is_probe=is_probe)
        are_alone = len(lanes) == 1 and not is_probe and self._refusals.limit is None
        due = self._schedule.turns_due(now_ns=now_ns) if are_alone and waiter.left else 1
        count = min(1 + waiter.left, self._limits.in_flight - self._in_flight, due)
        if count > 1:
            self._admissions.take_again(lane, waiter, count - 1)
        permits = self._permits(count, lane, waiter, now_ns=now_ns)
        if is_probe:
            self._make_probe(permits[0])
        self._is_unheld, self._departures_before = are_alone and not self.canaries.will_probe, self._departures
        if self._is_unheld:  # read in this order, so that no request seems to have left later than it did
            self._wall_ahead_ns = self._clock.wall_ns() - self._clock.monotonic_ns()
        try:
            waiter.give(permits)
        finally:
            departed = self._departures - self._departures_before
            if self._is_unheld and departed:
                self._check_sent(self._schedule.departed.last_departure_ns, now_ns=self._clock.monotonic_ns())
                self._learner.departed(self._schedule.departed, permits[0].source, lane, departed)
            self._is_unheld = False

    def _permits(self, count: int, lane: Lane, waiter: Waiter, *, now_ns: int) -> list[GovernedPermit]:
        # Only a request that the pacer alone held back proves that the pace limits us. While this process has learned
        # a faster pace than it has shared, all keep the slower one, which proves nothing about the faster one.
        free_ns = max(waiter.ready_at_ns, self._holding.unhindered_since_ns)
        paced_from = self._schedule.granted.paced_from(free_ns, now_ns=now_ns)
        self._refusals.admitted(count)
        # The last request that may be refused shows only that few may be in flight.
        if self._learner.is_ahead_of_all() or self._refusals.is_full(now_ns=now_ns):
            paced_from = count
        self._schedule.took_turns(count, now_ns=now_ns)
        self._in_flight += count
        self._leaving += count
        assert self._in_flight <= self._limits.in_flight, "more requests in flight than the owner allows"
        return [
            GovernedPermit(self, lane, now_ns, pace_bound=number >= paced_from, is_canary=waiter.is_canary)
            for number in range(count)
        ]

    def _make_probe(self, permit: GovernedPermit) -> None:
        permit.is_probe = True
        self._learner.circuit.move(CircuitEvent.PROBE)

    def storing(self, change: int) -> None:
        """So many more answers wait for the store, or so many less."""
        self._holds.storing += change
        self._holds.note_unless_turn(self._in_flight)

    def _on_change(self) -> None:
        self.canaries.tend()
        self.changed()

    def _new_pacer(self) -> Pacer:
        return new_pacer(
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            interval_ns=self.interval_ns,
            now_ns=self._clock.monotonic_ns(),
            idle_ns=self._learner.idle_ns,
        )
