"""What does the status say? Readings of any process and ledger, alarms, events and words."""

from collections.abc import Mapping
from typing import Final

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import UpdateAges
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import Phase, StoppedBy
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import Barred, LimitedBy, ProviderDown, QuotaFacts, RateFacts, Recent
from remora.core.reasons import GapReason
from remora.core.status import alarms, answers, covering, headline, health, limits, thresholds, timeline
from remora.core.status.disk_full import full_disk
from remora.core.status.model import (
    Answer,
    Answers,
    Attention,
    Covered,
    CoveredList,
    Disk,
    FreshList,
    Progress,
    Status,
    Unknown,
    YesNo,
)
from remora.core.status.readout import is_alive, read_out
from remora.core.status.snapshot import (
    ENDED_DONE,
    ENDED_ON_REQUEST,
    Beat,
    GapTally,
    LedgerFacts,
    LoopFacts,
    Orders,
    Role,
    RunFacts,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.status.words import phase_in_words
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from tests.core.decisions.drawing import NOW_NS, Case, Decision, Draw

SPANS_NS: Final = (
    *(0, SECOND_NS, 3 * SECOND_NS, thresholds.WAIT_WORTH_TELLING_NS, thresholds.NEWEST_ID_NOT_FRESH_NS),
    *(thresholds.STREAM_MAY_RECONNECT_NS, thresholds.STREAM_SILENT_PAGE_NS, thresholds.BAN_AFTER_NS, HOUR_NS),
)
GRANT: Final = thresholds.REQUESTS_TO_JUDGE


def _rate(draw: Draw) -> RateFacts:
    ceiling_ns = draw.one(2 * MILLISECOND_NS, SECOND_NS)
    answered = draw.one(0, GRANT - 1, GRANT, 100)
    refused = draw.one(0, 0, 1, 2, answered)
    departures = draw.one(0, 4, 5, 9, 10, 4_500, 4_999)
    window_ns = draw.one(SECOND_NS // 2, 10 * SECOND_NS)
    recent = Recent(departures, answered, refused, draw.one(0, max(0, answered - refused), 3), window_ns)
    down = ProviderDown(draw.moment_ns(), draw.one("it answers HTTP 429 (rate limited)", "it does not answer in time"))
    barred = Barred(NOW_NS - draw.near(thresholds.BARRED_AFTER_NS, HOUR_NS), "forbidden", draw.one(3, 4, 5, 5_000))
    return draw.of(
        RateFacts,
        at_ns=NOW_NS - draw.one(0, SECOND_NS),
        interval_ns=max(1, ceiling_ns + draw.one(-1, 0, 0, 1, 3 * SECOND_NS)),
        ceiling_interval_ns=ceiling_ns,
        edge_per_s=draw.one(None, 3.0),
        limited_by=draw.one(*LimitedBy, LimitedBy.CEILING, LimitedBy.CPU, LimitedBy.NO_WORK, LimitedBy.NO_WORK),
        limit="",
        held={draw.one(*LimitedBy): draw.one(0.1, 0.6), draw.one(*LimitedBy): 0.3},
        circuit=draw.one(*CircuitState),
        circuit_wait_ns=draw.one(None, 0, SECOND_NS - 1, SECOND_NS, 2 * SECOND_NS),
        provider_down=down if draw.chance(0.2) else None,
        barred=barred if draw.chance(0.2) else None,
        not_before_in_ns=draw.one(0, 0, SECOND_NS, HOUR_NS),
        next_in_ns=draw.near(1, thresholds.WAIT_WORTH_TELLING_NS, HOUR_NS),
        next_held_by=draw.one(None, *LimitedBy, LimitedBy.RETRY_AFTER, LimitedBy.RETRY_AFTER),
        departures=draw.one(5, 6),
        wire_sends=draw.one(None, None, 4, 5, 6),
        recent=draw.one(recent, recent, None),
    )


def _facts(draw: Draw) -> SourceFacts:
    loops = {
        "live": LoopFacts(alive=draw.chance(0.9)),
        "rescan": LoopFacts(draw.chance(0.9), 1, draw.one(None, "OSError")),
    }
    ages = [0] * len(UpdateAges().counts)
    for _ in range(3):
        ages[draw.random.randrange(len(ages))] = draw.one(1, 7)
    return draw.of(
        SourceFacts,
        rate=_rate(draw) if draw.chance(0.9) else None,
        newest_id=draw.one(None, 8, 20),
        newest_id_at_ns=draw.one(None, draw.moment_ns(), draw.moment_ns(), NOW_NS - SECOND_NS),
        newest_refused=draw.one(None, None, 5_000),
        loops=loops if draw.chance(0.7) else {},
        workers_alive=draw.one(None, 0, 1, 2, 3),
        update_ages=tuple(ages) if draw.chance(0.3) else None,
        run=_run(draw) if draw.chance(0.3) else None,
        next_run_at_ns=draw.one(None, None, NOW_NS + HOUR_NS),
        orders=draw.of(Orders) if draw.chance(0.15) else Orders(),
        stands_by=draw.chance(0.2),
    )


def _run(draw: Draw) -> RunFacts:
    ended_ns = draw.one(None, draw.moment_ns())
    return RunFacts(
        run_id=draw.one(1, 2, 3),
        started_at_ns=draw.moment_ns(),
        ended_at_ns=ended_ns,
        stopped_by=None if ended_ns is None and draw.chance() else draw.one(*StoppedBy, StoppedBy.COMPLETE).value,
        phase=draw.one(None, *(phase.value for phase in Phase)),
        counts=draw.one({}, {"requests": 5_000, "new": 1}),
    )


def _tally(draw: Draw, kind: Kind) -> GapTally:
    reason = draw.one(*GapReason, GapReason.NOT_FOUND, GapReason.NOT_YET)
    state = draw.one(*GapState, GapState.OWED)
    kind = kind if draw.chance(0.9) else draw.one(*Kind)
    return GapTally(kind, state, reason, draw.one(1, 1, 2, 1_000), NOW_NS, draw.one(None, NOW_NS, NOW_NS + 2 * HOUR_NS))


def _ledger(draw: Draw) -> LedgerFacts:
    is_list = draw.chance(0.35)
    pieces = draw.one((), (IdRange(1, 8),), (IdRange(1, 3), IdRange(5, 20)), (IdRange(1, 60_000),))
    newest = draw.one(None, 0, 8, 20, 50_020, 50_021, 200_000)
    return draw.of(
        LedgerFacts,
        kind="list" if is_list else "numbered",
        first_id=draw.one(1, 1, 1, 4, 30),
        coverage=draw.one(None, Coverage(pieces), Coverage(pieces), Coverage(pieces)),
        newest_id=newest,
        gaps=tuple(_tally(draw, Kind.DOCUMENT if is_list else Kind.ITEM) for _ in range(draw.one(0, 0, 1, 3))),
        owed_details=draw.one(0, 0, 4) if is_list else None,
        documents=draw.one(None, 0, 5, 2_000),
        runs=draw.some(3, lambda: _run(draw)) if is_list else (),
        hole=draw.one(None, None, None, "a page is missing"),
        every_ns=draw.one(None, 20 * SECOND_NS, HOUR_NS // 3, DAY_NS),
        poll_every_ns=draw.one(None, 5 * SECOND_NS, 15 * SECOND_NS, 16 * SECOND_NS),
    )


def _beat(draw: Draw, *names: str) -> Beat:
    ended_ns = draw.one(None, None, None, draw.moment_ns())
    snapshot = Snapshot(
        role=draw.one(*Role, Role.SERVICE, Role.SERVICE),
        started_at_ns=NOW_NS - draw.near(MINUTE_NS, HOUR_NS),
        ended_at_ns=ended_ns,
        ended_because=None if ended_ns is None else draw.one(None, ENDED_DONE, ENDED_ON_REQUEST, "crashed"),
        sources={name: _facts(draw) for name in names if draw.chance(0.9)},
    )
    at_ns = NOW_NS - draw.one(
        0, SECOND_NS, 3 * SECOND_NS, 3 * SECOND_NS + 1, -3 * SECOND_NS, -3 * SECOND_NS - 1, HOUR_NS
    )
    return Beat(at_ns, snapshot)


def _disk(draw: Draw) -> Disk | None:
    return draw.one(
        None, None, None, Disk(free_bytes=draw.one(None, 99, 100, 5_000), kept_free_bytes=draw.one(None, 100, 100))
    )


def _status(draw: Draw) -> Status:
    draw.spans_ns = SPANS_NS
    draw.counts = (0, 1, 2, 1_999, 2_000, 2_001)
    beats = [_beat(draw, "a") for _ in range(draw.one(0, 1, 1, 1, 2, 3))]
    return read_out(beats, {"a": _ledger(draw)}, now_ns=NOW_NS, disk=_disk(draw))


def readout(draw: Draw) -> Case:
    """The whole status of a source, its health and its alarms."""
    status = _status(draw)
    source = status.sources["a"]
    told = (health.severity(status), health.reasons_against_health(status), health.answers_of(source))
    return Case(None, (status, told, alarms.with_alarms(status).sources["a"].alarms))


def two_readings(draw: Draw) -> Case:
    """What happened between two readings, and which alarms to report."""
    first, second = _status(draw), _status(draw)
    before = first.sources["a"] if draw.chance(0.85) else None
    found = tuple(timeline.events_between(before, second.sources["a"], at_ns=NOW_NS))
    known = tuple(_event(draw) for _ in range(draw.one(0, 2, 5)))
    kept = timeline.added(known, (*found, *(_event(draw) for _ in range(draw.one(0, 1, 3)))), now_ns=NOW_NS)
    ringing, told = alarms.Alarms(), list[object]()
    now_ns = NOW_NS
    for _ in range(6):
        now_ns += draw.one(0, MINUTE_NS - 1, MINUTE_NS, MINUTE_NS + 1)
        ringing, changes = ringing.after(draw.one(first, first, second), now_ns=now_ns)
        told.append(changes)
    return Case(None, (found, kept, told))


def _event(draw: Draw) -> timeline.Event:
    kind = draw.one("started", "provider_down", "back_off", "stream", "run")
    at_ns = NOW_NS - draw.near(0, 10 * MINUTE_NS, 20 * MINUTE_NS, 30 * DAY_NS)
    text = draw.one("the provider is down: HTTP 500", "other")
    return timeline.Event(
        at_ns=at_ns, kind=kind, text=text, until_ns=draw.one(None, None, at_ns + draw.one(0, 1, MINUTE_NS))
    )


def four_answers(draw: Draw) -> Case:
    """Each of the four answers by itself, and what it asks of the operator."""
    draw.spans_ns = SPANS_NS
    draw.counts = (0, 0, 1, 2_000, 2_001)
    facts, ledger = _facts(draw), _ledger(draw)
    covered = covering.coverage_of(ledger, draw.one(None, facts))
    every = [_answer(draw) for _ in range(4)]
    told = Answers(*every)
    rate = facts.rate
    is_down, is_asked = draw.chance(), draw.chance(0.3)
    walked = FreshList(walked_at_ns=1, every_ns=None) if draw.chance() else Unknown("no")
    running_ns = draw.one(None, draw.near(headline.SETTLE_NS))
    asked = headline.with_attention(told, covered, rate, is_down=is_down, is_asked=is_asked, running_ns=running_ns)
    progress = headline.progress_of(covered, rate, running_ns=running_ns)
    limit = (
        ()
        if rate is None
        else (limits.what_limits(rate, facts, ledger, covered), limits.wait_in_words(rate), limits.gate_limit(rate))
    )
    said = (
        [covered, progress, headline.headline(asked, covered, progress, draw.one(None, facts), is_down=is_down), asked],
        [answers.down(facts, now_ns=NOW_NS), answers.barred(rate, now_ns=NOW_NS), answers.has_refused(facts), limit],
        [
            answers.is_polite(rate, silence=draw.one(None, "why")),
            answers.has_nothing_yet(facts),
            answers.without_stream(ledger),
        ],
        [
            answers.is_complete(covered, walked),
            answers.newest_id_stale_after_ns(ledger),
        ],
        answers.is_working(
            draw.one(None, facts, facts),
            silence=draw.one(None, "why"),
            ended=draw.chance(),
            now_ns=NOW_NS,
            rests=draw.chance(0.3),
            all_stand_by=draw.chance(0.2),
        ),
    )
    return Case((facts, ledger), said)


def _answer(draw: Draw) -> Answer:
    return Answer(
        draw.one(*YesNo),
        draw.one("why", "the provider has been down"),
        draw.one(Attention.NONE, Attention.NONE, *Attention),
    )


def words(draw: Draw) -> Case:
    """Moments, spans, percents and quotas as a person reads them."""
    span_ns = draw.near(0, SECOND_NS, 2 * MINUTE_NS, 2 * HOUR_NS, 2 * DAY_NS, 90 * DAY_NS)
    done, total = draw.one(0, 1, 98, 99, 999, 9_999), draw.one(100, 1_000, 10_000)
    left_ns = draw.one(None, 0, 90 * SECOND_NS)
    progress = Progress(done=min(done, total), total=total, held=1, left_ns=left_ns, is_learning=draw.chance(0.3))
    quota = QuotaFacts(draw.one(0, 2_000), draw.one(None, 5_000), NOW_NS + draw.near(SECOND_NS, HOUR_NS, DAY_NS))
    count = covering.Tallies(*(draw.one(0, 1, 3) for _ in range(6)))
    pieces = draw.one((), (IdRange(2, 4),), (IdRange(1, 3), IdRange(5, 9)))
    covered = covering.cover(
        Coverage(pieces), first_id=draw.one(1, 3, 10), newest_id=draw.one(0, 3, 9, 20), count=count
    )
    disk = _disk(draw)
    stream = draw.of(StreamFacts, last_byte_at_ns=draw.one(None, draw.moment_ns()))
    said = (
        [
            answers.span(span_ns),
            answers.ago(span_ns),
            answers.iso(NOW_NS + span_ns),
            headline.collecting_in_words(progress),
        ],
        [
            limits.quota_in_words(quota, now_ns=NOW_NS),
            covered,
            count.unsettled,
            full_disk(disk),
            phase_in_words(_run(draw)),
        ],
        [limits.sentence(draw.one(*LimitedBy), edge_is_known=draw.chance(), pending=5_000), phase_in_words(None)],
        [alarm.hold_ns for alarm in alarms.Alarm],
        [isinstance(covered, Covered | CoveredList), is_alive(_beat(draw), now_ns=NOW_NS), stream],
    )
    return Case((span_ns, progress, quota), said)


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "status: words": (words, 500),
    "status: four answers": (four_answers, 1_200),
    "status: a reading": (readout, 1_200),
    "status: two readings": (two_readings, 400),
}
