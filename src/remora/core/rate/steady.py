"""Which good answers change nothing but counts and averages?

Most answers come while the rate is fixed: it rests below the edge, or it is at the ceiling. Each of them needs the same
few sums, so a whole run of them costs one copy of the pace. They compare without calling `max`, which would cost a tenth
of the sums. `law.after` hears all others, and would give the same result for these.
"""

from collections.abc import Sequence
from math import ceil, exp

from remora.core.rate.constants import (
    ACCOUNT_MOST,
    BURST_MOST,
    DIP,
    HARDLY_ANY,
    LATENCY_HIGH,
    LATENCY_MEMORY,
    LIMIT_DIPS,
    MANY,
    MEMORY,
    OFTEN_BELIEVED,
    QUEUE_LONG_NS,
    STRAY_LEAST,
    TROUBLE_LEAST,
)
from remora.core.rate.pace import Answer, Answered, Pace, changed
from remora.core.units import SECOND_NS


def after_steady(pace: Pace, events: Sequence[Answered], first: int = 0) -> tuple[Pace, int]:
    """The pace after as many of these answers as change no rate, beginning with `first`, and how many they are."""
    rate, edges = pace.rate_per_s, pace.edges_per_s
    edge = edges[0] if edges else 0.0
    is_resting = edge * (1 - DIP) <= rate <= edge
    if not (is_resting or (not edges and rate == pace.ceiling_per_s)) or not _is_steady(pace):
        return pace, 0
    interval_ns = max(pace.ceiling_interval_ns, ceil(SECOND_NS / rate))
    limit_per_s = edge * (1 - LIMIT_DIPS * DIP)
    learned_at_ns, chain_ns, filled, account = pace.learned_at_ns, pace.chain_ns, pace.filled, pace.account
    latency_ns, baseline_ns, slow, slow_share = pace.latency_ns, pace.baseline_ns, pace.slow, pace.slow_share
    long_ns, last_cut_at_ns = max(QUEUE_LONG_NS, interval_ns), pace.last_cut_at_ns
    answered_at_ns, left_at_ns, gap_ns = pace.answered_at_ns, pace.left_at_ns, pace.gap_ns
    heard = 0
    for event in events if not first else events[first:]:
        departed_ns, now_ns = event.departed_at_ns, event.answered_at_ns
        if event.answer is not Answer.GOOD or event.quota is not None or departed_ns < last_cut_at_ns:
            break
        is_queue = slow > 0 and _may_be_queue(latency_ns, baseline_ns, slow, slow_share, long_ns)
        if event.pace_bound and (is_queue or (edge and account >= 0)):
            break  # the rate may be cut, or a probe may begin
        latency = float(now_ns - departed_ns) if now_ns > departed_ns else 1.0
        learned_at_ns = now_ns if event.pace_bound else learned_at_ns
        is_soon = event.pace_bound or departed_ns - left_at_ns < interval_ns
        since_ns = interval_ns if is_soon else departed_ns - left_at_ns
        may_burst = edge and (chain_ns >= 0 or filled > 0)
        filled = min(BURST_MOST, filled + since_ns * limit_per_s / SECOND_NS - 1) if may_burst else 0.0
        chained_ns = interval_ns if pace.refusal_limit is None else min(since_ns, HARDLY_ANY * interval_ns)
        chain_ns = chain_ns + chained_ns if chain_ns >= 0 else -1.0
        account = account + 1.0 if account < ACCOUNT_MOST - 1.0 else ACCOUNT_MOST
        gap = min(latency + interval_ns, now_ns - answered_at_ns if now_ns > answered_at_ns else 0.0)
        gap_ns = gap_ns + (gap - gap_ns) / LATENCY_MEMORY if gap_ns else gap
        latency_ns += (latency - latency_ns) / LATENCY_MEMORY
        if latency > LATENCY_HIGH * baseline_ns and latency - baseline_ns > long_ns:
            slow, slow_share = slow + 1, slow_share + (1 - slow_share) / MANY
        elif slow or slow_share:
            slow, slow_share = 0, slow_share - slow_share / MANY
        baseline_ns += (latency - baseline_ns) / (LATENCY_MEMORY if latency < baseline_ns else MEMORY)
        answered_at_ns, left_at_ns = now_ns, departed_ns
        heard += 1
    if not heard:
        return pace, 0
    return changed(
        pace,
        learned_at_ns=learned_at_ns,
        clean=pace.clean + heard,
        chain_good=pace.chain_good + heard,
        held=pace.held + heard,
        chain_ns=chain_ns,
        filled=filled,
        account=account,
        latency_ns=latency_ns,
        baseline_ns=baseline_ns,
        slow=slow,
        slow_share=slow_share,
        answered_at_ns=answered_at_ns,
        left_at_ns=left_at_ns,
        gap_ns=gap_ns,
    ), heard


def _may_be_queue(latency_ns: float, baseline_ns: float, slow: int, slow_share: float, long_ns: int) -> bool:
    """Do more answers take much longer than usual than chance explains? Then the law decides."""
    is_slow = latency_ns > LATENCY_HIGH * baseline_ns and latency_ns - baseline_ns > long_ns
    return is_slow and slow_share**slow < exp(-OFTEN_BELIEVED)


def _is_steady(pace: Pace) -> bool:
    """Is nothing under way that a good answer would carry on: a streak, a test, evidence, a quota or a queue?"""
    return not (
        pace.streak
        or pace.below_per_s
        or pace.evidence
        or pace.trouble_evidence
        or pace.quota_until_ns
        or pace.queued
        or pace.queue_ns
        or pace.stray_share > STRAY_LEAST
        or pace.trouble_share > TROUBLE_LEAST
        or not pace.latency_ns
        or not pace.baseline_ns
        or pace.rate_per_s >= 2 * pace.octave_per_s
    )
