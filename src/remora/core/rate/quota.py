"""What if the provider tells how many requests are left, and until when?

Then nothing is left to find out: what is left is spread over the time that is left, and nothing is sent into a window
that was announced as empty. The learned rate stays as a second limit; the slower of the two counts.
"""

from math import ceil

from remora.core.rate.pace import Answer, Answered, Pace, changed
from remora.core.verdict import RETRY_AFTER_MAX_NS


def told(pace: Pace, event: Answered) -> Pace:
    """The pace once an answer has told about the quota, or no longer does."""
    quota, now_ns = event.quota, event.answered_at_ns
    if quota is None:
        is_over = now_ns >= pace.quota_until_ns
        return changed(pace, quota_interval_ns=0, quota_until_ns=0) if is_over else pace
    if not 0 < quota.reset_in_ns <= RETRY_AFTER_MAX_NS or quota.remaining < 0:
        return pace  # no quota is like this: it was misread
    until_ns = now_ns + quota.reset_in_ns
    # The answer does not count what has left since its request did.
    on_its_way = max(0, now_ns - event.departed_at_ns) // pace.interval_ns
    left = quota.remaining - on_its_way
    if left > 0:
        return changed(pace, quota_interval_ns=ceil(quota.reset_in_ns / left), quota_until_ns=until_ns)
    return changed(
        pace, quota_interval_ns=0, quota_until_ns=until_ns, quiet_until_ns=max(pace.quiet_until_ns, until_ns)
    )


def is_used_up(event: Answered) -> bool:
    """Was this refused because a quota is used up? That says nothing about the rate."""
    return event.answer is Answer.REFUSED and event.quota is not None and event.quota.remaining == 0


def is_spread(pace: Pace) -> bool:
    """Is it a quota that was told, not the learned rate, that holds requests back?"""
    return pace.quota_interval_ns > 0 and pace.quota_interval_ns > pace.learned_interval_ns
