"""What has this source taught us so far? The learned pace, the circuit and the provider's not-before, kept durable.

Nothing here waits for anything: the learner hears every answer at once, also while the store is down.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from remora.contracts import Clock, Meter, PaceBook
from remora.core import circuit as circuits
from remora.core.circuit import Circuit, CircuitEvent, CircuitState
from remora.core.errors import StoreError
from remora.core.pace_record import Restore, record_from_json, record_to_json, restore, to_record
from remora.core.rate_law import Answer, Answered, ChangeKind, Pace, PaceChange, after, cold_start, describe
from remora.core.snapshot import LimitedBy
from remora.core.units import SECOND_NS
from remora.core.verdict import (
    RETRY_AFTER_MAX_NS,
    Deferred,
    Found,
    Malformed,
    Missing,
    NoReply,
    NotYet,
    Pressure,
    Refused,
    Reply,
    Trouble,
    Verdict,
)

log = structlog.get_logger()

# A learned pace is stored at most this often; a back-off is stored at once.
SAVE_EVERY_S: Final = 1.0
# After a back-off nothing leaves until it is stored, so that a crash cannot forget it. A store that is down may hold
# the gate only this long.
HOLD_FOR_STORE_NS: Final = SECOND_NS
EVENT_EVERY_NS: Final = SECOND_NS // 2


@dataclass(frozen=True, slots=True)
class Hold:
    """Why nothing may leave, and until when; None means until something changes."""

    limited_by: LimitedBy
    until_ns: int | None


@dataclass(frozen=True, slots=True)
class BackOff:
    """The last time the pace went down."""

    at_wall_ns: int
    reason: str
    from_per_s: float
    to_per_s: float


@dataclass(frozen=True, slots=True)
class Sent:
    """What the learner must know about the request that was answered."""

    departed_at_ns: int | None
    pace_bound: bool
    is_probe: bool


class Learner:
    """One source's lessons. `on_change` is called after anything moved that a waiting request should know of."""

    def __init__(
        self,
        source: str,
        *,
        ceiling_interval_ns: int,
        stale_after_ns: int,
        clock: Clock,
        book: PaceBook,
        meter: Meter,
        on_change: Callable[[], None],
    ) -> None:
        self._source = source
        self._ceiling_interval_ns = ceiling_interval_ns
        self._stale_after_ns = stale_after_ns
        self._clock = clock
        self._book = book
        self._meter = meter
        self._on_change = on_change
        now_ns = clock.monotonic_ns()
        self.pace: Pace = cold_start(ceiling_interval_ns=ceiling_interval_ns, now_ns=now_ns)
        self.restored = Restore.COLD_NONE
        self.circuit = Circuit()
        self.not_before_ns = 0
        self.last_back_off: BackOff | None = None
        self._last_event_ns = now_ns - EVENT_EVERY_NS
        self._unsaved = asyncio.Event()
        self._cut = asyncio.Event()
        self._cut_at_ns: int | None = None
        self._keeper: asyncio.Task[None] | None = None

    def hold(self, *, is_probe: bool) -> Hold | None:
        """What the lessons say against sending right now, apart from the pace."""
        now_ns = self._clock.monotonic_ns()
        if self._cut_at_ns is not None and now_ns < self._cut_at_ns + HOLD_FOR_STORE_NS:
            return Hold(LimitedBy.STORE, self._cut_at_ns + HOLD_FOR_STORE_NS)
        if self.not_before_ns > max(now_ns, self.pace.quiet_until_ns):
            return Hold(LimitedBy.RETRY_AFTER, self.not_before_ns)
        if self.pace.quiet_until_ns > now_ns:
            return Hold(LimitedBy.PACE, self.pace.quiet_until_ns)
        circuit_wait_ns = 0 if is_probe else self.circuit.wait_ns(now_ns=now_ns)
        if circuit_wait_ns is None:
            return Hold(LimitedBy.CIRCUIT, None)
        return Hold(LimitedBy.CIRCUIT, now_ns + circuit_wait_ns) if circuit_wait_ns > 0 else None

    def hear(self, sent: Sent, reply: Reply | NoReply, verdict: Verdict, *, again: bool) -> None:
        """Hear what an answer says about the rate and about the provider as a whole.

        `again` marks a retry of a request that was already pressed: it slows nothing down a second time.
        """
        answer = _answer(verdict)
        if isinstance(verdict, Pressure) and verdict.retry_after_ns:
            self.not_before_ns = max(self.not_before_ns, reply.answered_at_ns + verdict.retry_after_ns)
            self._unsaved.set()
        self._feed_circuit(sent, answer)
        departed_at_ns = sent.departed_at_ns
        if answer is None or departed_at_ns is None or (again and answer is Answer.REFUSED):
            return
        event = Answered(answer, departed_at_ns, reply.answered_at_ns, sent.pace_bound)
        before, self.pace = self.pace, after(self.pace, event)
        change = describe(before, self.pace)
        if change is not None:
            self._follow(change, verdict)

    def _follow(self, change: PaceChange, verdict: Verdict) -> None:
        interval_ns = self.pace.interval_ns
        slower = change.kind is not ChangeKind.SPED_UP
        reason = str(verdict.reason) if slower and isinstance(verdict, Pressure | Trouble) else None
        if slower:
            self._cut_at_ns = self._clock.monotonic_ns()
            self._cut.set()
            why = reason or "latency"
            self.last_back_off = BackOff(self._clock.wall_ns(), why, change.from_per_s, change.to_per_s)
        self._unsaved.set()
        self._meter.pace_changed(self._source, interval_ns=interval_ns, backed_off_because=reason)
        self._tell(change, reason)
        self._on_change()

    def _tell(self, change: PaceChange, reason: str | None) -> None:
        now_ns = self._clock.monotonic_ns()
        if change.kind is ChangeKind.SPED_UP and now_ns - self._last_event_ns < EVENT_EVERY_NS:
            return
        self._last_event_ns = now_ns
        log.info(
            str(change.kind),
            source=self._source,
            interval_s=round(self.pace.interval_ns / SECOND_NS, 6),
            rate_per_s=round(change.to_per_s, 4),
            from_per_s=round(change.from_per_s, 4),
            ceiling_per_s=round(SECOND_NS / self._ceiling_interval_ns, 4),
            **({} if reason is None else {"reason": reason}),
        )

    def _feed_circuit(self, sent: Sent, answer: Answer | None) -> None:
        if self.circuit.state is not CircuitState.CLOSED and not sent.is_probe:
            return  # it left before the circuit opened
        match answer:
            case Answer.GOOD:
                self.move_circuit(CircuitEvent.GOOD)
            case Answer.REFUSED | Answer.TROUBLED:
                self.move_circuit(CircuitEvent.BAD)
            case None:  # one item's own refusal: the provider answers, which is all a probe asks
                if sent.is_probe:
                    self.move_circuit(CircuitEvent.GOOD)

    def move_circuit(self, event: CircuitEvent) -> None:
        """Let something happen to the circuit; a change of state is an event."""
        before = self.circuit
        self.circuit = circuits.after(before, event, now_ns=self._clock.monotonic_ns())
        if self.circuit.state is not before.state:
            self._meter.circuit_changed(self._source, self.circuit.state)
            log.info("circuit_changed", source=self._source, state=str(self.circuit.state), was=str(before.state))
            self._on_change()

    async def open(self) -> None:
        """Take up the stored lessons, if they can be trusted, and keep them stored from now on."""
        stored = await self._book.load_pace(self._source)
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        fields = stored if isinstance(stored, dict) else {}
        restored = restore(
            record_from_json(fields.get("pace") if isinstance(stored, dict) else stored),
            ceiling_interval_ns=self._ceiling_interval_ns,
            now_ns=now_ns,
            now_wall_ns=wall_ns,
            stale_after_ns=self._stale_after_ns,
        )
        self.pace, self.restored = restored.pace, restored.how
        self.not_before_ns = now_ns + _left_ns(fields.get("not_before_wall_ns"), wall_ns)
        distrusted = restored.how in {Restore.COLD_DAMAGED, Restore.COLD_FUTURE}
        (log.warning if distrusted else log.info)(
            "pace_restored", source=self._source, how=str(restored.how), rate_per_s=round(self.pace.rate_per_s, 4)
        )
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"pace:{self._source}")

    async def close(self) -> None:
        """Store what was learned and let go."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._save()

    async def _keep(self) -> None:
        while True:
            await self._unsaved.wait()
            await self._save()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._cut.wait(), timeout=SAVE_EVERY_S)

    async def _save(self) -> None:
        self._unsaved.clear()
        self._cut.clear()
        cut_at_ns = self._cut_at_ns
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        record = {
            "pace": record_to_json(to_record(self.pace, now_ns=now_ns, now_wall_ns=wall_ns)),
            "not_before_wall_ns": wall_ns + max(0, self.not_before_ns - now_ns),
        }
        try:
            await self._book.save_pace(self._source, record)
        except StoreError as error:
            # The discipline holds without the store; what was learned is stored once it answers again.
            log.warning("pace_not_stored", source=self._source, why=error.message)
            self._unsaved.set()
            return
        if self._cut_at_ns == cut_at_ns:
            self._cut_at_ns = None
        self._on_change()


def _answer(verdict: Verdict) -> Answer | None:
    """What a verdict says about the rate; a refusal of one item says nothing."""
    match verdict:
        case Found() | NotYet() | Missing() | Malformed():
            return Answer.GOOD
        case Pressure():
            return Answer.REFUSED
        case Trouble():
            return Answer.TROUBLED
        case Refused() | Deferred():
            return None


def _left_ns(until_wall_ns: object, now_wall_ns: int) -> int:
    """What is left of a stored wait; one that lies absurdly far ahead was written by another clock."""
    if isinstance(until_wall_ns, bool) or not isinstance(until_wall_ns, int):
        return 0
    return min(max(0, until_wall_ns - now_wall_ns), RETRY_AFTER_MAX_NS)
