"""What is known of a listed source? Its documents add up, and a run in progress has the counts of its live process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.status.model import CoveredList, YesNo
from remora.core.status.snapshot import GapTally, LedgerFacts, RunFacts, SourceFacts
from remora.core.units import DAY_NS, SECOND_NS
from tests.core.test_readout import NOW_NS, a_rate, beat, seen, tallies


@given(
    documents=st.integers(min_value=0, max_value=9_000), pending=st.integers(min_value=0, max_value=900), gaps=tallies
)
def test_the_places_of_a_listed_source_add_up_to_its_documents(
    documents: int, pending: int, gaps: list[GapTally]
) -> None:
    of = LedgerFacts(kind="listed", documents=documents, owed_details=pending, gaps=tuple(gaps))
    status = seen(of=of).coverage
    assert isinstance(status, CoveredList)
    assert status.settled is not None
    assert status.settled >= 0
    rest = status.pending + status.owed + status.absent + status.gone + status.dead
    assert status.settled + rest == max(documents, rest)
    assert status.listed == status.settled + status.pending + status.owed + status.dead


def test_what_nobody_counted_is_no_number() -> None:
    status = seen(of=LedgerFacts(kind="listed", owed_details=3)).coverage
    assert isinstance(status, CoveredList)
    assert (status.settled, status.listed) == (None, None)


def test_a_run_in_progress_has_the_counts_of_its_live_process_and_an_ended_one_those_of_the_ledger() -> None:
    of = LedgerFacts(
        kind="listed",
        documents=5_800,
        owed_details=4_548,
        runs=(RunFacts(run_id=2, started_at_ns=NOW_NS - SECOND_NS), RunFacts(run_id=1, started_at_ns=1, ended_at_ns=2)),
    )
    live = RunFacts(run_id=2, started_at_ns=NOW_NS - SECOND_NS, phase="details", counts={"pages": 58})
    status = seen(beat(of=SourceFacts(rate=a_rate(), run=live)), of=of)
    assert status.runs == (live, of.runs[1])
    assert status.headline.text == "Collecting: 1,252 of 5,800 documents"
    assert seen(beat(of=SourceFacts(rate=a_rate(), run=live), age_ns=DAY_NS), of=of).runs == of.runs


def test_a_listed_source_counts_what_its_list_showed() -> None:
    status = seen(of=LedgerFacts(kind="listed", owed_details=7))
    assert isinstance(status.coverage, CoveredList)
    assert status.answers.complete.reason == "7 not fetched yet"


def test_a_list_that_nobody_has_walked_is_never_called_complete() -> None:
    complete = seen(of=LedgerFacts(kind="listed", owed_details=0)).answers.complete
    assert (complete.answer, complete.reason) == (YesNo.UNKNOWN, "no run has walked the whole list yet")


@pytest.mark.parametrize(
    "runs, answer, reason",
    [
        ((), YesNo.UNKNOWN, "no run has walked the whole list yet"),
        (
            (("list_trouble", 5), ("max_fetches", 9)),
            YesNo.NO,
            "whole list yet; the last one failed: the list does not answer as it should",
        ),
        ((("max_fetches", 5), ("list_trouble", 9)), YesNo.UNKNOWN, "no run has walked the whole list yet"),
        ((("list_refused", 5), ("complete", 40)), YesNo.YES, "last looked for 40 s ago"),
        ((("complete", 400),), YesNo.NO, "last looked for 6 min ago"),
        (
            (("list_contradicts", 5), ("complete", 40)),
            YesNo.NO,
            "the last one failed: the list contradicts its declaration",
        ),
    ],
)
def test_a_list_is_as_fresh_as_the_last_run_that_went_through(
    runs: tuple[tuple[str, int], ...], answer: YesNo, reason: str
) -> None:
    told = tuple(
        RunFacts(run_id=number, started_at_ns=1, ended_at_ns=NOW_NS - ago_s * SECOND_NS, stopped_by=by)
        for number, (by, ago_s) in enumerate(runs)
    )
    answers = seen(of=LedgerFacts(kind="listed", owed_details=0, runs=told, every_ns=100 * SECOND_NS)).answers
    assert answers.fresh.answer is answer
    assert reason in answers.fresh.reason
    assert answers.complete.answer is not YesNo.YES or runs[0][0] != "list_contradicts"


@pytest.mark.parametrize("ago_s, answer", [(59, YesNo.YES), (180, YesNo.YES), (181, YesNo.NO)])
def test_a_list_that_runs_as_often_as_it_may_is_fresh_however_short_every_is(ago_s: int, answer: YesNo) -> None:
    last = RunFacts(run_id=1, started_at_ns=1, ended_at_ns=NOW_NS - ago_s * SECOND_NS, stopped_by="complete")
    answers = seen(of=LedgerFacts(kind="listed", owed_details=0, runs=(last,), every_ns=10 * SECOND_NS)).answers
    assert answers.fresh.answer is answer


@pytest.mark.parametrize(
    "whole_walk_at_ns, told",
    [
        (NOW_NS - 3 * DAY_NS, "new entries were last looked for 19 s ago; the whole list was last walked 3 d ago"),
        (None, "new entries were last looked for 19 s ago; the next run walks the whole list"),
    ],
)
def test_a_run_that_stopped_at_what_is_known_is_no_walk_over_the_whole_list(
    whole_walk_at_ns: int | None, told: str
) -> None:
    run = RunFacts(run_id=1, started_at_ns=1, ended_at_ns=NOW_NS - 19 * SECOND_NS, stopped_by="complete")
    of = LedgerFacts(kind="listed", owed_details=0, runs=(run,), whole_walk_at_ns=whole_walk_at_ns)
    assert seen(of=of).answers.fresh.reason == told
