"""Why is one owed item not here yet? The reason, the attempts, the next one, and what it waits for."""

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import ATTEMPTS_BEFORE_DEAD, LOOKS_AT_A_NEW_ID, LOOKS_AT_AN_OLD_ID, Gap, GapState, is_due
from remora.core.reasons import GapFamily, GapReason
from remora.core.status.answers import span
from remora.core.status.words import GAP_REASONS


def why_not_now(gap: Gap, *, now_ns: int) -> str:
    """One sentence for an operator."""
    left = span(gap.not_before_ns - now_ns)
    asked = f"{gap.attempts} attempt{'' if gap.attempts == 1 else 's'}, {GAP_REASONS[gap.reason]}"
    match gap.state:
        case GapState.DEAD:
            return f"given up for now after {asked}; tried again in {left}, or at once when you ask"
        case GapState.LEASED:
            return f"being fetched, or next in line; {asked}"
        case GapState.ABSENT:
            return f"absent: the provider said {gap.null_count} times that it has no such item"
        case GapState.GONE:
            return "deleted upstream; the last content is kept"
        case GapState.SETTLED:
            return "here"
        case GapState.OWED:
            return (
                f"{_waits_for(gap)}; {asked}; {'due now' if is_due(gap, now_ns=now_ns) else f'next attempt in {left}'}"
            )


def _waits_for(gap: Gap) -> str:
    if gap.reason is GapReason.NOT_FOUND and gap.kind is Kind.ITEM:
        looks = LOOKS_AT_A_NEW_ID if gap.near_newest else LOOKS_AT_AN_OLD_ID
        return f"absent, to be confirmed: {gap.null_count} of {looks} answers without it"
    match gap.reason.family:
        case GapFamily.PRESSURE:
            return "waits until the provider accepts more requests"
        case GapFamily.RUN_CAP:
            return "waits for the next run"
        case GapFamily.ITEM:
            return f"the provider refuses this one; a dead letter after attempt {ATTEMPTS_BEFORE_DEAD}"
        case GapFamily.TRANSPORT:
            return "waits until the provider answers again"
        case GapFamily.YOUNG:
            return "waits until the provider publishes it"
