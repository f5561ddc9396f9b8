"""Is work in progress told apart from what needs a person? One line per source, and an answer says what it asks for."""

import msgspec
import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, ProviderDown, Recent
from remora.core.reasons import GapReason
from remora.core.status.answers import is_polite, iso
from remora.core.status.headline import collecting_in_words, progress_of
from remora.core.status.model import Attention, Covered, Progress, SourceStatus, Standing, YesNo
from remora.core.status.snapshot import InboxFacts, LedgerFacts, LoopFacts, SourceFacts, StreamFacts
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from tests.core.test_readout import NOW_NS, a_gap, a_rate, beat, facts, ledger, seen

HALF = ledger(coverage=Coverage((IdRange(1, 63),)))
LEAVING = a_rate(recent=Recent(departures=10, answers=10, refused=0, failed=0, window_ns=10 * SECOND_NS))


def told(of: SourceFacts | None = None, ledger_: LedgerFacts | None = None) -> SourceStatus:
    return seen(beat(of=of), of=ledger_)


def test_a_backfill_is_progress_with_a_share_and_the_time_left() -> None:
    status = told(facts(rate=LEAVING), HALF)
    assert status.headline.standing is Standing.COLLECTING
    assert status.headline.text == "Collecting: 63 %, about 37 s left"
    assert status.answers.complete.attention is Attention.WAIT
    assert status.progress == Progress(done=63, total=100, held=63, left_ns=37 * SECOND_NS)


def test_without_a_rate_no_time_left_is_invented() -> None:
    assert told(facts(), HALF).headline.text == "Collecting: 63 %"


def test_during_a_pause_that_the_provider_asked_for_its_end_is_told_and_no_time_left() -> None:
    pause = {"next_in_ns": 42 * SECOND_NS, "next_held_by": LimitedBy.RETRY_AFTER, "at_ns": NOW_NS}
    paused = told(facts(rate=msgspec.structs.replace(LEAVING, **pause)), HALF)
    assert paused.headline.standing is Standing.COLLECTING
    until = iso(NOW_NS + 42 * SECOND_NS)
    assert paused.headline.text == f"Collecting: 63 %; the provider asked for a pause until {until}"


def test_everything_here_and_told_of_is_complete_and_fresh() -> None:
    status = told()
    assert status.headline.standing is Standing.COMPLETE
    assert status.headline.text == "Complete and fresh"
    assert {answer.attention for answer in msgspec.structs.asdict(status.answers).values()} == {Attention.NONE}


def test_old_ids_that_are_answered_with_nothing_are_no_reason_against_complete() -> None:
    status = told(None, ledger(gaps=(a_gap(GapState.OWED, GapReason.NOT_FOUND, 52),)))
    assert status.headline.standing is Standing.COMPLETE


def test_a_dead_letter_needs_a_person() -> None:
    status = told(None, ledger(gaps=(a_gap(GapState.DEAD, GapReason.MALFORMED, 1),)))
    assert status.headline.standing is Standing.ATTENTION
    assert "1 dead letter" in status.headline.text


def test_a_provider_that_is_down_is_waited_for() -> None:
    down = a_rate(
        circuit=CircuitState.OPEN,
        circuit_wait_ns=9 * SECOND_NS,
        provider_down=ProviderDown(NOW_NS - HOUR_NS, "it answers HTTP 503"),
        at_ns=NOW_NS,
    )
    status = told(facts(rate=down, newest_id_at_ns=NOW_NS - HOUR_NS))
    assert status.headline.standing is Standing.WAITING
    assert "it answers HTTP 503; next probe in 9 s" in status.headline.text
    assert status.answers.fresh.attention is status.answers.working.attention is Attention.WAIT


def test_a_loop_that_ended_needs_a_person() -> None:
    status = told(facts(loops={"live": LoopFacts(alive=False)}))
    assert status.headline.standing is Standing.ATTENTION


def test_a_backfill_that_is_off_is_not_collecting() -> None:
    assert told(facts(backfill=False), HALF).headline.standing is Standing.WATCHING


def test_a_full_inbox_is_being_worked_on() -> None:
    assert told(facts(inbox=InboxFacts(3_000, 4_096))).answers.fresh.attention is Attention.WAIT


@pytest.mark.parametrize("age_ns, attention", [(5 * SECOND_NS, Attention.WAIT), (2 * MINUTE_NS, Attention.ACT)])
def test_a_stream_has_a_minute_to_connect(age_ns: int, attention: Attention) -> None:
    started = beat(of=facts(stream=StreamFacts(connected=False)))
    snapshot = msgspec.structs.replace(started.snapshot, started_at_ns=NOW_NS - age_ns)
    assert seen(msgspec.structs.replace(started, snapshot=snapshot)).answers.fresh.attention is attention


def test_a_pace_above_the_ceiling_needs_a_person_and_refusals_do_not() -> None:
    refused = Recent(departures=100, answers=100, refused=9, failed=0, window_ns=10 * SECOND_NS)
    assert told(facts(rate=a_rate(recent=refused))).answers.polite.attention is Attention.WAIT
    assert told(facts(rate=a_rate(interval_ns=1))).answers.polite.attention is Attention.ACT


def test_nobody_running_is_unknown_and_not_green() -> None:
    assert seen(beat(age_ns=MINUTE_NS)).headline.standing is Standing.UNKNOWN


@pytest.mark.parametrize("done, words", [(63, "63 %"), (9_999, "99.99 %"), (99_999, "99.99 %"), (0, "0 %")])
def test_a_share_is_never_rounded_up_to_everything(done: int, words: str) -> None:
    total = 100 if done == 63 else 10_000 if done != 99_999 else 100_000
    assert collecting_in_words(Progress(done=done, total=total, held=done, left_ns=None)) == words


def test_a_gate_that_says_nothing_is_unknown_and_not_green() -> None:
    assert told(facts(rate=None)).headline.standing is Standing.UNKNOWN


@pytest.mark.parametrize(
    "because, standing",
    [("done", Standing.STOPPED), ("stopped on request", Standing.STOPPED), ("StoreError", Standing.ATTENTION)],
)
def test_what_was_stopped_on_request_is_no_problem_and_what_failed_is(because: str, standing: Standing) -> None:
    ended = beat(age_ns=MINUTE_NS, ended=True)
    snapshot = msgspec.structs.replace(ended.snapshot, ended_because=because)
    assert seen(msgspec.structs.replace(ended, snapshot=snapshot)).headline.standing is standing


def test_while_the_pace_rises_the_time_left_is_not_known() -> None:
    started = beat(of=facts(rate=LEAVING))
    snapshot = msgspec.structs.replace(started.snapshot, started_at_ns=NOW_NS - 5 * SECOND_NS)
    status = seen(msgspec.structs.replace(started, snapshot=snapshot), of=HALF)
    assert status.headline.text == "Collecting: 63 %, learning the pace"


@pytest.mark.parametrize("lost_ns, attention", [(30 * SECOND_NS, Attention.WAIT), (3 * MINUTE_NS, Attention.ACT)])
def test_a_stream_that_was_just_lost_is_opened_again_before_somebody_has_to_act(
    lost_ns: int, attention: Attention
) -> None:
    stream = StreamFacts(connected=False, last_byte_at_ns=NOW_NS - lost_ns)
    for newest_age_ns in (SECOND_NS, 90 * SECOND_NS):
        found = told(facts(stream=stream, newest_id_at_ns=NOW_NS - newest_age_ns)).answers.fresh
        assert found.attention is attention


@pytest.mark.parametrize("back_ns, attention", [(SECOND_NS, Attention.WAIT), (3 * MINUTE_NS, Attention.ACT)])
def test_after_an_outage_the_stream_has_time_to_open_before_somebody_has_to_act(
    back_ns: int, attention: Attention
) -> None:
    stream = StreamFacts(connected=False, last_byte_at_ns=NOW_NS - HOUR_NS)
    rate = a_rate(provider_back_at_ns=NOW_NS - back_ns)
    assert told(facts(stream=stream, rate=rate)).answers.fresh.attention is attention


def test_a_newest_id_that_nothing_confirms_needs_attention_and_is_not_called_unreported() -> None:
    unread = facts(newest_id=None, newest_id_at_ns=None, newest_refused=4_062)
    source = seen(beat(of=unread), of=ledger(coverage=None, newest_id=None))
    why = "the source reports a newest id of 4,062, but no item near it can be read"
    assert source.headline.standing is Standing.ATTENTION
    assert source.headline.text == f"Needs attention: not fresh: {why}"
    assert source.answers.complete.reason == why


def test_a_young_process_with_nothing_left_to_fetch_is_not_learning() -> None:
    """While a backfill runs, no time left is told in the first minute; afterwards there is nothing to wait for."""
    rising = msgspec.structs.replace(
        a_rate(), interval_ns=4 * SECOND_NS, ceiling_interval_ns=SECOND_NS, edge_per_s=None
    )
    half = Covered(
        first_id=1,
        max_id=10,
        frontier=5,
        settled=5,
        pending=5,
        lag=0,
        owed=0,
        absent=0,
        gone=0,
        dead=0,
        awaited=0,
    )
    learning = progress_of(half, rising, running_ns=SECOND_NS)
    assert learning is not None
    assert learning.is_learning
    done = progress_of(msgspec.structs.replace(half, frontier=10, settled=10, pending=0), rising, running_ns=SECOND_NS)
    assert done is not None
    assert not done.is_learning


@pytest.mark.parametrize("sent, answer", [(9, YesNo.YES), (10, YesNo.YES), (11, YesNo.NO)])
def test_only_more_requests_than_permits_are_impolite(sent: int, answer: YesNo) -> None:
    rate = msgspec.structs.replace(a_rate(), departures=10, wire_sends=sent)
    assert is_polite(rate, silence=None).answer is answer


def test_items_that_the_source_no_longer_has_are_still_held() -> None:
    missing = (a_gap(GapState.OWED, GapReason.NOT_FOUND, 4), a_gap(GapState.ABSENT, GapReason.NOT_FOUND, 6))
    kept = told(None, ledger(gaps=missing, held_gaps=7)).progress
    assert kept is not None
    assert (kept.held, kept.holds_more) == (97, False)
    too_many = told(None, ledger(gaps=missing, held_gaps=None)).progress
    assert too_many is not None
    assert (too_many.held, too_many.holds_more) == (90, True)
