"""What does a status say of a numbered source without a stream of changes? That there is none, and what finds changes."""

import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.status.model import Fresh, NoStream, SourceStatus, Unknown, YesNo
from remora.core.status.readout import read_out
from remora.core.status.snapshot import Beat, LedgerFacts, Role, Snapshot, SourceFacts
from remora.core.units import MINUTE_NS, SECOND_NS

NOW_NS = 1_800_000_000 * SECOND_NS


def seen(
    *,
    asked_ns_ago: int = SECOND_NS,
    poll_every_ns: int = 15 * SECOND_NS,
    has_rescan: bool = True,
    has_change_list: bool = False,
    unread_for_ns: int | None = None,
) -> SourceStatus:
    ledger = LedgerFacts(
        kind="numbered",
        coverage=Coverage((IdRange(1, 9),)),
        newest_id=9,
        poll_every_ns=poll_every_ns,
        has_stream=False,
        has_rescan=has_rescan,
        has_change_list=has_change_list,
    )
    unread_since_ns = None if unread_for_ns is None else NOW_NS - unread_for_ns
    facts = SourceFacts(newest_id=9, newest_id_at_ns=NOW_NS - asked_ns_ago, changes_unread_since_ns=unread_since_ns)
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={"rfcs": facts}))
    return read_out([beat], {"rfcs": ledger}, now_ns=NOW_NS).sources["rfcs"]


@pytest.mark.parametrize(
    "has_rescan, has_change_list, reason",
    [
        (True, False, "none declared; changes are found by the rescan"),
        (False, False, "none declared; changed items are not looked for"),
        (True, True, "none declared; a list of changes is polled"),
        (False, True, "none declared; a list of changes is polled, and what it no longer shows is not looked for"),
    ],
)
def test_no_stream_is_a_known_fact_and_the_answer_says_what_finds_changes(
    has_rescan: bool, has_change_list: bool, reason: str
) -> None:
    status = seen(has_rescan=has_rescan, has_change_list=has_change_list)
    assert status.stream == NoStream(reason)
    assert status.answers.fresh.answer is YesNo.YES
    assert reason in status.answers.fresh.reason


def test_no_stream_is_told_while_nobody_runs() -> None:
    status = read_out([], {"rfcs": LedgerFacts(kind="numbered", has_stream=False)}, now_ns=NOW_NS).sources["rfcs"]
    assert isinstance(status.stream, NoStream)
    assert isinstance(status.fresh, Unknown)


def test_how_old_a_newest_id_may_be_follows_how_often_it_is_asked_for() -> None:
    assert seen(asked_ns_ago=2 * MINUTE_NS).answers.fresh.answer is YesNo.NO
    patient = seen(asked_ns_ago=2 * MINUTE_NS, poll_every_ns=5 * MINUTE_NS)
    assert patient.answers.fresh.answer is YesNo.YES
    assert isinstance(patient.fresh, Fresh)
    assert patient.fresh.stale_after_ns == 20 * MINUTE_NS
    assert seen(asked_ns_ago=21 * MINUTE_NS, poll_every_ns=5 * MINUTE_NS).answers.fresh.answer is YesNo.NO


def test_a_copy_whose_list_of_changes_cannot_be_read_is_not_fresh() -> None:
    assert seen(unread_for_ns=30 * SECOND_NS).answers.fresh.answer is YesNo.YES, "one failed poll proves nothing"
    unread = seen(unread_for_ns=2 * MINUTE_NS).answers.fresh
    assert (unread.answer, unread.reason) == (
        YesNo.NO,
        "the list of changes could not be read for 2 min: updates_list_unread in the log says why",
    )
    assert seen(unread_for_ns=2 * MINUTE_NS, poll_every_ns=5 * MINUTE_NS).answers.fresh.answer is YesNo.YES
