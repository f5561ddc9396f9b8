"""What does the operator see? Facts become a status that says unknown where it does not know, and since when.

A heartbeat older than three beats proves nothing about now: what only a live runtime can know becomes unknown, and the
rate of a runtime that ended is never called current. What the ledger knows stays known, whoever runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from remora.core.errors import Exit
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import AGE_BOUNDS_S
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.reasons import GapFamily
from remora.core.status.answers import (
    LAG_TOO_FAR,
    is_complete,
    is_fresh,
    is_polite,
    is_working,
    newest_id_stale_s,
    what_limits,
    without_stream,
)
from remora.core.status.model import (
    AgeBucket,
    Answer,
    Answers,
    Covered,
    CoveredList,
    Fresh,
    FreshList,
    Gaps,
    Inbox,
    LastBackoff,
    Loop,
    Rate,
    Rescan,
    Run,
    RunBudget,
    Runtime,
    SourceStatus,
    Status,
    Stream,
    Unknown,
    YesNo,
)
from remora.core.status.snapshot import ENDED_DONE, Beat, GapTally, LedgerFacts, Role, SourceFacts
from remora.core.units import MILLISECOND_NS, SECOND_NS

BEAT_NS: Final = SECOND_NS
BEATS_BEFORE_UNKNOWN: Final = 3
# The service sees everything, a run or a backfill only its own part.
ROLE_ORDER: Final = (Role.SERVICE, Role.RUN, Role.BACKFILL, Role.WORKER)
OPEN_STATES: Final = (GapState.OWED, GapState.LEASED)
# Ages are counted in steps of a quarter; three steps are about a doubling, which is fine enough to look at.
AGES_PER_BUCKET: Final = 3
FAILURES: Final = frozenset(stopped_by for stopped_by in StoppedBy if stopped_by.exit_code is Exit.FAILED)
NEVER_STARTED: Final = "no runtime has worked on this source yet"


def read_out(beats: Sequence[Beat], ledgers: Mapping[str, LedgerFacts], *, now_ns: int) -> Status:
    """The status of every source in the ledger."""
    ordered = sorted(beats, key=lambda beat: (ROLE_ORDER.index(beat.snapshot.role), -beat.at_ns))
    return Status(
        as_of=iso(now_ns),
        runtimes=tuple(_runtime(beat, now_ns) for beat in _worth_telling(ordered, now_ns)),
        sources={name: _source(name, ledger, ordered, now_ns) for name, ledger in sorted(ledgers.items())},
    )


def _worth_telling(beats: Iterable[Beat], now_ns: int) -> Iterable[Beat]:
    """Every runtime that lives, and of each role the last one that does not: the rest is history."""
    told: set[Role] = set()
    for beat in beats:
        alive = is_alive(beat, now_ns=now_ns)
        if alive or beat.snapshot.role not in told:
            yield beat
        if not alive:
            told.add(beat.snapshot.role)


def is_alive(beat: Beat, *, now_ns: int) -> bool:
    """Whether this heartbeat proves anything about now. One from the future proves as little as an old one."""
    return beat.snapshot.ended_at_ns is None and abs(now_ns - beat.at_ns) <= BEATS_BEFORE_UNKNOWN * BEAT_NS


def iso(at_ns: int) -> str:
    """A moment as UTC text, to the millisecond."""
    moment = datetime.fromtimestamp(at_ns // SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % SECOND_NS // MILLISECOND_NS:03d}Z"


# -- one source --------------------------------------------------------------------------------------------------------


def _source(name: str, ledger: LedgerFacts, beats: Sequence[Beat], now_ns: int) -> SourceStatus:
    ours = [beat for beat in beats if name in beat.snapshot.sources]
    ours.sort(key=lambda beat: beat.snapshot.sources[name].stands_by)
    alive = next((beat for beat in ours if is_alive(beat, now_ns=now_ns)), None)
    last = alive or max(ours, key=lambda beat: beat.at_ns, default=None)
    facts = alive.snapshot.sources[name] if alive else None
    silence = None if alive else _silence(last, name)
    coverage = _coverage(ledger, facts)
    listed = ledger.owed_details is not None
    fresh = _fresh_list(ledger, now_ns) if listed else _fresh(facts, silence, ledger, coverage, now_ns)
    stream = _stream(facts, silence, now_ns) if ledger.has_stream or listed else without_stream(ledger)
    return SourceStatus(
        kind=ledger.kind,
        state=_state(alive, last),
        doing=facts.doing if facts else None,
        answers=Answers(
            complete=is_complete(coverage, fresh),
            fresh=_with_failure(
                _with_lag(is_fresh(fresh, stream, facts, alive.snapshot.role if alive else None), coverage), ledger
            ),
            polite=is_polite(facts.rate if facts else None, silence=silence.reason if silence else None),
            working=is_working(
                facts,
                silence=silence.reason if silence else None,
                ended=_state(alive, last) == "stopped",
                rests=alive is None and last is not None and _is_between_runs(last),
            ),
        ),
        rate=_rate(facts, silence, alive),
        coverage=coverage,
        fresh=fresh,
        stream=stream,
        inbox=_inbox(facts, ledger),
        rescan=_rescan(facts, silence, now_ns),
        gaps=tuple(_gaps(tally, facts.next_run_at_ns if facts else None) for tally in ledger.gaps),
        loops={loop: Loop(f.alive, f.restarts, f.last_error) for loop, f in (facts.loops if facts else {}).items()},
        workers_alive=facts.workers_alive if facts else None,
        next_run_at=_iso(facts.next_run_at_ns) if facts else None,
        why_not_now=facts.why_not_now if facts else None,
        runs=tuple(
            Run(run.run_id, iso(run.started_at_ns), _iso(run.ended_at_ns), run.stopped_by, run.counts)
            for run in ledger.runs
        ),
        budget=RunBudget(_optional_seconds(ledger.max_wall_ns), ledger.max_fetches) if listed else None,
        ceiling_per_second=SECOND_NS / ledger.ceiling_interval_ns if ledger.ceiling_interval_ns else None,
        is_public=ledger.is_public,
    )


def _state(alive: Beat | None, last: Beat | None) -> str:
    if alive is not None:
        return "running"
    if last is None:
        return "never_started"
    return "stopped" if last.snapshot.ended_at_ns is not None else "silent"


def _silence(last: Beat | None, name: str) -> Unknown:
    """Why nothing is known about now. The last rate seen goes along as what it was."""
    if last is None:
        return Unknown(NEVER_STARTED)
    rate = last.snapshot.sources[name].rate
    was = SECOND_NS / rate.interval_ns if rate else None
    role, ended_ns = last.snapshot.role.replace("_", "-"), last.snapshot.ended_at_ns
    if ended_ns is not None:
        # What stopped a run stands beside it: one that failed came to its own end, too, and is not done.
        because = "" if _is_between_runs(last) else f" ({last.snapshot.ended_because or 'on request'})"
        return Unknown(f"the {role} ended{because} at {iso(ended_ns)}", iso(ended_ns), was)
    return Unknown(f"the {role} has not been heard of since {iso(last.at_ns)}", iso(last.at_ns), was)


def _runtime(beat: Beat, now_ns: int) -> Runtime:
    snapshot = beat.snapshot
    return Runtime(
        role=snapshot.role,
        alive=is_alive(beat, now_ns=now_ns),
        last_beat_at=iso(beat.at_ns),
        last_beat_age_s=_seconds(now_ns - beat.at_ns),
        started_at=iso(snapshot.started_at_ns),
        ended_at=_iso(snapshot.ended_at_ns),
        ended_because=snapshot.ended_because,
        pid=snapshot.pid,
        version=snapshot.version,
    )


def _rate(facts: SourceFacts | None, silence: Unknown | None, alive: Beat | None) -> Rate | Unknown:
    if facts is None or alive is None:
        return silence or Unknown(NEVER_STARTED)
    rate = facts.rate
    if rate is None:
        return Unknown("the governor has not said anything yet", iso(alive.snapshot.started_at_ns))
    back_off = rate.last_backoff
    return Rate(
        per_second=SECOND_NS / rate.interval_ns,
        interval_s=_seconds(rate.interval_ns),
        ceiling_per_second=SECOND_NS / rate.ceiling_interval_ns,
        edge_per_second=rate.edge_per_second,
        recent_per_second=rate.recent_per_second,
        recent_window_s=_optional_seconds(rate.recent_window_ns),
        recent_requests=rate.recent_requests,
        recent_refused=rate.recent_refused,
        limited_by=rate.limited_by,
        limit=what_limits(rate.limited_by, edge_is_known=rate.edge_per_second is not None),
        circuit=rate.circuit,
        retry_after_until=_iso(rate.not_before_ns),
        in_flight=rate.in_flight,
        in_flight_bound=rate.in_flight_bound,
        waiting=rate.waiting,
        last_backoff=None
        if back_off is None
        else LastBackoff(iso(back_off.at_ns), back_off.reason, back_off.from_per_second, back_off.to_per_second),
        as_of=iso(alive.at_ns),
    )


# -- coverage ----------------------------------------------------------------------------------------------------------


def _coverage(ledger: LedgerFacts, facts: SourceFacts | None) -> Covered | CoveredList | Unknown:
    kind = Kind.ITEM if ledger.owed_details is None else Kind.DOCUMENT
    gaps = [tally for tally in ledger.gaps if tally.kind is kind]
    owed, absent, dead = _count(gaps, OPEN_STATES), _count(gaps, (GapState.ABSENT,)), _count(gaps, (GapState.DEAD,))
    if ledger.owed_details is not None:
        return CoveredList(pending=ledger.owed_details, owed=owed, absent=absent, dead=dead)
    known_ids = [known for known in (ledger.newest_id, facts.newest_id if facts else None) if known is not None]
    if ledger.coverage is None or not known_ids:
        return Unknown("the source has not told us its newest id yet")
    awaited = sum(tally.count for tally in gaps if _is_awaited(tally))
    return cover(
        ledger.coverage, first_id=ledger.first_id, newest_id=max(known_ids), tallies=(owed, absent, dead, awaited)
    )


def cover(
    coverage: Coverage, *, first_id: int, newest_id: int, tallies: tuple[int, int, int, int]
) -> Covered | Unknown:
    """Every id from the first to the newest in exactly one of five places.

    A gap may lie in a part that is not covered yet (a walk in progress): it counts as owed, and something else as
    pending, so that never more is called settled than is.
    """
    owed, absent, dead, awaited = tallies
    max_id = max(newest_id, coverage.ranges[-1].end if coverage.ranges else newest_id)
    if max_id < first_id:
        return Unknown(f"the newest id is {max_id:,}, before the first id {first_id:,}")
    wanted = IdRange(first_id, max_id)
    if owed + absent + dead > len(wanted):
        return Unknown("the ledger holds more gaps than the source has ids")
    settled = max(0, len(coverage.within(wanted)) - owed - absent - dead)
    frontier = coverage.frontier(first_id=first_id)
    return Covered(
        first_id=first_id,
        frontier=frontier,
        max_id=max_id,
        lag=max(0, max_id - frontier),
        settled=settled,
        pending=len(wanted) - settled - owed - absent - dead,
        owed=owed,
        absent=absent,
        dead=dead,
        awaited=min(awaited, owed),
    )


def _is_awaited(tally: GapTally) -> bool:
    return tally.state in OPEN_STATES and tally.reason.family is GapFamily.YOUNG


def _count(gaps: Iterable[GapTally], states: tuple[GapState, ...]) -> int:
    return sum(tally.count for tally in gaps if tally.state in states)


def _with_lag(fresh: Answer, coverage: Covered | CoveredList | Unknown) -> Answer:
    if fresh.answer is YesNo.YES and isinstance(coverage, Covered) and coverage.lag > LAG_TOO_FAR:
        return Answer(fresh.answer, f"{fresh.reason}; history is {coverage.lag:,} ids behind")
    return fresh


def _with_failure(fresh: Answer, ledger: LedgerFacts) -> Answer:
    """A list that was never walked whole, and whose last run failed, is known to be out of reach: nobody may rest."""
    last = max((run for run in ledger.runs if run.stopped_by), key=lambda run: run.ended_at_ns or 0, default=None)
    if fresh.answer is not YesNo.UNKNOWN or last is None or last.stopped_by not in FAILURES:
        return fresh
    return Answer(YesNo.NO, f"{fresh.reason}, and the last one failed ({last.stopped_by})")


# -- what only a live runtime knows --------------------------------------------------------------------------------------


def _fresh(
    facts: SourceFacts | None,
    silence: Unknown | None,
    ledger: LedgerFacts,
    coverage: Covered | CoveredList | Unknown,
    now_ns: int,
) -> Fresh | Unknown:
    if facts is None:
        return _without_rate(silence)
    if facts.newest_id_at_ns is None:
        return Unknown("the source has not told us its newest id yet")
    return Fresh(
        newest_id=facts.newest_id,
        newest_id_at=iso(facts.newest_id_at_ns),
        age_s=_seconds(max(0, now_ns - facts.newest_id_at_ns)),
        lag=coverage.lag if isinstance(coverage, Covered) else None,
        stale_after_s=newest_id_stale_s(ledger),
    )


def _is_between_runs(last: Beat) -> bool:
    """Whether the last runtime was one bounded run that came to its own end: nothing has to run until the next one."""
    return last.snapshot.role is Role.RUN and last.snapshot.ended_because == ENDED_DONE


def _fresh_list(ledger: LedgerFacts, now_ns: int) -> FreshList | Unknown:
    """A list is as fresh as the last walk over it that saw everything; the ledger knows, whoever runs."""
    ends_ns = [run.ended_at_ns for run in ledger.runs if run.stopped_by == StoppedBy.COMPLETE and run.ended_at_ns]
    if not ends_ns:
        return Unknown("no run has walked the whole list yet")
    walked_ns = max(ends_ns)
    age_s = _seconds(max(0, now_ns - walked_ns))
    return FreshList(walked_at=iso(walked_ns), age_s=age_s, every_s=_optional_seconds(ledger.every_ns))


def _stream(facts: SourceFacts | None, silence: Unknown | None, now_ns: int) -> Stream | Unknown:
    if facts is None:
        return _without_rate(silence)
    stream = facts.stream
    if stream is None:
        return Unknown("nobody listens to a stream of changes")
    return Stream(
        connected=stream.connected,
        last_byte_at=_iso(stream.last_byte_at_ns),
        last_byte_age_s=_age_s(stream.last_byte_at_ns, now_ns),
        last_event_at=_iso(stream.last_event_at_ns),
        last_event_age_s=_age_s(stream.last_event_at_ns, now_ns),
        reconnects=stream.reconnects,
    )


def _inbox(facts: SourceFacts | None, ledger: LedgerFacts) -> Inbox | Unknown:
    if facts is not None and facts.inbox is not None:
        return Inbox(facts.inbox.depth, facts.inbox.bound)
    if ledger.inbox_depth is not None:
        return Inbox(ledger.inbox_depth, None)
    return Unknown("this source has no inbox")


def _rescan(facts: SourceFacts | None, silence: Unknown | None, now_ns: int) -> Rescan | Unknown:
    if facts is None:
        return _without_rate(silence)
    rescan = facts.rescan
    if rescan is None:
        return Unknown("no rescan is planned by this runtime")
    return Rescan(
        running=rescan.running,
        last_success_at=_iso(rescan.last_success_at_ns),
        age_s=_age_s(rescan.last_success_at_ns, now_ns),
        processed=rescan.processed,
        changed=rescan.changed,
        window_s=_optional_seconds(rescan.window_ns),
        suggested_window_s=_optional_seconds(rescan.suggested_window_ns),
        every_s=_optional_seconds(rescan.every_ns),
        update_ages=None if facts.update_ages is None else _age_buckets(facts.update_ages),
    )


def _age_buckets(counts: Sequence[int]) -> tuple[AgeBucket, ...]:
    """The histogram of update ages, coarse enough to be looked at; nothing is left out."""
    bounds = [*AGE_BOUNDS_S[AGES_PER_BUCKET - 1 :: AGES_PER_BUCKET]]
    groups = [sum(counts[at : at + AGES_PER_BUCKET]) for at in range(0, len(bounds) * AGES_PER_BUCKET, AGES_PER_BUCKET)]
    beyond = sum(counts[len(bounds) * AGES_PER_BUCKET :])
    return (*(AgeBucket(*pair) for pair in zip(bounds, groups, strict=True)), AgeBucket(None, beyond))


def _gaps(tally: GapTally, next_run_at_ns: int | None) -> Gaps:
    """What is due between two runs is asked for by the next one."""
    next_at = None if tally.state is GapState.ABSENT else iso(max(tally.next_at_ns, next_run_at_ns or 0))
    return Gaps(tally.kind, tally.state, tally.reason, tally.count, iso(tally.oldest_at_ns), next_at)


def _without_rate(silence: Unknown | None) -> Unknown:
    return Unknown(NEVER_STARTED) if silence is None else Unknown(silence.reason, silence.since)


def _iso(at_ns: int | None) -> str | None:
    return None if at_ns is None else iso(at_ns)


def _age_s(at_ns: int | None, now_ns: int) -> float | None:
    return None if at_ns is None else _seconds(max(0, now_ns - at_ns))


def _seconds(span_ns: int) -> float:
    return round(span_ns / SECOND_NS, 6)


def _optional_seconds(span_ns: int | None) -> float | None:
    return None if span_ns is None else _seconds(span_ns)
