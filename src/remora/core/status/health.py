"""Is the service healthy? What a status means for monitoring: its severity, and the reasons why it is not healthy."""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from remora.core.status.model import Answer, Attention, SourceStatus, Status, YesNo
from remora.core.status.words import QUESTIONS


class Severity(IntEnum):
    """The exit code of a check."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def answers_of(status: SourceStatus) -> Mapping[str, Answer]:
    """The four answers by their question."""
    return {question: getattr(status.answers, question) for question in QUESTIONS}


def reasons_against_health(status: Status) -> tuple[str, ...]:
    """Why the service should not be called healthy; empty when it works for every source."""
    if not status.sources:
        return ("no source is configured",)
    return tuple(
        f"{name}: {word}: {answer.reason}"
        for name, source in status.sources.items()
        for word, answer in (("not working", source.answers.working), ("not fresh", source.answers.fresh))
        if answer.answer is YesNo.NO or (answer.answer is YesNo.UNKNOWN and word == "not working")
    )


def severity(status: Status) -> Severity:
    """The severity for monitoring. Critical outweighs unknown, unknown outweighs a warning."""
    found = {level for source in status.sources.values() for level in _severities(source)}
    order = (Severity.CRITICAL, Severity.UNKNOWN, Severity.WARNING, Severity.OK)
    return next((level for level in order if level in found), Severity.UNKNOWN)


def _severities(source: SourceStatus) -> Iterable[Severity]:
    answers = source.answers
    # Between two runs there is no rate. While a process runs, an unknown rate is a bad sign.
    is_in_the_dark = source.state == "running" and answers.polite.answer is YesNo.UNKNOWN
    if is_in_the_dark or answers.working.answer is YesNo.UNKNOWN:
        yield Severity.UNKNOWN
    if YesNo.NO in {answers.working.answer, answers.fresh.answer}:
        yield Severity.CRITICAL
    # A backfill in progress is no warning; what nobody repairs is.
    if answers.polite.answer is YesNo.NO or answers.complete.attention is Attention.ACT:
        yield Severity.WARNING
    yield Severity.OK
