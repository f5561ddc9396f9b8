"""Does the status say what is true at this moment? The rate, when a gap is asked for again, what holds a young pace."""

import math

import msgspec
import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, QuotaFacts, RateFacts
from remora.core.reasons import GapReason
from remora.core.status.health import Severity, severity
from remora.core.status.limits import sentence
from remora.core.status.model import Status, Unknown, YesNo
from remora.core.status.readout import iso, read_out
from remora.core.status.snapshot import (
    ENDED_DONE,
    Beat,
    GapTally,
    LedgerFacts,
    Orders,
    RescanFacts,
    Role,
    RunFacts,
    Snapshot,
    SourceFacts,
)
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.operate.cli.status_text import render
from remora.operate.observe.metrics import Metrics

NOW_NS = 1_800_000_000 * SECOND_NS
NEXT_RUN_NS = NOW_NS + 9 * MINUTE_NS


def status(
    *, next_run_at_ns: int | None, runs: bool = True, due_in_ns: int = -SECOND_NS, listed: bool = True
) -> Status:
    kind = Kind.DOCUMENT if listed else Kind.ITEM
    gap = GapTally(kind, GapState.OWED, GapReason.TIMEOUT, 1, NOW_NS - MINUTE_NS, NOW_NS + due_in_ns)
    ledger = LedgerFacts(kind="listed" if listed else "hackernews", owed_details=0 if listed else None, gaps=(gap,))
    facts = SourceFacts(doing="waiting", next_run_at_ns=next_run_at_ns)
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS - MINUTE_NS, sources={"one": facts}))
    return read_out([beat] if runs else [], {"one": ledger}, now_ns=NOW_NS)


def told(found: Status) -> str:
    (line,) = [line for line in render(found).splitlines() if line.startswith("  gaps")]
    return line.rpartition(", ")[2]


def test_what_is_due_between_two_runs_waits_for_the_next_one() -> None:
    found = status(next_run_at_ns=NEXT_RUN_NS)
    assert found.sources["one"].gaps[0].next_at_ns == NEXT_RUN_NS
    assert told(found) == f"next attempt {iso(NEXT_RUN_NS)}"


def test_what_is_due_only_after_the_next_run_keeps_its_own_moment() -> None:
    later_ns = 30 * MINUTE_NS
    assert told(status(next_run_at_ns=NEXT_RUN_NS, due_in_ns=later_ns)) == f"next attempt {iso(NOW_NS + later_ns)}"


def test_what_is_due_during_a_run_is_due_now() -> None:
    assert told(status(next_run_at_ns=None)) == "due now"


@pytest.mark.parametrize("listed, when", [(True, "due with the next run"), (False, "due with the next start")])
def test_while_nobody_runs_nothing_is_due_now(listed: bool, when: str) -> None:
    assert told(status(next_run_at_ns=None, runs=False, listed=listed)) == when


def test_a_pace_that_met_no_refusal_yet_is_being_learned() -> None:
    assert "Learning the pace" in sentence(LimitedBy.PACE, edge_is_known=False)
    assert "has refused" in sentence(LimitedBy.PACE)


def test_what_the_provider_still_allows_has_a_line_of_its_own() -> None:
    quota = QuotaFacts(2_114, 5_000, NOW_NS + 5 * MINUTE_NS)
    facts = SourceFacts(rate=msgspec.structs.replace(RATE, quota=quota))
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS - MINUTE_NS, sources={"one": facts}))
    ledger = LedgerFacts(kind="listed", owed_details=0)
    text = render(read_out([beat], {"one": ledger}, now_ns=NOW_NS))
    assert "  quota      2,114 of 5,000 left until 08:05\n" in text


def test_a_ceiling_that_an_operator_lowered_has_a_line_of_its_own_also_between_two_runs() -> None:
    facts = SourceFacts(rate=RATE, orders=Orders(interval_ns=2 * SECOND_NS, until_ns=NOW_NS + MINUTE_NS))
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS - MINUTE_NS, sources={"one": facts}))
    text = render(read_out([beat], {"one": LedgerFacts(kind="listed", owed_details=0)}, now_ns=NOW_NS))
    assert "  order      An operator lowered the ceiling to 30/min until 2027-01-15T08:01:00.000Z.\n" in text


def test_a_source_that_shares_its_account_says_so() -> None:
    text = render(read_out([], {"one": LedgerFacts(kind="listed", owed_details=0, account="github")}, now_ns=NOW_NS))
    assert "  account    github: one ceiling, pace and quota for all its sources" in text
    assert "account" not in render(status(next_run_at_ns=None))


RATE = RateFacts(
    at_ns=NOW_NS - SECOND_NS,
    interval_ns=SECOND_NS // 4,
    ceiling_interval_ns=SECOND_NS // 5,
    limited_by=LimitedBy.PACE,
    circuit=CircuitState.CLOSED,
)


def one_beat(rate: RateFacts | None, *, age_ns: int = 0, ended: bool = False) -> Beat:
    ended_at_ns = NOW_NS - age_ns if ended else None
    sources = {"one": SourceFacts(rate=rate)}
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=0, ended_at_ns=ended_at_ns, sources=sources)
    return Beat(NOW_NS - age_ns, snapshot)


def rate_line(found: Status) -> str:
    (line,) = [line for line in render(found).splitlines() if line.startswith("  rate")]
    return line


@pytest.mark.parametrize(
    "beats",
    [(), (one_beat(None),), (one_beat(RATE, age_ns=MINUTE_NS),), (one_beat(RATE, age_ns=MINUTE_NS, ended=True),)],
    ids=["never started", "nothing said yet", "silent", "ended"],
)
def test_the_console_readout_degrades_honestly_when_state_is_absent(beats: tuple[Beat, ...]) -> None:
    """The console readout degrades honestly when state is absent."""
    found = read_out(beats, {"one": LedgerFacts(kind="numbered")}, now_ns=NOW_NS)
    source, metrics = found.sources["one"], Metrics()
    assert isinstance(source.rate, Unknown)
    assert rate_line(found).startswith("  rate       unknown: ")
    assert "0/" not in rate_line(found).replace(source.rate.reason, "")
    # Not green: neither the answer about the rate nor the whole.
    assert source.answers.polite.answer is YesNo.UNKNOWN
    assert severity(found) in {Severity.UNKNOWN, Severity.CRITICAL}
    metrics.watch("one", ceiling_interval_ns=RATE.ceiling_interval_ns)
    metrics.take("one", source)
    assert math.isnan(metrics.registry.get_sample_value("remora_pace_interval_seconds", {"source": "one"}) or 0)


def test_a_known_rate_says_as_of_when() -> None:
    found = read_out([one_beat(RATE, age_ns=SECOND_NS)], {"one": LedgerFacts(kind="numbered")}, now_ns=NOW_NS)
    assert rate_line(found).endswith(f"4/s allowed, ceiling 5/s, limited by pace, as of {iso(NOW_NS - SECOND_NS)}")


def line_of(found: Status, label: str) -> str:
    (line,) = [line for line in render(found).splitlines() if line.startswith(f"  {label} ")]
    return line


def test_what_is_not_there_yet_is_told_apart_so_that_the_counts_agree() -> None:
    young = GapTally(Kind.ITEM, GapState.OWED, GapReason.NOT_YET, 1, NOW_NS, NOW_NS)
    owed = GapTally(Kind.ITEM, GapState.OWED, GapReason.TIMEOUT, 4, NOW_NS, NOW_NS)
    ledger = LedgerFacts(kind="numbered", coverage=Coverage.of([IdRange(1, 90)]), newest_id=100, gaps=(young, owed))
    found = read_out([], {"one": ledger}, now_ns=NOW_NS)
    assert found.sources["one"].answers.complete.reason == "10 not fetched yet, 4 waiting for a retry"
    assert "5 waiting for a retry (1 not there yet)" in line_of(found, "coverage")


@pytest.mark.parametrize(
    "processed, said", [(0, "nothing was read again since the start"), (7, "0 of 7 items had changed")]
)
def test_a_rescan_that_read_nothing_counts_nothing(processed: int, said: str) -> None:
    rescan = RescanFacts(last_success_at_ns=NOW_NS - MINUTE_NS, processed=processed)
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=0, sources={"one": SourceFacts(rescan=rescan)})
    found = read_out([Beat(NOW_NS, snapshot)], {"one": LedgerFacts(kind="numbered")}, now_ns=NOW_NS)
    assert line_of(found, "rescan").endswith(f"last finished 60 s ago, {said}")


@pytest.mark.parametrize("documents, word", [(0, "no     "), (5, "not yet")])
def test_a_run_that_failed_is_called_neither_done_nor_stopped(documents: int, word: str) -> None:
    snapshot = Snapshot(
        role=Role.RUN,
        started_at_ns=0,
        ended_at_ns=NOW_NS,
        ended_because=ENDED_DONE,
        sources={"one": SourceFacts()},
    )
    failed = RunFacts(run_id=1, started_at_ns=0, ended_at_ns=NOW_NS, stopped_by="list_trouble")
    ledger = LedgerFacts(kind="listed", documents=documents, owed_details=0, runs=(failed,))
    told = render(read_out([Beat(NOW_NS, snapshot)], {"one": ledger}, now_ns=NOW_NS))
    assert f"the run ended at {iso(NOW_NS)}" in told
    assert f"  working?   {word} the last run failed: the list does not answer" in told
    assert "done" not in told


def test_a_run_that_was_stopped_is_not_called_open() -> None:
    ledger = LedgerFacts(kind="listed", documents=0, owed_details=5, runs=(RunFacts(run_id=1, started_at_ns=0),))
    told = line_of(read_out([], {"one": ledger}, now_ns=NOW_NS), "last run")
    assert told.endswith("no end recorded")


def test_a_listed_source_shows_what_it_holds_its_run_in_progress_and_who_shares_its_account() -> None:
    run = RunFacts(
        run_id=7,
        started_at_ns=NOW_NS - 3 * MINUTE_NS,
        phase="details",
        counts={"requests": 1_310, "pages": 58, "entries": 5_800, "new": 1_240, "unchanged": 12},
    )
    issues = LedgerFacts(
        kind="listed",
        documents=5_800,
        owed_details=4_548,
        account="forge",
        runs=(
            RunFacts(run_id=7, started_at_ns=run.started_at_ns),
            RunFacts(run_id=6, started_at_ns=1, ended_at_ns=2, stopped_by="complete"),
        ),
    )
    pulls = LedgerFacts(kind="listed", documents=12, owed_details=0, account="forge")
    rate = RateFacts(
        interval_ns=SECOND_NS,
        ceiling_interval_ns=SECOND_NS,
        limited_by=LimitedBy.QUOTA,
        circuit=CircuitState.CLOSED,
        quota=QuotaFacts(3_690, 5_000, NOW_NS + MINUTE_NS),
        refusals_left=3,
    )
    facts = {"issues": SourceFacts(rate=rate, doing="fetching details", run=run), "pulls": SourceFacts(rate=rate)}
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS - MINUTE_NS, sources=facts))
    text = render(read_out([beat], {"issues": issues, "pulls": pulls}, now_ns=NOW_NS))
    lines = [" ".join(line.split()) for line in text.partition("\n\n")[0].splitlines()]
    assert "issues Collecting: 1,252 of 5,800 documents" in lines
    assert "progress 1,252 of 5,800 documents are here" in lines
    assert (
        "run in progress for 3 min: 58 pages walked, 5,800 entries seen, 1,310 requests, 1,252 details fetched, "
        "4,548 still to fetch"
    ) in lines
    assert "account forge, shared with pulls: one ceiling, pace and quota for all its sources" in lines
    assert any(line.startswith("quota 3,690 of 5,000 left until") for line in lines)
    assert "refusals 3 more allowed by the owner's limit" in lines
    assert any(line.startswith("last run 6, started") for line in lines)
