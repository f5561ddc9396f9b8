"""Is the copy complete, is it fresh, are we polite, is it working? Four answers, each yes, no or unknown, with a reason."""

from typing import Final

from remora.core.rate.gate_types import LimitedBy
from remora.core.status.model import Answer, Covered, CoveredList, Fresh, FreshList, NoStream, Stream, Unknown, YesNo
from remora.core.status.snapshot import LedgerFacts, LoopFacts, RateFacts, Role, SourceFacts
from remora.core.units import SECOND_NS

# The newest id is asked for every 15 s, or as often as the owner says: four missed questions are too many.
NEWEST_ID_STALE_S: Final = 60.0
NEWEST_IDS_MISSED: Final = 4
# A run that took long or was held back may miss its turn once, not more.
RUNS_MISSED: Final = 3
STREAM_SILENT_S: Final = 60.0
# Falling behind on new items, and a reader that cannot keep up.
LAG_TOO_FAR: Final = 50_000
INBOX_TOO_DEEP: Final = 2_000
# The law keeps refusals under 0.4 percent in steady state; several times that is not polite.
REFUSED_SHARE_TOO_HIGH: Final = 0.02
REQUESTS_TO_JUDGE: Final = 50


def newest_id_stale_s(ledger: LedgerFacts) -> float:
    """After how long a newest id says nothing about now."""
    return max(NEWEST_ID_STALE_S, NEWEST_IDS_MISSED * (ledger.poll_every_ns or 0) / SECOND_NS)


def without_stream(ledger: LedgerFacts) -> NoStream:
    """What a numbered source without a stream of changes relies on instead."""
    instead = "changes are found by the rescan" if ledger.has_rescan else "changed items are not looked for"
    return NoStream(f"none declared; {instead}")


def is_complete(coverage: Covered | CoveredList | Unknown, fresh: Fresh | FreshList | Unknown) -> Answer:
    """Whether everything the source has is here, or known to be absent. A list nobody walked may hold anything."""
    if isinstance(coverage, Unknown):
        return Answer(YesNo.UNKNOWN, coverage.reason)
    missing = {"pending": coverage.pending, "owed": coverage.owed - coverage.awaited, "dead": coverage.dead}
    open_counts = [f"{count:,} {word}" for word, count in missing.items() if count > 0]
    if open_counts:
        return Answer(YesNo.NO, ", ".join(open_counts))
    if isinstance(coverage, CoveredList) and isinstance(fresh, Unknown):
        return Answer(YesNo.UNKNOWN, fresh.reason)
    return Answer(YesNo.YES, _whole(coverage))


def is_fresh(
    fresh: Fresh | FreshList | Unknown,
    stream: Stream | NoStream | Unknown,
    facts: SourceFacts | None,
    role: Role | None,
) -> Answer:
    """Whether changes at the source reach the copy."""
    match fresh:
        case Unknown(reason=reason):
            broken = _broken(stream) if role is Role.SERVICE and isinstance(stream, Stream) else None
            return Answer(YesNo.NO, broken) if broken else Answer(YesNo.UNKNOWN, reason)
        case FreshList(age_s=age_s, every_s=every_s):
            late = every_s is not None and age_s > RUNS_MISSED * every_s
            return Answer(YesNo.NO if late else YesNo.YES, f"the whole list was last walked {ago(age_s)}")
        case Fresh():
            return _is_fresh_now(fresh, stream, facts, role)


def _is_fresh_now(
    fresh: Fresh, stream: Stream | NoStream | Unknown, facts: SourceFacts | None, role: Role | None
) -> Answer:
    if role is Role.BACKFILL:
        return Answer(YesNo.UNKNOWN, "only a backfill runs; nobody watches for changes")
    if fresh.age_s > fresh.stale_after_s:
        return Answer(YesNo.NO, f"the newest id was last heard of {ago(fresh.age_s)}")
    if isinstance(stream, Stream) and (why := _broken(stream)):
        return Answer(YesNo.NO, why)
    if facts is not None and facts.inbox is not None and facts.inbox.depth > INBOX_TOO_DEEP:
        return Answer(YesNo.NO, f"{facts.inbox.depth:,} changed items wait in the inbox")
    changes = f"; stream: {stream.reason}" if isinstance(stream, NoStream) else ""
    return Answer(YesNo.YES, f"the newest id was heard of {ago(fresh.age_s)}{changes}")


def is_polite(rate: RateFacts | None, *, silence: str | None) -> Answer:
    """Whether we stay below the ceiling and the provider seldom has to refuse."""
    if rate is None:
        return Answer(YesNo.UNKNOWN, silence or "the governor has not said anything yet")
    if rate.interval_ns < rate.ceiling_interval_ns:
        return Answer(YesNo.NO, "the pace is faster than the ceiling")
    if rate.wire_sends is not None and rate.wire_sends > rate.departures:
        return Answer(YesNo.NO, f"{rate.wire_sends - rate.departures:,} requests left without a permit")
    if rate.circuit != "closed":
        return Answer(YesNo.NO, f"the circuit is {rate.circuit.replace('_', ' ')}: the provider is under pressure")
    requests, refused = rate.recent_requests, rate.recent_refused
    if requests is not None and refused is not None and requests >= REQUESTS_TO_JUDGE:
        share = refused / requests
        told = f"{refused:,} of the last {requests:,} requests were refused ({share:.2%})"
        return Answer(YesNo.NO if share > REFUSED_SHARE_TOO_HIGH else YesNo.YES, told)
    ceiling = SECOND_NS / rate.ceiling_interval_ns
    return Answer(YesNo.YES, f"never faster than the ceiling of {ceiling:,.4g}/s")


def what_limits(limited_by: LimitedBy, *, edge_is_known: bool = True) -> str:
    """What holds the rate where it is, as a sentence. One for each of the closed set."""
    match limited_by:
        case LimitedBy.CEILING:
            return "At the ceiling: as fast as its owner allows, and never faster."
        case LimitedBy.PACE if not edge_is_known:
            return "The pace is being learned: it rises for as long as the provider refuses nothing."
        case LimitedBy.PACE:
            return "The learned pace holds it: faster than this, the provider would refuse."
        case LimitedBy.RETRY_AFTER:
            return "The provider asked for a pause. Nothing leaves until it is over."
        case LimitedBy.CIRCUIT:
            return "The circuit is open: the provider is in trouble, and is left alone before one careful probe."
        case LimitedBy.NO_WORK:
            return "Nothing waits: everything there is to ask for was asked for."
        case LimitedBy.IN_FLIGHT:
            return "Answers are slow: as many requests are under way as are allowed."
        case LimitedBy.STORE:
            return "It waits for the store, which must keep what was learned before more may leave."
        case LimitedBy.BUDGET:
            return "The budget of this run is used up."


def is_working(facts: SourceFacts | None, *, silence: str | None, ended: bool, rests: bool = False) -> Answer:
    """Whether a runtime is alive and all its loops are. Between two bounded runs nothing has to be."""
    if facts is None and rests:
        return Answer(YesNo.YES, f"between runs: {silence}")
    if facts is None:
        return Answer(YesNo.NO if ended else YesNo.UNKNOWN, silence or "no runtime has beaten for this source yet")
    dead = [name for name, loop in sorted(facts.loops.items()) if not loop.alive]
    if dead:
        return Answer(YesNo.NO, f"not running: {', '.join(dead)}{_last_error(facts.loops[dead[0]])}")
    if facts.workers_alive == 0:
        return Answer(YesNo.NO, "no update worker is alive")
    return Answer(YesNo.YES, facts.doing or "all loops are running")


def ago(age_s: float) -> str:
    """How long ago, as a person would say it."""
    return f"{span(age_s)} ago" if age_s >= 1 else "just now"


def span(seconds: float) -> str:
    """A span in its largest fitting unit: exact enough to judge by, short enough to read at a glance."""
    whole = int(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size:,} {unit}"
    return f"{whole} s"


def _whole(coverage: Covered | CoveredList) -> str:
    match coverage:
        case Covered():
            awaited = f", {coverage.awaited:,} of the newest are awaited" if coverage.awaited else ""
            return f"every id from {coverage.first_id:,} to {coverage.max_id:,} is settled or absent{awaited}"
        case CoveredList():
            return "every entry that the list showed is here"


def _broken(stream: Stream) -> str | None:
    if not stream.connected:
        return "the stream of changes is not connected"
    if stream.last_byte_age_s is not None and stream.last_byte_age_s > STREAM_SILENT_S:
        return f"the stream of changes has been silent for {span(stream.last_byte_age_s)}"
    return None


def _last_error(loop: LoopFacts) -> str:
    return f" ({loop.last_error})" if loop.last_error else ""
