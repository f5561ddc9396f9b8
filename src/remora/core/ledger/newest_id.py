"""Is the newest id that a source reports believable? A claim far above every item read so far needs an item as proof.

One wrong number would declare that many ids missing. Two equal answers prove nothing: a wrong answer can be repeated.
An item that can be read is proof. So no claim more than `PLAUSIBLE_IDS` above an existing item is believed without one.

A claim far below an item that was read changes nothing either: what is here stays, and the operator is told.
"""

from typing import Final

import msgspec

from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

# More ids than a source assigns between two polls or leaves empty at its top. Below this no probe is sent.
PLAUSIBLE_IDS: Final = 1_000
# Probes for one claim. A source where one id in ten exists is believed after two claims on average.
PROBES_MAX: Final = 8
# A claim that was not believed is checked again after this time, then after twice as long, and so on.
DOUBT_FIRST_NS: Final = 15 * SECOND_NS
DOUBT_MAX_NS: Final = HOUR_NS
# A source whose newest items are deleted reports a lower newest id; so many are no reason to doubt it.
BACK_IDS_MAX: Final = 100
BACK_IDS_LEAST: Final = 10
BACK_ONE_IN: Final = 10  # of a source with few ids: one in so many
# A replica that lags catches up within this time.
BACK_FOR_NS: Final = 3 * MINUTE_NS
_STRIDE: Final = PLAUSIBLE_IDS // PROBES_MAX
_SHIFT: Final = 17  # does not divide the stride, so that later attempts probe other ids


def needs_proof(told: int, *, proven_id: int) -> bool:
    """Whether a claim is too far above every item that is known to exist."""
    return told > proven_id + PLAUSIBLE_IDS


def probes(told: int, *, attempt: int = 0) -> tuple[int, ...]:
    """Which ids to request, the most likely first: one existing item among them proves the claim.

    The newest id itself may not be readable yet, so the first attempt asks just below it. Later attempts spread over
    the whole range in which an item is proof, at different ids each time: a sparse source has holes.
    """
    assert attempt >= 0, f"attempt {attempt}"
    if attempt == 0:
        below = [0, *(1 << step for step in range(PROBES_MAX - 1))]
    else:
        below = [(step * _STRIDE + attempt * _SHIFT) % PLAUSIBLE_IDS for step in range(PROBES_MAX)]
    return tuple(told - each for each in below if told - each > 0)


def is_far_below(told: int, *, proven_id: int) -> bool:
    """Whether a source reports a newest id far below an item that was read: it seems to have gone back."""
    return told < proven_id - min(BACK_IDS_MAX, max(BACK_IDS_LEAST, proven_id // BACK_ONE_IN))


class WentBack(msgspec.Struct, frozen=True):
    """Since when a source reports only newest ids far below an item that was read, and the last of them."""

    told: int
    since_ns: int  # wall clock
    heard_ns: int  # wall clock: when the last one was told

    @property
    def is_lasting(self) -> bool:
        """Whether it takes longer than a lagging replica."""
        return self.heard_ns - self.since_ns >= BACK_FOR_NS


def gone_back(before: WentBack | None, told: int, *, proven_id: int, now_wall_ns: int) -> WentBack | None:
    """How far back the source has gone after it reported one more newest id; None if it has not."""
    if not is_far_below(told, proven_id=proven_id):
        return None
    # After a clock that was set back, the time is counted anew.
    since_ns = now_wall_ns if before is None or before.since_ns > now_wall_ns else before.since_ns
    return WentBack(told, since_ns, now_wall_ns)


class Doubt(msgspec.Struct, frozen=True):
    """A claim that nothing proved."""

    told: int
    since_ns: int  # wall clock
    attempts: int
    again_at_ns: int  # monotonic: not probed before

    def covers(self, told: int, *, now_ns: int) -> bool:
        """Whether to refuse this claim without a probe: it is not below the doubted one, and the wait is not over."""
        return now_ns < self.again_at_ns and told >= self.told


def doubted(before: Doubt | None, told: int, *, now_ns: int, now_wall_ns: int) -> Doubt:
    """The doubt after one more claim that nothing proved."""
    attempts = 1 if before is None else before.attempts + 1
    wait_ns = min(DOUBT_MAX_NS, DOUBT_FIRST_NS << min(attempts - 1, DOUBT_MAX_NS.bit_length()))
    since_ns = now_wall_ns if before is None else before.since_ns
    return Doubt(told, since_ns, attempts, now_ns + wait_ns)
