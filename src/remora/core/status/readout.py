"""What does the operator see? Facts become a status that says what is unknown, and since when.

After three missed heartbeats, values that only a running process knows become unknown, and the rate of a process that
ended is never shown as current. What the ledger knows stays known, even if no process runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from remora.core.ledger.freshness import AGE_BOUNDS_S
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import FAILURES, StoppedBy
from remora.core.rate.gate_types import RateFacts
from remora.core.status.answers import (
    down,
    is_complete,
    is_fresh,
    is_polite,
    is_working,
    newest_id_stale_after_ns,
    span,
    without_stream,
)
from remora.core.status.answers import iso as iso
from remora.core.status.covering import coverage_of, no_newest_id
from remora.core.status.disk_full import full_disk, with_disk
from remora.core.status.headline import headline, progress_of, with_attention
from remora.core.status.last_run import failed_run, last_run
from remora.core.status.limits import what_limits
from remora.core.status.model import (
    AgeBucket,
    Answer,
    Answers,
    Attention,
    Covered,
    CoveredList,
    Disk,
    Fresh,
    FreshList,
    NoStream,
    RunBudget,
    Runtime,
    SourceStatus,
    Status,
    Unknown,
    YesNo,
)
from remora.core.status.snapshot import (
    ENDED_AS_ASKED,
    ENDED_DONE,
    Beat,
    GapTally,
    InboxFacts,
    LedgerFacts,
    RescanFacts,
    Role,
    RunFacts,
    SourceFacts,
    StreamFacts,
)
from remora.core.status.thresholds import BEHIND_IDS
from remora.core.status.words import STOPPED
from remora.core.units import SECOND_NS

T = TypeVar("T", StreamFacts, RescanFacts)

BEAT_NS: Final = SECOND_NS
BEATS_BEFORE_UNKNOWN: Final = 3
# The service knows everything, a run or a backfill only its own part.
ROLE_ORDER: Final = (Role.SERVICE, Role.RUN, Role.BACKFILL, Role.WORKER)
# Ages are counted in steps of 25 %; three steps are about a doubling, which is fine enough for a chart.
AGES_PER_BUCKET: Final = 3
NEVER_STARTED: Final = "no process has worked on this source yet"
NO_HEARTBEAT: Final = "no heartbeat can be stored while the disk is full"


def read_out(
    beats: Sequence[Beat], ledgers: Mapping[str, LedgerFacts], *, now_ns: int, disk: Disk | None = None
) -> Status:
    """The status of every source in the ledger. `disk`: the room for the store, if it was measured."""
    ordered = sorted(beats, key=lambda beat: (ROLE_ORDER.index(beat.snapshot.role), -beat.at_ns))
    # On a full disk not even the first heartbeat is stored: whether a process was started is then unknown.
    unheard = ("never_started", NEVER_STARTED) if full_disk(disk) is None else ("silent", NO_HEARTBEAT)
    status = Status(
        as_of_ns=now_ns,
        runtimes=tuple(_runtime(beat, now_ns) for beat in _worth_telling(ordered, now_ns)),
        sources={name: _source(name, ledger, ordered, unheard, now_ns) for name, ledger in sorted(ledgers.items())},
    )
    return with_disk(status, disk)


def _worth_telling(beats: Iterable[Beat], now_ns: int) -> Iterable[Beat]:
    """Every live runtime, and for each role the last one that ended. Earlier ones are left out."""
    told: set[Role] = set()
    for beat in beats:
        alive = is_alive(beat, now_ns=now_ns)
        if alive or beat.snapshot.role not in told:
            yield beat
        if not alive:
            told.add(beat.snapshot.role)


def is_alive(beat: Beat, *, now_ns: int) -> bool:
    """Whether this heartbeat is current. One from the future proves as little as an old one."""
    return beat.snapshot.ended_at_ns is None and _is_current(beat, now_by_clock_of(beat, now_ns=now_ns))


def now_by_clock_of(beat: Beat, *, now_ns: int) -> int:
    """Now, by the clock of the process that sent this heartbeat. `now_ns` is of the system clock, or of that process."""
    return now_ns if _is_current(beat, now_ns) else now_ns + beat.snapshot.clock_ahead_ns


def _is_current(beat: Beat, now_ns: int) -> bool:
    return abs(now_ns - beat.at_ns) <= BEATS_BEFORE_UNKNOWN * BEAT_NS


# -- one source --------------------------------------------------------------------------------------------------------


def _source(
    name: str, ledger: LedgerFacts, beats: Sequence[Beat], unheard: tuple[str, str], now_ns: int
) -> SourceStatus:
    """`unheard`: the state of a source of which there is no heartbeat, and the reason."""
    ours = [beat for beat in beats if name in beat.snapshot.sources]
    ours.sort(key=lambda beat: beat.snapshot.sources[name].stands_by)
    alive = next((beat for beat in ours if is_alive(beat, now_ns=now_ns)), None)
    last = alive or max(ours, key=lambda beat: beat.at_ns, default=None)
    facts = alive.snapshot.sources[name] if alive else None
    state, silence = _heard(alive, last, name, unheard, now_ns)
    now_ns = now_by_clock_of(alive, now_ns=now_ns) if alive else now_ns  # its facts have the times of its clock
    told = facts or SourceFacts()
    coverage = coverage_of(ledger, facts)
    listed = ledger.owed_details is not None
    fresh = _fresh_list(ledger) if listed else _fresh(facts, silence, ledger, coverage)
    stream = _stream(told, silence, ledger)
    why = silence.reason if silence else None
    working = _is_working(name, ledger, alive, last, state, why, now_ns)
    is_down = working.attention is Attention.WAIT or working.reason == down(told, now_ns=now_ns)
    answers = Answers(
        complete=is_complete(coverage, fresh) if ledger.hole is None else Answer(YesNo.NO, ledger.hole),
        fresh=_is_fresh(fresh, stream, alive, name, coverage, ledger, now_ns),
        polite=is_polite(told.rate, silence=why),
        working=working,
    )
    running_ns = now_ns - alive.snapshot.started_at_ns if alive else None
    is_paused = told.orders.paused_at_ns is not None
    is_asked = is_paused or (alive is None and last is not None and last.snapshot.ended_because in ENDED_AS_ASKED)
    answers = with_attention(answers, coverage, told.rate, is_down=is_down, is_asked=is_asked, running_ns=running_ns)
    progress = progress_of(coverage, told.rate, running_ns=running_ns, held_gaps=ledger.held_gaps)
    return SourceStatus(
        kind=ledger.kind,
        state=state,
        doing=told.doing,
        headline=headline(answers, coverage, progress, facts, is_down=is_down),
        progress=progress,
        answers=answers,
        rate=_rate(alive, name, silence, ledger, coverage),
        coverage=coverage,
        fresh=fresh,
        stream=stream,
        inbox=_inbox(told, ledger),
        rescan=_section(told.rescan, silence, "this process plans no rescan"),
        update_ages=None if told.update_ages is None else _age_buckets(told.update_ages),
        backfill=told.backfill,
        gaps=tuple(_gaps(tally, told.next_run_at_ns) for tally in ledger.gaps),
        loops=told.loops,
        workers_alive=told.workers_alive,
        newest_refused=told.newest_refused,
        next_run_at_ns=told.next_run_at_ns,
        why_not_now=told.why_not_now,
        runs=_runs(told, ledger),
        only_provider_is_down=is_down,
        budget=RunBudget(ledger.max_wall_ns, ledger.max_fetches) if listed else None,
        ceiling_interval_ns=ledger.ceiling_interval_ns,
        is_public=ledger.is_public,
        account=ledger.account,
        orders=told.orders,
    )


def _is_working(
    name: str, ledger: LedgerFacts, alive: Beat | None, last: Beat | None, state: str, silence: str | None, now_ns: int
) -> Answer:
    facts = alive.snapshot.sources[name] if alive else None
    told = facts or SourceFacts()
    return is_working(
        facts,
        silence=silence,
        ended=state == "stopped",
        now_ns=now_ns,
        rests=alive is None and last is not None and _is_between_runs(last),
        all_stand_by=told.stands_by and alive is not None and alive.snapshot.role is Role.SERVICE,
        failed=failed_run(name, ledger, now=told.run),
    )


def _runs(told: SourceFacts, ledger: LedgerFacts) -> tuple[RunFacts, ...]:
    """The stored runs; the one in progress with the counts that its process tells."""
    live = told.run
    return tuple(live if live is not None and live.run_id == run.run_id else run for run in ledger.runs)


def _stream(told: SourceFacts, silence: Unknown | None, ledger: LedgerFacts) -> StreamFacts | NoStream | Unknown:
    if (ledger.has_stream and not ledger.is_stream_too_dear) or ledger.owed_details is not None:
        return _section(told.stream, silence, "no process listens to a stream of changes")
    return without_stream(ledger)


def _heard(
    alive: Beat | None, last: Beat | None, name: str, unheard: tuple[str, str], now_ns: int
) -> tuple[str, Unknown | None]:
    """What the heartbeats say: the state, and, if no process runs, why the current values are unknown."""
    if alive is not None:
        return "running", None
    if last is None:
        state, reason = unheard
        return state, Unknown(reason)
    return "stopped" if last.snapshot.ended_at_ns is not None else "silent", _silence(last, name, now_ns)


def _silence(last: Beat, name: str, now_ns: int) -> Unknown:
    """Why the current state is unknown. The last known rate is included, marked as past."""
    rate = last.snapshot.sources[name].rate
    was_per_s = rate.per_s if rate else None
    role, ended_ns = last.snapshot.role.replace("_", "-"), last.snapshot.ended_at_ns
    ahead_ns = now_by_clock_of(last, now_ns=now_ns) - now_ns
    if ended_ns is not None:
        ended_ns -= ahead_ns
        # A failed run also ended by itself: what stopped it is shown next to it.
        because = "" if _is_between_runs(last) else f" ({last.snapshot.ended_because or 'on request'})"
        return Unknown(f"the {role} ended{because} at {iso(ended_ns)}", ended_ns, was_per_s)
    beat_at_ns = last.at_ns - ahead_ns
    if beat_at_ns > now_ns:
        ahead = span(beat_at_ns - now_ns)
        reason = (
            f"the last heartbeat from the {role} is {ahead} ahead of this clock, which was set back; restart the {role}"
        )
        return Unknown(reason, beat_at_ns, was_per_s)
    return Unknown(f"no heartbeat from the {role} since {iso(beat_at_ns)}", beat_at_ns, was_per_s)


def _runtime(beat: Beat, now_ns: int) -> Runtime:
    snapshot = beat.snapshot
    return Runtime(
        role=snapshot.role,
        alive=is_alive(beat, now_ns=now_ns),
        last_beat_at_ns=beat.at_ns,
        started_at_ns=snapshot.started_at_ns,
        ended_at_ns=snapshot.ended_at_ns,
        ended_because=snapshot.ended_because,
        pid=snapshot.pid,
        version=snapshot.version,
    )


def _rate(
    alive: Beat | None,
    name: str,
    silence: Unknown | None,
    ledger: LedgerFacts,
    coverage: Covered | CoveredList | Unknown,
) -> RateFacts | Unknown:
    if alive is None:
        assert silence is not None, "no process, and no reason for it"
        return silence
    facts = alive.snapshot.sources[name]
    if facts.rate is None:
        return Unknown("the gate has not said anything yet", alive.snapshot.started_at_ns)
    limited_by, limit = what_limits(facts.rate, facts, ledger, coverage)
    return msgspec.structs.replace(facts.rate, limited_by=limited_by, limit=limit)


def _is_fresh(
    fresh: Fresh | FreshList | Unknown,
    stream: StreamFacts | NoStream | Unknown,
    alive: Beat | None,
    name: str,
    coverage: Covered | CoveredList | Unknown,
    ledger: LedgerFacts,
    now_ns: int,
) -> Answer:
    facts = alive.snapshot.sources[name] if alive else None
    answer = is_fresh(fresh, stream, facts, alive.snapshot.role if alive else None, now_ns=now_ns)
    if answer.answer is YesNo.YES and isinstance(coverage, Covered) and coverage.pending > BEHIND_IDS:
        return Answer(answer.answer, f"{answer.reason}; {coverage.pending:,} older ids are not fetched yet")
    if answer.answer is YesNo.UNKNOWN and facts is not None and facts.newest_refused is not None:
        return Answer(YesNo.NO, answer.reason)
    return _with_failure(answer, ledger)


def _with_failure(fresh: Answer, ledger: LedgerFacts) -> Answer:
    """If a list was never walked completely and its last run failed, the answer is "no", not "unknown"."""
    stopped_by = last_run(ledger)
    if fresh.answer is not YesNo.UNKNOWN or stopped_by not in FAILURES:
        return fresh
    return Answer(YesNo.NO, f"{fresh.reason}; the last one failed: {STOPPED[stopped_by]}")


# -- what only a live runtime knows --------------------------------------------------------------------------------------


def _fresh(
    facts: SourceFacts | None,
    silence: Unknown | None,
    ledger: LedgerFacts,
    coverage: Covered | CoveredList | Unknown,
) -> Fresh | Unknown:
    if facts is None:
        assert silence is not None, "no process, and no reason for it"
        return _without_rate(silence)
    if facts.newest_id_at_ns is None:
        return Unknown(no_newest_id(facts))
    return Fresh(
        newest_id=facts.newest_id,
        newest_id_at_ns=facts.newest_id_at_ns,
        lag=coverage.lag if isinstance(coverage, Covered) else None,
        stale_after_ns=newest_id_stale_after_ns(ledger),
        went_back=facts.newest_went_back,
    )


def _is_between_runs(last: Beat) -> bool:
    """Whether the last runtime was a bounded run that ended by itself: nothing has to run until the next one."""
    return last.snapshot.role is Role.RUN and last.snapshot.ended_because == ENDED_DONE


def _fresh_list(ledger: LedgerFacts) -> FreshList | Unknown:
    """A list is as fresh as the last run that went through; the ledger knows, even if no process runs."""
    if last_run(ledger) is StoppedBy.LIST_CONTRADICTS:
        # The results of earlier runs with a wrong declaration prove nothing either.
        return Unknown("the list contradicts its declaration")
    ends_ns = [run.ended_at_ns for run in ledger.runs if run.stopped_by == StoppedBy.COMPLETE and run.ended_at_ns]
    if not ends_ns:
        return Unknown("no run has walked the whole list yet")
    return FreshList(walked_at_ns=max(ends_ns), every_ns=ledger.every_ns, whole_walk_at_ns=ledger.whole_walk_at_ns)


def _section(told: T | None, silence: Unknown | None, absent: str) -> T | Unknown:
    """What a live process reports, or why there is no report."""
    if told is not None:
        return told
    return Unknown(absent) if silence is None else _without_rate(silence)


def _inbox(facts: SourceFacts, ledger: LedgerFacts) -> InboxFacts | Unknown:
    if facts.inbox is not None:
        return facts.inbox
    if ledger.inbox_depth is not None:
        return InboxFacts(ledger.inbox_depth, None)
    return Unknown("this source has no inbox")


def _age_buckets(counts: Sequence[int]) -> tuple[AgeBucket, ...]:
    """The histogram of update ages in fewer buckets, for display; every change is counted."""
    bounds = [*AGE_BOUNDS_S[AGES_PER_BUCKET - 1 :: AGES_PER_BUCKET]]
    groups = [sum(counts[at : at + AGES_PER_BUCKET]) for at in range(0, len(bounds) * AGES_PER_BUCKET, AGES_PER_BUCKET)]
    beyond = sum(counts[len(bounds) * AGES_PER_BUCKET :])
    return (*(AgeBucket(*pair) for pair in zip(bounds, groups, strict=True)), AgeBucket(None, beyond))


def _gaps(tally: GapTally, next_run_at_ns: int | None) -> GapTally:
    """The next run fetches what becomes due between two runs; absent or gone things are not fetched again."""
    is_over = tally.state in {GapState.ABSENT, GapState.GONE}
    next_at_ns = None if is_over else max(tally.next_at_ns or 0, next_run_at_ns or 0)
    return msgspec.structs.replace(tally, next_at_ns=next_at_ns)


def _without_rate(silence: Unknown) -> Unknown:
    return Unknown(silence.reason, silence.since_ns)
