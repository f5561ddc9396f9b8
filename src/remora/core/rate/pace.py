"""What is a pace? The learned rate, and all that the law must remember to keep it."""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from remora.core.quota import Quota
from remora.core.rate.constants import (
    ACCOUNT_MOST,
    COLD_START_PER_S,
    EDGES_KEPT,
    NEAR,
    STRAY_LEAST,
    TROUBLE_LEAST,
    WAIT_MOST_NS,
)
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import SECOND_NS

__all__ = [
    "RATE_LEAST_PER_S",
    "Answer",
    "Answered",
    "ChangeKind",
    "Pace",
    "PaceChange",
    "Quota",
    "changed",
    "cold_start",
    "cut",
    "describe",
    "possible",
    "remember",
]

RATE_LEAST_PER_S: Final = SECOND_NS / WAIT_MOST_NS  # one request in the longest wait


class Answer(StrEnum):
    """What one request's answer says about the rate."""

    GOOD = "good"
    REFUSED = "refused"
    TROUBLED = "troubled"


class Answered(msgspec.Struct, frozen=True, gc=False):
    """One request was answered; times are monotonic."""

    answer: Answer
    departed_at_ns: int
    answered_at_ns: int
    pace_bound: bool  # the pace, not idleness, latency or the in-flight bound, held departures back
    asked_to_wait_ns: int = 0  # a refusal's Retry-After, which the gate obeys; 0 = it did not say
    quota: Quota | None = None  # what the answer says about a quota; None = nothing


@dataclass(frozen=True)
class Pace:
    """The learned rate and what the law remembers. For the present speed only the first fields matter."""

    ceiling_interval_ns: int
    rate_per_s: float  # never above the ceiling
    learned_at_ns: int
    octave_per_s: float  # the rate at which the present octave of discovery began
    quiet_until_ns: int = 0  # nothing is sent before this; 0 = no such wait
    last_cut_at_ns: int = -1
    quota_interval_ns: int = 0  # spreads what is left of a known quota over its time; 0 = no quota is known
    quota_until_ns: int = 0  # when that quota resets
    refusal_limit: RefusalLimit | None = None  # the owner's, which the gate keeps; None = none was written

    # The edge, and what probing it may still cost.
    edges_per_s: tuple[float, ...] = ()  # rates that were refused: the present edge, then the next higher one
    below_per_s: float = 0.0  # during a test: the old edge, which a probe had passed when it was refused; 0 = no test
    best_per_s: float = 0.0  # the highest rate that was accepted for long; each refused probe far below halves it
    met_per_s: float = 0.0  # where the last probe was refused alone; 0 = nowhere
    suspect_per_s: float = 0.0  # where discovery was last refused, which may have been a stray; 0 = nowhere
    account: float = ACCOUNT_MOST  # good answers that probing may still cost
    bursts: bool = False  # a burst is known to carry probes above the edge
    filled: float = 0.0  # requests that a burst may have saved up since the last refusal, while we sent less or nothing
    held: int = 0  # good answers since the edge was last found somewhere else
    lasted: int = 0  # how long the edge before had held; 0 = no settled edge ever moved
    left_per_s: float = 0.0  # that edge; 0 = none

    # The present streak of refusals, and the last time the provider shut us out.
    streak: int = 0  # refusals in a row that counted
    streak_began_at_ns: int = 0
    last_refused_at_ns: int = 0
    provisional: bool = False  # the edge was set by this streak; none was known before
    probed: bool = False  # the streak began with a probe of the edge
    overshot: bool = False  # the first of several close refusals came while probing or discovering
    wait_ns: int = 0  # length of the present wait; 0 = not waiting
    asked_ns: int = 0  # the wait the provider asked for with the last refusal; 0 = it did not say
    outage_ns: int = 0  # how long the provider shut us out the last time
    refused_ns: tuple[int, ...] = ()  # when the last refusals came; only where the owner wrote a limit on them

    # Evidence, in answers.
    clean: int = 0  # good answers since the last refusal that counted
    clean_before: int = 0  # the same between the two refusals before
    alike: int = 0  # refusals in a row that came after about as many good answers as the one before
    chain_good: int = 0  # good answers since the refusal from which the accepted rate is measured
    chain_ns: float = -1.0  # the time they took without idleness; negative before the first refusal
    evidence: float = 0.0  # log-likelihood that the edge lies below the present rate
    stray_share: float = STRAY_LEAST
    trouble_share: float = TROUBLE_LEAST
    trouble_evidence: float = 0.0
    latency_ns: float = 0.0  # how long answers take, smoothed
    baseline_ns: float = 0.0  # how long quick answers usually take
    slow: int = 0  # answers in a row that took much longer than that
    slow_share: float = 0.0  # their usual share of all answers
    answered_at_ns: int = 0  # when the last good answer came
    left_at_ns: int = 0  # when its request was sent
    gap_ns: float = 0.0  # time between good answers, smoothed: in a queue, the time to serve one request
    queued: int = 0  # answers in a row that showed a queue, since the rate was last cut for it
    queue_ns: float = 0.0  # how long answers took when the rate was cut for a queue; 0 = no queue, or it has drained

    @property
    def interval_ns(self) -> int:
        """Time between departures, never shorter than the ceiling or a quota allows."""
        return max(self.ceiling_interval_ns, ceil(SECOND_NS / self.rate_per_s), self.quota_interval_ns)

    @property
    def learned_interval_ns(self) -> int:
        """The same without the quota."""
        return max(self.ceiling_interval_ns, ceil(SECOND_NS / self.rate_per_s))

    @property
    def ceiling_per_s(self) -> float:
        return SECOND_NS / self.ceiling_interval_ns


if TYPE_CHECKING:
    # The type checker sees `replace`, so that every field and its type are checked.
    from dataclasses import replace as changed
else:

    def changed(pace: Pace, **fields: object) -> Pace:
        """The pace with some fields changed. The same as `replace`, in a fifth of its time: each answer needs one."""
        copy = object.__new__(Pace)
        state = vars(copy)
        state.update(vars(pace))
        state.update(fields)
        return copy


def possible(pace: Pace, rate_per_s: float) -> float:
    """The rate, not above the ceiling and not slower than one request per longest wait."""
    return min(pace.ceiling_per_s, max(RATE_LEAST_PER_S, rate_per_s))


def cut(pace: Pace, rate_per_s: float, now_ns: int) -> Pace:
    """The pace at this rate, if that is lower. Requests sent before now will neither lower nor raise it again."""
    rate = min(pace.rate_per_s, possible(pace, rate_per_s))
    return changed(pace, rate_per_s=rate, octave_per_s=rate, last_cut_at_ns=now_ns, learned_at_ns=now_ns)


def remember(edges: tuple[float, ...], edge: float) -> tuple[float, ...]:
    """Put an edge first. A clearly higher one stays: the climb slows down there once this one is passed."""
    edge = max(RATE_LEAST_PER_S, edge)
    return (edge, *(higher for higher in edges if higher > edge * (1 + NEAR)))[:EDGES_KEPT]


def cold_start(*, ceiling_interval_ns: int, now_ns: int) -> Pace:
    """The pace when nothing is known: 1 request/s, or the ceiling if slower."""
    assert ceiling_interval_ns > 0, f"a ceiling interval of {ceiling_interval_ns} ns"
    rate = min(COLD_START_PER_S, SECOND_NS / ceiling_interval_ns)
    # Taken for accepted until refused probes say otherwise: refusals that have nothing to do with the rate may come first.
    return Pace(ceiling_interval_ns, rate, learned_at_ns=now_ns, octave_per_s=rate, best_per_s=rate)


class ChangeKind(StrEnum):
    """How a pace changed."""

    SPED_UP = "sped_up"
    BACKED_OFF = "backed_off"
    QUIETED = "quieted"


class PaceChange(msgspec.Struct, frozen=True):
    kind: ChangeKind
    from_per_s: float
    to_per_s: float


def describe(before: Pace, after: Pace) -> PaceChange | None:
    """What an operator should know about a change of pace; None if there was none."""
    if after.quiet_until_ns > before.quiet_until_ns:
        return PaceChange(ChangeKind.QUIETED, before.rate_per_s, after.rate_per_s)
    if after.rate_per_s < before.rate_per_s:
        return PaceChange(ChangeKind.BACKED_OFF, before.rate_per_s, after.rate_per_s)
    if after.rate_per_s > before.rate_per_s:
        return PaceChange(ChangeKind.SPED_UP, before.rate_per_s, after.rate_per_s)
    return None
