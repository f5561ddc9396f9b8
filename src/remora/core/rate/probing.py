"""What may probing the edge cost, and how much does one refusal say?

Both are counted in good answers. A refusal has a price, which the answers that follow must earn before the next probe.
The longer an edge has held, the longer it will, so the price grows with its age; where edges are known to move, it
stays low. And a refusal says little where refusals come by chance.
"""

from remora.core.rate.constants import (
    ACCOUNT_AFTER_A_CHANGE,
    ACCOUNT_AFTER_REFUSALS,
    BURST_MOST,
    BURST_NOISE,
    CHAIN_GAP,
    DIP,
    FAR,
    FILLED_LASTS,
    ISOLATED,
    LIMIT_DIPS,
    MEANING_LEAST,
    PRICE_AGE,
    PRICE_HELD,
    PRICE_LASTED,
    PRICE_LEAST,
    PRICE_MOST,
    PROBE_HEIGHT,
    REGULAR,
    REST_MARGIN,
    SAME_PLACE,
    SETTLED,
    STRAY_LEAST,
    STRAY_MEMORY,
    STRAY_MOST,
    STRAY_WEIGHT,
    STRAYS_DOUBTED,
    STRAYS_USUAL,
)
from remora.core.rate.pace import Pace, changed
from remora.core.units import SECOND_NS


def is_probing(pace: Pace) -> bool:
    """Is the rate nearer to the edge, or above it, than to the rest below it?"""
    return bool(pace.edges_per_s) and pace.rate_per_s > pace.edges_per_s[0] * (1 - DIP / 2)


def price(pace: Pace) -> float:
    """How many good answers one refusal costs."""
    answers = pace.held * PRICE_AGE
    edge, left = pace.edges_per_s[0] if pace.edges_per_s else 0.0, pace.left_per_s
    if pace.lasted and max(edge, left) > FAR * min(edge, left):
        # It was seen to move far. The more it would bring to find the edge again that was left, the less it costs.
        regained = min(1.0, edge / left) if left else 1.0
        answers = min(answers, max(pace.lasted * PRICE_LASTED * regained, pace.held * PRICE_HELD))
    return min(PRICE_MOST, max(PRICE_LEAST, answers))


def charged(pace: Pace, refusals: float) -> Pace:
    """The pace after paying for some refusals."""
    account = max(pace.account - refusals * price(pace), ACCOUNT_AFTER_REFUSALS)
    return changed(pace, account=min(pace.account, account))


def moved(pace: Pace, left_per_s: float) -> Pace:
    """The edge is known to be somewhere else: no old debts, probing is cheap again, and bursts must show anew."""
    account = max(pace.account, ACCOUNT_AFTER_A_CHANGE)
    if pace.held < SETTLED:
        return changed(pace, held=0, account=account, bursts=False)
    return changed(pace, held=0, account=account, bursts=False, lasted=pace.held, left_per_s=left_per_s)


def meaning(pace: Pace) -> float:
    """How much one refusal says, from 1 where strays are rare down to a little where they are usual."""
    if pace.alike and is_alike(pace):
        return 1.0
    return max(MEANING_LEAST, 1 - (pace.stray_share - STRAY_LEAST) / (STRAYS_USUAL - STRAY_LEAST))


def with_a_stray(pace: Pace) -> Pace:
    """The pace with one more refusal counted as a stray, if it can have been one."""
    # A provider that says when to come back has counted.
    if pace.clean < ISOLATED or pace.asked_ns or is_alike(pace):
        return pace
    return changed(pace, stray_share=min(STRAY_MOST, pace.stray_share + STRAY_WEIGHT / STRAY_MEMORY))


def without_strays(pace: Pace) -> Pace:
    """The pace once refusals keep coming at the same rate, or after as many answers: what passed for strays was an edge."""
    same = pace.probed and abs(pace.rate_per_s - pace.met_per_s) < SAME_PLACE * pace.rate_per_s
    if not same and not (pace.alike and is_alike(pace)):
        return pace
    return changed(pace, stray_share=max(STRAY_LEAST, pace.stray_share * STRAYS_DOUBTED))


def is_alike(pace: Pace) -> bool:
    """Chance is not regular: refusals after about as many answers each time are a quota that runs out."""
    return pace.clean_before <= pace.clean * REGULAR and pace.clean <= pace.clean_before * REGULAR


def accepted_per_s(pace: Pace) -> float:
    """The rate let through since the chain began: refusals at both ends say it was all the provider would take."""
    return (pace.chain_good + 0.5) / max(1.0, pace.chain_ns) * SECOND_NS


def accepted_at_most_per_s(pace: Pace) -> float:
    """The most the provider can have been willing to take since then: what is on its way has not been counted yet."""
    on_its_way = pace.rate_per_s * pace.latency_ns / SECOND_NS
    return (pace.chain_good + 1.5 + on_its_way) / max(1.0, pace.chain_ns) * SECOND_NS


def proven_edge(pace: Pace) -> float:
    """The edge whose rest lies just at what was let through since the last refusal; 0 = too little to tell."""
    if pace.chain_good < CHAIN_GAP or pace.chain_ns <= 0:
        return 0.0
    says = meaning(pace)
    # Off by one either way: a stray stood where a good answer would have been, a refusal at the edge did not.
    accepted = (pace.chain_good + 1 - 2 * says) / pace.chain_ns * SECOND_NS
    # Below it a burst can fill again. But it fills during a wait that was asked for, too: then above, to take that up.
    fills = pace.asked_ns * accepted / SECOND_NS
    rest = 1 + min(REST_MARGIN, fills / FILLED_LASTS) if pace.asked_ns else 1 - REST_MARGIN * says
    return accepted * rest / (1 - DIP)


def may_be_a_burst(pace: Pace) -> bool:
    """Can a burst that filled since the last refusal have carried the probe this far above the edge?"""
    is_near = pace.rate_per_s <= pace.edges_per_s[0] * (1 + PROBE_HEIGHT + DIP)
    return is_near and _is_refused_at_times(pace) and pace.filled >= -BURST_NOISE


def filled(pace: Pace, *, for_ns: float, taken: int) -> float:
    """What a burst can hold after so long, in which so many requests were taken from it."""
    if not pace.edges_per_s or not _is_refused_at_times(pace):
        return 0.0
    limit_per_s = pace.edges_per_s[0] * (1 - LIMIT_DIPS * DIP)
    return min(BURST_MOST, pace.filled + for_ns * limit_per_s / SECOND_NS - taken)


def _is_refused_at_times(pace: Pace) -> bool:
    """Whether there is a limit at all: in this process or an earlier one. An edge may also be that of a queue."""
    return pace.chain_ns >= 0 or pace.filled > 0
