"""How does a status read in a terminal? Four answers first, then what limits the rate, then the numbers."""

from collections.abc import Iterator

from remora.core.status.answers import ago
from remora.core.status.health import answers_of
from remora.core.status.model import (
    Covered,
    CoveredList,
    Fresh,
    Gaps,
    Inbox,
    NoStream,
    Rate,
    Rescan,
    SourceStatus,
    Status,
    Stream,
    Unknown,
)
from remora.operate.config.quantities import format_rate

LABEL_WIDTH = 11


def render(status: Status) -> str:
    """The whole status as text."""
    blocks = ["\n".join(_source(name, source, status.as_of)) for name, source in status.sources.items()]
    return "\n\n".join(blocks) if blocks else "no source is configured"


def _source(name: str, source: SourceStatus, as_of: str) -> Iterator[str]:
    doing = f", {source.doing}" if source.doing else ""
    yield f"{name}  {source.state.replace('_', ' ')}{doing}"
    for question, answer in answers_of(source).items():
        yield _line(f"{question}?", f"{answer.answer:<8}{answer.reason}")
    yield _line("rate", rate_text(source.rate))
    if isinstance(source.rate, Rate) and source.rate.last_backoff is not None:
        back_off = source.rate.last_backoff
        change = f"{format_rate(back_off.from_per_second)} to {format_rate(back_off.to_per_second)}"
        yield _line("back-off", f"{back_off.at}, {back_off.reason}, from {change}")
    yield _line("coverage", _coverage(source.coverage))
    if isinstance(source.fresh, Fresh):
        yield _line("newest id", f"{_id(source.fresh.newest_id)}, heard of {_ago(source.fresh.age_s)}")
    if isinstance(source.stream, Stream):
        yield _line("stream", _stream(source.stream))
    elif isinstance(source.stream, NoStream):
        yield _line("stream", source.stream.reason)
    if isinstance(source.inbox, Inbox) and (source.inbox.depth or source.inbox.bound):
        bound = f" of {source.inbox.bound:,}" if source.inbox.bound else ""
        yield _line("inbox", f"{source.inbox.depth:,}{bound} waiting")
    if isinstance(source.rescan, Rescan):
        yield _line("rescan", _rescan(source.rescan))
    for gaps in source.gaps:
        told = f"{gaps.count:,} {gaps.state} ({gaps.reason}), oldest {gaps.oldest_at}"
        yield _line("gaps", f"{told}{_next_attempt(gaps, source, as_of)}")
    if source.next_run_at is not None:
        yield _line(
            "next run", f"{source.next_run_at}: {source.why_not_now}" if source.why_not_now else source.next_run_at
        )
    for run in source.runs[:1]:
        ended = f"ended {run.ended_at} by {run.stopped_by}" if run.ended_at else "still open"
        yield _line("last run", f"{run.run_id}, started {run.started_at}, {ended}")


def _next_attempt(gaps: Gaps, source: SourceStatus, as_of: str) -> str:
    """When it is asked for again: at a moment to come, now, or as soon as somebody works on the source again."""
    if gaps.next_attempt_at is None:
        return ""
    if gaps.next_attempt_at > as_of:
        return f", next attempt {gaps.next_attempt_at}"
    if source.state == "running":
        return ", due now"
    return f", due with the next {'start' if source.budget is None else 'run'}"


def rate_text(rate: Rate | Unknown) -> str:
    """The rate, its ceiling and what holds it there; unknown when nobody knows."""
    match rate:
        case Unknown(reason=reason, was=was):
            past = "" if was is None else f" (it was {format_rate(was)})"
            return f"unknown: {reason}{past}"
        case Rate():
            edge = "" if rate.edge_per_second is None else f", learned edge {format_rate(rate.edge_per_second)}"
            recent = "" if rate.recent_per_second is None else f", {format_rate(rate.recent_per_second)} leaving"
            limit = f"limited by {rate.limited_by.replace('_', ' ')}"
            ceiling = format_rate(rate.ceiling_per_second)
            told = f"{format_rate(rate.per_second)} allowed, ceiling {ceiling}{edge}{recent}, {limit}"
            return f"{told}, as of {rate.as_of}"


def _coverage(coverage: Covered | CoveredList | Unknown) -> str:
    match coverage:
        case Unknown(reason=reason):
            return f"unknown: {reason}"
        case Covered():
            awaited = f" ({coverage.awaited:,} not there yet)" if coverage.awaited else ""
            return (
                f"ids {coverage.first_id:,} to {coverage.max_id:,}: {coverage.settled:,} settled, "
                f"{coverage.pending:,} pending, {coverage.owed:,} owed{awaited}, {coverage.absent:,} absent, "
                f"{coverage.dead:,} dead; frontier {coverage.frontier:,}"
            )
        case CoveredList():
            return f"{coverage.pending:,} pending, {coverage.owed:,} owed, {coverage.absent:,} absent, {coverage.dead:,} dead"


def _stream(stream: Stream) -> str:
    connected = "connected" if stream.connected else "not connected"
    byte, event = _ago(stream.last_byte_age_s), _ago(stream.last_event_age_s)
    return f"{connected}, last byte {byte}, last event {event}, {stream.reconnects:,} reconnects"


def _rescan(rescan: Rescan) -> str:
    last = "running" if rescan.running else f"last finished {_ago(rescan.age_s)}"
    if not rescan.processed:
        return f"{last}, nothing was read again since the start"
    return f"{last}, {rescan.changed:,} of {rescan.processed:,} items had changed"


def _line(label: str, text: str) -> str:
    return f"  {label:<{LABEL_WIDTH}}{text}"


def _ago(age_s: float | None) -> str:
    return "never" if age_s is None else ago(age_s)


def _id(item_id: int | None) -> str:
    return "unknown" if item_id is None else f"{item_id:,}"
