"""How long do we wait while the provider accepts nothing, and at which rate do we come back?

Several refusals in a row, or a wait that the provider asks for, are an outage. Wait, then send a single request at a
time. Then come back below the rate that caused it, and pay for the lost time before the next probe.
"""

from math import sqrt

import msgspec

from remora.core.rate.constants import (
    A_FEW,
    ACCOUNT_AFTER_A_CHANGE,
    ACCOUNT_LEAST,
    DEEPEST_CUT,
    DIP,
    ELSEWHERE,
    FAR,
    HARDLY_ANY,
    MANY,
    NEAR,
    OUTAGE_BUDGET,
    OUTAGE_BUDGET_UNSETTLED,
    OUTAGE_KEPT,
    OUTAGE_MEMORY,
    WAIT_GROWTH,
    WAIT_MOST_NS,
)
from remora.core.rate.pace import Answered, Pace, changed, cut, possible, remember
from remora.core.rate.probing import accepted_per_s, charged, filled, is_alike, is_far_below, moved, price, proven_edge
from remora.core.units import SECOND_NS


def refused_in_a_row(pace: Pace, event: Answered) -> Pace:
    """Nothing is accepted: wait, longer each time, and at least as long as the last outage took."""
    # Faults or a queue may have left the rate far below the edge. If it is refused there, do not come back at the edge.
    edge = min(pace.edges_per_s[0], 2 * pace.rate_per_s) if pace.streak == 1 else pace.edges_per_s[0]
    outage_requests = pace.outage_ns * edge / SECOND_NS
    faded_ns = pace.outage_ns / (1 + pace.clean / max(1.0, OUTAGE_MEMORY * outage_requests))
    first_ns = WAIT_GROWTH * int(SECOND_NS / (edge * DEEPEST_CUT))
    wait_ns = min(WAIT_MOST_NS, max(first_ns, pace.interval_ns, WAIT_GROWTH * pace.wait_ns, int(faded_ns)))
    pace = changed(
        charged(pace, 1.0) if pace.probed else pace,
        edges_per_s=remember(pace.edges_per_s, edge),
        streak=pace.streak + 1,
        wait_ns=wait_ns,
        asked_ns=event.asked_to_wait_ns,
        last_refused_at_ns=event.departed_at_ns,
        quiet_until_ns=event.answered_at_ns + wait_ns,
    )
    # One request per wait: this pace alone makes the first probe after it a single request.
    return cut(pace, SECOND_NS / wait_ns, event.answered_at_ns)


def resumed(pace: Pace, event: Answered) -> Pace:
    """The first good answer after a refusal: it ends a single refusal or an outage."""
    assert pace.edges_per_s, "a streak of refusals always has an edge"
    if pace.refusal_limit is not None and pace.streak == 2 and not pace.wait_ns:
        pace = changed(pace, streak=1)  # of two that were sent together, an edge refuses both, too
    chain_good, chain_ns = _chain_goes_on(pace)
    went_on = changed(
        pace,
        streak=0,
        clean=0,
        clean_before=pace.clean,
        alike=pace.alike + 1 if is_alike(pace) else 0,
        provisional=False,
        chain_good=chain_good,
        chain_ns=chain_ns,
        filled=0.0,
        left_at_ns=event.departed_at_ns,
    )
    if _was_held_back(pace, event):
        silent_ns = event.departed_at_ns - pace.last_refused_at_ns
        went_on = changed(went_on, filled=filled(went_on, for_ns=silent_ns, taken=0))
    if pace.streak == 1 and pace.asked_ns * pace.edges_per_s[0] / SECOND_NS < HARDLY_ANY:
        # One refusal during discovery may be a stray: go on from the octave below.
        edges = () if pace.provisional else pace.edges_per_s
        return changed(went_on, edges_per_s=edges, outage_ns=int(pace.outage_ns * OUTAGE_KEPT))
    back = _after_an_outage(pace, event)
    edge = back.edges_per_s[0]
    known = pace.below_per_s or pace.edges_per_s[0]
    if edge < known * (1 - ELSEWHERE) and not pace.provisional and not pace.probed:
        went_on = moved(went_on, known)
    went_on = changed(went_on, edges_per_s=back.edges_per_s)
    # A probe that got far above the old edge has found a faster provider: no old debts.
    faster = pace.streak == 1 and 0 < FAR * pace.below_per_s < edge
    is_far = is_far_below(went_on)
    least = -A_FEW if is_far else ACCOUNT_AFTER_A_CHANGE if faster else ACCOUNT_LEAST
    # A streak lowers an edge that was far above the rate; a single refusal changes neither.
    most = 2 * pace.rate_per_s if pace.streak == 1 else back.rate_per_s
    rate = possible(pace, min(back.rate_per_s, most))
    return changed(
        went_on,
        rate_per_s=rate,
        octave_per_s=rate,
        below_per_s=pace.below_per_s if edge > pace.below_per_s else 0.0,
        account=max(least, went_on.account - back.cost),
        wait_ns=0,
        quiet_until_ns=0,
        outage_ns=0 if is_far else back.outage_ns,
        # Only the time for which the provider is believed to have refused: what we waited longer is no evidence.
        chain_ns=chain_ns + back.outage_ns,
        # A guessed edge says nothing about bursts.
        filled=0.0 if pace.provisional else filled(went_on, for_ns=back.silent_ns, taken=0),
        # Requests sent between the wait and this answer were sent at another rate: they must not judge this one.
        last_cut_at_ns=event.answered_at_ns,
        learned_at_ns=event.answered_at_ns,
    )


def _was_held_back(pace: Pace, event: Answered) -> bool:
    """Did the owner's limit on refusals hold this request back, not the pace? Then a burst filled meanwhile."""
    return pace.refusal_limit is not None and not event.pace_bound


def _chain_goes_on(pace: Pace) -> tuple[int, float]:
    """The part of the chain (answers since a refusal, and their time) that still measures the accepted rate."""
    # Before a refusal during discovery the rate changed with each answer: it does not measure the accepted rate. And after
    # so many answers the limit may have changed.
    if pace.chain_ns < 0 or pace.provisional or pace.clean >= MANY or pace.chain_good >= 2 * MANY:
        return 0, 0.0
    # Half of the past is enough: a burst left over when the limit fell must not be remembered for long.
    return pace.chain_good // 2, pace.chain_ns / 2


class _Return(msgspec.Struct, frozen=True):
    """The state after an outage: the edges, the rate, how long it took and what it cost the account."""

    edges_per_s: tuple[float, ...]
    rate_per_s: float
    outage_ns: int
    silent_ns: int  # from the first refusal to the end of the wait; nothing was accepted
    cost: float


def _after_an_outage(pace: Pace, event: Answered) -> _Return:
    # Time after the wait was idleness.
    wait_over_ns = max(pace.quiet_until_ns, pace.last_cut_at_ns + pace.asked_ns)
    end_ns = min(event.departed_at_ns, wait_over_ns)
    # A limit on refusals may have kept us silent for longer. That says nothing about the provider, but a burst filled.
    silent_until_ns = event.departed_at_ns if _was_held_back(pace, event) else end_ns
    silent_ns = max(0, silent_until_ns - pace.streak_began_at_ns)
    # A single refusal is an outage only if it named a wait: accepted after it, the outage took that long. Otherwise we
    # chose the wait, and the outage ended between the last refusal and the end of the wait: take the middle.
    ended_ns = end_ns if pace.streak == 1 else (pace.last_refused_at_ns + end_ns) // 2
    outage_ns = max(0, ended_ns - pace.streak_began_at_ns)
    before = pace.edges_per_s[0]
    accepted = accepted_per_s(pace)
    edge = _edge_after(pace, outage_ns, accepted)
    rate = edge / 2 if pace.provisional and edge == before else edge * (1 - DIP)
    lost = outage_ns * (rate if pace.provisional else min(before, accepted)) / SECOND_NS
    unsettled = price(pace) <= MANY and lost <= MANY
    cost = lost / (OUTAGE_BUDGET_UNSETTLED if unsettled else OUTAGE_BUDGET)
    guessed = pace.provisional and pace.streak > 1
    if guessed or (not pace.probed and edge < before * (1 - ELSEWHERE)):
        # No probe caused it: the edge was unknown, or it has moved and is set lower. So it costs nothing.
        cost = 0.0
    return _Return(remember(pace.edges_per_s, edge), rate, outage_ns, silent_ns, cost)


def _edge_after(pace: Pace, outage_ns: int, accepted: float) -> float:
    """Where the edge is after an outage."""
    edge = pace.edges_per_s[0]
    known = pace.below_per_s or edge
    expensive = outage_ns * known / SECOND_NS > MANY
    if pace.provisional:
        return edge / 4 if expensive else edge
    if pace.streak == 1:
        # A single refusal: the next answers at about this rate show where the edge is, which is worth the wait.
        return edge
    if (pace.probed or pace.below_per_s) and edge > known * (1 + ELSEWHERE) and not expensive:
        return sqrt(known * edge)
    if pace.probed:
        # A provider that shuts us out for longer each time must be probed less often.
        worse = outage_ns > FAR * pace.outage_ns > 0
        lowered = known * (1 - (ELSEWHERE if worse else NEAR))
    elif pace.overshot or pace.below_per_s:
        lowered = known * (1 - NEAR)
    else:
        lowered = max(edge / 2, min(edge * (1 - DIP), accepted))
    return min(known, max(lowered, proven_edge(pace)))
