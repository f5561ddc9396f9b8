"""Does the readout ever invent a good number? It says unknown where it does not know, and its sums always add up."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import AGE_BOUNDS_S
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import BackOff, LimitedBy, RateFacts, Recent
from remora.core.reasons import GapReason
from remora.core.status.answers import span
from remora.core.status.covering import Tallies, cover
from remora.core.status.health import Severity, reasons_against_health, severity
from remora.core.status.model import Answer, Covered, CoveredList, Fresh, SourceStatus, Unknown, YesNo
from remora.core.status.readout import AGES_PER_BUCKET, BEAT_NS, BEATS_BEFORE_UNKNOWN, iso, read_out
from remora.core.status.snapshot import (
    ENDED_DONE,
    Beat,
    GapTally,
    InboxFacts,
    LedgerFacts,
    LoopFacts,
    RescanFacts,
    Role,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS

NOW_NS = 1_800_000_000 * SECOND_NS
NAME = "hackernews"

ids = st.integers(min_value=1, max_value=5_000)
ranges = st.lists(st.tuples(ids, ids).map(lambda pair: IdRange(min(pair), max(pair))), max_size=6)
tallies = st.lists(
    st.builds(
        GapTally,
        kind=st.sampled_from(Kind),
        state=st.sampled_from(GapState),
        reason=st.sampled_from(GapReason),
        count=st.integers(min_value=0, max_value=900),
        oldest_at_ns=st.just(NOW_NS),
        next_at_ns=st.just(NOW_NS),
    ),
    max_size=8,
)


def a_rate(**changes: object) -> RateFacts:
    rate = RateFacts(
        interval_ns=8 * MILLISECOND_NS,
        ceiling_interval_ns=4 * MILLISECOND_NS,
        limited_by=LimitedBy.PACE,
        circuit=CircuitState.CLOSED,
    )
    return msgspec.structs.replace(rate, **changes)


def facts(**changes: object) -> SourceFacts:
    whole = SourceFacts(
        rate=a_rate(), newest_id=100, newest_id_at_ns=NOW_NS - SECOND_NS, loops={"live": LoopFacts(alive=True)}
    )
    return msgspec.structs.replace(whole, **changes)


def beat(*, age_ns: int = 0, of: SourceFacts | None = None, role: Role = Role.SERVICE, ended: bool = False) -> Beat:
    snapshot = Snapshot(
        role=role,
        started_at_ns=NOW_NS - DAY_NS,
        ended_at_ns=NOW_NS - age_ns if ended else None,
        sources={NAME: of or facts()},
    )
    return Beat(NOW_NS - age_ns, snapshot)


def ledger(**changes: object) -> LedgerFacts:
    whole = LedgerFacts(kind="numbered", coverage=Coverage((IdRange(1, 100),)), newest_id=100, inbox_depth=0)
    return msgspec.structs.replace(whole, **changes)


def seen(*beats: Beat, of: LedgerFacts | None = None) -> SourceStatus:
    return read_out(beats, {NAME: of or ledger()}, now_ns=NOW_NS).sources[NAME]


def a_gap(state: GapState, reason: GapReason, count: int) -> GapTally:
    return GapTally(Kind.ITEM, state, reason, count, NOW_NS - DAY_NS, NOW_NS)


# -- the sums ------------------------------------------------------------------------------------------------------------


@given(covered=ranges, first_id=ids, newest_id=ids, gaps=tallies)
def test_the_six_places_always_add_up_to_the_id_range(
    covered: list[IdRange], first_id: int, newest_id: int, gaps: list[GapTally]
) -> None:
    of = ledger(coverage=Coverage.of(covered), first_id=first_id, newest_id=newest_id, gaps=tuple(gaps))
    status = seen(of=of).coverage
    match status:
        case Covered():
            parts = (status.settled, status.pending, status.owed, status.absent, status.gone, status.dead)
            assert sum(parts) == status.max_id - status.first_id + 1
            assert min(parts) >= 0
            assert status.settled <= len(Coverage.of(covered))
            assert 0 <= status.awaited <= status.owed
            assert 0 <= status.unconfirmed <= status.owed - status.awaited
            assert status.lag >= 0
        case Unknown() | CoveredList():
            open_gaps = sum(gap.count for gap in gaps if gap.kind is Kind.ITEM and gap.state is not GapState.SETTLED)
            newest = max(newest_id, *(piece.end for piece in covered), 0)
            assert isinstance(status, Unknown)
            assert newest < first_id or open_gaps > newest - first_id + 1


def test_a_gap_in_a_walk_in_progress_is_never_called_settled() -> None:
    status = cover(Coverage((IdRange(1, 50),)), first_id=1, newest_id=100, count=Tallies(owed=10))
    assert isinstance(status, Covered)
    assert (status.settled, status.pending, status.owed) == (40, 50, 10)


def test_without_a_newest_id_coverage_is_unknown_and_not_zero() -> None:
    assert isinstance(seen(of=ledger(newest_id=None)).coverage, Unknown)


# -- now and then --------------------------------------------------------------------------------------------------------


@given(age_ns=st.integers(min_value=-DAY_NS, max_value=DAY_NS))
def test_a_heartbeat_proves_something_for_three_beats_and_then_nothing(age_ns: int) -> None:
    status = seen(beat(age_ns=age_ns))
    fresh = abs(age_ns) <= BEATS_BEFORE_UNKNOWN * BEAT_NS
    assert isinstance(status.rate, RateFacts) is fresh
    assert (status.state == "running") is fresh
    assert (status.answers.working.answer is YesNo.YES) is fresh
    assert fresh or status.answers.working.answer is YesNo.UNKNOWN


def test_silence_says_since_when_and_what_the_rate_was() -> None:
    rate = seen(beat(age_ns=60 * SECOND_NS)).rate
    assert isinstance(rate, Unknown)
    assert rate.since_ns == NOW_NS - 60 * SECOND_NS
    assert rate.was_per_s == 125.0


def test_the_rate_of_a_finished_run_is_not_current() -> None:
    status = seen(beat(role=Role.BACKFILL, ended=True))
    assert isinstance(status.rate, Unknown)
    assert status.state == "stopped"
    assert status.answers.working.answer is YesNo.NO


def test_a_source_that_nobody_ever_worked_on_is_unknown() -> None:
    status = seen()
    assert status.state == "never_started"
    sections = (status.rate, status.fresh, status.stream, status.rescan)
    assert all(isinstance(section, Unknown) for section in sections)


def test_what_the_ledger_knows_stays_known_when_nothing_runs() -> None:
    status = seen(of=ledger(gaps=(a_gap(GapState.DEAD, GapReason.UNAUTHORIZED, 2),)))
    assert isinstance(status.coverage, Covered)
    assert (status.coverage.dead, status.coverage.settled) == (2, 98)
    assert status.inbox == InboxFacts(0, None)


def test_the_service_is_believed_before_a_backfill_beside_it() -> None:
    quick = facts(rate=a_rate(interval_ns=5 * MILLISECOND_NS))
    rate = seen(beat(role=Role.BACKFILL), beat(age_ns=SECOND_NS, of=quick)).rate
    assert isinstance(rate, RateFacts)
    assert rate.per_s == 200.0


def test_of_the_runtimes_that_are_gone_only_the_last_of_each_role_is_told() -> None:
    old = [beat(age_ns=age * 60 * SECOND_NS, role=Role.BACKFILL) for age in (3, 1, 2)]
    runtimes = read_out([*old, beat(), beat(age_ns=SECOND_NS)], {NAME: ledger()}, now_ns=NOW_NS).runtimes
    assert [(each.role, each.alive, NOW_NS - each.last_beat_at_ns) for each in runtimes] == [
        (Role.SERVICE, True, 0),
        (Role.SERVICE, True, SECOND_NS),
        (Role.BACKFILL, False, 60 * SECOND_NS),
    ]


def test_every_moment_in_a_readout_is_a_utc_text() -> None:
    assert iso(1_800_000_000_123_456_789) == "2027-01-15T08:00:00.123Z"


# -- the four answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gaps, answer, reason",
    [
        ((), YesNo.YES, "every id from 1 to 100"),
        ((a_gap(GapState.ABSENT, GapReason.NOT_FOUND, 3),), YesNo.YES, "settled, absent or gone"),
        ((a_gap(GapState.GONE, GapReason.GONE, 3),), YesNo.YES, "settled, absent or gone"),
        ((a_gap(GapState.OWED, GapReason.NOT_YET, 3),), YesNo.YES, "3 of the newest are awaited"),
        ((a_gap(GapState.OWED, GapReason.NOT_FOUND, 3),), YesNo.YES, "3 of them absent, to be confirmed"),
        ((a_gap(GapState.LEASED, GapReason.NOT_FOUND, 3),), YesNo.YES, "3 of them absent, to be confirmed"),
        ((a_gap(GapState.OWED, GapReason.TIMEOUT, 3),), YesNo.NO, "3 waiting for a retry"),
        ((a_gap(GapState.LEASED, GapReason.TIMEOUT, 3),), YesNo.NO, "3 waiting for a retry"),
        ((a_gap(GapState.DEAD, GapReason.MALFORMED, 1),), YesNo.NO, "1 dead"),
    ],
)
def test_complete_means_that_only_absent_gone_and_awaited_items_are_not_here(
    gaps: tuple[GapTally, ...], answer: YesNo, reason: str
) -> None:
    complete = seen(beat(), of=ledger(gaps=gaps)).answers.complete
    assert complete.answer is answer
    assert reason in complete.reason


@pytest.mark.parametrize(
    "changes, answer, reason",
    [
        ({}, YesNo.YES, "1 s ago"),
        ({"newest_id_at_ns": None}, YesNo.UNKNOWN, "not reported its newest id"),
        ({"newest_id_at_ns": None, "stream": StreamFacts(connected=False)}, YesNo.NO, "not connected"),
        ({"newest_id_at_ns": NOW_NS - 90 * SECOND_NS}, YesNo.NO, "90 s ago"),
        ({"stream": StreamFacts(connected=False)}, YesNo.NO, "not connected"),
        ({"stream": StreamFacts(connected=True, last_byte_at_ns=NOW_NS - 61 * SECOND_NS)}, YesNo.NO, "silent for 61 s"),
        ({"stream": StreamFacts(connected=True, last_byte_at_ns=NOW_NS)}, YesNo.YES, "1 s ago"),
        ({"inbox": InboxFacts(3_000, 4_096)}, YesNo.NO, "3,000 changed items wait"),
    ],
)
def test_fresh_means_that_changes_reach_the_copy(changes: dict[str, object], answer: YesNo, reason: str) -> None:
    fresh = seen(beat(of=facts(**changes))).answers.fresh
    assert fresh.answer is answer
    assert reason in fresh.reason


def test_a_backfill_alone_cannot_say_that_the_copy_is_fresh() -> None:
    assert seen(beat(role=Role.BACKFILL)).answers.fresh.answer is YesNo.UNKNOWN


def test_between_two_bounded_runs_nothing_has_to_run() -> None:
    done = beat(age_ns=DAY_NS, role=Role.RUN, ended=True)
    rested = Beat(done.at_ns, msgspec.structs.replace(done.snapshot, ended_because=ENDED_DONE))
    stopped = Beat(done.at_ns, msgspec.structs.replace(done.snapshot, ended_because="stopped on request"))
    assert seen(rested).answers.working.answer is YesNo.YES
    assert seen(stopped).answers.working.answer is YesNo.NO


@pytest.mark.parametrize(
    "rate, answer, reason",
    [
        (None, YesNo.UNKNOWN, "not said anything"),
        (a_rate(), YesNo.YES, "ceiling of 250/s"),
        (a_rate(interval_ns=MILLISECOND_NS), YesNo.NO, "faster than the ceiling"),
        (a_rate(departures=10, wire_sends=12), YesNo.NO, "2 requests left without a permit"),
        (a_rate(circuit=CircuitState.OPEN), YesNo.YES, "never faster"),
        (a_rate(recent=Recent(1_000, 1_000, 4, 0, SECOND_NS)), YesNo.YES, "0.40%"),
        (a_rate(recent=Recent(1_000, 1_000, 40, 0, SECOND_NS)), YesNo.NO, "4.00%"),
        (a_rate(recent=Recent(2, 2, 1, 0, SECOND_NS)), YesNo.YES, "never faster"),
    ],
)
def test_polite_means_below_the_ceiling_and_seldom_refused(rate: RateFacts | None, answer: YesNo, reason: str) -> None:
    polite = seen(beat(of=facts(rate=rate))).answers.polite
    assert polite.answer is answer
    assert reason in polite.reason


def test_working_names_the_loop_that_does_not() -> None:
    loops = {
        "live": LoopFacts(alive=True),
        "updates": LoopFacts(alive=False, restarts=3, last_error="StoreUnavailable"),
    }
    working = seen(beat(of=facts(loops=loops))).answers.working
    assert working.answer is YesNo.NO
    assert working.reason == "not running: updates (StoreUnavailable)"


def test_working_needs_an_update_worker_that_lives() -> None:
    assert seen(beat(of=facts(workers_alive=0))).answers.working.answer is YesNo.NO
    assert seen(beat(of=facts(workers_alive=1))).answers.working.answer is YesNo.YES


def test_nothing_is_known_to_work_while_every_process_stands_by() -> None:
    standing_by = beat(of=facts(doing="standing by", stands_by=True))
    assert seen(standing_by, standing_by).answers.working.answer is YesNo.UNKNOWN
    assert "takes over" in seen(standing_by).answers.working.reason
    assert seen(standing_by, beat()).answers.working.answer is YesNo.YES
    helper = beat(of=facts(doing="helping", stands_by=True), role=Role.WORKER)
    assert seen(helper).answers.working == Answer(YesNo.YES, "helping")


def test_a_store_that_does_not_tell_who_may_begin_is_named_instead_of_a_lease_that_ends() -> None:
    waiting = beat(of=facts(stands_by=True, unanswered="PostgreSQL has no free connection"))
    told = "the store does not tell whether this process may begin: PostgreSQL has no free connection"
    assert seen(waiting).answers.working == Answer(YesNo.UNKNOWN, told)
    assert seen(waiting, beat()).answers.working.answer is YesNo.YES


def test_a_fresh_section_says_when_the_newest_id_was_told() -> None:
    fresh = seen(beat()).fresh
    assert isinstance(fresh, Fresh)
    assert (fresh.newest_id_at_ns, fresh.lag) == (NOW_NS - SECOND_NS, 0)


# -- health --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beats, gaps, level",
    [
        ((beat(),), (), Severity.OK),
        ((beat(),), (a_gap(GapState.DEAD, GapReason.GONE, 1),), Severity.WARNING),
        ((), (a_gap(GapState.DEAD, GapReason.GONE, 1),), Severity.UNKNOWN),
        ((beat(of=facts(stream=StreamFacts(connected=False))),), (), Severity.CRITICAL),
        ((beat(ended=True),), (), Severity.CRITICAL),
    ],
)
def test_the_worst_answer_decides_what_monitoring_hears(
    beats: tuple[Beat, ...], gaps: tuple[GapTally, ...], level: Severity
) -> None:
    status = read_out(beats, {NAME: ledger(gaps=gaps)}, now_ns=NOW_NS)
    assert severity(status) is level
    assert (not reasons_against_health(status)) is (level in {Severity.OK, Severity.WARNING})


def test_a_backfill_in_progress_is_no_warning_and_a_dead_letter_is() -> None:
    half = ledger(coverage=Coverage((IdRange(1, 50),)))
    assert severity(read_out((beat(),), {NAME: half}, now_ns=NOW_NS)) is Severity.OK


def test_no_source_at_all_is_neither_healthy_nor_ok() -> None:
    status = read_out((), {}, now_ns=NOW_NS)
    assert severity(status) is Severity.UNKNOWN
    assert reasons_against_health(status)


def test_a_status_is_json_and_never_shows_a_zero_for_the_unknown() -> None:
    status = msgspec.to_builtins(read_out((), {NAME: ledger()}, now_ns=NOW_NS))
    assert status["schema"] == 1
    rate = status["sources"][NAME]["rate"]
    assert rate["known"] is False
    assert 0 not in [value for value in rate.values() if value is not False]


def test_a_back_off_is_told_with_its_time_reason_and_rates() -> None:
    back_off = BackOff(NOW_NS, "rate_limited", 10.0, 5.0)
    rate = seen(beat(of=facts(rate=a_rate(last_back_off=back_off)))).rate
    assert isinstance(rate, RateFacts)
    assert rate.last_back_off is not None
    assert (rate.last_back_off.reason, rate.last_back_off.to_per_s) == ("rate_limited", 5.0)


def test_a_heartbeat_survives_its_journey_through_json() -> None:
    snapshot = beat().snapshot
    assert msgspec.convert(msgspec.to_builtins(snapshot), Snapshot) == snapshot


@given(st.lists(st.integers(min_value=0, max_value=10_000), min_size=65, max_size=65))
def test_the_histogram_that_is_shown_leaves_no_change_out(counts: list[int]) -> None:
    whole = facts(rescan=RescanFacts(), update_ages=tuple(counts))
    shown = read_out([beat(of=whole)], {NAME: LedgerFacts(kind=NAME)}, now_ns=NOW_NS).sources[NAME].update_ages
    assert shown is not None
    assert sum(bucket.count for bucket in shown) == sum(counts)
    bounds = [bucket.up_to_s for bucket in shown]
    assert bounds[-1] is None
    assert bounds[:-1] == sorted(bound for bound in bounds if bound is not None)
    assert bounds[:-1] == [*AGE_BOUNDS_S[AGES_PER_BUCKET - 1 :: AGES_PER_BUCKET]], "each is the bound of its last age"


def test_the_ceiling_is_known_even_when_nobody_runs() -> None:
    ledger = LedgerFacts(kind=NAME, ceiling_interval_ns=4 * MILLISECOND_NS)
    status = read_out([], {NAME: ledger}, now_ns=NOW_NS).sources[NAME]
    assert isinstance(status.rate, Unknown)
    assert status.ceiling_interval_ns == 4 * MILLISECOND_NS


@pytest.mark.parametrize(
    "seconds, told", [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (400_000, "4 d")]
)
def test_a_span_is_told_in_its_largest_fitting_unit(seconds: float, told: str) -> None:
    assert span(int(seconds * SECOND_NS)) == told


def test_a_heartbeat_from_the_future_is_told_as_a_clock_that_was_set_back() -> None:
    status = read_out([beat()], {NAME: ledger()}, now_ns=NOW_NS - HOUR_NS).sources[NAME]
    assert status.state == "silent"
    assert status.headline.text.startswith("Unknown: the last heartbeat from the service is 60 min ahead of this clock")
