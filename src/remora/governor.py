"""May this request leave now? The governor is the only thing a request waits for before it leaves.

Every wait is the latest of three moments, never a sum: a small jitter, the pacer's next slot, and the provider's own
not-before. A request is allowed in turn (`admit`) and its departure is fixed when its connection is ready (`depart`):
what is spaced is what leaves, however long a connection took to open.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import structlog

from remora.contracts import Clock, Meter, PaceBook
from remora.core.circuit import CircuitEvent, CircuitState
from remora.core.errors import ConfigurationError
from remora.core.pace_record import DEFAULT_STALE_AFTER_NS, Restore
from remora.core.pacing import Pacer, bunch_for, new_pacer
from remora.core.priority import ORDER, Lane, Turns, choose
from remora.core.snapshot import LimitedBy
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import NoReply, Reply, Verdict
from remora.learner import BackOff, Hold, Learner, Sent

log = structlog.get_logger()

# Noise that keeps independent mirrors from falling into step; never longer than the ceiling's interval.
JITTER_NS: Final = 20 * MILLISECOND_NS
# Where requests leave in bunches, turns are handed out this often: waking for each of them would cost more than sending.
WAKE_EVERY_NS: Final = MILLISECOND_NS
PACING: Final = frozenset({LimitedBy.CEILING, LimitedBy.PACE})


@dataclass(frozen=True, slots=True)
class Limits:
    """The owner's ceiling, and what may only make it slower."""

    ceiling_interval_ns: int
    in_flight: int = 1
    jitter_min_ns: int = 0
    jitter_max_ns: int = JITTER_NS
    stale_after_ns: int = DEFAULT_STALE_AFTER_NS

    def __post_init__(self) -> None:
        if self.ceiling_interval_ns < 1:
            raise ConfigurationError("the ceiling is not a rate", hint='write the most you will send, like "240/min"')
        if self.jitter_min_ns > self.ceiling_interval_ns:
            raise ConfigurationError(
                f"jitter_min is {self.jitter_min_ns / MILLISECOND_NS:g} ms, longer than the ceiling's interval of "
                f"{self.ceiling_interval_ns / MILLISECOND_NS:g} ms, so the ceiling could never be reached",
                hint="leave jitter_min out, or lower the ceiling if you want fewer requests",
            )
        if self.in_flight < 1:
            raise ConfigurationError(f"in_flight is {self.in_flight}", hint="write 1 or more")


@dataclass(frozen=True, slots=True)
class GovernorState:
    """What the governor can say about itself, at one moment."""

    interval_ns: int
    ceiling_interval_ns: int
    edge_per_s: float | None
    limited_by: LimitedBy
    circuit: CircuitState
    circuit_wait_ns: int | None  # 0: requests pass; None: one probe's answer is awaited
    not_before_in_ns: int
    in_flight: int
    waiting: int
    last_back_off: BackOff | None
    restored: Restore
    departures: int


@dataclass(slots=True, eq=False)
class _Waiter:
    ready_at_ns: int  # when its jitter is over
    turn: asyncio.Future["GovernedPermit"]


class GovernedPermit:
    """The right to send one request; see `contracts.Permit`."""

    __slots__ = (
        "_governor",
        "departed_at_ns",
        "departed_wall_ns",
        "is_probe",
        "lane",
        "pace_bound",
        "was_given_back",
        "was_heard",
    )

    def __init__(self, governor: "Governor", lane: Lane, *, pace_bound: bool) -> None:
        self._governor = governor
        self.lane = lane
        self.pace_bound = pace_bound
        self.is_probe = False
        self.was_heard = False
        self.was_given_back = False
        self.departed_at_ns: int | None = None
        self.departed_wall_ns: int | None = None

    async def depart(self) -> int:
        """Fix the moment of departure; waits again only if the world changed since the permit was given."""
        return await self._governor.depart(self)


class Admission:
    """`async with governor.admit(lane) as permit`; a class of its own because it runs for every request."""

    __slots__ = ("_governor", "_lane", "_permit")

    def __init__(self, governor: "Governor", lane: Lane) -> None:
        self._governor = governor
        self._lane = lane
        self._permit: GovernedPermit | None = None

    async def __aenter__(self) -> GovernedPermit:
        self._permit = await self._governor.turn(self._lane)
        return self._permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._permit is not None, "left without having entered"
        self._governor.give_back(self._permit)


class Governor:
    """One source's gate."""

    def __init__(
        self, source: str, limits: Limits, *, clock: Clock, book: PaceBook, meter: Meter, chance: Callable[[], float]
    ) -> None:
        self._source = source
        self._limits = limits
        self._clock = clock
        self._meter = meter
        self._chance = chance
        self._learner = Learner(
            source,
            ceiling_interval_ns=limits.ceiling_interval_ns,
            stale_after_ns=limits.stale_after_ns,
            clock=clock,
            book=book,
            meter=meter,
            on_change=self._on_change,
        )
        # `_departed` holds what left; `_granted` runs ahead of it by the permits that are still on their way out.
        self._departed: Pacer = self._new_pacer()
        self._granted: Pacer = self._departed
        self._turns = Turns()
        self._waiting: dict[Lane, deque[_Waiter]] = {lane: deque() for lane in ORDER}
        self._in_flight = 0
        self._unhindered_since_ns = clock.monotonic_ns()
        self._departures = 0
        self._changed = asyncio.Event()
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
        for line in self._waiting.values():
            for waiter in line:
                waiter.turn.cancel()
        await self._learner.close()

    def admit(self, lane: Lane) -> "Admission":
        """Wait for this request's turn. The permit is held until its answer was learned from, or it is given up."""
        return Admission(self, lane)

    async def depart(self, permit: GovernedPermit) -> int:
        """The moment the request leaves. Between the last check and the return nothing else can run."""
        while (hold := self._hold(self._departed.earliest_ns(), is_probe=permit.is_probe)) is not None:
            await self._wait(hold)
        assert permit.departed_at_ns is None, "a permit is for one request"
        assert not permit.was_given_back, "a permit that was given back"
        if self._learner.circuit.state is CircuitState.OPEN and not permit.is_probe:
            self._make_probe(permit)  # it was still connecting when the circuit opened, and is now the first to leave
        now_ns = self._clock.monotonic_ns()
        self._departed = self._departed.departed(now_ns=now_ns)  # asserts the ceiling
        self._granted = self._granted.no_earlier_than(self._departed)
        self._departures += 1
        self._learner.departed(now_ns=now_ns)
        permit.departed_at_ns, permit.departed_wall_ns = now_ns, self._clock.wall_ns()
        self._meter.departed(self._source, permit.lane)
        return now_ns

    def learn(self, permit: GovernedPermit, reply: Reply | NoReply, verdict: Verdict, *, again: bool = False) -> None:
        """Hear what an answer says about the rate and about the provider as a whole.

        `again` marks a retry that met what an earlier attempt of the same request met: it slows nothing down a second time.
        """
        permit.was_heard = True
        sent = Sent(permit.departed_at_ns, permit.pace_bound, permit.is_probe)
        self._learner.hear(sent, reply, verdict, again=again)

    def wait_ahead_ns(self) -> int:
        """How long a request that asked now would wait, as far as can be known. Changes nothing."""
        now_ns = self._clock.monotonic_ns()
        hold = self._hold(self._granted.earliest_ns(), is_probe=False)
        return 0 if hold is None or hold.until_ns is None else max(0, hold.until_ns - now_ns)

    def state(self) -> GovernorState:
        """A readout; reading it changes nothing."""
        now_ns = self._clock.monotonic_ns()
        pace, circuit = self._learner.pace, self._learner.circuit
        return GovernorState(
            interval_ns=pace.interval_ns,
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            edge_per_s=pace.edges_per_s[0] if pace.edges_per_s else None,
            limited_by=self._limited_by(),
            circuit=circuit.state,
            circuit_wait_ns=circuit.wait_ns(now_ns=now_ns),
            not_before_in_ns=max(0, self._learner.not_before_ns - now_ns),
            in_flight=self._in_flight,
            waiting=sum(len(line) for line in self._waiting.values()),
            last_back_off=self._learner.last_back_off,
            restored=self._learner.restored,
            departures=self._departures,
        )

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def turn(self, lane: Lane) -> GovernedPermit:
        """Stand in line; use `admit`, which also gives the permit back."""
        turn: asyncio.Future[GovernedPermit] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(self._clock.monotonic_ns() + self._jitter_ns(), turn)
        self._waiting[lane].append(waiter)
        self._changed.set()
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch(), name=f"gate:{self._source}")
        try:
            return await turn
        except asyncio.CancelledError:
            if waiter in self._waiting[lane]:
                self._waiting[lane].remove(waiter)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back(turn.result())
            raise

    def _jitter_ns(self) -> int:
        low_ns = self._limits.jitter_min_ns
        high_ns = max(low_ns, min(self._limits.jitter_max_ns, self._limits.ceiling_interval_ns))
        return low_ns + int(self._chance() * (high_ns - low_ns))

    def give_back(self, permit: GovernedPermit) -> None:
        """The request is over; its place is free."""
        assert not permit.was_given_back, "a permit was given back twice"
        permit.was_given_back = True
        if permit.is_probe and not permit.was_heard:
            self._learner.move_circuit(CircuitEvent.PROBE_LOST)
        if self._in_flight >= self._limits.in_flight:
            self._unhindered_since_ns = self._clock.monotonic_ns()
        self._in_flight -= 1
        self._changed.set()

    async def _dispatch(self) -> None:
        """Hand out turns while anybody waits. The clock is read again before every turn: timers lie."""
        try:
            while lanes := self._lanes_waiting():
                hold = self._hold_for_turn(lanes)
                if hold is None:
                    self._give_turn(lanes)
                elif hold.limited_by in PACING and hold.until_ns is not None:
                    await self._wait_for_turn(hold.until_ns)
                else:
                    await self._wait(hold)
                    self._unhindered_since_ns = self._clock.monotonic_ns()
        except Exception as error:
            # Our own mistake: whoever waits must hear of it instead of waiting for ever.
            for waiter in (waiter for line in self._waiting.values() for waiter in line):
                if not waiter.turn.done():
                    waiter.turn.set_exception(error)
            raise

    def _lanes_waiting(self) -> list[Lane]:
        for line in self._waiting.values():
            while line and line[0].turn.done():  # cancelled a moment ago; it has not left the line itself yet
                line.popleft()
        return [lane for lane in ORDER if self._waiting[lane]]

    def _give_turn(self, lanes: list[Lane]) -> None:
        now_ns = self._clock.monotonic_ns()
        ready = [lane for lane in lanes if self._waiting[lane][0].ready_at_ns <= now_ns]
        lane, self._turns = choose(self._turns, ready)
        waiter = self._waiting[lane].popleft()
        # Only a request that the pacer alone held back proves that the pace is what limits us.
        slot_ns = max(self._granted.turn_ns(), self._granted.earliest_ns())
        bound = slot_ns > max(waiter.ready_at_ns, self._unhindered_since_ns)
        permit = GovernedPermit(self, lane, pace_bound=bound)
        if self._learner.circuit.state is CircuitState.OPEN:
            self._make_probe(permit)
        self._granted = self._granted.took_turn(now_ns=now_ns)
        self._in_flight += 1
        assert self._in_flight <= self._limits.in_flight, "more requests in flight than the owner allows"
        waiter.turn.set_result(permit)

    async def _wait_for_turn(self, until_ns: int) -> None:
        """A turn comes ahead of its departure, so a coarse timer will do; where requests leave in bunches, a rare one."""
        left_ns = until_ns - self._clock.monotonic_ns()
        least_ns = WAKE_EVERY_NS if bunch_for(self._granted.interval_ns) > 1 else 0
        await asyncio.sleep(max(left_ns, least_ns) / SECOND_NS)

    def _make_probe(self, permit: GovernedPermit) -> None:
        permit.is_probe = True
        self._learner.move_circuit(CircuitEvent.PROBE)

    # ── what holds a request back ───────────────────────────────────────────────────────────────────────────────────

    def _hold_for_turn(self, lanes: list[Lane]) -> Hold | None:
        if self._in_flight >= self._limits.in_flight:
            return Hold(LimitedBy.IN_FLIGHT, None)
        ready_at_ns = min(self._waiting[lane][0].ready_at_ns for lane in lanes)
        return self._hold(max(self._granted.turn_ns(), ready_at_ns), is_probe=False)

    def _hold(self, paced_until_ns: int, *, is_probe: bool) -> Hold | None:
        """The later of what the pacer and the lessons say: one wait, never a sum."""
        hold = self._learner.hold(is_probe=is_probe)
        if hold is not None and (hold.until_ns is None or hold.until_ns >= paced_until_ns):
            return hold
        return Hold(self._pacing_limit(), paced_until_ns) if paced_until_ns > self._clock.monotonic_ns() else None

    def _pacing_limit(self) -> LimitedBy:
        at_ceiling = self._granted.interval_ns <= self._limits.ceiling_interval_ns
        return LimitedBy.CEILING if at_ceiling else LimitedBy.PACE

    def _limited_by(self) -> LimitedBy:
        lanes = [lane for lane in ORDER if self._waiting[lane]]
        if not lanes:
            return LimitedBy.IN_FLIGHT if self._in_flight >= self._limits.in_flight else LimitedBy.NO_WORK
        hold = self._hold_for_turn(lanes)
        return self._pacing_limit() if hold is None else hold.limited_by

    async def _wait(self, hold: Hold) -> None:
        """Until the hold ends. What may end early (a free place, a probe's answer, a stored back-off) is listened for."""
        if hold.until_ns is not None and hold.limited_by is not LimitedBy.STORE:
            await self._clock.sleep_until(hold.until_ns)
            return
        self._changed.clear()
        left_s = None if hold.until_ns is None else max(0, hold.until_ns - self._clock.monotonic_ns()) / SECOND_NS
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._changed.wait()

    def _on_change(self) -> None:
        interval_ns = self._learner.pace.interval_ns
        self._departed = self._departed.at_interval(interval_ns)
        self._granted = self._granted.at_interval(interval_ns)
        self._changed.set()

    def _new_pacer(self) -> Pacer:
        return new_pacer(
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            interval_ns=self._learner.pace.interval_ns,
            now_ns=self._clock.monotonic_ns(),
            idle_ns=self._learner.idle_ns,
        )
