"""What changes when the owner's limit on refusals allows only one more?

Once the limit is used up, nothing may be sent for the rest of its span. So the last refusal is kept: the rate rests well
below what was accepted, and does not climb, until an earlier refusal no longer counts.
"""

from remora.core.rate.constants import A_FEW, REST_WITH_ONE_LEFT
from remora.core.rate.pace import Answered, Pace, changed, possible
from remora.core.rate.probing import proven_edge


def counted(pace: Pace, event: Answered, *, is_stale: bool) -> Pace:
    """The pace after a refusal; one from before the last cut only counts."""
    kept = _most_but_one(pace)
    if not kept:
        return pace
    pace = changed(pace, refused_ns=(*pace.refused_ns, event.answered_at_ns)[-kept:])
    if is_stale or pace.wait_ns or not pace.edges_per_s or not is_one_left(pace, now_ns=event.answered_at_ns):
        return pace
    # In a test the old edge is known, and so is the rate that was accepted since the last refusal.
    known = max(pace.below_per_s, min(pace.edges_per_s[0], proven_edge(pace))) or pace.edges_per_s[0]
    rate = min(pace.rate_per_s, possible(pace, known * REST_WITH_ONE_LEFT))
    return changed(pace, rate_per_s=rate, octave_per_s=rate)


def is_one_left(pace: Pace, *, now_ns: int) -> bool:
    """Whether the limit allows only one more refusal now."""
    limit, kept = pace.refusal_limit, _most_but_one(pace)
    return limit is not None and 0 < kept <= len(pace.refused_ns) and pace.refused_ns[0] > now_ns - limit.within_ns


def _most_but_one(pace: Pace) -> int:
    """How many refusals leave one; 0: the limit is one, so each is the last, or so wide that the last hardly matters."""
    limit = pace.refusal_limit
    return 0 if limit is None or limit.most > A_FEW else limit.most - 1
