"""Is the mirror complete, is it fresh, are we polite, is it working? An answer is yes, no or unknown, with a reason."""

from datetime import UTC, datetime
from typing import Final

from remora.core.ledger.newest_id import WentBack
from remora.core.ledger.run import RUNS_APART_LEAST_NS
from remora.core.rate.gate_types import RateFacts
from remora.core.reasons import GapReason
from remora.core.status.model import Answer, Attention, Covered, CoveredList, Fresh, FreshList, NoStream, Unknown, YesNo
from remora.core.status.snapshot import LedgerFacts, LoopFacts, Role, SourceFacts, StreamFacts
from remora.core.status.thresholds import (
    BAN_AFTER_NS,
    BARRED_AFTER_NS,
    BARRED_ANSWERS,
    INBOX_DEEP,
    NEWEST_ID_NOT_FRESH_NS,
    NEWEST_IDS_MISSED_NOT_FRESH,
    REFUSED_SHARE_NOT_POLITE,
    REQUESTS_TO_JUDGE,
    RUNS_MISSED_NOT_FRESH,
    STREAM_MAY_RECONNECT_NS,
    STREAM_SILENT_NOT_FRESH_NS,
)
from remora.core.units import MILLISECOND_NS, SECOND_NS

ALL_STAND_BY: Final = "every process stands by; one takes over when the lease of the last leader has ended"
RATE_LIMITED: Final = GapReason.RATE_LIMITED.replace("_", " ")


def newest_id_stale_after_ns(ledger: LedgerFacts) -> int:
    """After how long the newest id is out of date."""
    return max(NEWEST_ID_NOT_FRESH_NS, NEWEST_IDS_MISSED_NOT_FRESH * (ledger.poll_every_ns or 0))


def without_stream(ledger: LedgerFacts) -> NoStream:
    """What a numbered source without a stream of changes relies on instead."""
    instead = "changes are found by the rescan" if ledger.has_rescan else "changed items are not looked for"
    if ledger.has_change_list:
        missed = "" if ledger.has_rescan else ", and what it no longer shows is not looked for"
        instead = f"a list of changes is polled{missed}"
    if ledger.is_stream_too_dear:
        return NoStream(f"too dear: connects would use more than a tenth of the ceiling; ids are polled, {instead}")
    return NoStream(f"none declared; {instead}")


def is_complete(coverage: Covered | CoveredList | Unknown, fresh: Fresh | FreshList | Unknown) -> Answer:
    """Whether every item of the source is here, or known to be absent or gone. An unwalked list may hold anything.

    An old id that the provider answers with nothing is absent, to be confirmed: it is asked for again on its schedule,
    and it does not make the mirror incomplete.
    """
    if isinstance(coverage, Unknown):
        return Answer(YesNo.UNKNOWN, coverage.reason)
    unconfirmed = coverage.unconfirmed if isinstance(coverage, Covered) else 0
    owed = coverage.owed - coverage.awaited - unconfirmed
    missing = {"not fetched yet": coverage.pending, "waiting for a retry": owed, "dead": coverage.dead}
    open_counts = [f"{count:,} {word}" for word, count in missing.items() if count > 0]
    if open_counts:
        return Answer(YesNo.NO, ", ".join(open_counts))
    if isinstance(coverage, CoveredList) and isinstance(fresh, Unknown):
        return Answer(YesNo.UNKNOWN, fresh.reason)
    return Answer(YesNo.YES, _whole(coverage))


def is_fresh(
    fresh: Fresh | FreshList | Unknown,
    stream: StreamFacts | NoStream | Unknown,
    facts: SourceFacts | None,
    role: Role | None,
    *,
    now_ns: int,
) -> Answer:
    """Whether changes at the source reach the mirror."""
    broken = _broken(stream, now_ns=now_ns) if isinstance(stream, StreamFacts) else None
    match fresh:
        case Unknown(reason=reason):
            return Answer(YesNo.NO, broken) if broken and role is Role.SERVICE else Answer(YesNo.UNKNOWN, reason)
        case FreshList():
            return _is_list_fresh(fresh, now_ns=now_ns)
        case Fresh(newest_id_at_ns=newest_id_at_ns, stale_after_ns=stale_after_ns):
            if facts is not None and (why := down(facts, now_ns=now_ns)) is not None and role is Role.SERVICE:
                # Without this, a clock that was set back would keep the last answer young for as long as it was set back.
                return Answer(YesNo.NO, why)
            if fresh.went_back is not None and role is Role.SERVICE:
                return Answer(YesNo.NO, went_back_in_words(fresh, fresh.went_back, now_ns=now_ns))
            broken = broken or _unread(facts, stale_after_ns, now_ns=now_ns)
            answer = _is_fresh_now(now_ns - newest_id_at_ns, stale_after_ns, broken, stream, facts, role)
            is_settling = _was_just_lost(stream, now_ns=now_ns) or _is_just_back(facts, now_ns=now_ns)
            if answer.answer is YesNo.NO and is_settling:
                return Answer(answer.answer, answer.reason, Attention.WAIT)
            return answer


def _is_list_fresh(fresh: FreshList, *, now_ns: int) -> Answer:
    """A run may stop at what is known: it finds what is new, and not what was deleted further down."""
    age_ns = now_ns - fresh.walked_at_ns
    late = fresh.every_ns is not None and age_ns > RUNS_MISSED_NOT_FRESH * max(fresh.every_ns, RUNS_APART_LEAST_NS)
    whole = "the next run walks the whole list"
    if fresh.whole_walk_at_ns is not None:
        whole = f"the whole list was last walked {ago(now_ns - fresh.whole_walk_at_ns)}"
    return Answer(YesNo.NO if late else YesNo.YES, f"new entries were last looked for {ago(age_ns)}; {whole}")


def went_back_in_words(fresh: Fresh, went_back: WentBack, *, now_ns: int) -> str:
    """A source that reports far lower ids than it did. Nothing is deleted because of it."""
    told = f"for {span(now_ns - went_back.since_ns)} the source has reported a far lower newest id than before"
    return f"{told} ({went_back.told:,}, not {fresh.newest_id or 0:,}): is its cache frozen, or is it another API?"


def _is_fresh_now(
    age_ns: int,
    stale_after_ns: int,
    broken: str | None,
    stream: StreamFacts | NoStream | Unknown,
    facts: SourceFacts | None,
    role: Role | None,
) -> Answer:
    if role is Role.BACKFILL:
        return Answer(YesNo.UNKNOWN, "only a backfill runs; no process watches for changes")
    if age_ns > stale_after_ns:
        return Answer(YesNo.NO, f"the source last reported its newest id {ago(age_ns)}")
    if age_ns < -NEWEST_ID_NOT_FRESH_NS:  # clocks of two machines differ by less
        return Answer(YesNo.NO, "the clock was set back since the source last reported its newest id")
    if broken is not None:
        return Answer(YesNo.NO, broken)
    if facts is not None and facts.inbox is not None and facts.inbox.depth > INBOX_DEEP:
        return Answer(YesNo.NO, f"{facts.inbox.depth:,} changed items wait in the inbox", Attention.WAIT)
    changes = f"; stream: {stream.reason}" if isinstance(stream, NoStream) else ""
    return Answer(YesNo.YES, f"the source reported its newest id {ago(age_ns)}{changes}")


def is_polite(rate: RateFacts | None, *, silence: str | None) -> Answer:
    """Whether we keep the ceiling and the provider seldom refuses. Faults of the provider do not count against us."""
    if rate is None:
        return Answer(YesNo.UNKNOWN, silence or "the gate has not said anything yet")
    if rate.interval_ns < rate.ceiling_interval_ns:
        return Answer(YesNo.NO, "the pace is faster than the ceiling")
    if rate.wire_sends is not None and rate.wire_sends > rate.departures:
        return Answer(YesNo.NO, f"{rate.wire_sends - rate.departures:,} requests left without a permit")
    if rate.recent is not None and rate.recent.answers >= REQUESTS_TO_JUDGE:
        share = rate.recent.refused / rate.recent.answers
        told = f"{rate.recent.refused:,} of the last {rate.recent.answers:,} requests were refused ({share:.2%})"
        return Answer(YesNo.NO if share > REFUSED_SHARE_NOT_POLITE else YesNo.YES, told)
    return Answer(YesNo.YES, f"never faster than the ceiling of {rate.ceiling_per_s:,.4g}/s")


def down(facts: SourceFacts | None, *, now_ns: int) -> str | None:
    """Since when the provider is down, what it answers and when the next probe is; None while it is up."""
    rate = None if facts is None else facts.rate
    if facts is None or rate is None or rate.provider_down is None:
        return None
    since_ns = rate.provider_down.since_ns
    told = f"the provider has been down since {iso(since_ns)} ({span(now_ns - since_ns)}): {rate.provider_down.answers}"
    if now_ns - since_ns >= BAN_AFTER_NS and RATE_LIMITED in rate.provider_down.answers:
        told += _ban_hint(rate)
    wait_ns = rate.circuit_wait_ns
    if wait_ns is None:
        return f"{told}; a probe is under way"
    left_ns = max(wait_ns, rate.not_before_in_ns) - (now_ns - rate.at_ns)
    if left_ns >= SECOND_NS:
        return f"{told}; next probe in {span(left_ns)}"
    return f"{told}; next probe {'now' if facts.next_run_at_ns is None else 'with the next run'}"


def barred(rate: RateFacts | None, *, now_ns: int) -> str | None:
    """Since when the provider refuses every request, and what a person has to do; None while it does not."""
    found = None if rate is None else rate.barred
    if found is None or found.answers < BARRED_ANSWERS or now_ns - found.since_ns < BARRED_AFTER_NS:
        return None
    told = f"the provider has refused every request since {iso(found.since_ns)} ({found.reason}, {found.answers:,} in a row)"
    return f"{told}: check the token, then ask the provider whether this address is blocked{_ban_hint(rate)}"


def _ban_hint(rate: RateFacts | None) -> str:
    """What to write where a provider bans; nothing if it is written already."""
    if rate is None or rate.refusals_left is not None:
        return ""
    return "; if it bans whoever is refused too often, write a refusal_limit"


def is_working(
    facts: SourceFacts | None,
    *,
    silence: str | None,
    ended: bool,
    now_ns: int,
    rests: bool = False,
    all_stand_by: bool = False,
    failed: Answer | None = None,
) -> Answer:
    """Whether a process and all its loops are alive and the provider answers. Between two runs no process is needed.

    `failed`: the answer if the last run over a list failed.
    """
    if facts is None and rests:
        return failed or Answer(YesNo.YES, f"between runs: {silence}")
    if facts is None:
        return Answer(YesNo.NO if ended else YesNo.UNKNOWN, silence or "no process has worked on this source yet")
    if facts.missing_secret is not None:
        told = f"nothing is sent until the credential can be read: {facts.missing_secret}"
        return Answer(YesNo.NO, told, Attention.ACT)
    dead = [name for name, loop in sorted(facts.loops.items()) if not loop.alive]
    if dead:
        return Answer(YesNo.NO, f"not running: {', '.join(dead)}{_last_error(facts.loops[dead[0]])}")
    if facts.workers_alive == 0:
        return Answer(YesNo.NO, "no update worker is alive")
    if (why := down(facts, now_ns=now_ns)) is not None:
        return Answer(YesNo.NO, why)
    if (why := barred(facts.rate, now_ns=now_ns)) is not None:
        return Answer(YesNo.NO, why)
    if all_stand_by and facts.unanswered is not None:
        return Answer(YesNo.UNKNOWN, f"the store does not tell whether this process may begin: {facts.unanswered}")
    if all_stand_by:
        return Answer(YesNo.UNKNOWN, ALL_STAND_BY)
    if failed is not None:
        return failed
    if has_nothing_yet(facts):
        so_far = "has only refused requests" if has_refused(facts) else "has not answered"
        return Answer(YesNo.UNKNOWN, f"the provider {so_far} since the start")
    return Answer(YesNo.YES, facts.doing or "all loops are running")


def has_nothing_yet(facts: SourceFacts) -> bool:
    """Whether the process that watches a numbered source has had neither its newest id nor any other good answer."""
    recent = facts.rate.recent if facts.rate else None
    answered = recent is not None and recent.answers > recent.failed + recent.refused
    return facts.backfill is not None and facts.newest_id_at_ns is None and not answered


def has_refused(facts: SourceFacts) -> bool:
    """Whether the provider refused a request of the last seconds."""
    return facts.rate is not None and facts.rate.recent is not None and facts.rate.recent.refused > 0


def iso(at_ns: int) -> str:
    """A moment as UTC text, to the millisecond."""
    moment = datetime.fromtimestamp(at_ns // SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % SECOND_NS // MILLISECOND_NS:03d}Z"


def iso_or_none(at_ns: int | None) -> str | None:
    """A moment that may never have come."""
    return iso(at_ns) if at_ns else None


def ago(age_ns: int) -> str:
    """How long ago, as a person would say it."""
    return f"{span(age_ns)} ago" if age_ns >= SECOND_NS else "just now"


def span(length_ns: int) -> str:
    """A span in its largest fitting unit: exact enough to judge, short enough to read at a glance."""
    whole = max(0, length_ns) // SECOND_NS
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size:,} {unit}"
    return f"{whole} s"


def _whole(coverage: Covered | CoveredList) -> str:
    match coverage:
        case Covered():
            awaited = f", {coverage.awaited:,} of the newest are awaited" if coverage.awaited else ""
            checked = f", {coverage.unconfirmed:,} of them absent, to be confirmed" if coverage.unconfirmed else ""
            ids = f"every id from {coverage.first_id:,} to {coverage.max_id:,}"
            return f"{ids} is settled, absent or gone{checked}{awaited}"
        case CoveredList():
            return "every entry that the list showed is here"


def _was_just_lost(stream: StreamFacts | NoStream | Unknown, *, now_ns: int) -> bool:
    """Whether a stream ended moments ago: it is opened again, or the circuit breaker soon says that the provider is down."""
    if not isinstance(stream, StreamFacts) or stream.connected or stream.last_byte_at_ns is None:
        return False
    return now_ns - stream.last_byte_at_ns < STREAM_MAY_RECONNECT_NS


def _is_just_back(facts: SourceFacts | None, *, now_ns: int) -> bool:
    """Whether the provider was down until moments ago: the stream and the newest id need some seconds."""
    back_at_ns = None if facts is None or facts.rate is None else facts.rate.provider_back_at_ns
    return back_at_ns is not None and 0 <= now_ns - back_at_ns < STREAM_MAY_RECONNECT_NS


def _broken(stream: StreamFacts, *, now_ns: int) -> str | None:
    if not stream.connected:
        return "the stream of changes is not connected"
    if stream.last_byte_at_ns is not None and now_ns - stream.last_byte_at_ns > STREAM_SILENT_NOT_FRESH_NS:
        return f"the stream of changes has been silent for {span(now_ns - stream.last_byte_at_ns)}"
    return None


def _unread(facts: SourceFacts | None, stale_after_ns: int, *, now_ns: int) -> str | None:
    """A list of changes is polled as often as the newest id, and is out of date after the same time."""
    since_ns = None if facts is None else facts.changes_unread_since_ns
    if since_ns is None or now_ns - since_ns <= stale_after_ns:
        return None
    return (
        f"the list of changes could not be read for {span(now_ns - since_ns)}: updates_list_unread in the log says why"
    )


def _last_error(loop: LoopFacts) -> str:
    return f" ({loop.last_error})" if loop.last_error else ""
