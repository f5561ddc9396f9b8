"""What may probing the edge cost, and how much does one refusal say?

Cost is counted in good answers. A refusal has a price, which the next good answers must earn before the next probe.
The longer an edge has held, the longer it is likely to hold, so the price grows with its age. Where edges are known to
move, the price stays low. A refusal says little where refusals come by chance.
"""

from remora.core.rate.constants import (
    A_FEW,
    ACCOUNT_AFTER_A_CHANGE,
    ACCOUNT_AFTER_REFUSALS,
    BURST_MOST,
    BURST_NOISE,
    DENSE_SHARE,
    DIP,
    ELSEWHERE,
    FAR,
    FAR_BELOW,
    LIMIT_DIPS,
    MANY,
    MEMORY,
    PRICE_AGE,
    PRICE_HELD,
    PRICE_LASTED,
    PRICE_MOST,
    REFUSALS_SPARED,
    REGULAR,
    REST_MARGIN,
    SAME_PLACE,
    STRAY_LEAST,
    STRAY_MOST,
    STRAY_WEIGHT,
    STRAYS_DOUBTED,
    STRAYS_USUAL,
)
from remora.core.rate.pace import Pace, changed
from remora.core.units import SECOND_NS


def is_probing(pace: Pace) -> bool:
    """Is the rate above the edge, or nearer to it than to the resting rate below?"""
    return bool(pace.edges_per_s) and pace.rate_per_s > pace.edges_per_s[0] * (1 - DIP / 2)


def is_far_below(pace: Pace) -> bool:
    """Is the edge far below a rate that was once accepted? Then it may come from an incident that is over by now."""
    return bool(pace.edges_per_s) and pace.best_per_s > FAR_BELOW * pace.edges_per_s[0]


def with_best(pace: Pace) -> Pace:
    """The pace when the provider refuses: what was accepted until now, unless this was a probe from far below."""
    if is_far_below(pace) and is_probing(pace):
        return changed(pace, best_per_s=pace.best_per_s / 2)
    # In discovery a burst may have carried the last octave.
    rate = pace.rate_per_s if pace.edges_per_s else pace.rate_per_s / 2
    return pace if pace.clean < MANY or rate <= pace.best_per_s else changed(pace, best_per_s=rate)


def price(pace: Pace) -> float:
    """How many good answers one refusal costs."""
    answers = pace.held * PRICE_AGE
    edge, left = pace.edges_per_s[0] if pace.edges_per_s else 0.0, pace.left_per_s
    if pace.lasted and max(edge, left) > FAR * min(edge, left):
        # The edge has moved far before. The more we would gain by finding the old edge again, the lower the price.
        regained = min(1.0, edge / left) if left else 1.0
        answers = min(answers, max(pace.lasted * PRICE_LASTED * regained, pace.held * PRICE_HELD))
    return max(least_price(pace), min(PRICE_MOST, max(MANY, answers)))


def least_price(pace: Pace) -> float:
    """How many good answers a refusal costs at least where the owner wrote a limit on refusals; 0 without one."""
    limit = pace.refusal_limit
    if limit is None:
        return 0.0
    rate = min(pace.rate_per_s, pace.edges_per_s[0]) if pace.edges_per_s else 0.0
    return REFUSALS_SPARED * limit.within_ns / limit.most * rate / SECOND_NS


def charged(pace: Pace, refusals: float) -> Pace:
    """The pace after paying for some refusals."""
    least = -A_FEW if is_far_below(pace) else ACCOUNT_AFTER_REFUSALS
    if pace.refusal_limit is not None:
        least = min(ACCOUNT_AFTER_REFUSALS, -pace.refusal_limit.most * least_price(pace))
    account = max(pace.account - refusals * price(pace), least)
    return changed(pace, account=min(pace.account, account))


def moved(pace: Pace, left_per_s: float) -> Pace:
    """The edge has moved: forgive old debts, make probing cheap again, and forget what is known about bursts."""
    account = max(pace.account, ACCOUNT_AFTER_A_CHANGE)
    if pace.held < MEMORY:
        return changed(pace, held=0, account=account, bursts=False)
    return changed(pace, held=0, account=account, bursts=False, lasted=pace.held, left_per_s=left_per_s)


def meaning(pace: Pace) -> float:
    """How much one refusal says, from 1 where strays are rare down to a little where they are usual."""
    if pace.alike and is_alike(pace):
        return 1.0
    return max(DENSE_SHARE, 1 - (pace.stray_share - STRAY_LEAST) / (STRAYS_USUAL - STRAY_LEAST))


def with_a_stray(pace: Pace) -> Pace:
    """The pace with one more refusal counted as a stray, if it can have been one."""
    # A provider that says when to come back counts requests.
    if pace.clean < A_FEW or pace.asked_ns or is_alike(pace):
        return pace
    return changed(pace, stray_share=min(STRAY_MOST, pace.stray_share + STRAY_WEIGHT / MEMORY))


def without_strays(pace: Pace) -> Pace:
    """The pace when refusals repeat at the same rate or after as many answers: what looked like strays was an edge."""
    same = pace.probed and abs(pace.rate_per_s - pace.met_per_s) < SAME_PLACE * pace.rate_per_s
    if not same and not (pace.alike and is_alike(pace)):
        return pace
    return changed(pace, stray_share=max(STRAY_LEAST, pace.stray_share * STRAYS_DOUBTED))


def is_alike(pace: Pace) -> bool:
    """Whether refusals come after about as many answers each time: a quota that runs out, not chance."""
    return pace.clean_before <= pace.clean * REGULAR and pace.clean <= pace.clean_before * REGULAR


def accepted_per_s(pace: Pace) -> float:
    """The rate accepted since the chain began: with a refusal at both ends, it is all the provider would accept."""
    return (pace.chain_good + 0.5) / max(1.0, pace.chain_ns) * SECOND_NS


def accepted_at_most_per_s(pace: Pace) -> float:
    """The most the provider can have accepted since then: requests in flight are not counted yet."""
    on_its_way = pace.rate_per_s * pace.latency_ns / SECOND_NS
    return (pace.chain_good + 1.5 + on_its_way) / max(1.0, pace.chain_ns) * SECOND_NS


def proven_edge(pace: Pace) -> float:
    """The edge whose resting rate equals the rate accepted since the last refusal; 0 = too few answers to tell."""
    if pace.chain_good < MANY or pace.chain_ns <= 0:
        return 0.0
    says = meaning(pace)
    # Off by one either way: a stray took the place of a good answer, a refusal at the edge did not.
    accepted = (pace.chain_good + 1 - 2 * says) / pace.chain_ns * SECOND_NS
    # Below it a burst can fill again. A burst also fills during a wait that the provider asked for: then rest above it.
    rest = 1 + REST_MARGIN if pace.asked_ns else 1 - REST_MARGIN * says
    return accepted * rest / (1 - DIP)


def may_be_a_burst(pace: Pace) -> bool:
    """Can a burst that filled since the last refusal explain that the probe got this far above the edge?"""
    is_near = pace.rate_per_s <= pace.edges_per_s[0] * (1 + ELSEWHERE + DIP)
    return is_near and _is_refused_at_times(pace) and pace.filled >= -BURST_NOISE


def filled(pace: Pace, *, for_ns: float, taken: int) -> float:
    """What a burst can hold after `for_ns`, in which `taken` requests used it."""
    if not pace.edges_per_s or not _is_refused_at_times(pace):
        return 0.0
    limit_per_s = pace.edges_per_s[0] * (1 - LIMIT_DIPS * DIP)
    return min(BURST_MOST, pace.filled + for_ns * limit_per_s / SECOND_NS - taken)


def _is_refused_at_times(pace: Pace) -> bool:
    """Whether this process or an earlier one was ever refused. An edge may also come from a queue alone."""
    return pace.chain_ns >= 0 or pace.filled > 0
