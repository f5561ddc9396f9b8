"""Where is the edge, once the provider has refused, and how far below it may the pace go on?

Three cases. A refusal alone costs one dip and hardly moves the edge. Refusals dense enough to be believed set the edge
to the rate the provider has let through between them. Refusals in a row, or a wait the provider asked for, are an
outage: wait it out, then come back below what caused it, the further below the more it cost.
"""

from dataclasses import dataclass
from math import log, sqrt

from remora.core.pace import Answered, Pace, changed
from remora.core.rate_constants import (
    ACCOUNT_AFTER_A_CHANGE,
    ACCOUNT_AFTER_REFUSALS,
    ACCOUNT_LEAST,
    CAREFUL,
    CHAIN_GAP,
    CHAIN_MOST,
    DEEPEST_CUT,
    DENSE_SHARE,
    DIP,
    DISCOVERY_DOUBT,
    EDGE_BELIEVED,
    EDGE_NUDGE,
    EDGES_KEPT,
    EVIDENCE_MOST,
    EXPENSIVE,
    FAR,
    ISOLATED,
    OUTAGE_AGAIN,
    OUTAGE_BUDGET,
    OUTAGE_BUDGET_UNSETTLED,
    OUTAGE_MEMORY,
    RATE_LEAST_PER_S,
    REFUSED_BUDGET,
    REST_CHARGE,
    SAME_RATE,
    SHUT_OUT,
    STRAY_LEAST,
    STRAY_MEMORY,
    STRAY_MOST,
    WAIT_GROWTH,
    WAIT_MOST_NS,
)
from remora.core.units import SECOND_NS


def cut(pace: Pace, rate_per_s: float, now_ns: int) -> Pace:
    """The pace at a lower rate; requests that left before now will neither lower nor raise it again."""
    least = min(RATE_LEAST_PER_S, pace.ceiling_per_s)
    rate = min(pace.ceiling_per_s, max(rate_per_s, least))
    return changed(pace, rate_per_s=rate, octave_per_s=rate, last_cut_at_ns=now_ns, learned_at_ns=now_ns)


def remember(edges: tuple[float, ...], edge: float) -> tuple[float, ...]:
    """Put an edge first; a clearly higher one stays, as what to slow down at once this one is refuted."""
    return (edge, *(higher for higher in edges if higher > edge * (1 + 2 * DIP)))[:EDGES_KEPT]


def refused(pace: Pace, event: Answered) -> Pace:
    """The pace after a refusal."""
    stale = event.departed_at_ns <= pace.last_cut_at_ns
    # While waiting, the interval is the wait; what still comes back left before it and took none of its time.
    if pace.chain_ns >= 0 and not (stale and pace.wait_ns):
        pace = changed(pace, chain_ns=pace.chain_ns + pace.interval_ns)
    if stale:
        # It left before the cut and counts for nothing but its price, if a probe was what we were paying for.
        return changed(pace, account=_charged(pace.account, _meaning(pace.stray_share))) if pace.probed else pace
    if pace.streak:
        return _refused_in_a_row(pace, event)
    evidence = pace.evidence + log(DENSE_SHARE / pace.stray_share)
    # Where strays are usual, a refusal means less and it takes more of them to believe.
    doubt = 0.0 if pace.edges_per_s else DISCOVERY_DOUBT
    believed = evidence >= EDGE_BELIEVED + doubt - log(_meaning(pace.stray_share))
    below = pace.below_per_s if pace.clean < CHAIN_GAP else 0.0
    pace = changed(
        pace,
        evidence=min(evidence, EVIDENCE_MOST + doubt),
        streak=1,
        streak_began_at_ns=event.departed_at_ns,
        last_refused_at_ns=event.departed_at_ns,
        asked_ns=event.asked_to_wait_ns,
        below_per_s=below,
        provisional=False,
        probed=_is_probing(pace),
    )
    return _refused_densely(pace, event) if believed else _refused_alone(pace, event)


def _refused_alone(pace: Pace, event: Answered) -> Pace:
    """One refusal: a dip, or the octave below while nothing is known yet."""
    rate, edges, now_ns = pace.rate_per_s, pace.edges_per_s, event.answered_at_ns
    meaning = _meaning(pace.stray_share)
    account = _charged(pace.account, meaning if pace.probed else REST_CHARGE * meaning)
    stray = pace.stray_share + 1 / STRAY_MEMORY if pace.clean >= ISOLATED else pace.stray_share
    stray = min(STRAY_MOST, stray)
    pace = changed(pace, account=account)
    if not edges:
        # A stray may hit at any rate; an edge is met twice at about the same one.
        again = pace.suspect_per_s / SAME_RATE <= rate <= pace.suspect_per_s * SAME_RATE
        pace = changed(pace, edges_per_s=(rate,), provisional=not again, suspect_per_s=0.0 if again else rate)
        if not again:
            pace = changed(pace, stray_share=stray)
        return cut(pace, rate / 2, now_ns)
    edge = edges[0]
    if rate > edge * (1 + DIP):
        pace = changed(pace, edges_per_s=remember(edges[1:], rate), below_per_s=edge)
    elif rate > edge:
        pace = changed(pace, edges_per_s=remember(edges[1:], (edge + rate) / 2))
    elif not pace.probed:
        lowered = edge * (1 - DIP * EDGE_NUDGE * meaning)
        pace = changed(pace, edges_per_s=remember(edges[1:], lowered), stray_share=stray)
    return cut(pace, rate * (1 - DIP), now_ns)


def _refused_densely(pace: Pace, event: Answered) -> Pace:
    """Refusals too dense to be strays: the edge is what was let through between them."""
    rate, edges = pace.rate_per_s, pace.edges_per_s
    account = _charged(pace.account, _meaning(pace.stray_share))
    new_rate = max(rate / 2, min(rate * (1 - DIP), _believable(pace)))
    known = pace.below_per_s or (edges[0] if edges else 0.0)
    if new_rate < known * (1 - 4 * DIP):
        # Well below an edge that was known to hold: the provider has changed.
        account = max(account, ACCOUNT_AFTER_A_CHANGE)
    pace = changed(pace, account=account, edges_per_s=remember(edges, new_rate / (1 - DIP)))
    return cut(pace, new_rate, event.answered_at_ns)


def _refused_in_a_row(pace: Pace, event: Answered) -> Pace:
    """Nothing gets through: only wait, longer each time, and as long as the last outage took."""
    edge = pace.edges_per_s[0]
    outage_requests = pace.outage_ns * edge / SECOND_NS
    faded_ns = pace.outage_ns / (1 + pace.clean / max(1.0, OUTAGE_MEMORY * outage_requests))
    first_ns = WAIT_GROWTH * int(SECOND_NS / (edge * DEEPEST_CUT))
    wait_ns = min(WAIT_MOST_NS, max(first_ns, WAIT_GROWTH * pace.wait_ns, int(OUTAGE_AGAIN * faded_ns)))
    pace = changed(
        pace,
        streak=pace.streak + 1,
        account=_charged(pace.account, 1.0) if pace.probed else pace.account,
        wait_ns=wait_ns,
        asked_ns=event.asked_to_wait_ns,
        last_refused_at_ns=event.departed_at_ns,
        quiet_until_ns=event.answered_at_ns + wait_ns,
    )
    # One request per wait: the first probe after it is single by its pace alone.
    return cut(pace, SECOND_NS / wait_ns, event.answered_at_ns)


def resumed(pace: Pace, event: Answered) -> Pace:
    """The first good answer after a refusal: the end of a single one, or of an outage."""
    assert pace.edges_per_s, "a streak of refusals always has an edge"
    edge = pace.edges_per_s[0]
    # Before a refusal that discovery met, the rate was another at each answer: no measure of what is let through.
    if pace.chain_ns < 0 or pace.provisional or pace.clean >= CHAIN_GAP or pace.chain_good >= CHAIN_MOST:
        chain_good, chain_ns = 0, 0.0
    else:
        # Half of the past is enough: a burst that was left when the limit fell must not be remembered for long.
        chain_good, chain_ns = pace.chain_good // 2, pace.chain_ns / 2
    if pace.streak == 1 and pace.asked_ns * edge / SECOND_NS < SHUT_OUT:
        return changed(
            pace,
            # One refusal while discovering may be a stray: go on from the octave below, and see.
            edges_per_s=() if pace.provisional else pace.edges_per_s,
            provisional=False,
            streak=0,
            clean=0,
            outage_ns=pace.outage_ns // 2,
            chain_good=chain_good,
            chain_ns=chain_ns,
        )
    back = _after_an_outage(pace, event)
    # A probe that got far above the old edge has found a faster provider: no old debts, as after a change for the worse.
    faster = pace.streak == 1 and 0 < FAR * pace.below_per_s < back.edges_per_s[0]
    least = ACCOUNT_AFTER_A_CHANGE if faster else ACCOUNT_LEAST
    return changed(
        pace,
        rate_per_s=min(back.rate_per_s, pace.ceiling_per_s),
        octave_per_s=min(back.rate_per_s, pace.ceiling_per_s),
        edges_per_s=back.edges_per_s,
        account=max(least, pace.account - back.cost),
        provisional=False,
        streak=0,
        clean=0,
        wait_ns=0,
        quiet_until_ns=0,
        outage_ns=back.outage_ns,
        chain_good=chain_good,
        chain_ns=chain_ns + back.outage_ns,
        # What left since the wait, before this answer came, left at another rate: it must not judge this one.
        last_cut_at_ns=event.answered_at_ns - 1,
        learned_at_ns=event.answered_at_ns,
    )


@dataclass(frozen=True, slots=True)
class _Return:
    """Where an outage leaves us: the edge, the rate, how long it took and what it cost the account."""

    edges_per_s: tuple[float, ...]
    rate_per_s: float
    outage_ns: int
    cost: float


def _after_an_outage(pace: Pace, event: Answered) -> _Return:
    edges, edge = pace.edges_per_s, pace.edges_per_s[0]
    # Shut out from the first refusal to somewhere between the last one and the end of the wait: take the middle.
    # What came after the wait was idleness.
    wait_over_ns = max(pace.quiet_until_ns, pace.last_cut_at_ns + pace.asked_ns)
    end_ns = min(event.departed_at_ns, wait_over_ns)
    outage_ns = max(0, (pace.last_refused_at_ns + end_ns) // 2 - pace.streak_began_at_ns)
    expensive = outage_ns * edge / SECOND_NS > EXPENSIVE
    accepted = edge if pace.provisional or pace.chain_ns < 0 else _accepted(pace)
    settled = not pace.provisional and pace.probed and pace.clean >= CHAIN_GAP and accepted >= edge * 0.8
    budget = OUTAGE_BUDGET_UNSETTLED
    if 0 < pace.below_per_s < edge:
        edges = remember(edges, _between(pace, expensive=expensive))
        rate = edges[0] * (1 - DIP)
    elif settled:
        budget = OUTAGE_BUDGET
        rate = edge * (1 - DIP)
    elif pace.provisional and not expensive:
        rate = edge / 2
    elif pace.provisional:
        rate = edge / 4
        edges = remember(edges, rate / (1 - DIP))
    else:
        # A wait that was asked for says little about the rate; one that we had to find out says it was too high.
        lowest = edge * (1 - 4 * DIP) if pace.streak == 1 else edge / 2
        edges = remember(edges, max(lowest, min(edge, accepted / (1 - DIP / 2))))
        rate = edges[0] * (1 - DIP)
    lost = outage_ns * (rate if pace.provisional else min(edge, accepted)) / SECOND_NS
    if lost > EXPENSIVE:
        budget = OUTAGE_BUDGET
    return _Return(edges, rate, outage_ns, cost=lost * REFUSED_BUDGET / budget)


def _between(pace: Pace, *, expensive: bool) -> float:
    """The edge after a probe above the old one was shut out: somewhere between the two."""
    below, edge = pace.below_per_s, pace.edges_per_s[0]
    middle = sqrt(below * edge)
    if pace.streak == 1:
        # A burst lets a probe get a little too far: nearer to what is known to hold.
        return middle if edge > FAR * below else sqrt(below * middle)
    if expensive:
        return below * (1 - 4 * DIP)
    if edge > FAR * below:
        return middle
    return below * (1 - DIP) if pace.outage_ns * edge / SECOND_NS > CAREFUL else below


def _accepted(pace: Pace) -> float:
    """The rate let through since the chain began: refusals at both ends say it was all the provider would take."""
    return (pace.chain_good + 0.5) / max(1.0, pace.chain_ns) * SECOND_NS


def _believable(pace: Pace) -> float:
    """The accepted rate, or the old edge where the difference is within what counting can tell."""
    accepted, below = _accepted(pace), pace.below_per_s
    # Off by one, or by as many as were on their way when the chain began.
    error = accepted * max(1.0, pace.rate_per_s * pace.latency_ns / SECOND_NS) / max(1, pace.chain_good)
    if not below or abs(accepted - below) > error:
        return accepted
    return sqrt(below * pace.rate_per_s) if pace.rate_per_s > FAR * below else below * (1 - DIP / 2)


def _is_probing(pace: Pace) -> bool:
    return bool(pace.edges_per_s) and pace.rate_per_s > pace.edges_per_s[0] * (1 - DIP / 2)


def _meaning(stray_share: float) -> float:
    """How much one refusal says, from 1 where strays are rare down to a few hundredths where they are usual."""
    return (STRAY_LEAST / stray_share) ** 2


def _charged(account: float, cost: float) -> float:
    return min(account, max(account - cost, ACCOUNT_AFTER_REFUSALS))
