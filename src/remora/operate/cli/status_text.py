"""How is the status shown in a terminal? Four answers first, then what limits the rate, then the numbers."""

from collections.abc import Iterator

from remora.core.quantities import format_rate, format_size
from remora.core.rate.gate_types import RateFacts
from remora.core.status.answers import ago, iso, span
from remora.core.status.covering import unconfirmed
from remora.core.status.health import answers_of
from remora.core.status.limits import lowered_in_words, quota_in_words, refusals_in_words, wait_in_words
from remora.core.status.model import (
    Attention,
    Covered,
    CoveredList,
    Disk,
    Fresh,
    NoStream,
    SourceStatus,
    Status,
    Unknown,
)
from remora.core.status.snapshot import GapTally, InboxFacts, RescanFacts, StreamFacts

LABEL_WIDTH = 11
RUN_COUNTS = {"pages": "pages walked", "entries": "entries seen", "requests": "requests"}
# The outcomes of a detail that was fetched.
FETCHED = ("new", "changed", "unchanged", "stale")


def render(status: Status) -> str:
    """The whole status as text."""
    blocks = ["\n".join(_source(name, source, status)) for name, source in status.sources.items()]
    if not blocks:
        return "no source is configured"
    return "\n\n".join([*blocks, *([] if status.disk is None else [f"disk  {disk_text(status.disk)}"])])


def disk_text(disk: Disk) -> str:
    """`12.4 MB, grows 1.2 GB a day, 48 GB free`; what is not known is left out."""
    told = [None if disk.size_bytes is None else format_size(disk.size_bytes), _growth(disk)]
    told.append(None if disk.free_bytes is None else f"{format_size(disk.free_bytes)} free")
    return ", ".join(words for words in told if words is not None)


def _growth(disk: Disk) -> str | None:
    if disk.growth_bytes_per_day is not None:
        return f"grows {format_size(disk.growth_bytes_per_day)} a day"
    if disk.grown_bytes is None or disk.grown_over_ns is None:
        return None
    return f"grew {format_size(disk.grown_bytes)} in {span(disk.grown_over_ns)}"


def _source(name: str, source: SourceStatus, status: Status) -> Iterator[str]:
    now_ns = status.as_of_ns
    doing = f", {source.doing}" if source.doing else ""
    yield f"{name}  {source.headline.text}"
    yield _line("process", f"{source.state.replace('_', ' ')}{doing}")
    if source.progress is not None:
        done = f"{source.progress.done:,} of {source.progress.total:,} ids"
        least = "at least " if source.progress.holds_more else ""
        yield _line("progress", f"{done}, {least}{source.progress.held:,} items held")
    elif isinstance(source.coverage, CoveredList) and source.coverage.settled is not None and source.coverage.listed:
        yield _line("progress", f"{source.coverage.settled:,} of {source.coverage.listed:,} documents are here")
    yield from _run_in_progress(source, now_ns)
    for question, answer in answers_of(source).items():
        word = "not yet" if answer.attention is Attention.WAIT else answer.answer
        is_waiting = word == "not yet" and not source.only_provider_is_down
        if question == "working" and source.state == "stopped" and is_waiting:
            word = "stopped"
        yield _line(f"{question}?", f"{word:<8}{answer.reason}")
    if source.account is not None:
        yield _line("account", _account(name, source.account, status))
    if source.orders.interval_ns is not None:
        yield _line("order", lowered_in_words(source.orders))
    yield _line("rate", rate_text(source.rate))
    if isinstance(source.rate, RateFacts):
        yield _line("limit", source.rate.limit)
        if (waits := wait_in_words(source.rate)) is not None:
            yield _line("", waits)
        if source.rate.quota is not None:
            yield _line("quota", quota_in_words(source.rate.quota, now_ns=now_ns))
        if (refusals := refusals_in_words(source.rate)) is not None:
            yield _line("refusals", refusals)
        if (back_off := source.rate.last_back_off) is not None:
            change = f"{format_rate(back_off.from_per_s)} to {format_rate(back_off.to_per_s)}"
            yield _line("back-off", f"{iso(back_off.at_ns)}, {back_off.reason}, from {change}")
    yield _line("coverage", _coverage(source.coverage))
    if isinstance(source.fresh, Fresh):
        yield _line("newest id", _newest_id(source.fresh, now_ns))
    if source.newest_refused is not None:
        yield _line("refused", unconfirmed(source.newest_refused))
    if isinstance(source.stream, StreamFacts):
        yield _line("stream", _stream(source.stream, now_ns))
    elif isinstance(source.stream, NoStream):
        yield _line("stream", source.stream.reason)
    if isinstance(source.inbox, InboxFacts) and (source.inbox.depth or source.inbox.bound):
        bound = f" of {source.inbox.bound:,}" if source.inbox.bound else ""
        yield _line("inbox", f"{source.inbox.depth:,}{bound} waiting")
    if isinstance(source.rescan, RescanFacts):
        yield _line("rescan", _rescan(source.rescan, now_ns))
    for gaps in source.gaps:
        told = f"{gaps.count:,} {gaps.state} ({gaps.reason}), oldest {iso(gaps.oldest_at_ns)}"
        yield _line("gaps", f"{told}{_next_attempt(gaps, source, now_ns)}")
    if source.next_run_at_ns is not None:
        why = f": {source.why_not_now}" if source.why_not_now else ""
        yield _line("next run", f"{iso(source.next_run_at_ns)}{why}")
    for run in [run for run in source.runs if run.phase is None][:1]:
        ended = f"ended {iso(run.ended_at_ns)} by {run.stopped_by}" if run.ended_at_ns else "no end recorded"
        yield _line("last run", f"{run.run_id}, started {iso(run.started_at_ns)}, {ended}")


def _run_in_progress(source: SourceStatus, now_ns: int) -> Iterator[str]:
    """The run in progress with its counts so far."""
    for run in source.runs[:1]:
        if run.phase is not None:
            counted = ", ".join(f"{run.counts.get(name, 0):,} {words}" for name, words in RUN_COUNTS.items())
            fetched = f"{sum(run.counts.get(outcome, 0) for outcome in FETCHED):,} details fetched"
            owed = "" if isinstance(source.coverage, Unknown) else f", {source.coverage.pending:,} still to fetch"
            yield _line("run", f"in progress for {span(now_ns - run.started_at_ns)}: {counted}, {fetched}{owed}")


def _account(name: str, account: str, status: Status) -> str:
    """The account, and which other sources share its gate."""
    others = [other for other, source in status.sources.items() if source.account == account and other != name]
    shared = f", shared with {', '.join(others)}" if others else ""
    return f"{account}{shared}: one ceiling, pace and quota for all its sources"


def _next_attempt(gaps: GapTally, source: SourceStatus, now_ns: int) -> str:
    """When the next attempt is: at a later time, now, or as soon as a process works on the source again."""
    if gaps.next_at_ns is None:
        return ""
    if gaps.next_at_ns > now_ns:
        return f", next attempt {iso(gaps.next_at_ns)}"
    if source.state == "running":
        return ", due now"
    return f", due with the next {'start' if source.budget is None else 'run'}"


def rate_text(rate: RateFacts | Unknown) -> str:
    """The rate, its ceiling and what limits it; or that it is unknown."""
    match rate:
        case Unknown(reason=reason, was_per_s=was):
            past = "" if was is None else f" (the pace was {format_rate(was)})"
            return f"unknown: {reason}{past}"
        case RateFacts():
            edge = "" if rate.edge_per_s is None else f", provider's limit about {format_rate(rate.edge_per_s)}"
            recent = "" if rate.recent_per_s is None else f"{format_rate(rate.recent_per_s)} sent, "
            limit = f"limited by {rate.limited_by.replace('_', ' ')}"
            ceiling = format_rate(rate.ceiling_per_s)
            told = f"{recent}{format_rate(rate.per_s)} allowed, ceiling {ceiling}{edge}, {limit}"
            return f"{told}, as of {iso(rate.at_ns)}"


def _coverage(coverage: Covered | CoveredList | Unknown) -> str:
    match coverage:
        case Unknown(reason=reason):
            return f"unknown: {reason}"
        case Covered():
            parts = {"not there yet": coverage.awaited, "absent, to be confirmed": coverage.unconfirmed}
            told = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
            awaited = f" ({told})" if told else ""
            return (
                f"ids {coverage.first_id:,} to {coverage.max_id:,}: {coverage.settled:,} here, "
                f"{coverage.pending:,} not fetched yet, {coverage.owed:,} waiting for a retry{awaited}, "
                f"{coverage.absent:,} absent, {coverage.gone:,} gone upstream, {coverage.dead:,} dead letters; "
                f"everything up to {coverage.frontier:,} was asked for"
            )
        case CoveredList():
            here = "" if coverage.settled is None else f"{coverage.settled:,} here, "
            return (
                f"{here}{coverage.pending:,} not fetched yet, {coverage.owed:,} waiting for a retry, "
                f"{coverage.absent:,} absent, {coverage.gone:,} gone upstream, {coverage.dead:,} dead letters"
            )


def _newest_id(fresh: Fresh, now_ns: int) -> str:
    told = f"told {_ago(fresh.newest_id_at_ns, now_ns)}"
    if fresh.went_back is None:
        return f"{_id(fresh.newest_id)}, {told}"
    return f"{_id(fresh.newest_id)} is here; the source reports {_id(fresh.went_back.told)}, {told}"


def _stream(stream: StreamFacts, now_ns: int) -> str:
    connected = "connected" if stream.connected else "not connected"
    byte, event = _ago(stream.last_byte_at_ns, now_ns), _ago(stream.last_event_at_ns, now_ns)
    return f"{connected}, last byte {byte}, last event {event}, {stream.reconnects:,} reconnect{'' if stream.reconnects == 1 else 's'}"


def _rescan(rescan: RescanFacts, now_ns: int) -> str:
    last = "running" if rescan.running else f"last finished {_ago(rescan.last_success_at_ns, now_ns)}"
    if not rescan.processed:
        return f"{last}, nothing was read again since the start"
    return f"{last}, {rescan.changed:,} of {rescan.processed:,} items had changed"


def _line(label: str, text: str) -> str:
    return f"  {label:<{LABEL_WIDTH}}{text}"


def _ago(at_ns: int | None, now_ns: int) -> str:
    return "never" if at_ns is None else ago(now_ns - at_ns)


def _id(item_id: int | None) -> str:
    return "unknown" if item_id is None else f"{item_id:,}"
