"""How fast do we send when the provider says how many requests are left, and until when?

There is nothing to learn then: the remaining requests are spread over the remaining time, and nothing is sent while the
quota is used up. The learned rate stays as a second limit; the slower of the two counts.
"""

from math import ceil

from remora.core.rate.pace import Answer, Answered, Pace, changed
from remora.core.verdict import RETRY_AFTER_MAX_NS


def told(pace: Pace, event: Answered) -> Pace:
    """The pace after an answer that says something about the quota, or no longer does."""
    quota, now_ns = event.quota, event.answered_at_ns
    if quota is None:
        is_over = now_ns >= pace.quota_until_ns
        return changed(pace, quota_interval_ns=0, quota_until_ns=0) if is_over else pace
    if not 0 < quota.reset_in_ns <= RETRY_AFTER_MAX_NS or quota.remaining < 0:
        return pace  # no real quota looks like this: it was misread
    until_ns = now_ns + quota.reset_in_ns
    # The answer does not count requests that were sent after its own.
    on_its_way = max(0, now_ns - event.departed_at_ns) // pace.interval_ns
    left = quota.remaining - on_its_way
    if left > 0:
        return changed(pace, quota_interval_ns=ceil(quota.reset_in_ns / left), quota_until_ns=until_ns)
    return changed(
        pace, quota_interval_ns=0, quota_until_ns=until_ns, quiet_until_ns=max(pace.quiet_until_ns, until_ns)
    )


def is_used_up(event: Answered) -> bool:
    """Was this refused because the quota is used up? Then it says nothing about the rate."""
    return event.answer is Answer.REFUSED and event.quota is not None and event.quota.remaining == 0


def is_spread(pace: Pace) -> bool:
    """Does a quota, not the learned rate, hold requests back?"""
    return bool(pace.quota_interval_ns) and pace.quota_interval_ns > pace.learned_interval_ns
