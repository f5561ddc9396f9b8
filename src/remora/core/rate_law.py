"""How fast may the next request leave, given how the last ones were answered?

The law is a pure function of (pace, answer, time). It has one owner's number, the ceiling;
everything else is a ratio or a count of answers, so it is the same at 0.2 and at 2,000 requests
per second. The words: the *edge* is a rate at which the provider has refused; a *dip* is the small
step below it where the pace rests; the *account* is what probing may still cost.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from remora.core.units import SECOND_NS

# Discovery. 16 answers show a doubling is safe to repeat; 4 round trips let a refusal come back first.
COLD_START_PER_S = 1.0
SUCCESSES_PER_DOUBLING = 16
ROUND_TRIPS_PER_DOUBLING = 4

# Around the edge. A dip of 2.5 % is cheap to rest at and wide enough to be out of the edge's noise.
DIP = 0.025
CLIMB_SUCCESSES = 64
EDGES_KEPT = 4

# What probing may cost: refusals per answer, and time shut out per time.
REFUSED_BUDGET = 0.004
OUTAGE_BUDGET = 0.02
ACCOUNT_MOST = 1.0
ACCOUNT_LEAST = -100.0

# Is a refusal stray, or is the edge here? A likelihood test against the usual share of strays.
STRAY_LEAST = 0.004
STRAY_MOST = 0.02
STRAY_MEMORY = 1_000
DENSITY_RATIO = 4.0
EDGE_BELIEVED = 2.5

# Refused in a row: halve down to this share of the edge, then only wait.
DEEPEST_CUT = 1 / 8
WAIT_GROWTH = 4
WAIT_MOST_NS = 15 * 60 * SECOND_NS
RATE_LEAST_PER_S = SECOND_NS / WAIT_MOST_NS

# Faults are pressure only when clearly more frequent than usual.
TROUBLE_LEAST = 0.02
TROUBLE_MEMORY = 512
TROUBLE_RATIO = 4.0
TROUBLE_MOST = 0.5
TROUBLE_BELIEVED = 7.0

# Latency: smoothed over a few answers, against a baseline that falls at once and rises slowly.
LATENCY_MEMORY = 8
BASELINE_MEMORY = 1_024
LATENCY_HIGH = 2.0


class Answer(StrEnum):
    """What one request's answer says about the rate."""

    GOOD = "good"
    REFUSED = "refused"
    TROUBLED = "troubled"


@dataclass(frozen=True, slots=True)
class Answered:
    """One request was answered; times are monotonic."""

    answer: Answer
    departed_at_ns: int
    answered_at_ns: int
    pace_bound: bool  # the pace, not idleness, latency or the in-flight bound, held departures back


@dataclass(frozen=True, slots=True)
class Pace:
    """The learned rate and all that the law remembers to keep it."""

    ceiling_interval_ns: int
    rate_per_s: float  # never above the ceiling
    learned_at_ns: int
    octave_per_s: float  # the rate the present octave of discovery began at
    edges_per_s: tuple[float, ...] = ()  # rates that were refused, the nearest first, ascending
    account: float = 0.0  # refusals that probing may still cost
    clean: int = 0  # good answers since the last refusal that counted
    streak: int = 0  # refusals in a row that counted
    streak_began_at_ns: int = 0
    evidence: float = 0.0  # log-likelihood that the edge lies below the present rate
    stray_share: float = STRAY_LEAST
    trouble_share: float = TROUBLE_LEAST
    trouble_evidence: float = 0.0
    latency_ns: float = 0.0
    baseline_ns: float = 0.0
    last_cut_at_ns: int = -1
    wait_ns: int = 0  # length of the present wait; 0 = not waiting
    quiet_until_ns: int = 0  # nothing leaves before this; 0 = no such wait

    @property
    def interval_ns(self) -> int:
        """Time between departures, never shorter than the ceiling's."""
        return max(self.ceiling_interval_ns, math.ceil(SECOND_NS / self.rate_per_s))

    @property
    def ceiling_per_s(self) -> float:
        return SECOND_NS / self.ceiling_interval_ns


def cold_start(*, ceiling_interval_ns: int, now_ns: int) -> Pace:
    """The pace when nothing is known: 1 request/s, or the ceiling if slower."""
    assert ceiling_interval_ns > 0, "a ceiling interval is a positive time"
    rate = min(COLD_START_PER_S, SECOND_NS / ceiling_interval_ns)
    return Pace(ceiling_interval_ns, rate, learned_at_ns=now_ns, octave_per_s=rate)


def after(pace: Pace, event: Answered) -> Pace:
    """The pace once this answer is known."""
    match event.answer:
        case Answer.GOOD:
            return _good(pace, event)
        case Answer.REFUSED:
            return _refused(pace, event)
        case Answer.TROUBLED:
            return _troubled(pace, event)


def _good(pace: Pace, event: Answered) -> Pace:
    if event.departed_at_ns <= pace.last_cut_at_ns:
        return pace
    if pace.streak > 1:
        return _resumed(pace, event)
    pace = _quieter_evidence(pace, event)
    if not event.pace_bound or pace.latency_ns > LATENCY_HIGH * pace.baseline_ns:
        return pace
    return _raised(pace, event.answered_at_ns)


def _quieter_evidence(pace: Pace, event: Answered) -> Pace:
    latency = float(max(1, event.answered_at_ns - event.departed_at_ns))
    smoothed = pace.latency_ns + (latency - pace.latency_ns) / LATENCY_MEMORY if pace.latency_ns else latency
    if not pace.baseline_ns or latency < pace.baseline_ns:
        baseline = latency
    else:
        baseline = pace.baseline_ns + (latency - pace.baseline_ns) / BASELINE_MEMORY
    trouble_most = min(TROUBLE_MOST, TROUBLE_RATIO * pace.trouble_share)
    return replace(
        pace,
        clean=pace.clean + 1,
        streak=0,
        account=min(ACCOUNT_MOST, pace.account + REFUSED_BUDGET + pace.stray_share - STRAY_LEAST),
        evidence=max(0.0, pace.evidence - (DENSITY_RATIO - 1) * pace.stray_share),
        stray_share=max(STRAY_LEAST, pace.stray_share * (1 - 1 / STRAY_MEMORY)),
        trouble_share=max(TROUBLE_LEAST, pace.trouble_share * (1 - 1 / TROUBLE_MEMORY)),
        trouble_evidence=max(0.0, pace.trouble_evidence - (trouble_most - pace.trouble_share)),
        latency_ns=smoothed,
        baseline_ns=baseline,
    )


def _raised(pace: Pace, now_ns: int) -> Pace:
    octave = pace.octave_per_s
    round_trip = pace.rate_per_s * pace.latency_ns / SECOND_NS
    step = octave / max(SUCCESSES_PER_DOUBLING, ROUND_TRIPS_PER_DOUBLING * round_trip)
    edges = pace.edges_per_s
    if edges:
        edge = edges[0]
        shrunk = max(abs(edge - pace.rate_per_s) / SUCCESSES_PER_DOUBLING, edge * DIP / CLIMB_SUCCESSES)
        step = min(step, shrunk)
        if pace.account < 0 and pace.rate_per_s >= edge * (1 - DIP):
            step = 0.0
    rate = min(pace.ceiling_per_s, pace.rate_per_s + step)
    if edges and rate >= 2 * edges[0]:
        edges = edges[1:]
    if rate >= 2 * octave:
        octave = rate
    return replace(pace, rate_per_s=rate, octave_per_s=octave, edges_per_s=edges, learned_at_ns=now_ns)


def _resumed(pace: Pace, event: Answered) -> Pace:
    """The first success after refusals in a row: return to the octave below the edge."""
    outage_ns = event.departed_at_ns - pace.streak_began_at_ns
    lost = outage_ns * pace.edges_per_s[0] / SECOND_NS
    account = max(ACCOUNT_LEAST, pace.account - lost * REFUSED_BUDGET / OUTAGE_BUDGET)
    rate = max(pace.rate_per_s, pace.edges_per_s[0] / 2)
    rate = min(rate, pace.ceiling_per_s)
    return replace(
        pace,
        rate_per_s=rate,
        octave_per_s=rate,
        streak=0,
        clean=1,
        account=account,
        wait_ns=0,
        quiet_until_ns=0,
        learned_at_ns=event.answered_at_ns,
    )


def _refused(pace: Pace, event: Answered) -> Pace:
    if event.departed_at_ns <= pace.last_cut_at_ns:
        return pace
    if pace.streak >= 1:
        return _refused_again(pace, event)
    edges = pace.edges_per_s
    evidence = pace.evidence + math.log(DENSITY_RATIO)
    stray = pace.stray_share
    account = pace.account - 1
    if not edges or pace.rate_per_s > edges[0] * 2:
        edges, rate = _remember(edges, pace.rate_per_s), pace.rate_per_s / 2
    elif evidence >= EDGE_BELIEVED:
        edges = _remember(edges, pace.rate_per_s)
        rate = pace.rate_per_s * (1 - min(0.5, max(DIP, 1 / (pace.clean + 1))))
    else:
        rate = pace.rate_per_s * (1 - DIP)
        if pace.rate_per_s > edges[0]:
            edges = _remember(edges[1:], pace.rate_per_s)
        elif pace.rate_per_s <= edges[0] * (1 - DIP / 2):
            stray = min(STRAY_MOST, stray + 1 / STRAY_MEMORY)
    return _cut(
        replace(
            pace,
            edges_per_s=edges,
            evidence=min(evidence, 2 * EDGE_BELIEVED),
            stray_share=stray,
            account=max(ACCOUNT_LEAST, account),
            clean=0,
            streak=1,
            streak_began_at_ns=event.departed_at_ns,
        ),
        rate,
        event.answered_at_ns,
    )


def _refused_again(pace: Pace, event: Answered) -> Pace:
    floor = pace.edges_per_s[0] * DEEPEST_CUT
    account = max(ACCOUNT_LEAST, pace.account - 1)
    pace = replace(pace, streak=pace.streak + 1, account=account, clean=0)
    if pace.rate_per_s / 2 >= floor:
        return _cut(pace, pace.rate_per_s / 2, event.answered_at_ns)
    wait = min(WAIT_MOST_NS, WAIT_GROWTH * max(pace.wait_ns, pace.interval_ns))
    quiet = replace(pace, wait_ns=wait, quiet_until_ns=event.answered_at_ns + wait)
    # One request per wait: the first probe is single by its pace alone.
    return _cut(quiet, SECOND_NS / wait, event.answered_at_ns)


def _troubled(pace: Pace, event: Answered) -> Pace:
    if event.departed_at_ns <= pace.last_cut_at_ns:
        return pace
    usual = pace.trouble_share
    evidence = pace.trouble_evidence + math.log(min(TROUBLE_MOST, TROUBLE_RATIO * usual) / usual)
    share = min(TROUBLE_MOST / TROUBLE_RATIO, usual + (1 - usual) / TROUBLE_MEMORY)
    if evidence < TROUBLE_BELIEVED:
        return replace(pace, trouble_share=share, trouble_evidence=evidence)
    return _cut(replace(pace, trouble_share=share, trouble_evidence=0.0), pace.rate_per_s / 2, event.answered_at_ns)


def _remember(edges: tuple[float, ...], edge: float) -> tuple[float, ...]:
    """Put an edge first; the higher ones stay, as what to try after it is refuted."""
    return (edge, *(e for e in edges if e > edge * (1 + 2 * DIP)))[:EDGES_KEPT]


def _cut(pace: Pace, rate: float, now_ns: int) -> Pace:
    rate = min(pace.ceiling_per_s, max(rate, min(RATE_LEAST_PER_S, pace.ceiling_per_s)))
    return replace(pace, rate_per_s=rate, octave_per_s=rate, last_cut_at_ns=now_ns, learned_at_ns=now_ns)


class ChangeKind(StrEnum):
    """How a pace changed."""

    SPED_UP = "sped_up"
    BACKED_OFF = "backed_off"
    QUIETED = "quieted"


@dataclass(frozen=True, slots=True)
class PaceChange:
    kind: ChangeKind
    from_per_s: float
    to_per_s: float


def describe(before: Pace, after: Pace) -> PaceChange | None:
    """What an operator should hear of a change of pace; none if there was none."""
    if after.quiet_until_ns > before.quiet_until_ns:
        return PaceChange(ChangeKind.QUIETED, before.rate_per_s, after.rate_per_s)
    if after.rate_per_s < before.rate_per_s:
        return PaceChange(ChangeKind.BACKED_OFF, before.rate_per_s, after.rate_per_s)
    if after.rate_per_s > before.rate_per_s:
        return PaceChange(ChangeKind.SPED_UP, before.rate_per_s, after.rate_per_s)
    return None
