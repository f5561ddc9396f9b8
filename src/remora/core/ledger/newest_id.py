"""Is the newest id that a source tells believable? A claim far above every item that was ever read must be proven by one.

One wrong number would declare that many ids missing. Two equal answers prove nothing either: whoever lies once lies
twice. An item that can be read does. So nothing is believed further than `PLAUSIBLE_IDS` above an item that exists.
"""

from dataclasses import dataclass
from typing import Final

from remora.core.units import HOUR_NS, SECOND_NS

# More ids than a source assigns between two polls, and than stay empty at its top. Below this no request is spent.
PLAUSIBLE_IDS: Final = 1_000
# Requests for one claim. A source of which one id in ten exists is believed after two claims on average.
PROBES_MAX: Final = 8
# A claim that was refused is looked at again after this, then after twice as long, and so on.
DOUBT_FIRST_NS: Final = 15 * SECOND_NS
DOUBT_MAX_NS: Final = HOUR_NS
_STRIDE: Final = PLAUSIBLE_IDS // PROBES_MAX
_SHIFT: Final = 17  # no divisor of the stride, so that later looks meet other ids


def needs_proof(told: int, *, proven_id: int) -> bool:
    """Whether a claim is too far above every item that is known to exist."""
    return told > proven_id + PLAUSIBLE_IDS


def probes(told: int, *, attempt: int = 0) -> tuple[int, ...]:
    """Which ids to ask for, the most telling first: one item among them proves the claim.

    The newest id itself may not be readable yet, so the first attempt asks close below it. Later ones spread over the
    whole range that an item proves, at other places each time: a sparse source has holes.
    """
    assert attempt >= 0, f"attempt {attempt}"
    if attempt == 0:
        below = [0, *(1 << step for step in range(PROBES_MAX - 1))]
    else:
        below = [(step * _STRIDE + attempt * _SHIFT) % PLAUSIBLE_IDS for step in range(PROBES_MAX)]
    return tuple(told - each for each in below if told - each > 0)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim that nothing proved."""

    told: int
    since_ns: int  # wall clock
    attempts: int
    again_at_ns: int  # monotonic: not probed before

    def covers(self, told: int, *, now_ns: int) -> bool:
        """Whether this claim is refused without asking: it is no lower than the one in doubt, and it is too early."""
        return now_ns < self.again_at_ns and told >= self.told


def doubted(before: Doubt | None, told: int, *, now_ns: int, now_wall_ns: int) -> Doubt:
    """The doubt after one more claim that nothing proved."""
    attempts = 1 if before is None else before.attempts + 1
    wait_ns = min(DOUBT_MAX_NS, DOUBT_FIRST_NS << min(attempts - 1, DOUBT_MAX_NS.bit_length()))
    since_ns = now_wall_ns if before is None else before.since_ns
    return Doubt(told, since_ns, attempts, now_ns + wait_ns)
