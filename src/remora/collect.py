"""What happens to one item? Start reading here: from discovery to a durable outcome, in one line of verbs.

discovery ─▶ governor.admit ─▶ source.fetch ─▶ source.decode ─▶ classify ─▶ governor.learn ─▶ store.record ─▶ meter
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Final, cast
from weakref import WeakSet

import structlog

from remora.collect_events import CollectEvents
from remora.contracts import (
    Capabilities,
    Clock,
    Credential,
    Dialect,
    Meter,
    Mirror,
    Observation,
    Outcome,
    PromptSource,
    Source,
)
from remora.contracts.allowance import UNBOUNDED, Allowance
from remora.contracts.source import SourceFailed, WalkedSource
from remora.core.item import Decoded, Readable, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.asking import ITEM, REQUEST_TIME_MAX_NS, AskPolicy, Refusals, owed_because
from remora.core.ledger.asking import Asked as Asked
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.known_good import KnownGood
from remora.core.ledger.run import Stop
from remora.core.rate.signal import is_of_provider, is_unanswered
from remora.core.reasons import GapReason
from remora.core.translation import NOTHING_SAID, Translation
from remora.core.units import SECOND_NS
from remora.core.verdict import (
    NO_PAGE_STATUSES,
    Deferred,
    Fault,
    Found,
    Malformed,
    Missing,
    NoReply,
    NotYet,
    Refused,
    Reply,
    Trouble,
    Verdict,
    classify,
    has_content,
)
from remora.gate.governor import GovernedPermit, Governor
from remora.gate.request_batch import Answer, RequestBatch
from remora.gate.stream_connect import StreamGate
from remora.newest import BelievedNewest
from remora.ordinary_answers import OrdinaryAnswers

log = structlog.get_logger()

OnDurable = Callable[[list[tuple[Discovery, Outcome]]], Awaitable[None]]
Heard = tuple[Discovery, Asked]
Met = frozenset[type[Verdict]]  # kinds of failures that an item met before

# When this machine runs out of descriptors or memory: the wait before the same request.
EXHAUSTED_WAIT_NS: Final = SECOND_NS
_NOTHING_MET: Final = Met()
_NEED_NO_RETRY: Final = (Found, NotYet, Missing, Malformed)


@dataclass(slots=True)
class _Asking:
    """A request in flight, and the task that waits for its answer."""

    permit: GovernedPermit
    task: "asyncio.Task[object] | None"
    was_given_up: bool = False


class Collector(BelievedNewest):
    """Brings items of one source into the store, one at a time, any number of times at once."""

    def __init__(
        self,
        source: Source,
        store: Mirror,
        governor: Governor,
        *,
        clock: Clock,
        meter: Meter,
        policy: AskPolicy = ITEM,
        dialect: Dialect | None = None,
        credential: Credential | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._absent_statuses = source.capabilities.absent_statuses
        self._store = store
        self._governor = governor
        self._clock = clock
        self._meter = meter
        self._policy = policy
        self._dialect = dialect
        self._credential = credential
        # A credential may have to be renewed before each request, which takes time.
        is_prompt = isinstance(source, PromptSource) and credential is None
        self._fetch_now = cast("PromptSource", source).fetch_now if is_prompt else None
        self._refusals = Refusals()
        self._known_good = KnownGood()
        self._ordinary = OrdinaryAnswers(source, governor, dialect, self._known_good, self._refusals)
        governor.canaries.made_by(self._canary)
        self._asking: dict[Discovery, _Asking] = {}
        self._batches: WeakSet[RequestBatch[Heard]] = WeakSet()
        self._events = CollectEvents(source.name)

    @property
    def capabilities(self) -> Capabilities:
        """What the source can do."""
        return self._source.capabilities

    @property
    def walked(self) -> WalkedSource | None:
        """The source, if it can compute positions in its list."""
        return cast("WalkedSource", self._source) if self.capabilities.positions else None

    def is_sent(self, discovery: Discovery) -> bool:
        """Whether a request for it was sent and is not answered yet."""
        asking = self._asking.get(discovery)
        return asking is not None and asking.permit.departed_at_ns is not None

    async def collect(self, discovery: Discovery) -> Outcome:
        """The life of one item. Whatever the provider does, the outcome is durable when this returns."""
        asked = await self.ask(discovery)
        return await self.record(discovery, asked)

    async def collect_many(self, discoveries: Sequence[Discovery], on_durable: OnDurable) -> None:
        """The same for many of one lane. What is answered at the same time becomes durable together."""
        await self._wait_for_secret()  # before the turns: to read it may need a turn of its own
        async with self._batch(discoveries) as batch:
            while answered := await batch.answered():
                await on_durable(await self.record_many(answered))

    async def record(self, discovery: Discovery, asked: Asked) -> Outcome:
        """Make the result durable."""
        ((_, outcome),) = await self.record_many([(discovery, asked)])
        return outcome

    async def record_many(self, answered: Sequence[tuple[Discovery, Asked]]) -> list[tuple[Discovery, Outcome]]:
        """Make these results durable together."""
        name, now_ns = self._source.name, self._clock.wall_ns()
        seen = [Observation(discovery, asked.verdict, asked.started_at_ns, now_ns) for discovery, asked in answered]
        self._governor.storing(len(seen))
        try:
            outcomes = await self._store.record_many(name, seen)
        finally:
            self._governor.storing(-len(seen))
        self._meter.recorded(name, seen, outcomes)
        self._events.recorded(seen, outcomes)
        self._exist(seen)
        return [(one.discovery, outcome) for one, outcome in zip(seen, outcomes, strict=True)]

    async def ask(
        self, discovery: Discovery, allowance: Allowance = UNBOUNDED, policy: AskPolicy | None = None
    ) -> Asked:
        """Ask until there is an answer, the policy allows no more retries, or the allowance is used up."""
        return await self._ask(discovery, allowance, policy or self._policy)

    async def _ask(
        self, discovery: Discovery, allowance: Allowance, policy: AskPolicy, answer: Asked | None = None
    ) -> Asked:
        """`answer`: what the first request brought, if it was sent already."""
        asked = None
        requests, taken_ns, met, was_renewed = 0, 0, _NOTHING_MET, False
        while (answer := answer or await self._ask_within(allowance, discovery, met)) is not None:
            if isinstance(answer.verdict, Deferred):  # our own fault: it costs the item no attempt
                await self._wait_for_resources()
                answer = None
                continue
            requests, taken_ns = requests + 1, taken_ns + answer.took_ns
            asked = Asked(answer.verdict, answer.started_at_ns, requests)
            if not was_renewed and await self._has_new_credential(answer.verdict):
                was_renewed, answer = True, None
                continue
            delay_ns = policy.delay_ns(answer.verdict, requests=requests, taken_ns=taken_ns)
            # A fault of the item itself does not go away in a moment: the item is owed, and recovery asks later.
            is_own_fault = isinstance(answer.verdict, Trouble) and self._governor.canaries.blame_items
            if delay_ns is None or is_own_fault or allowance.stop is not None or not allowance.may_retry():
                return asked
            if not policy.repeats_are_news and discovery.kind is not Kind.NEWEST:  # no item: it is about the provider
                met |= {type(answer.verdict)}
            await self._clock.sleep_until(self._clock.monotonic_ns() + delay_ns)
            answer = None
        return asked or self._deferred(allowance.stop)

    async def _wait_for_secret(self) -> None:
        if self._credential is not None:
            await self._credential.ready()

    async def _has_new_credential(self, verdict: Verdict) -> bool:
        """Whether the provider refused a credential that has been replaced since."""
        is_refused = isinstance(verdict, Refused) and verdict.reason is GapReason.UNAUTHORIZED
        return is_refused and self._credential is not None and await self._credential.renew()

    async def _wait_for_resources(self) -> None:
        now_ns = self._clock.monotonic_ns()
        self._events.exhausted(now_ns=now_ns)
        await self._clock.sleep_until(now_ns + EXHAUSTED_WAIT_NS)

    def stream_gate(self, lane: Lane) -> StreamGate:
        """How the connects of one stream pass the gate."""
        return StreamGate(self._source.name, lane, self._governor, clock=self._clock, meter=self._meter)

    def give_up_what_hangs(self, discoveries: Sequence[Discovery]) -> None:
        """End those requests that have taken as long as an item may take. There was no answer, so the item is owed."""
        now_ns = self._clock.monotonic_ns()
        latest_ns = now_ns - REQUEST_TIME_MAX_NS
        for batch in self._batches:
            batch.give_up(discoveries, departed_before_ns=latest_ns, now_ns=now_ns)
        for asking in [self._asking[discovery] for discovery in discoveries if discovery in self._asking]:
            departed_at_ns = asking.permit.departed_at_ns
            if departed_at_ns is not None and departed_at_ns <= latest_ns and not asking.was_given_up:
                assert asking.task is not None, "a request is awaited by a task"
                asking.was_given_up = True
                asking.task.cancel()

    async def _verdict(self, discovery: Discovery) -> Verdict:
        return (await self.ask(discovery)).verdict

    @property
    def _source_name(self) -> str:
        return self._source.name

    async def _ask_within(self, allowance: Allowance, discovery: Discovery, met: Met) -> Asked | None:
        """Send one request if the allowance covers it. None: it does not, or time ran out while the request waited."""
        if not allowance.may_ask():
            return None
        left_ns, asking = allowance.left_ns(), self._ask_once(discovery, met)
        answer = await asking if left_ns is None else await self._in_time(discovery, asking, left_ns)
        if answer is None:
            allowance.out_of_time()
        elif not isinstance(answer.verdict, Deferred):
            allowance.heard(answer.verdict, departed_wall_ns=answer.started_at_ns)
        return answer

    async def _in_time(self, discovery: Discovery, request: Coroutine[None, None, Asked], left_ns: int) -> Asked | None:
        """A request that was not sent by then is given up. One that was sent may finish: its own timeout bounds it."""
        asking = asyncio.get_running_loop().create_task(request, name="asking")
        try:
            await asyncio.wait({asking}, timeout=left_ns / SECOND_NS)
            return await asking if asking.done() or self.is_sent(discovery) else None
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    def _canary(self) -> Coroutine[None, None, None] | None:
        """A request for something known to be good. The gate uses it to tell bad items from a provider that is down."""
        known = self._known_good.canary(newest_id=self.newest_id)
        return None if known is None else self._send_canary(known)

    async def _send_canary(self, known: Discovery) -> None:
        """Only the gate uses its answer: what is known to be good is already stored."""
        await self._wait_for_secret()
        async with self._governor.admit(known.via, is_canary=True) as permit:
            reply = await self._fetch_or_fail(known, permit)
            said = self._translate(reply, self._clock.wall_ns())
            verdict = self._classify(known, reply, said, self._clock.wall_ns())
            if isinstance(verdict, Found):
                self._known_good.hear(known, verdict)
            if is_of_provider(reply, verdict):
                self._governor.learn(permit, reply, verdict, said=said)
        self._meter.judged(self._source.name, known.via, verdict)
        if isinstance(verdict, Deferred):
            await self._wait_for_resources()
        elif not is_of_provider(reply, verdict):  # the next one may fail as well
            await self._clock.sleep_until(self._clock.monotonic_ns() + EXHAUSTED_WAIT_NS)

    async def _ask_once(self, discovery: Discovery, met: Met) -> Asked:
        """One request: the line of verbs up to `governor.learn`."""
        await self._wait_for_secret()
        async with self._governor.admit(discovery.via, self._source.name) as permit:
            reply = await self._fetch(discovery, permit)
            answer = self._hear(discovery, permit, reply, self._clock.wall_ns(), met)
            self._meter.judged(self._source.name, discovery.via, answer.verdict)
            return answer

    def _batch(self, discoveries: Sequence[Discovery]) -> RequestBatch[Heard]:
        """The first request for each of these; what needs more than one goes on by itself."""
        batch = RequestBatch(
            self._governor,
            self._source.name,
            discoveries,
            fetch_now=self._fetch_now,
            fetch=self._fetch,
            hear=self._hear_first,
            is_plain=self._ordinary.is_plain,
        )
        self._batches.add(batch)
        return batch

    def _hear_first(self, answers: Sequence[Answer]) -> list[Heard | Coroutine[None, None, Heard]]:
        """The first answers for these, which are heard together."""
        heard = self._ordinary.hear(answers, self._hear, now_wall_ns=self._clock.wall_ns())
        if heard:
            self._meter.judged(self._source.name, heard[0][0].via, *[asked.verdict for _, asked in heard])
        return [each if isinstance(each[1].verdict, _NEED_NO_RETRY) else self._go_on(*each) for each in heard]

    async def _go_on(self, discovery: Discovery, answer: Asked) -> Heard:
        return discovery, await self._ask(discovery, UNBOUNDED, self._policy, answer)

    def _hear(
        self, discovery: Discovery, permit: GovernedPermit, reply: Reply | NoReply, now_wall_ns: int, met: Met
    ) -> Asked:
        """One answer: the verbs from `source.decode` to `governor.learn`."""
        said = self._translate(reply, now_wall_ns)
        verdict = self._classify(discovery, reply, said, now_wall_ns)
        if is_of_provider(reply, verdict):
            already_counted = self._is_already_counted(discovery, verdict, met)
            self._known_good.hear(discovery, verdict)
            self._governor.learn(permit, reply, verdict, already_counted=already_counted, said=said)
        # A request that was never sent was delayed by its connection only.
        began_ns = permit.admitted_at_ns if reply.departed_at_ns is None else reply.departed_at_ns
        # Read at the departure itself: computed backwards from now, a clock step could swap the order of two fetches.
        started_at_ns = now_wall_ns if permit.departed_wall_ns is None else permit.departed_wall_ns
        return Asked(verdict, started_at_ns, 1, reply.answered_at_ns - began_ns)

    def _classify(self, discovery: Discovery, reply: Reply | NoReply, said: Translation, now_wall_ns: int) -> Verdict:
        decoded = self._decode(discovery, reply) if said.means is None else None
        if isinstance(decoded, Readable):
            return Found(decoded.thing)  # fast path
        return classify(
            reply,
            decoded,
            behind_newest=self._behind_newest(discovery),
            now_wall_ns=now_wall_ns,
            absent_statuses=NO_PAGE_STATUSES if discovery.may_be_behind else self._absent_statuses,
            said=said,
            is_page=discovery.kind is Kind.PAGE,
            is_one_of_many=discovery.kind is not Kind.PAGE and discovery.kind is not Kind.NEWEST,
        )

    def _is_already_counted(self, discovery: Discovery, verdict: Verdict, met: Met) -> bool:
        """Whether this failure was counted before, by an earlier attempt or when the item became owed."""
        if isinstance(verdict, Found):  # fast path: no failure
            self._refusals.answered(discovery)
            return False
        owed = owed_because(discovery)
        hangs_again = owed is GapReason.TIMEOUT and is_unanswered(verdict)
        # A fault that stays with the item while others are answered is the item's own.
        is_same_fault = isinstance(verdict, Trouble | Malformed) and owed is verdict.reason
        fails_again = is_same_fault and self._known_good.is_answering
        is_own_refusal = self._refusals.hear(discovery, verdict)
        return type(verdict) in met or hangs_again or fails_again or is_own_refusal

    async def _fetch(self, discovery: Discovery, permit: GovernedPermit) -> Reply | NoReply:
        """One request, until there is an answer or the wait for it ends."""
        asking = self._asking[discovery] = _Asking(permit, asyncio.current_task())
        try:
            return await self._fetch_or_fail(discovery, permit)
        except asyncio.CancelledError:
            # Given up, and not cancelled by anybody else at the same time.
            if not asking.was_given_up or asking.task is None or asking.task.uncancel() > 0:
                raise
            return NoReply(Fault.TIMEOUT, permit.departed_at_ns, self._clock.monotonic_ns())
        finally:
            self._asking.pop(discovery, None)

    async def _fetch_or_fail(self, discovery: Discovery, permit: GovernedPermit) -> Reply | NoReply:
        try:
            return await self._source.fetch(discovery, permit)
        except SourceFailed:
            return NoReply(Fault.FAILED, permit.departed_at_ns, self._clock.monotonic_ns())

    def _deferred(self, stop: Stop | None) -> Asked:
        assert stop is not None, "an allowance that covers nothing more says why"
        assert stop.reason is not None, "and as which reason the item is owed"
        return Asked(Deferred(stop.reason), self._clock.wall_ns(), 0)

    def _translate(self, reply: Reply | NoReply, now_wall_ns: int) -> Translation:
        if self._dialect is None or not isinstance(reply, Reply):
            return NOTHING_SAID
        return self._dialect.translate(reply, now_wall_ns=now_wall_ns)

    def _decode(self, discovery: Discovery, reply: Reply | NoReply) -> Decoded | None:
        if not has_content(reply, is_page=discovery.kind is Kind.PAGE):
            return None
        try:
            return self._source.decode(discovery, reply)
        except Exception as error:  # noqa: BLE001 - a poison item never stops its neighbours, whatever our decoder missed
            log.error("decoder_failed", source=self._source.name, error=type(error).__name__)  # noqa: TRY400
            return WrongShape("the decoder failed")

    def _behind_newest(self, discovery: Discovery) -> int | None:
        if discovery.kind is not Kind.ITEM:
            return None
        # While the newest id is unknown, any id may be near it: a null means "not yet".
        return 0 if self.newest_id is None else self.newest_id - discovery.item_id
