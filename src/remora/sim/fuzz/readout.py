"""Is the status true? Each of its answers is compared with the world itself."""

from typing import Final

import msgspec

from remora.contracts import Store
from remora.core.ledger.notes import NEWEST_NOTE
from remora.core.ledger.run import StoppedBy
from remora.core.rate.gate_types import LimitedBy, RateFacts, Recent
from remora.core.reasons import GapReason
from remora.core.status.limits import wait_in_words
from remora.core.status.model import Covered, SourceStatus, YesNo
from remora.core.status.readout import read_out
from remora.core.status.snapshot import Beat, GapTally, LedgerFacts, Role, RunFacts, Snapshot, SourceFacts
from remora.core.status.thresholds import WAIT_WORTH_TELLING_NS
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.loops.listed.entry_marks import kept_mark
from remora.sim.fuzz.judge import AT_REST, GAPS_READ_MAX, NAME, Judge
from remora.sim.fuzz.lives import Home, Process, Running
from remora.sim.fuzz.scenario import IncidentKind
from remora.sim.fuzz.stage import RECENT_NS
from remora.sources.paging import Paging

# The status may still show what was true a moment ago.
SLACK_NS: Final = 15 * SECOND_NS
HEARD_WITHIN_NS: Final = 3 * SECOND_NS
BLACKOUT_NS: Final = 10 * MINUTE_NS
BLACKOUT_REQUESTS: Final = 16
# The breaker of each process opens after ten bad answers at the latest, besides those in flight. Then it lets one probe
# pass after each pause, which is two minutes long in the end.
BLACKOUT_REQUESTS_PER_LIFE: Final = 60
BLACKOUT_REQUESTS_PER_S: Final = 0.05
CIRCUIT_MEMORY_NS: Final = 100 * MINUTE_NS  # a suspended machine wakes up with the old state of its circuit


class Readout:
    """Reads the status as an operator would, and compares it with the world."""

    def __init__(self, home: Home, processes: list[Process]) -> None:
        self._home = home
        self._processes = processes
        self._beats: dict[int, Beat] = {}
        self._judge: Judge = home.judge
        self._up_requests = 0
        self._last_up_ns: int | None = None
        self._pace_changes = -1
        self._unchanged_since_ns = 0

    async def look(self, store: Store) -> None:
        """Check every statement of the status that can be checked now."""
        now_ns = self._now_wall_ns()
        ledger = await self._ledger(store)
        for number, process in enumerate(self._processes):
            if process.is_awake() and process.running is not None:
                process.running.given.wire.look(process.running.given.governor.state().in_flight)
                self._beats[number] = Beat(now_ns, self._snapshot(process.running, ledger))
        status = read_out(list(self._beats.values()), {NAME: ledger}, now_ns=now_ns)
        self._judge.told(msgspec.json.encode(status).decode(), where="the status")
        source = status.sources[NAME]
        self._heard()
        alive = any(process.is_awake() for process in self._processes)
        heard = any(abs(now_ns - beat.at_ns) <= HEARD_WITHIN_NS for beat in self._beats.values())
        if heard != (source.state == "running") or (alive and not heard):
            self._judge.fail(f"status says {source.state}, and alive is {alive}")
        self._check_answers(source)
        if isinstance(source.rate, RateFacts):
            self._check_rate(source.rate)
        if isinstance(source.coverage, Covered):
            await self._check_ids(store, source, source.coverage)
        elif self._home.scenario.shape.paging is not None:
            await self._check_list(store, source)

    def _now_wall_ns(self) -> int:
        running = [process.running for process in self._processes if process.running and process.is_awake()]
        return max((one.given.clock.wall_ns() for one in running), default=self._home.clock.wall_ns())

    def _heard(self) -> None:
        stage = self._home.stage
        if stage.last_up_ns != self._last_up_ns:
            self._last_up_ns, self._up_requests = stage.last_up_ns, stage.requests

    # -- the checks ----------------------------------------------------------------------------------------------------

    def _check_answers(self, source: SourceStatus) -> None:
        stage, now_ns = self._home.stage, self._home.clock.monotonic_ns()
        silent_ns = now_ns - (self._last_up_ns or 0)
        since_up = stage.requests - self._up_requests
        lives = sum(process.lives for process in self._processes)
        steadily = BLACKOUT_REQUESTS_PER_S * len(self._processes) * silent_ns / SECOND_NS
        if self._is_out() and since_up > steadily + BLACKOUT_REQUESTS_PER_LIFE * lives:
            self._judge.fail(f"{since_up} requests in {silent_ns // SECOND_NS} s in which nothing was answered")
        troubled = self._is_out() or any(ban.detail[0] == "5" for ban in stage.active(IncidentKind.BAN))
        if troubled and silent_ns > BLACKOUT_NS and since_up > BLACKOUT_REQUESTS:
            if source.answers.working.answer is YesNo.YES:
                self._judge.fail(f"status says it works; nothing was answered for {silent_ns // SECOND_NS} s")
            if source.answers.fresh.answer is YesNo.YES and self._home.scenario.shape.paging is None:
                self._judge.fail(f"status says it is fresh; nothing was answered for {silent_ns // SECOND_NS} s")

    def _is_out(self) -> bool:
        now_s = self._home.clock.monotonic_ns() / SECOND_NS
        incidents = self._home.scenario.incidents
        return any(
            incident.kind is IncidentKind.OUTAGE
            and incident.detail == "all"
            and incident.at_s + BLACKOUT_NS / SECOND_NS <= now_s < incident.at_s + incident.for_s
            for incident in incidents
        )

    def _check_rate(self, rate: RateFacts) -> None:
        stage, now_ns = self._home.stage, self._home.clock.monotonic_ns()
        if rate.interval_ns < stage.ceiling_interval_ns:
            self._judge.fail("status tells a pace above the ceiling")
        if rate.in_flight_bound is not None and rate.in_flight > rate.in_flight_bound:
            self._judge.fail(f"{rate.in_flight} requests are in flight, {rate.in_flight_bound} are allowed")
        if rate.next_in_ns >= WAIT_WORTH_TELLING_NS and wait_in_words(rate) is None:
            self._judge.fail(f"a wait of {rate.next_in_ns // SECOND_NS} s is not explained")
        match rate.limited_by:
            case LimitedBy.RETRY_AFTER if stage.hinted_until_ns + self._set_back_ns() + SLACK_NS < now_ns:
                self._judge.fail("limited by Retry-After, and the provider asked for no pause")
            # During a pause that the provider asked for, the circuit stays as it was: no request could close it.
            case LimitedBy.CIRCUIT if (
                stage.last_bad_ns is None or now_ns - max(stage.last_bad_ns, stage.hinted_until_ns) > CIRCUIT_MEMORY_NS
            ):
                self._judge.fail("limited by the circuit breaker, and the provider gave no bad answer")
            case LimitedBy.PACE if len(self._processes) == 1 and self._is_long_at_ceiling(rate):
                self._judge.fail("limited by the pace, and the pace is the ceiling")
            case _:
                pass

    def _set_back_ns(self) -> int:
        """By how much the clock was set back so far. A process that is started later waits for so much longer."""
        now_s = self._home.clock.monotonic_ns() / SECOND_NS
        steps = [one for one in self._home.scenario.incidents if one.kind is IncidentKind.STEP and one.at_s <= now_s]
        return round(-sum(min(0.0, step.amount) for step in steps) * SECOND_NS)

    def _is_long_at_ceiling(self, rate: RateFacts) -> bool:
        """Whether the pace has been at the ceiling, without a change, for a while."""
        now_ns, changes = self._home.clock.monotonic_ns(), len(self._home.meter.paces_ns)
        if rate.interval_ns > self._home.stage.ceiling_interval_ns or changes != self._pace_changes:
            self._pace_changes, self._unchanged_since_ns = changes, now_ns
            return False
        return now_ns - self._unchanged_since_ns > SLACK_NS

    async def _check_ids(self, store: Store, source: SourceStatus, covered: Covered) -> None:
        total = covered.max_id - covered.first_id + 1
        told = covered.settled + covered.pending + covered.owed + covered.absent + covered.gone + covered.dead
        held = {item_id async for item_id, _ in store.bodies(NAME)}
        if told != total:
            self._judge.fail(f"status tells of {told} ids where there are {total}")
        if covered.settled > len(held):
            self._judge.fail(f"status calls {covered.settled} ids settled, and {len(held)} items are held")
        newest = self._home.stage.provider.world.max_id(self._home.clock.true_ns())
        is_lied_to = any(incident.kind is IncidentKind.LIE for incident in self._home.scenario.incidents)
        if covered.max_id > newest and not is_lied_to:
            self._judge.fail(f"status tells of id {covered.max_id}, the newest is {newest}")
        if source.answers.complete.answer is not YesNo.YES:
            return
        gaps = {gap.key: gap for gap in await store.gaps(NAME, limit=GAPS_READ_MAX)}
        for item_id in range(covered.first_id, covered.max_id + 1):
            gap = gaps.get(str(item_id))
            excused = gap is not None and (
                gap.state in AT_REST or gap.reason.family == "young" or gap.reason is GapReason.NOT_FOUND
            )
            if item_id not in held and not excused:
                self._judge.fail(f"status says complete, and item {item_id} is neither held nor absent")

    async def _check_list(self, store: Store, source: SourceStatus) -> None:
        """If the status says complete, every entry listed since before the last complete run is in the mirror."""
        home, archive = self._home, self._home.stage.provider.archive
        complete = [run for run in source.runs if run.stopped_by == StoppedBy.COMPLETE]
        is_proven = home.scenario.shape.paging is not Paging.PAGE and not home.judge.clock_stepped
        if source.answers.complete.answer is not YesNo.YES or not complete or archive is None or not is_proven:
            return
        since_ns = max(run.started_at_ns for run in complete)
        before = {(line.key, line.mark) for line in archive.listing(since_ns)}
        held = {document.key async for document in store.documents(NAME)}
        gone = sum(tally.count for tally in source.gaps)
        lines = archive.listing(home.clock.true_ns())
        missing = [line.key for line in lines if (line.key, line.mark) in before and line.key not in held]
        if home.scenario.form.channels:  # the list of a channel that appeared since was not read yet
            missing = [key for key in missing if await kept_mark(store, NAME, key.partition("/")[0]) is not None]
        if len(missing) > gone:
            home.judge.fail(f"status says complete, and {len(missing)} listed entries are not here ({gone} explained)")

    # -- the snapshots -------------------------------------------------------------------------------------------------

    def _snapshot(self, running: Running, ledger: LedgerFacts) -> Snapshot:
        facts = self._numbered(running) if running.service is not None else self._listed(running)
        return Snapshot(role=Role.SERVICE, started_at_ns=running.started_wall_ns, sources={NAME: facts})

    def _rate(self, running: Running) -> RateFacts:
        return msgspec.structs.replace(running.given.governor.state(), recent=self._recent(running))

    def _recent(self, running: Running) -> Recent | None:
        if len(self._processes) > 1:
            return None  # the log of arrivals does not say which process sent them
        stage, now_ns = self._home.stage, self._home.clock.monotonic_ns()
        words = [word for at_ns, word in stage.recent if at_ns >= now_ns - RECENT_NS]
        refused, failed = words.count("refused"), words.count("failed")
        return Recent(len(words), len(words), refused, failed, RECENT_NS)

    def _numbered(self, running: Running) -> SourceFacts:
        assert running.service is not None
        state, rate = running.service.state(), self._rate(running)
        if state.stands_by:
            loops = dict(state.loops)
            return SourceFacts(rate=rate, newest_id=state.newest_id, loops=loops, doing="standing by", stands_by=True)
        return SourceFacts(
            rate=rate,
            stream=state.stream,
            inbox=state.inbox,
            rescan=state.rescan,
            newest_id=state.newest_id,
            newest_id_at_ns=state.newest_id_at_ns,
            backfill=True,
            loops=dict(state.loops),
            workers_alive=state.workers_alive,
            update_ages=state.update_ages.counts,
            doing="watching",
        )

    def _listed(self, running: Running) -> SourceFacts:
        assert running.schedule is not None
        state = running.schedule.state()
        return SourceFacts(
            rate=self._rate(running),
            doing=state.doing,
            run=state.run,
            next_run_at_ns=state.next_run_at_ns,
            why_not_now=state.why_not_now,
            stands_by=running.lease is not None and not running.lease.holds(),
        )

    async def _ledger(self, store: Store) -> LedgerFacts:
        counts = await store.gap_counts(NAME)
        gaps = tuple(GapTally(one.kind, one.state, one.reason, one.count, one.oldest_ns, one.next_ns) for one in counts)
        if self._home.scenario.shape.paging is None:
            newest = await store.note(NAME, NEWEST_NOTE)
            return LedgerFacts(
                kind="numbered",
                coverage=await store.coverage(NAME),
                newest_id=newest if isinstance(newest, int) else None,
                gaps=gaps,
                inbox_depth=await store.inbox_depth(NAME),
                ceiling_interval_ns=self._home.ceiling_ns,
                has_stream=self._home.scenario.shape == "hackernews",
            )
        runs = tuple(
            RunFacts(
                run_id=run.run_id, started_at_ns=run.started_ns, ended_at_ns=run.ended_ns, stopped_by=run.stopped_by
            )
            for run in await store.runs(NAME, limit=10)
        )
        return LedgerFacts(
            kind="listed",
            gaps=gaps,
            owed_details=await store.count_owed_details(NAME),
            runs=runs,
            every_ns=round(self._home.scenario.every_s * SECOND_NS),
            max_fetches=self._home.scenario.max_fetches,
            ceiling_interval_ns=self._home.ceiling_ns,
        )
