"""Was it too fast, and is anything missing or different? The checks of a simulated run."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_DIFFERENCES_SHOWN: Final = 1_000
_ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class WorstWindow:
    """The fullest window for its length. It holds `excess` arrivals too many; zero or less keeps the ceiling."""

    excess: float
    excess_ns: int  # the same as a time: how much too close together the arrivals were
    first_ns: int = 0
    last_ns: int = 0
    count: int = 0


def worst_window(arrivals_ns: Sequence[int], ceiling_interval_ns: int, burst: int = 1) -> WorstWindow:
    """Whether any window of length T holds more than `burst + T / F` arrivals, F being the ceiling interval.

    One pass: with g(k) = k·F − t(k) over the sorted times, the window from i to j is too full by
    g(j) − g(i) + (1 − burst)·F nanoseconds, so the worst start for each end is the smallest g before it.
    """
    assert ceiling_interval_ns > 0, f"a ceiling interval of {ceiling_interval_ns} ns"
    assert burst >= 1, f"a burst of {burst}"
    times = sorted(arrivals_ns)
    if not times:
        return WorstWindow(-float(burst), -burst * ceiling_interval_ns)
    spread_ns, first, last = -1, 0, 0
    lowest, lowest_at = 1 << 62, 0
    for at, time_ns in enumerate(times):
        height = at * ceiling_interval_ns - time_ns
        if height <= lowest:
            lowest, lowest_at = height, at
        if height - lowest > spread_ns:
            spread_ns, first, last = height - lowest, lowest_at, at
    excess_ns = spread_ns + (1 - burst) * ceiling_interval_ns
    return WorstWindow(excess_ns / ceiling_interval_ns, excess_ns, times[first], times[last], last - first + 1)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where mirror and world disagree. `key` is None when the whole item is missing, extra or unreadable."""

    item_id: int
    key: str | None
    mirror: object
    world: object


def compare(mirror: Iterable[tuple[int, bytes]], world: Iterable[tuple[int, bytes]]) -> list[Difference]:
    """The differences between two sets of bodies, key by key, at most a thousand. Both are in ascending order of id."""
    found: list[Difference] = []
    ours, theirs = iter(mirror), iter(world)
    mine, truth = next(ours, None), next(theirs, None)
    while (mine is not None or truth is not None) and len(found) < _DIFFERENCES_SHOWN:
        if truth is None or (mine is not None and mine[0] < truth[0]):
            assert mine is not None
            found.append(Difference(mine[0], None, mine[1], _ABSENT))
            mine = next(ours, None)
        elif mine is None or truth[0] < mine[0]:
            found.append(Difference(truth[0], None, _ABSENT, truth[1]))
            truth = next(theirs, None)
        else:
            if mine[1] != truth[1]:
                found.extend(_unlike(mine[0], mine[1], truth[1]))
            mine, truth = next(ours, None), next(theirs, None)
    return found


def _unlike(item_id: int, mirror: bytes, world: bytes) -> list[Difference]:
    ours, theirs = _read(mirror), _read(world)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return [] if ours == theirs else [Difference(item_id, None, mirror, world)]
    return [
        Difference(item_id, key, ours.get(key, _ABSENT), theirs.get(key, _ABSENT))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key, _ABSENT) != theirs.get(key, _ABSENT)
    ]


def _read(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body
