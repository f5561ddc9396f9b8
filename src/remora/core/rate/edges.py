"""Where is the edge, once the provider has refused?

Four cases. Nothing is known yet: go on from the octave below. A single refusal: the edge was met again, or a probe got
above it; the next answers test whether a burst carried it there. Dense refusals: the edge is the rate that was accepted
between them. Refusals in a row are an outage: see `outage.py`.
"""

from math import log, sqrt

from remora.core.rate.constants import (
    DENSE_SHARE,
    DIP,
    DISCOVERY_DOUBT,
    DOUBT_LEAST,
    DOUBTFUL,
    EDGE_BELIEVED,
    ELSEWHERE,
    EVIDENCE_MOST,
    FAR,
    HARDLY_ANY,
    MANY,
    NEAR,
    REST_CHARGE,
    STRAY_LEAST,
    TEST_MOST,
)
from remora.core.rate.outage import refused_in_a_row
from remora.core.rate.pace import Answered, Pace, changed, cut, remember
from remora.core.rate.probing import (
    accepted_at_most_per_s,
    accepted_per_s,
    charged,
    is_far_below,
    is_probing,
    may_be_a_burst,
    meaning,
    moved,
    price,
    proven_edge,
    with_a_stray,
    with_best,
    without_strays,
)
from remora.core.units import SECOND_NS


def refused(pace: Pace, event: Answered) -> Pace:
    """The pace after a refusal."""
    stale = event.departed_at_ns < pace.last_cut_at_ns
    # While waiting, the interval is the wait. Answers that still arrive belong to requests sent before it.
    if pace.chain_ns >= 0 and not (stale and pace.wait_ns):
        pace = changed(pace, chain_ns=pace.chain_ns + pace.interval_ns)
    if stale:
        return _refused_before_the_cut(pace, event)
    if pace.streak:
        return refused_in_a_row(pace, event)
    pace = with_best(pace)
    doubt = 0.0 if pace.edges_per_s else DISCOVERY_DOUBT
    evidence = pace.evidence + log(DENSE_SHARE / pace.stray_share)
    # Where strays are usual, a refusal means less and it takes more of them to believe.
    needed = doubt + 2 * log(pace.stray_share / STRAY_LEAST)
    clogged = pace.clean < HARDLY_ANY and pace.evidence > EVIDENCE_MOST - HARDLY_ANY * DENSE_SHARE
    pace = changed(
        pace,
        evidence=min(evidence, EVIDENCE_MOST + doubt),
        streak=1,
        streak_began_at_ns=event.departed_at_ns,
        last_refused_at_ns=event.departed_at_ns,
        asked_ns=event.asked_to_wait_ns,
        provisional=False,
        probed=is_probing(pace),
        overshot=pace.overshot if pace.clean < MANY else not pace.edges_per_s or is_probing(pace),
    )
    # Where strays are usual, one refusal fails no test.
    fails = event.asked_to_wait_ns or meaning(pace) > DOUBTFUL or evidence >= EDGE_BELIEVED + needed
    if pace.below_per_s and fails:
        return _test_failed(pace, event)
    if evidence < EDGE_BELIEVED + needed:
        return _refused_alone(pace, event) if pace.edges_per_s else _refused_discovering(pace, event)
    if clogged and pace.overshot and pace.edges_per_s:
        # The rate was just set to the accepted rate and is refused at once: the provider still counts earlier requests.
        return refused_in_a_row(pace, event)
    return _refused_densely(pace, event)


def _refused_before_the_cut(pace: Pace, event: Answered) -> Pace:
    """It was sent before the cut: only its price counts, and only if a probe caused the refusals."""
    if pace.refusal_limit is not None and pace.streak:
        # Nothing may be sent after them: what was in flight is all that shows that the provider takes nothing now.
        pace = changed(pace, streak=pace.streak + 1, last_refused_at_ns=event.departed_at_ns)
    return charged(pace, 1.0) if pace.probed else pace


def _refused_discovering(pace: Pace, event: Answered) -> Pace:
    """One refusal while nothing is known yet: go to the octave below."""
    rate = pace.rate_per_s
    # A stray may come at any rate; an edge refuses twice at about the same rate.
    again = pace.suspect_per_s / FAR <= rate <= pace.suspect_per_s * FAR
    pace = charged(pace, meaning(pace))
    pace = changed(pace, edges_per_s=(rate,), provisional=not again, suspect_per_s=0.0 if again else rate)
    return cut(pace, rate / 2, event.answered_at_ns)


def _refused_alone(pace: Pace, event: Answered) -> Pace:
    """One refusal: at rest, at the edge, or above it."""
    rate, edge, now_ns = pace.rate_per_s, pace.edges_per_s[0], event.answered_at_ns
    pace = charged(pace, STRAY_LEAST / pace.stray_share if pace.probed else REST_CHARGE * meaning(pace))
    pace = without_strays(pace)
    pace = changed(pace, met_per_s=rate if pace.probed else pace.met_per_s)
    if rate > edge * _tested_above(pace) and not _is_burst(pace):
        # Has the edge moved up, or did a burst carry the probe this far? The next answers at about this rate will tell.
        pace = changed(pace, edges_per_s=remember(pace.edges_per_s[1:], rate), below_per_s=edge)
        return cut(pace, rate * (1 - DIP), now_ns)
    if not pace.probed:
        pace = with_a_stray(pace)
    found = _met_again(pace) if pace.probed else _lowered(pace)
    if found < edge * (1 - ELSEWHERE):
        pace = moved(pace, edge)
    pace = changed(pace, edges_per_s=remember(pace.edges_per_s[1:], found))
    return cut(pace, found * (1 - DIP), now_ns)


def _tested_above(pace: Pace) -> float:
    """How far above the edge a refused probe is tested. Where a refusal costs a long wait, a test would cost another."""
    is_expensive = pace.asked_ns * pace.edges_per_s[0] > MANY * SECOND_NS
    return (FAR if is_expensive else 1) * (1 + DIP)


def _is_burst(pace: Pace) -> bool:
    """Was the probe carried above the edge by a burst, as is known to happen here?"""
    return pace.bursts and meaning(pace) > DOUBTFUL and may_be_a_burst(pace)


def _met_again(pace: Pace) -> float:
    """The edge after a probe was refused at it, or was carried above it by a burst."""
    rate, edge = pace.rate_per_s, pace.edges_per_s[0]
    if rate < edge:
        lower = max(proven_edge(pace), edge * (1 - DIP))
        return edge - max(0.0, edge - lower) / 2 * meaning(pace)
    # While it is new, it may well be set too low.
    doubt = max(DOUBT_LEAST, MANY / price(pace))
    return max(min(edge * (1 + DIP * doubt), rate), proven_edge(pace))


def _lowered(pace: Pace) -> float:
    """The edge after a refusal at rest: the accepted rate shows where it is."""
    edge, proven = pace.edges_per_s[0], proven_edge(pace)
    # A provider that says how long to wait counts requests; any other refusal may have been a stray.
    counted = pace.asked_ns > 0 and proven > 0
    lowered = edge * (1 - (ELSEWHERE if counted else DIP * meaning(pace)))
    return min(edge, max(lowered, proven))


def _test_failed(pace: Pace, event: Answered) -> Pace:
    """Refused again after a probe got above the old edge: go half way back to the old edge, until it is near."""
    below, tested = pace.below_per_s, pace.edges_per_s[0]
    # While nothing was sent a burst may have overflowed: then the accepted rate is no bound.
    is_shut_out = pace.outage_ns * below >= SECOND_NS
    top = tested if is_shut_out else min(tested, accepted_at_most_per_s(pace))
    proven = min(tested, proven_edge(pace))
    pace = charged(pace, REST_CHARGE * meaning(pace))
    if top > below * (1 + NEAR):
        pace = changed(pace, edges_per_s=remember(pace.edges_per_s, max(sqrt(below * top), proven)))
        return cut(pace, below * (1 - DIP), event.answered_at_ns)
    edge = max(min(below, tested), proven)
    pace = changed(pace, edges_per_s=remember(pace.edges_per_s, edge), below_per_s=0.0, bursts=True)
    return cut(pace, edge * (1 - DIP), event.answered_at_ns)


def is_test_passed(pace: Pace) -> bool:
    """Has the provider accepted more, since a probe was refused, than the old edge would allow?"""
    if not pace.below_per_s or pace.clean < MANY:
        return False
    # A burst that filled while nothing was sent carries any rate for a while, but does not raise the accepted rate.
    enough = (pace.below_per_s * (1 - DIP) + pace.rate_per_s) / 2
    return pace.clean >= TEST_MOST or is_far_below(pace) or accepted_per_s(pace) >= enough


def passed_test(pace: Pace) -> Pace:
    """The rate that a probe found has held: it is the edge."""
    edge, below = pace.edges_per_s[0], pace.below_per_s
    pace = changed(pace, below_per_s=0.0, bursts=False)
    return with_a_stray(moved(pace, below)) if edge > below * (1 + ELSEWHERE) else pace


def _refused_densely(pace: Pace, event: Answered) -> Pace:
    """Refusals too dense to be strays: the edge is the rate that was accepted between them."""
    rate, edges = pace.rate_per_s, pace.edges_per_s
    pace = charged(pace, meaning(pace))
    new_rate = max(rate / 2, min(rate * (1 - DIP), accepted_per_s(pace)))
    if edges and new_rate < edges[0] * (1 - ELSEWHERE):
        pace = moved(pace, edges[0])
    pace = changed(pace, edges_per_s=remember(edges, new_rate / (1 - DIP)))
    return cut(pace, new_rate, event.answered_at_ns)
