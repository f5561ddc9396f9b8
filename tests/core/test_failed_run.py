"""Does the line that is read first say that the last run over a list has failed, and whether a person is needed?"""

import msgspec
import pytest

from remora.core.status.health import Severity, severity
from remora.core.status.model import Attention, SourceStatus, Standing, Status, YesNo
from remora.core.status.snapshot import ENDED_DONE, Beat, LedgerFacts, Role, RunFacts, SourceFacts
from remora.core.units import MINUTE_NS, SECOND_NS
from tests.core.test_readout import NAME, NOW_NS, a_rate, beat, seen

REFUSED = f"the last run failed: the provider refuses the list; find out more with: remora try {NAME}"


def runs(*stopped_by: str) -> LedgerFacts:
    """A list whose runs ended like this, the latest first."""
    told = tuple(
        RunFacts(run_id=9 - number, started_at_ns=1, ended_at_ns=NOW_NS - number * MINUTE_NS, stopped_by=by)
        for number, by in enumerate(stopped_by)
    )
    return LedgerFacts(kind="listed", documents=5, owed_details=0, runs=told, every_ns=10 * MINUTE_NS)


def between_runs() -> Beat:
    ended = beat(of=SourceFacts(rate=a_rate()), role=Role.RUN, age_ns=SECOND_NS, ended=True)
    return msgspec.structs.replace(ended, snapshot=msgspec.structs.replace(ended.snapshot, ended_because=ENDED_DONE))


def served(run: RunFacts | None = None) -> Beat:
    return beat(of=SourceFacts(rate=a_rate(), doing="waiting", run=run))


def check(status: SourceStatus) -> Severity:
    return severity(Status(as_of_ns=NOW_NS, runtimes=(), sources={NAME: status}))


@pytest.mark.parametrize("process", [between_runs(), served()])
@pytest.mark.parametrize("before", [(), ("complete",)])
@pytest.mark.parametrize("by", ["refused", "list_refused", "list_unreadable", "list_contradicts"])
def test_a_run_that_failed_for_a_reason_that_stays_needs_a_person(
    process: Beat, before: tuple[str, ...], by: str
) -> None:
    status = seen(process, of=runs(by, *before))
    assert (status.answers.working.answer, status.answers.working.attention) == (YesNo.NO, Attention.ACT)
    assert status.headline.standing is Standing.ATTENTION
    assert status.headline.text.startswith("Needs attention: not working: the last run failed: ")
    assert not status.only_provider_is_down
    assert check(status) is Severity.CRITICAL


def test_the_headline_says_what_failed_and_what_to_do() -> None:
    assert seen(between_runs(), of=runs("list_refused")).headline.text == f"Needs attention: not working: {REFUSED}"


def test_a_run_that_left_its_own_words_is_told_in_them() -> None:
    words = 'the provider refuses the pages behind those that it showed; write a rule with means = "end"'
    ledger = msgspec.structs.replace(runs("list_refused"), told=words)
    assert seen(between_runs(), of=ledger).answers.working.reason == f"the last run failed: {words}"


@pytest.mark.parametrize("process", [between_runs(), served()])
def test_a_list_that_answered_before_is_waited_for(process: Beat) -> None:
    status = seen(process, of=runs("list_trouble", "complete"))
    assert (status.answers.working.answer, status.answers.working.attention) == (YesNo.NO, Attention.WAIT)
    assert status.headline.standing is Standing.WAITING
    assert (
        status.headline.text == "Waiting for the provider: the last run failed: the list does not answer as it should"
    )
    assert status.only_provider_is_down


@pytest.mark.parametrize("process", [between_runs(), served()])
def test_a_list_that_has_never_answered_needs_a_person(process: Beat) -> None:
    status = seen(process, of=msgspec.structs.replace(runs("list_trouble"), documents=0))
    assert status.answers.working.attention is Attention.ACT
    assert status.headline.standing is Standing.ATTENTION


@pytest.mark.parametrize("by", ["complete", "max_fetches", "upstream_pressure", "retry_budget"])
def test_a_later_run_that_did_not_fail_is_the_one_that_counts(by: str) -> None:
    status = seen(between_runs(), of=runs(by, "list_refused", "complete"))
    assert status.answers.working.answer is YesNo.YES


@pytest.mark.parametrize("by", ["recover_only", "cool_down"])
def test_a_run_that_left_the_list_alone_says_nothing_about_it(by: str) -> None:
    assert seen(between_runs(), of=runs(by, "list_refused", "complete")).answers.working.reason == REFUSED
    assert seen(between_runs(), of=runs(by)).answers.working.answer is YesNo.YES


@pytest.mark.parametrize("pages, answer", [(0, YesNo.NO), (1, YesNo.YES)])
def test_a_run_in_progress_that_reads_the_list_is_working_again(pages: int, answer: YesNo) -> None:
    run = RunFacts(run_id=10, started_at_ns=NOW_NS, phase="walk", counts={"pages": pages})
    assert seen(served(run), of=runs("list_refused", "complete")).answers.working.answer is answer


def test_a_service_that_was_stopped_is_told_as_stopped() -> None:
    stopped = beat(of=SourceFacts(rate=a_rate()), age_ns=SECOND_NS, ended=True)
    assert "the service ended" in seen(stopped, of=runs("list_refused")).answers.working.reason
