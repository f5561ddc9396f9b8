"""What have we learned about this source so far? The pace, the circuit and the provider's not-before, kept durable.

Learning never waits: the learner processes every answer at once, even while the store is down.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import cast

from remora.contracts import Clock, GateHome, Json, Meter, SharedPace
from remora.core.errors import StoreError
from remora.core.lanes import Lane
from remora.core.rate import keeping, signal
from remora.core.rate.attribution import Lesson
from remora.core.rate.gate_types import BackOff, Hold, LimitedBy, Sent
from remora.core.rate.law import Answer, Answered, ChangeKind, Pace, PaceChange, after, cold_start, describe
from remora.core.rate.limits import Limits
from remora.core.rate.pace_record import (
    LEAST_STALE_AFTER_NS,
    Restore,
    record_from_json,
    record_to_json,
    restore,
    since_saved_ns,
    to_record,
    wait_ns_of,
)
from remora.core.rate.pacing import Pacer
from remora.core.rate.quota import told as after_quota
from remora.core.rate.shared_pace import COMMON, Common, heard_on_top, to_common
from remora.core.translation import NOTHING_SAID, Translation
from remora.core.verdict import NoReply, Pressure, Reply, Verdict
from remora.gate.bans import BanGuard
from remora.gate.circuit_breaker import SourceBreaker
from remora.gate.common_wait import CommonWait, common_pace
from remora.gate.pace_events import PaceEvents
from remora.gate.pace_in_runs import PaceInRuns
from remora.gate.told_quota import ToldQuota, is_empty_until_ns


class Learner(PaceInRuns):
    """What was learned about one source. `on_change` is called after a change that concerns waiting requests."""

    def __init__(
        self,
        source: str,
        limits: Limits,
        *,
        clock: Clock,
        home: GateHome,
        meter: Meter,
        on_change: Callable[[], None],
        send_canary: Callable[[], bool],
    ) -> None:
        self._source = source
        self._limits = limits
        self._clock = clock
        self._home = home
        self._meter = meter
        self._on_change = on_change
        self._version = 0  # of the shared pace, as far as this process knows
        self._shared_interval_ns = 0
        self._common_cuts = 0
        now_ns = clock.monotonic_ns()
        super().__init__(cold_start(ceiling_interval_ns=limits.ceiling_interval_ns, now_ns=now_ns))
        self.restored = Restore.COLD_NONE
        self.circuit = SourceBreaker(
            source,
            clock=clock,
            meter=meter,
            on_change=on_change,
            on_news=self._tell_soon,
            send_canary=send_canary,
            on_attributed=self._attributed,
        )
        self._held: list[tuple[Answered, Verdict]] = []  # troubled; a canary decides whether they count
        self.quota = ToldQuota(clock)
        self.refusals = BanGuard(source, limits, clock=clock, on_refused=self._tell_soon, on_limit=self._limit_refusals)
        self.not_before_ns = 0
        self._common_wait = CommonWait()
        self.idle_ns = 0  # at startup: how long ago, as far as is known, the last process sent something
        self._started_at_ns = now_ns
        self._departed_at_ns: int | None = None
        self._shared_at_ns = now_ns
        self.last_back_off: BackOff | None = None
        self._pace_events = PaceEvents(source, self, ceiling_interval_ns=limits.ceiling_interval_ns, clock=clock)
        self._unsaved = asyncio.Event()
        self._urgent = asyncio.Event()
        self._cuts = self._cuts_saved = self._cut_at_ns = 0
        self._keeper: asyncio.Task[None] | None = None

    def hold(self, *, now_ns: int, is_probe: bool) -> Hold | None:
        """Why nothing may be sent right now, apart from the pace: the reason with the longest wait."""
        if (
            self._cuts == self._cuts_saved
            and self.not_before_ns <= now_ns
            and self.pace.quiet_until_ns <= now_ns
            and self._common_wait.until_ns <= now_ns
            and self.circuit.passes(now_ns=now_ns)
        ):
            return None  # fast path
        circuit_wait_ns = self.circuit.wait_ns(now_ns=now_ns, is_probe=is_probe)
        store_until_ns = self._cut_at_ns + keeping.HOLD_FOR_STORE_NS if self._cuts > self._cuts_saved else 0
        until_ns, limited_by = max(
            (store_until_ns, LimitedBy.STORE),
            (self.not_before_ns, LimitedBy.RETRY_AFTER),
            (max(self.pace.quiet_until_ns, self._common_wait.until_ns), LimitedBy.PACE),
            (is_empty_until_ns(self.pace), LimitedBy.QUOTA),
            (now_ns + (circuit_wait_ns or 0), LimitedBy.CIRCUIT),
        )
        if until_ns > now_ns:
            return Hold(limited_by, until_ns)
        return Hold(LimitedBy.CIRCUIT, None) if circuit_wait_ns is None else None

    def hear(
        self,
        sent: Sent,
        reply: Reply | NoReply,
        verdict: Verdict,
        *,
        already_counted: bool,
        said: Translation = NOTHING_SAID,
    ) -> None:
        """Learn what an answer says about the rate and about the provider; `said` is what its dialect's rules found.

        `already_counted` marks a failure that an earlier attempt met, or that made the item owed: it does not slow us
        down a second time. Nor does an item that hangs while the source answers others.
        """
        answer, departed_at_ns = signal.answer_of(verdict), sent.departed_at_ns
        is_good = answer is Answer.GOOD
        if departed_at_ns is not None and is_good:
            self._well_answered.add(departed_at_ns)
        elif departed_at_ns is not None and signal.is_unanswered(verdict):
            already_counted = already_counted or self._well_answered.have_overtaken(departed_at_ns)
        asked_ns = (verdict.retry_after_ns if isinstance(verdict, Pressure) else said.wait_ns) or 0
        if asked_ns:
            self._wait_until(reply.answered_at_ns + asked_ns)
        nonsense = signal.is_nonsense(verdict)
        told = "" if is_good and not nonsense else signal.in_words(reply, verdict)
        lesson = self.circuit.hear(sent, answer, already_counted=already_counted, told=told, is_nonsense=nonsense)
        quota = self.quota.hear(reply, said.quota)
        if departed_at_ns is None:
            return
        event = Answered(
            answer or Answer.GOOD,
            departed_at_ns,
            signal.came_at_ns(reply) if is_good else reply.answered_at_ns,
            sent.pace_bound,
            asked_ns if answer is Answer.REFUSED else 0,
            quota,
        )
        self.refusals.watch_good(event) if is_good else self.refusals.watch(event, verdict)
        is_news = is_good or (answer is not None and not already_counted)
        if is_news and (answer is not Answer.TROUBLED or lesson is Lesson.TEACH):
            self._teach(event, verdict, asks_canary=not sent.is_canary)
            return
        if is_news and lesson is Lesson.HOLD:
            self._held.append((event, verdict))
        if quota is not None:  # it says nothing about the rate, but the quota counts for all requests
            self._learn(event, after_quota(self.pace, event), verdict)

    def _teach(self, event: Answered, verdict: Verdict, *, asks_canary: bool) -> None:
        """Apply the law to an answer. Trouble cuts the pace only after a failed canary, if one can be sent."""
        learned = after(self.pace, event)
        is_cut = event.answer is Answer.TROUBLED and describe(self.pace, learned) is not None
        if is_cut and asks_canary and self.circuit.suspect():
            self._held.append((event, verdict))
            return
        self._learn(event, learned, verdict)
        self._unshared.add(event)

    def _learn(self, event: Answered, learned: Pace, verdict: Verdict | None = None) -> None:
        before, self.pace = self.pace, learned
        if verdict is None:  # of a run
            self.refusals.watch_good(event)
        if event.answered_at_ns - self._shared_at_ns >= self._home.share_every_ns:
            self._unsaved.set()
        change = describe(before, learned)
        if change is not None:
            self._follow(change, signal.slowed_because(before, learned, verdict))
        elif learned.quota_interval_ns != before.quota_interval_ns:
            self._on_change()
        if learned.quota_until_ns and self.quota.is_worth_storing(learned):
            self._tell_soon() if learned.interval_ns > before.interval_ns else self._unsaved.set()

    def _limit_refusals(self) -> None:
        """The law must know the limit on refusals that is kept now."""
        self.pace = replace(self.pace, refusal_limit=self.refusals.limit, refused_ns=())

    def _attributed(self, *, is_provider: bool) -> None:
        """A canary was answered: the troubled answers that were held back count, or bad items caused them."""
        held, self._held = self._held, []
        if is_provider:
            for event, verdict in held:
                self._teach(event, verdict, asks_canary=False)
            return
        self.pace = replace(self.pace, trouble_evidence=0.0)
        self._unshared.excuse()

    def departed(self, pacer: Pacer, source: str, lane: Lane, count: int = 1) -> None:
        """Requests were sent. If departures are rare, each is stored: the next process waits from the last one."""
        self._meter.departed(source, lane, count)
        self._departed_at_ns = pacer.last_departure_ns
        if pacer.interval_ns >= keeping.RARE_FROM_NS and not self._home.sees_departures:
            self._unsaved.set()

    def _wait_until(self, not_before_ns: int) -> None:
        """The provider named a wait. It is stored at once: a crash must not forget it."""
        if not_before_ns > self.not_before_ns:
            self.not_before_ns = not_before_ns
            self._tell_soon()
            self._on_change()

    def _follow(self, change: PaceChange, because: str | None) -> None:
        interval_ns = self.pace.interval_ns
        rested_ns = self._clock.monotonic_ns() - self._shared_at_ns
        slower = change.kind is not ChangeKind.SPED_UP
        reason = because if slower else None
        if slower:
            self._cuts += 1
            self._cut_at_ns = self._clock.monotonic_ns()
            self._urgent.set()
            is_quota = change.kind is ChangeKind.QUIETED and is_empty_until_ns(self.pace) == self.pace.quiet_until_ns
            if not is_quota and (reason is not None or self.last_back_off is None):
                # A success may still lower the pace a little after a refusal that was already reported.
                why = reason or keeping.REMEMBERED
                self.last_back_off = BackOff(self._clock.wall_ns(), why, change.from_per_s, change.to_per_s)
        elif rested_ns >= keeping.SHARE_RISE_EVERY_NS and self.is_ahead_of_all(keeping.SHARE_RISE):
            self._urgent.set()
        self._unsaved.set()
        self._meter.pace_changed(self._source, interval_ns=interval_ns, backed_off_because=reason)
        self._pace_events.tell(change)
        self._on_change()

    def _waits_for_good_answers(self) -> bool:
        return not self.circuit.is_untroubled

    def is_ahead_of_all(self, by: float = keeping.AHEAD_OF_ALL) -> bool:
        """Whether this process has learned a faster pace than it has shared; all processes keep the slower one."""
        return bool(self._shared_interval_ns) and self.pace.interval_ns * by < self._shared_interval_ns

    def _tell_soon(self) -> None:
        self._unsaved.set()
        self._urgent.set()

    def adopt(self, shared: SharedPace) -> None:
        """Take over the shared pace, if it is new, and add the answers that only this process got."""
        now_ns = self._clock.monotonic_ns()
        self.circuit.adopt(shared)
        if shared.version <= self._version:
            return
        self._version, self._shared_interval_ns = shared.version, shared.interval_ns
        common = common_pace(shared, ceiling_interval_ns=self._limits.ceiling_interval_ns, now_ns=now_ns)
        if common is None:
            return  # another version of Remora wrote it; the gate still obeys its interval
        was_cut = common.cuts > self._common_cuts
        if was_cut:
            # Requests sent before this process knew of the cut say nothing new about the rate.
            common = replace(common, pace=replace(common.pace, last_cut_at_ns=now_ns))
        self._common_cuts = common.cuts
        self.refusals.adopt(shared)
        before, self.pace = self.pace, heard_on_top(common.pace, self.pace, self._unshared)
        self.not_before_ns = self._common_wait.adopt(shared, asked_until_ns=self.not_before_ns, now_ns=now_ns)
        change = describe(before, self.pace)
        if change is not None:
            if change.kind is not ChangeKind.SPED_UP and (was_cut or self.pace.streak or self.last_back_off is None):
                self.last_back_off = BackOff(self._clock.wall_ns(), keeping.TOLD, change.from_per_s, change.to_per_s)
            self._meter.pace_changed(self._source, interval_ns=self.pace.interval_ns, backed_off_because=None)
            self._pace_events.tell(change)
        self._on_change()

    async def open(self) -> None:
        """Restore what was stored, if it can be trusted, and keep storing from now on."""
        known = await self._home.look()
        self._take_up(known.record)
        self._take_up_common(known)
        self.refusals.take_up(known.record)
        self._limit_refusals()
        self._pace_events.restored(self.restored)
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"pace:{self._source}")

    def _take_up(self, stored: Json) -> None:
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        fields = stored if isinstance(stored, dict) else {}
        restored = restore(
            record_from_json(fields.get("pace") if isinstance(stored, dict) else stored),
            ceiling_interval_ns=self._limits.ceiling_interval_ns,
            now_ns=now_ns,
            now_wall_ns=wall_ns,
            stale_after_ns=self._limits.stale_after_ns,
        )
        self.pace, self.restored = restored.pace, restored.how
        self._started_at_ns = now_ns
        age_ns = since_saved_ns(fields, wall_ns)
        self.not_before_ns = now_ns + max(0, wait_ns_of(fields, "not_before_in_ns") - age_ns)
        self.idle_ns = wait_ns_of(fields, "idle_ns") + age_ns
        self.quota.take_up(fields)

    def _take_up_common(self, shared: SharedPace) -> None:
        """Restore the shared pace. Its age comes from the shared store: nobody learns while nothing is sent."""
        now_ns = self._clock.monotonic_ns()
        self._version = shared.version
        # A record that nobody has shared yet was copied from another store: only its own wait is known.
        copied_ns = 0 if shared.interval_ns else self.not_before_ns
        self.not_before_ns = self._common_wait.adopt(shared, asked_until_ns=copied_ns, now_ns=now_ns)
        common = common_pace(shared, ceiling_interval_ns=self._limits.ceiling_interval_ns, now_ns=now_ns)
        if common is None or shared.idle_ns is None:
            return
        if shared.idle_ns <= max(self._limits.stale_after_ns, LEAST_STALE_AFTER_NS):
            self.pace, self.restored, self._common_cuts = common.pace, Restore.WARM, common.cuts
        else:
            cold = cold_start(ceiling_interval_ns=self._limits.ceiling_interval_ns, now_ns=now_ns)
            self.pace, self.restored = cold, Restore.COLD_STALE

    def check(self) -> None:
        """Raise the error that ended the keeper: our own bugs must not stay hidden until the process ends."""
        if self._keeper is not None and self._keeper.done():
            self._keeper.result()

    async def close(self) -> None:
        """Stop the keeper and store what was learned."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            if not keeper.cancelled() and (error := keeper.exception()) is not None:
                raise error  # our own bug ended it
        self._pace_events.tell_now()
        self.refusals.closed()
        if self._unshared or not self.circuit.is_told or not self._home.sees_departures:
            await self._save()

    async def _keep(self) -> None:
        while True:
            await self._unsaved.wait()
            await self._save()
            with suppress(TimeoutError):
                async with asyncio.timeout(keeping.SAVE_EVERY_S):
                    await self._urgent.wait()
            self._pace_events.tell_if_due()

    async def _save(self) -> None:
        self._unsaved.clear()
        self._urgent.clear()
        self.refusals.keep_learned()
        cuts, record = self._cuts, self._record()
        try:
            if not await self._share(record):
                self._unsaved.set()
                if self._cuts > self._cuts_saved or self.is_ahead_of_all(keeping.SHARE_RISE):
                    self._urgent.set()
                return
        except StoreError as error:
            # The pace is kept without the store; what was learned is stored once the store answers again.
            self._pace_events.not_stored(error.message)
            self._unsaved.set()
            return
        self._pace_events.stored()
        self._cuts_saved = cuts
        self.refusals.stored()
        self._on_change()

    def _record(self) -> dict[str, Json]:
        """What the next process should know. A pace becomes stale after its last use, not after its last change."""
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        unused_ns = self.idle_ns + now_ns - self._started_at_ns
        idle_ns = unused_ns if self._departed_at_ns is None else now_ns - self._departed_at_ns
        pace = to_record(self.pace, now_ns=now_ns, now_wall_ns=wall_ns)
        return {
            "pace": cast("Json", record_to_json(replace(pace, learned_at_wall_ns=max(0, wall_ns - idle_ns)))),
            "not_before_in_ns": max(0, self.not_before_ns - now_ns),
            "idle_ns": idle_ns,
            "quota": self.quota.record(),
            "saved_at_wall_ns": wall_ns,
            **self.refusals.record(),
        }

    async def _share(self, record: dict[str, Json]) -> bool:
        """Share with all processes. False: another one was first, and our answers are now added to its newer pace."""
        await self.circuit.tell(self._home)
        now_ns, told = self._clock.monotonic_ns(), tuple(self._unshared)
        wait_ns = max(self.not_before_ns, self.pace.quiet_until_ns) - now_ns
        cuts = self._common_cuts + (self._cuts > self._cuts_saved)
        was_taken, stands = await self._home.share(
            {**record, COMMON: cast("Json", to_common(Common(self.pace, cuts), now_ns=now_ns))},
            interval_ns=self.pace.interval_ns,
            not_before_in_ns=max(0, wait_ns),
            seen_version=self._version,
        )
        if not was_taken:
            self.adopt(stands)
            return False
        self._version, self._common_cuts = max(self._version, stands.version), cuts
        self._shared_at_ns, self._shared_interval_ns = now_ns, stands.interval_ns
        self._unshared.forget(told)
        return True
