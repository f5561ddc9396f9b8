"""What does a run show? Shares, times and counts, from its trace alone."""

from bisect import bisect_left
from dataclasses import dataclass

from bench.controllers.providers import Provider
from bench.controllers.world import Trace
from remora.core.units import SECOND_NS

# Long enough that a window shows a rate to a few per cent, short enough to time a recovery.
WINDOW_REQUESTS = 30
ENOUGH = 0.9


@dataclass(frozen=True, slots=True)
class Measured:
    goodput_share: float
    refused_share: float
    crossings: int


def steady(trace: Trace, provider: Provider, *, since_ns: int) -> Measured:
    """Goodput as a share of the oracle's, and refused requests as a share of all, from `since_ns` to the end."""
    good = len(trace.good_at_ns) - bisect_left(trace.good_at_ns, since_ns)
    sent = len(trace.sent_at_ns) - bisect_left(trace.sent_at_ns, since_ns)
    refused = len(trace.refused_at_ns) - bisect_left(trace.refused_at_ns, since_ns)
    return Measured(
        goodput_share=good / _capacity(provider, since_ns, trace.until_ns),
        refused_share=refused / max(1, sent),
        crossings=trace.crossings,
    )


def seconds_to_enough(trace: Trace, provider: Provider, *, since_ns: int = 0) -> float | None:
    """Seconds until the first stretch that delivers 90 % of the oracle's goodput; none if there is no such stretch."""
    good = trace.good_at_ns
    window_ns = int(WINDOW_REQUESTS * SECOND_NS / provider.capacity_per_s(since_ns))
    step_ns = window_ns // WINDOW_REQUESTS
    at_ns = since_ns
    while at_ns + window_ns <= trace.until_ns:
        seen = bisect_left(good, at_ns + window_ns) - bisect_left(good, at_ns)
        if seen >= ENOUGH * WINDOW_REQUESTS:
            return (at_ns - since_ns) / SECOND_NS
        at_ns += step_ns
    return None


def _capacity(provider: Provider, since_ns: int, until_ns: int) -> float:
    pieces = 2_000
    width_ns = (until_ns - since_ns) / pieces
    return sum(
        provider.capacity_per_s(int(since_ns + (piece + 0.5) * width_ns)) * width_ns / SECOND_NS
        for piece in range(pieces)
    )
