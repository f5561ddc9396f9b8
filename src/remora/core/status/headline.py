"""How is a source doing, in one line? Work in progress is not a failure: only what needs a person is called a problem."""

from typing import Final

import msgspec

from remora.core.rate.gate_types import LimitedBy, RateFacts
from remora.core.status.answers import iso, span
from remora.core.status.model import (
    Answer,
    Answers,
    Attention,
    Covered,
    CoveredList,
    Headline,
    Progress,
    Standing,
    Unknown,
    YesNo,
)
from remora.core.status.snapshot import SourceFacts
from remora.core.status.thresholds import WAIT_WORTH_TELLING_NS
from remora.core.units import MINUTE_NS, SECOND_NS

# A stream, a first answer and a first walk need some seconds: before that nothing is wrong yet.
SETTLE_NS: Final = MINUTE_NS
# What needs a person is named in this order.
HAS_BEEN: Final = "the provider has been "
URGENT_FIRST: Final = ("working", "polite", "fresh", "complete")


def with_attention(
    answers: Answers,
    coverage: Covered | CoveredList | Unknown,
    rate: RateFacts | None,
    *,
    is_down: bool,
    is_asked: bool,
    running_ns: int | None,
) -> Answers:
    """The same answers, each with what it asks of the operator: nothing, to wait, or to act.

    `is_down`: only the provider is down. `is_asked`: nothing runs, because a job is done or somebody stopped it.
    """
    settles = is_down or is_asked or (running_ns is not None and running_ns < SETTLE_NS)
    has_dead = not isinstance(coverage, Unknown) and coverage.dead > 0
    # The pace goes down by itself after refusals; a rate above the ceiling is a fault of ours.
    is_too_fast = rate is not None and (
        rate.interval_ns < rate.ceiling_interval_ns or (rate.wire_sends or 0) > rate.departures
    )
    return Answers(
        complete=_asking(answers.complete, waits=not has_dead),
        fresh=_asking(answers.fresh, waits=settles),
        polite=_asking(answers.polite, waits=not is_too_fast),
        working=_asking(answers.working, waits=settles),
    )


def _asking(answer: Answer, *, waits: bool) -> Answer:
    if answer.answer is not YesNo.NO or answer.attention is not Attention.NONE:
        return answer
    return msgspec.structs.replace(answer, attention=Attention.WAIT if waits else Attention.ACT)


def progress_of(
    coverage: Covered | CoveredList | Unknown,
    rate: RateFacts | None,
    *,
    running_ns: int | None,
    held_gaps: int | None = 0,
) -> Progress | None:
    """How far the backfill of a numbered source is; None if that is not known.

    `held_gaps`: how many items are held although they are not settled; None if nobody looked.
    """
    if not isinstance(coverage, Covered):
        return None
    total = coverage.max_id - coverage.first_id + 1
    per_s = rate.recent_per_s if rate is not None else None
    is_young = running_ns is not None and running_ns < SETTLE_NS
    # While the pace still rises, what it was a moment ago says nothing about the time left.
    is_learning = is_young and rate is not None and _is_rising(rate, per_s)
    if is_learning:
        per_s = None
    left_ns = int(coverage.pending / per_s * SECOND_NS) if per_s else None
    return Progress(
        done=total - coverage.pending,
        total=total,
        held=coverage.settled + (held_gaps or 0),
        left_ns=left_ns if coverage.pending else 0,
        is_learning=is_learning and coverage.pending > 0,
        holds_more=held_gaps is None,
    )


def _is_rising(rate: RateFacts, recent_per_s: float | None) -> bool:
    is_unlimited = rate.edge_per_s is None and rate.per_s < rate.ceiling_per_s
    return is_unlimited or recent_per_s is None or recent_per_s < rate.per_s / 2


def headline(
    answers: Answers,
    coverage: Covered | CoveredList | Unknown,
    progress: Progress | None,
    facts: SourceFacts | None,
    *,
    is_down: bool,
) -> Headline:
    """The line that is read first. `facts` are those of the running process; None: nothing runs."""
    if facts is not None and (paused_at_ns := facts.orders.paused_at_ns) is not None:
        return Headline(Standing.STOPPED, f"Paused by an operator since {iso(paused_at_ns)}: nothing is sent")
    for question in URGENT_FIRST:
        answer: Answer = getattr(answers, question)
        if answer.attention is Attention.ACT and question == "complete" and not isinstance(coverage, Unknown):
            letters = "letter" if coverage.dead == 1 else "letters"
            return Headline(Standing.ATTENTION, f"Needs attention: {coverage.dead:,} dead {letters}")
        if answer.attention is Attention.ACT:
            return Headline(Standing.ATTENTION, f"Needs attention: not {question}: {answer.reason}")
    if answers.working.answer is YesNo.UNKNOWN:
        return Headline(Standing.UNKNOWN, f"Unknown: {answers.working.reason}")
    if facts is not None and answers.polite.answer is YesNo.UNKNOWN:
        return Headline(Standing.UNKNOWN, f"Unknown: {answers.polite.reason}")
    if is_down:
        return Headline(Standing.WAITING, f"Waiting for the provider: {answers.working.reason.removeprefix(HAS_BEEN)}")
    if answers.working.answer is YesNo.NO and facts is None:
        return Headline(Standing.STOPPED, f"Not running: {answers.working.reason}")
    if progress is not None and isinstance(coverage, Covered) and answers.complete.answer is YesNo.NO:
        if coverage.pending and facts is not None and facts.backfill is False:
            return Headline(Standing.WATCHING, f"Watching: the backfill is off, {coverage.pending:,} ids stay pending")
        if coverage.pending:
            return Headline(Standing.COLLECTING, f"Collecting: {_collecting(progress, facts)}")
    return _steady(answers, coverage)


def _collecting(progress: Progress, facts: SourceFacts | None) -> str:
    """During a long pause the end of the pause is told: the time left would be counted from a rate that no longer holds."""
    rate = facts.rate if facts is not None else None
    if rate is None or rate.next_held_by is not LimitedBy.RETRY_AFTER or rate.next_in_ns < WAIT_WORTH_TELLING_NS:
        return collecting_in_words(progress)
    return f"{_percent(progress)}; the provider asked for a pause until {iso(rate.at_ns + rate.next_in_ns)}"


def _steady(answers: Answers, coverage: Covered | CoveredList | Unknown) -> Headline:
    complete, fresh = answers.complete, answers.fresh
    if complete.answer is YesNo.YES and fresh.answer is YesNo.YES:
        return Headline(Standing.COMPLETE, "Complete and fresh")
    if complete.answer is YesNo.NO and not isinstance(coverage, Unknown) and coverage.pending:
        return Headline(Standing.COLLECTING, f"Collecting: {_still_to_fetch(coverage)}")
    if complete.answer is YesNo.NO:
        return Headline(Standing.COLLECTING, f"Not complete yet: {complete.reason}")
    if complete.answer is YesNo.UNKNOWN:
        return Headline(Standing.COLLECTING, f"Collecting: {complete.reason}")
    return Headline(Standing.COLLECTING, f"Complete; freshness: {fresh.reason}")


def _still_to_fetch(coverage: Covered | CoveredList) -> str:
    """`1,252 of 5,800 documents`, where the documents were counted."""
    if isinstance(coverage, CoveredList) and coverage.settled is not None:
        return f"{coverage.settled:,} of {coverage.listed:,} documents"
    return f"{coverage.pending:,} still to fetch"


def collecting_in_words(progress: Progress) -> str:
    """`63 %, about 51 s left`. Never rounded up to everything."""
    told = _percent(progress)
    if progress.is_learning:
        return f"{told}, learning the pace"
    return f"{told}, about {span(progress.left_ns)} left" if progress.left_ns is not None else told


def _percent(progress: Progress) -> str:
    percent = 100 * progress.done / progress.total
    return f"{int(percent)} %" if percent < 99 else f"{int(percent * 100) / 100:g} %"
