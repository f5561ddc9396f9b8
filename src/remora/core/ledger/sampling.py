"""What does a random sample say about the whole? Which ids to read again, and how many can be wrong at most."""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from math import ceil, exp, lgamma, log, log1p
from typing import Final

from remora.core.ledger.coverage import Coverage

CONFIDENCE: Final = 0.95
_HALVINGS: Final = 60


def draw_ids(covered: Coverage, count: int, *, below: Callable[[int], int]) -> list[int]:
    """Different ids of a coverage, each as likely as any other, in order. `below(n)` draws a number from 0 to n - 1."""
    total = len(covered)
    places: set[int] = set()
    if count >= total:
        places = set(range(total))
    # Floyd's way: as many draws as ids, however many there are to choose from.
    for last in range(total - count, total) if count < total else ():
        place = below(last + 1)
        places.add(last if place in places else place)
    ends = list(accumulate(len(piece) for piece in covered.ranges))
    ids: list[int] = []
    for place in sorted(places):
        index = bisect_right(ends, place)
        ids.append(covered.ranges[index].end - (ends[index] - 1 - place))
    return ids


def share_at_most(bad: int, sample: int, *, population: int, confidence: float = CONFIDENCE) -> float:
    """The highest share of bad ones that a sample with so many bad ones still leaves possible (Clopper and Pearson).

    If everything was read, it is the true share.
    """
    assert 0 <= bad <= sample <= population, f"{bad} of {sample} of {population}"
    if sample == population:
        return bad / population if population else 0.0
    if bad == sample:
        return 1.0
    low, high = bad / sample, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _at_most(bad, sample, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(bad: int, sample: int, share: float) -> float:
    """How likely a sample has this many bad ones or fewer if their true share is this, between 0 and 1."""
    terms = (
        lgamma(sample + 1) - lgamma(k + 1) - lgamma(sample - k + 1) + k * log(share) + (sample - k) * log1p(-share)
        for k in range(bad + 1)
    )
    return sum(exp(term) for term in terms)


def as_percent(share: float) -> str:
    """A share with two digits that matter, rounded up: a bound must not look better than it is."""
    percent = share * 100
    if percent == 0 or percent >= 100:
        return f"{percent:.0f} %"
    digits = 2 if percent >= 0.1 else 3 if percent >= 0.01 else 4
    return f"{ceil(percent * 10**digits) / 10**digits:.{digits}f} %"
