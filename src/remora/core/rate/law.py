"""How fast may we send, given how the last requests were answered?

The law is a pure function of (pace, answer, time). The owner sets one number, the ceiling. The law looks for the
*edge*, the rate at which the provider refuses. It rests a *dip* below the edge and climbs to it again only as often as
the *account*, the budget for probing, allows. `edges.py` says what a refusal means, `outage.py` how to come back after
being shut out, `probing.py` what probing costs, `constants.py` why each number has its value.
"""

from collections.abc import Sequence
from math import exp, log, sqrt

from remora.core.rate.constants import (
    A_FEW,
    ACCELERATION,
    ACCOUNT_MOST,
    CAREFUL,
    COLD_START_PER_S,
    DENSE_SHARE,
    DIP,
    ELSEWHERE,
    FAR,
    FAR_BELOW,
    HARDLY_ANY,
    LATENCY_HIGH,
    LATENCY_MEMORY,
    MANY,
    MEMORY,
    MORE_PER_ROUND_TRIP,
    OFTEN_BELIEVED,
    QUEUE_CUT,
    QUEUE_LONG_NS,
    REST_CHARGE,
    ROUND_TRIPS_PER_DOUBLING,
    STRAY_LEAST,
    STRAYS_CREDIT,
    STRAYS_USUAL,
    TROUBLE_LEAST,
    TROUBLE_MOST,
    TROUBLE_RATIO,
)
from remora.core.rate.edges import is_test_passed, passed_test, refused
from remora.core.rate.last_refusal import counted, is_one_left
from remora.core.rate.outage import resumed
from remora.core.rate.pace import (
    Answer,
    Answered,
    ChangeKind,
    Pace,
    PaceChange,
    Quota,
    changed,
    cold_start,
    cut,
    describe,
    remember,
)
from remora.core.rate.probing import charged, filled, is_far_below, is_probing, may_be_a_burst, moved, price
from remora.core.rate.quota import is_spread, is_used_up, told
from remora.core.rate.steady import after_steady
from remora.core.units import SECOND_NS

__all__ = [
    "Answer",
    "Answered",
    "ChangeKind",
    "Pace",
    "PaceChange",
    "Quota",
    "after",
    "after_any",
    "after_many",
    "cold_start",
    "describe",
]


def after(pace: Pace, event: Answered) -> Pace:
    """The pace after this answer."""
    steady, heard = after_steady(pace, (event,))
    return steady if heard else after_any(pace, event)


def after_many(pace: Pace, events: Sequence[Answered]) -> Pace:
    """The pace after these answers. The same as one `after` for each, but a run of good answers costs a fraction."""
    first = 0
    while first < len(events):
        pace, heard = after_steady(pace, events, first)
        first += heard
        if first < len(events):
            pace = after_any(pace, events[first])
            first += 1
    return pace


def after_any(pace: Pace, event: Answered) -> Pace:
    """The pace after this answer, by the general way."""
    if event.quota is not None or pace.quota_until_ns:
        pace = told(pace, event)
        if is_used_up(event):
            return pace
    match event.answer:
        case Answer.GOOD:
            return _good(pace, event)
        case Answer.REFUSED:
            return counted(refused(pace, event), event, is_stale=event.departed_at_ns < pace.last_cut_at_ns)
        case Answer.TROUBLED:
            return _troubled(pace, event)


def _good(pace: Pace, event: Answered) -> Pace:
    if event.departed_at_ns < pace.last_cut_at_ns:
        return _counted(pace)
    if pace.streak:
        pace = resumed(pace, event)
    pace = _reassured(pace, event)
    if pace.queued >= A_FEW:
        return _queued(pace, event)
    return passed_test(pace) if is_test_passed(pace) else pace


def _counted(pace: Pace) -> Pace:
    """An answer to a request that was sent before the last cut only counts as accepted."""
    if pace.refusal_limit is not None and pace.streak > 1 and not pace.wait_ns:
        pace = changed(pace, streak=1)  # the provider takes something: no outage
    if pace.chain_ns < 0 or pace.wait_ns:
        return pace
    return changed(pace, chain_good=pace.chain_good + 1, chain_ns=pace.chain_ns + pace.interval_ns)


def _reassured(pace: Pace, event: Answered) -> Pace:
    """After a good answer all evidence fades a little, the account grows, and the rate may take one step up."""
    edges, strays, faults = pace.edges_per_s, pace.stray_share, pace.trouble_share
    at_rest = not is_probing(pace)
    latency = float(max(1, event.answered_at_ns - event.departed_at_ns))
    # A gap longer than an answer takes is idleness, not a queue.
    interval_ns = pace.interval_ns
    gap = min(latency + interval_ns, max(0.0, event.answered_at_ns - pace.answered_at_ns))
    baseline = pace.baseline_ns or latency
    baseline += (latency - baseline) / (LATENCY_MEMORY if latency < baseline else MEMORY)
    slow = pace.baseline_ns > 0 and _is_slow(pace, latency)
    queueing = _is_queueing(pace)
    climbs = event.pace_bound and not queueing and not is_spread(pace) and not _fills_limit(pace, event)
    rate, edges = _raised(pace) if climbs else (pace.rate_per_s, edges)
    # The time before this request: an interval, or more if there was nothing to send.
    since_ns = interval_ns if event.pace_bound else max(interval_ns, event.departed_at_ns - pace.left_at_ns)
    chained_ns = interval_ns if pace.refusal_limit is None else min(since_ns, HARDLY_ANY * interval_ns)
    # Fast path: one copy for all changes.
    return changed(
        pace,
        rate_per_s=rate,
        octave_per_s=rate if rate >= 2 * pace.octave_per_s else pace.octave_per_s,
        edges_per_s=edges,
        learned_at_ns=event.answered_at_ns if climbs else pace.learned_at_ns,
        clean=pace.clean + 1,
        chain_good=pace.chain_good + 1,
        chain_ns=pace.chain_ns + chained_ns if pace.chain_ns >= 0 else -1.0,
        filled=filled(pace, for_ns=since_ns, taken=1),
        account=min(ACCOUNT_MOST, pace.account + 1.0),
        held=0 if edges != pace.edges_per_s or _is_left_behind(edges, rate) else pace.held + 1,
        evidence=max(0.0, pace.evidence - (DENSE_SHARE - strays)) if pace.evidence else 0.0,
        # The share of strays is measured at rest, where no probe causes a refusal.
        stray_share=max(STRAY_LEAST, strays * (1 - 1 / MEMORY)) if at_rest and strays > STRAY_LEAST else strays,
        trouble_share=max(TROUBLE_LEAST, faults * (1 - 1 / MEMORY)) if faults > TROUBLE_LEAST else faults,
        trouble_evidence=_calmer(pace) if pace.trouble_evidence else 0.0,
        latency_ns=pace.latency_ns + (latency - pace.latency_ns) / LATENCY_MEMORY if pace.latency_ns else latency,
        baseline_ns=baseline,
        slow=pace.slow + 1 if slow else 0,
        slow_share=pace.slow_share + (slow - pace.slow_share) / MANY,
        answered_at_ns=event.answered_at_ns,
        left_at_ns=event.departed_at_ns,
        gap_ns=pace.gap_ns + (gap - pace.gap_ns) / LATENCY_MEMORY if pace.gap_ns else gap,
        queued=pace.queued + 1 if queueing and event.pace_bound and _is_lasting(pace) else 0,
        queue_ns=pace.queue_ns if queueing else 0.0,
    )


def _fills_limit(pace: Pace, event: Answered) -> bool:
    """Does the owner's limit on refusals forbid to climb? One refusal is left, or as many are in flight as it allows."""
    limit = pace.refusal_limit
    if limit is None:
        return False
    is_full = pace.rate_per_s * pace.latency_ns > limit.most * SECOND_NS
    return is_full or is_one_left(pace, now_ns=event.answered_at_ns)


def _is_left_behind(edges_per_s: tuple[float, ...], rate_per_s: float) -> bool:
    """Is the rate so far above the edge that the edge no longer holds?"""
    return bool(edges_per_s) and rate_per_s > edges_per_s[0] * FAR


def _raised(pace: Pace) -> tuple[float, tuple[float, ...]]:
    """The rate one additive step up, and the edges that are left. Steps are smaller near an edge."""
    edges = pace.edges_per_s
    rate = pace.rate_per_s + _step(pace)
    if not edges or rate <= edges[0]:
        return min(rate, pace.ceiling_per_s), edges
    is_careful = not is_far_below(pace) and pace.outage_ns * edges[0] / SECOND_NS > CAREFUL
    if is_careful:
        # The last outage was expensive: do not accelerate. If it ended about when it was told to, the next one will, too.
        successes = A_FEW if pace.outage_ns < 2 * pace.asked_ns else 2 * A_FEW
        rate = min(rate, pace.rate_per_s * (1 + DIP / successes))
    if (is_careful or is_far_below(pace)) and _is_left_behind(edges, rate):
        # There the edge no longer holds once it is passed: it follows the rate.
        edges = remember(edges, rate / FAR)
    return min(rate, pace.ceiling_per_s), edges


def _step(pace: Pace) -> float:
    rate, edges = pace.rate_per_s, pace.edges_per_s
    may_climb = not edges or (not pace.below_per_s and (pace.account >= 0 or pace.account >= -_may_owe(pace)))
    rest = edges[0] * (1 - DIP) if edges else 0.0
    if not may_climb and rest <= rate < edges[0] * (1 + DIP):
        return 0.0  # fast path: at rest
    in_a_round_trip = rate * pace.latency_ns / SECOND_NS
    step = pace.octave_per_s / max(A_FEW, ROUND_TRIPS_PER_DOUBLING * in_a_round_trip)
    step = min(step, MORE_PER_ROUND_TRIP * rate / max(1.0, in_a_round_trip) ** 2)
    if may_climb and rate < pace.best_per_s / FAR_BELOW and is_far_below(pace):
        return step  # as in discovery: at the edge's own steps it would take days
    for edge in edges:
        distance = (edge - rate) / A_FEW if rate < edge else (rate - edge) / ACCELERATION
        step = min(step, max(distance, edge * DIP / MANY))
    if edges and rate >= edges[0] * (1 + ELSEWHERE) and may_be_a_burst(pace):
        step = 0.0
    return min(step, rest - rate) if not may_climb and rate < rest else step


def _may_owe(pace: Pace) -> float:
    """Where strays are usual, probes did not cause most refusals: some may be owed."""
    return STRAYS_CREDIT * price(pace) if pace.stray_share > STRAYS_USUAL else 0.0


def _is_queueing(pace: Pace) -> bool:
    """Do more answers take much longer than usual than chance explains?"""
    return _is_slow(pace, pace.latency_ns) and pace.slow_share**pace.slow < exp(-OFTEN_BELIEVED)


def _is_lasting(pace: Pace) -> bool:
    """Have slow answers come for some time? After a standstill many come at once, and the next ones are quick again."""
    return pace.slow * pace.gap_ns >= QUEUE_LONG_NS


def _is_slow(pace: Pace, latency_ns: float) -> bool:
    if latency_ns <= LATENCY_HIGH * pace.baseline_ns:
        return False
    return latency_ns - pace.baseline_ns > max(QUEUE_LONG_NS, pace.interval_ns)


def _queued(pace: Pace, event: Answered) -> Pace:
    """Answers take much longer because we send more than is served: cut once per round trip until the queue drains."""
    if pace.latency_ns > pace.queue_ns > 0:
        # The last cut did not help: the provider has become slower, it is not our queue. The edge is in doubt.
        return changed(pace, baseline_ns=pace.latency_ns, account=max(0.0, pace.account), queued=0, queue_ns=0.0)
    rate, edges = pace.rate_per_s, pace.edges_per_s
    # At most an octave at once: after a short stall all answers come together although none was queued.
    served = edge = min(rate, max(rate / 2, SECOND_NS / max(1.0, pace.gap_ns)))
    if edges and not is_probing(pace) and pace.held >= MANY and not pace.below_per_s:
        # At a rate that has held, a longer queue is chance or somebody else's load. It passes, and the edge stays.
        edge = edges[0]
        pace = charged(pace, REST_CHARGE)
    else:
        pace = charged(pace, 1.0)
        if edges and edges[0] / FAR < edge < edges[0] * FAR:
            served = edge = min(rate, sqrt(edge * edges[0]))
        elif edges:
            pace = moved(pace, edges[0])
    # A running test ends: the queue hides its result.
    pace = changed(pace, edges_per_s=remember(edges, edge), below_per_s=0.0, queued=0, queue_ns=pace.latency_ns)
    return cut(pace, max(_least(pace), served * QUEUE_CUT), event.answered_at_ns)


def _least(pace: Pace) -> float:
    """The lowest rate after faults or a queue: that of a cold start. Coming back from a lower one would take hours."""
    return min(pace.rate_per_s, COLD_START_PER_S)


def _troubled(pace: Pace, event: Answered) -> Pace:
    """A single fault is not pressure. If faults are clearly more frequent than usual, cut once."""
    if event.departed_at_ns < pace.last_cut_at_ns:
        return pace
    usual = pace.trouble_share
    evidence = pace.trouble_evidence + log(_much_trouble(usual) / usual)
    share = min(TROUBLE_MOST / TROUBLE_RATIO, usual + (1 - usual) / MEMORY)
    if evidence < OFTEN_BELIEVED:
        return changed(pace, trouble_share=share, trouble_evidence=evidence)
    pace = changed(pace, trouble_share=share, trouble_evidence=0.0)
    return cut(pace, max(_least(pace), pace.rate_per_s / 2), event.answered_at_ns)


def _calmer(pace: Pace) -> float:
    """The evidence of trouble after a good answer."""
    usual = pace.trouble_share
    return max(0.0, pace.trouble_evidence - (_much_trouble(usual) - usual))


def _much_trouble(usual: float) -> float:
    return min(TROUBLE_MOST, TROUBLE_RATIO * usual)
