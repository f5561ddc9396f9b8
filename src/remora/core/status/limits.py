"""What keeps the rate from being higher? The gate's record of the last seconds, and what only the ledger knows."""

from datetime import UTC, datetime

from remora.core.ledger.run import StoppedBy
from remora.core.quantities import format_rate
from remora.core.rate.gate_types import PACING, LimitedBy, QuotaFacts, RateFacts
from remora.core.reasons import GapFamily, GapReason
from remora.core.status.answers import has_nothing_yet, has_refused, iso, span
from remora.core.status.model import Covered, CoveredList, Unknown
from remora.core.status.snapshot import LedgerFacts, Orders, SourceFacts
from remora.core.status.thresholds import AT_THE_PACE, FAR_BELOW_THE_CEILING, WAIT_WORTH_TELLING_NS
from remora.core.status.words import LEARNING, LIMITS, WAITS
from remora.core.units import SECOND_NS


def what_limits(
    rate: RateFacts, facts: SourceFacts, ledger: LedgerFacts, coverage: Covered | CoveredList | Unknown
) -> tuple[LimitedBy, str]:
    """The cause, and a sentence that says it."""
    pending = 0 if isinstance(coverage, Unknown) else coverage.pending
    cause = gate_limit(rate)
    if facts.orders.paused_at_ns is not None:
        return LimitedBy.PAUSED, LIMITS[LimitedBy.PAUSED]
    if rate.limited_by in {LimitedBy.CEILING, LimitedBy.PACE} and rate.interval_ns <= (facts.orders.interval_ns or 0):
        return LimitedBy.CEILING, lowered_in_words(facts.orders)
    if has_nothing_yet(facts) and not has_refused(facts) and cause in {LimitedBy.NO_WORK, LimitedBy.ANSWERS}:
        cause = LimitedBy.NO_ANSWER
    elif cause is LimitedBy.NO_WORK and rate.provider_down is not None and not _may_probe_later(rate, facts):
        cause = LimitedBy.CIRCUIT  # nothing is asked for because nothing would be answered
    elif cause is LimitedBy.NO_WORK:
        cause = _why_idle(facts, ledger, pending)
    return cause, sentence(cause, edge_is_known=rate.edge_per_s is not None, pending=pending)


def lowered_in_words(orders: Orders) -> str:
    """That an operator lowered the ceiling, how far and until when."""
    assert orders.interval_ns is not None, "the ceiling is lowered"
    until = "" if orders.until_ns is None else f" until {iso(orders.until_ns)}"
    return f"An operator lowered the ceiling to {format_rate(SECOND_NS / orders.interval_ns)}{until}."


def _may_probe_later(rate: RateFacts, facts: SourceFacts) -> bool:
    """Whether the circuit breaker lets a probe pass, and only the next run has one to send."""
    return rate.circuit_wait_ns == 0 and facts.next_run_at_ns is not None


def gate_limit(rate: RateFacts) -> LimitedBy:
    """What the gate's record says, checked against what was really sent."""
    recent_per_s = rate.recent_per_s
    if recent_per_s is None:
        return rate.limited_by
    if rate.limited_by is LimitedBy.CPU and recent_per_s >= AT_THE_PACE * rate.per_s:
        return LimitedBy.CEILING if rate.interval_ns <= rate.ceiling_interval_ns else LimitedBy.PACE
    if rate.limited_by is LimitedBy.CEILING and recent_per_s < FAR_BELOW_THE_CEILING * rate.ceiling_per_s:
        others = {cause: share for cause, share in rate.held.items() if cause not in PACING}
        return max(others, key=lambda cause: others[cause], default=LimitedBy.NO_WORK)
    return rate.limited_by


def sentence(limited_by: LimitedBy, *, edge_is_known: bool = True, pending: int = 0) -> str:
    """The sentence for each cause."""
    if limited_by is LimitedBy.PACE and not edge_is_known:
        return LEARNING
    return LIMITS[limited_by].format(pending=f"{pending:,}")


def wait_in_words(rate: RateFacts) -> str | None:
    """Until when nothing is sent, and why; None if the next request is sent within seconds."""
    if rate.next_in_ns < WAIT_WORTH_TELLING_NS or rate.next_held_by is None:
        return None
    why = WAITS.get(rate.next_held_by, LIMITS[rate.next_held_by])
    if rate.next_held_by is LimitedBy.CIRCUIT and rate.provider_down is not None:
        why = f"{why}: {rate.provider_down.answers}"
    return f"waits {span(rate.next_in_ns)}, until {iso(rate.at_ns + rate.next_in_ns)}: {why}"


def quota_in_words(quota: QuotaFacts, *, now_ns: int) -> str:
    """What the provider still allows: `2,114 of 5,000 left until 14:05`, in UTC; with the date if that is not today."""
    until, now = (datetime.fromtimestamp(at_ns // SECOND_NS, UTC) for at_ns in (quota.until_ns, now_ns))
    of = "" if quota.limit is None else f" of {quota.limit:,}"
    day = "" if until.date() == now.date() else f"{until:%Y-%m-%d} "
    return f"{quota.remaining:,}{of} left until {day}{until:%H:%M}"


def refusals_in_words(rate: RateFacts) -> str | None:
    """How many refusals are still allowed, and by whose limit; None where there is no limit."""
    left, ban = rate.refusals_left, rate.ban
    if left is None:
        return None
    if ban is None:
        return f"{left:,} more allowed by the owner's limit"
    return (
        f"{left:,} more allowed: after {ban.refusals:,} refusals within about a minute the provider refused everything "
        f"for {span(ban.lasted_ns)}, so until {iso(ban.until_ns)} no more than {ban.most_per_min:,} a minute are risked; "
        "if you know what it tolerates, write a refusal_limit"
    )


def _why_idle(facts: SourceFacts, ledger: LedgerFacts, pending: int) -> LimitedBy:
    """No request reached the gate. That is "no work" only if nothing is pending."""
    if facts.next_run_at_ns is not None:
        return LimitedBy.BUDGET if pending and _stopped_by_a_cap(ledger) else LimitedBy.SCHEDULE
    if not pending:
        return LimitedBy.NO_WORK
    return LimitedBy.BY_CHOICE if facts.backfill is False else LimitedBy.NOT_ASKED


def _stopped_by_a_cap(ledger: LedgerFacts) -> bool:
    ended = [run for run in ledger.runs if run.ended_at_ns is not None]
    last = max(ended, key=lambda run: run.started_at_ns, default=None)
    caps = {StoppedBy(reason.value) for reason in GapReason if reason.family is GapFamily.RUN_CAP}
    return last is not None and last.stopped_by in caps
