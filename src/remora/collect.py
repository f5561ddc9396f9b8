"""What happens to one item? Start reading here: from discovery to a durable outcome, in one line of verbs.

discovery ─▶ governor.admit ─▶ source.fetch ─▶ source.decode ─▶ classify ─▶ governor.learn ─▶ store.record ─▶ meter
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from remora.contracts import Clock, Meter, Mirror, Observation, Outcome, Source
from remora.core.item import Decoded, Item, Newest, WrongShape
from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.ledger.gap import owed_reason
from remora.core.rate.signal import is_unanswered
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import (
    Deferred,
    Fault,
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
    classify,
    has_content,
)
from remora.gate.governor import GovernedPermit, Governor

log = structlog.get_logger()

# A request that met pressure or trouble is sent again after these delays, each time through the gate; then it is owed.
RETRY_DELAYS_NS: Final = (200 * MILLISECOND_NS, 500 * MILLISECOND_NS, 1_000 * MILLISECOND_NS)
# An item whose own requests have taken this long is not asked for again at once: it is owed, and recovery asks later. A
# request that hangs takes its whole timeout, and its walk stores no cursor beyond it meanwhile; faults that come sooner
# cost a walk little. Waiting in the gate is not counted: that says nothing about the item.
REQUEST_TIME_MAX_NS: Final = 5 * SECOND_NS
# This machine ran out of descriptors or memory: how long to wait before the same request, and how often to say so.
EXHAUSTED_WAIT_NS: Final = SECOND_NS
EXHAUSTED_TOLD_EVERY_NS: Final = MINUTE_NS
# More new ids than a source assigns in weeks; a newest id this far above the last one is looked at twice.
LEAP_MAX_IDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking for one thing."""

    verdict: Verdict
    started_at_ns: int  # wall clock at the departure of the request that was answered
    requests: int


class _Asking(NamedTuple):
    """A request under way, and what ends the wait for it."""

    permit: GovernedPermit
    patience: asyncio.Timeout


class Collector:
    """Brings items of one source into the store, one at a time, any number of times at once."""

    def __init__(
        self,
        source: Source,
        store: Mirror,
        governor: Governor,
        *,
        clock: Clock,
        meter: Meter,
        retry_delays_ns: Sequence[int] = RETRY_DELAYS_NS,
    ) -> None:
        self._source = source
        self._absent_statuses = source.capabilities.absent_statuses
        self._store = store
        self._governor = governor
        self._clock = clock
        self._meter = meter
        self._retry_delays_ns = retry_delays_ns
        self._asking: dict[Discovery, _Asking] = {}
        self._exhausted_told_ns: int | None = None
        self.newest_id: int | None = None  # the highest id anybody has told us of

    async def collect(self, discovery: Discovery) -> Outcome:
        """The life of one item. Whatever the provider does, the outcome is durable when this returns."""
        asked = await self.ask(discovery)
        return await self.record(discovery, asked)

    async def record(self, discovery: Discovery, asked: Asked) -> Outcome:
        """Make what came of asking durable."""
        seen = Observation(discovery, asked.verdict, asked.started_at_ns, self._clock.wall_ns())
        outcome = await self._store.record(self._source.name, seen)
        self._meter.recorded(self._source.name, discovery.via, outcome, age_s=_age_s(seen))
        self._tell(discovery, asked.verdict, outcome)
        return outcome

    async def ask(self, discovery: Discovery) -> Asked:
        """Ask until there is an answer, but neither more often nor longer than one item may hold up others."""
        requests, taken_ns, met = 0, 0, frozenset[type[Verdict]]()
        while True:
            verdict, started_at_ns, took_ns = await self._ask_once(discovery, met)
            if isinstance(verdict, Deferred):  # our own fault: it costs the item no attempt
                await self._wait_for_resources()
                continue
            taken_ns += took_ns
            is_last = requests >= len(self._retry_delays_ns) or taken_ns >= REQUEST_TIME_MAX_NS
            if is_last or not is_worth_a_retry(verdict):
                return Asked(verdict, started_at_ns, requests + 1)
            met |= {type(verdict)}
            await self._clock.sleep_until(self._clock.monotonic_ns() + self._retry_delays_ns[requests])
            requests += 1

    async def _wait_for_resources(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._exhausted_told_ns is None or now_ns - self._exhausted_told_ns >= EXHAUSTED_TOLD_EVERY_NS:
            self._exhausted_told_ns = now_ns
            why = "this machine has no free file descriptors or memory; raise the limit of open files (ulimit -n)"
            log.warning("machine_exhausted", source=self._source.name, why=why)
        await self._clock.sleep_until(now_ns + EXHAUSTED_WAIT_NS)

    def give_up_if_it_hangs(self, discovery: Discovery) -> None:
        """End its request if it has been out for as long as an item may take: no answer came, so the item is owed."""
        asking = self._asking.get(discovery)
        if asking is None or asking.permit.departed_at_ns is None:
            return
        if self._clock.monotonic_ns() - asking.permit.departed_at_ns >= REQUEST_TIME_MAX_NS:
            asking.patience.reschedule(asyncio.get_running_loop().time())

    async def newest(self) -> int | None:
        """Ask for the highest id and remember it; None when there was no answer."""
        told = await self._ask_newest()
        if told is not None and self.newest_id is not None and told > self.newest_id + LEAP_MAX_IDS:
            # One wrong number would stay for ever and declare that many ids owed: two looks must agree on it.
            again = await self._ask_newest()
            told = None if again is None else min(told, again)
        if told is None:
            return None
        self.newest_id = max(told, self.newest_id or 0)
        return self.newest_id

    async def _ask_newest(self) -> int | None:
        match (await self.ask(Discovery.newest())).verdict:
            case Found(Newest(item_id)):
                return item_id
            case _:
                return None

    async def _ask_once(self, discovery: Discovery, met: Collection[type[Verdict]]) -> tuple[Verdict, int, int]:
        """What came of one request, when it left (wall clock) and how long it took."""
        async with self._governor.admit(discovery.via) as permit:
            admitted_ns = self._clock.monotonic_ns()
            reply = await self._fetch(discovery, permit)
            now_wall_ns = self._clock.wall_ns()
            decoded = self._decode(discovery, reply)
            verdict = classify(
                reply,
                decoded,
                behind_newest=self._behind_newest(discovery),
                now_wall_ns=now_wall_ns,
                absent_statuses=self._absent_statuses,
            )
            if not isinstance(verdict, Deferred):  # what this machine could not send teaches nothing
                already_counted = type(verdict) in met or _hangs_again(discovery, verdict)
                self._governor.learn(permit, reply, verdict, already_counted=already_counted)
        self._meter.judged(self._source.name, discovery.via, verdict)
        # What never left was held up by its connection alone.
        took_ns = reply.answered_at_ns - (admitted_ns if reply.departed_at_ns is None else reply.departed_at_ns)
        # Read at the departure itself: computed backwards from now, a step of the clock could turn two fetches around.
        return verdict, now_wall_ns if permit.departed_wall_ns is None else permit.departed_wall_ns, took_ns

    async def _fetch(self, discovery: Discovery, permit: GovernedPermit) -> Reply | NoReply:
        """One request, until there is an answer or nobody waits for it any longer."""
        try:
            async with asyncio.timeout(None) as patience:
                self._asking[discovery] = _Asking(permit, patience)
                return await self._source.fetch(discovery, permit)
        except TimeoutError:
            return NoReply(Fault.TIMEOUT, permit.departed_at_ns, self._clock.monotonic_ns())
        finally:
            self._asking.pop(discovery, None)

    def _tell(self, discovery: Discovery, verdict: Verdict, outcome: Outcome) -> None:
        """What is owed is told as it opens and as it ends; how many, why and how it was found, never which item."""
        was_owed, reason = isinstance(discovery.origin, FromGap), owed_reason(verdict)
        match outcome:
            case Outcome.OWED if not was_owed:
                log.info("gap_opened", source=self._source.name, via=str(discovery.via), reason=reason)
            case Outcome.DEAD:
                log.warning("gap_dead", source=self._source.name, via=str(discovery.via), reason=reason)
            case Outcome.ABSENT:
                log.info("gap_absent", source=self._source.name, via=str(discovery.via), reason=reason)
            case Outcome.NEW | Outcome.CHANGED | Outcome.UNCHANGED if was_owed and reason is None:
                log.info("gap_settled", source=self._source.name, via=str(discovery.via))
            case _:  # stored as usual, still owed, or overtaken by a newer answer: nothing changed for an operator
                pass

    def _decode(self, discovery: Discovery, reply: Reply | NoReply) -> Decoded | None:
        if not isinstance(reply, Reply) or not has_content(reply):
            return None
        try:
            return self._source.decode(discovery, reply)
        except Exception as error:  # noqa: BLE001 - a poison item never stops its neighbours, whatever our decoder missed
            log.error("decoder_failed", source=self._source.name, error=type(error).__name__)  # noqa: TRY400
            return WrongShape("the decoder failed")

    def _behind_newest(self, discovery: Discovery) -> int | None:
        if discovery.kind is not Kind.ITEM:
            return None
        # While nobody has told us the newest id, any id may be a young one: a null is "not yet".
        return 0 if self.newest_id is None else self.newest_id - discovery.item_id


def is_worth_a_retry(verdict: Verdict) -> bool:
    """Whether the same request may be answered differently in a moment."""
    match verdict:
        case Pressure() | Trouble():
            return True
        case Found() | NotYet() | Missing() | Refused() | Malformed() | Deferred():
            return False


def _hangs_again(discovery: Discovery, verdict: Verdict) -> bool:
    """Whether an item is still not answered that is owed because it was not: nothing new about the source."""
    origin = discovery.origin
    return isinstance(origin, FromGap) and origin.reason is GapReason.TIMEOUT and is_unanswered(verdict)


def _age_s(seen: Observation) -> float | None:
    """How old the item was when it was fetched; None where its time is missing or in the future."""
    match seen.verdict:
        case Found(Item(time=int(time))) if 0 < time * SECOND_NS <= seen.started_at_ns:
            return seen.started_at_ns / SECOND_NS - time
        case _:
            return None
