"""What do the gate and its learner tell each other? Why nothing may leave, what was sent, and the last time the pace fell."""

from dataclasses import dataclass
from enum import StrEnum


class LimitedBy(StrEnum):
    """What holds the rate where it is. Closed: every screen can explain each of them."""

    CEILING = "ceiling"
    PACE = "pace"
    RETRY_AFTER = "retry_after"
    CIRCUIT = "circuit"
    NO_WORK = "no_work"
    IN_FLIGHT = "in_flight"
    STORE = "store"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why nothing may leave, and until when; None means until something changes."""

    limited_by: LimitedBy
    until_ns: int | None


@dataclass(frozen=True, slots=True)
class BackOff:
    """The last time the pace went down."""

    at_wall_ns: int
    reason: str
    from_per_s: float
    to_per_s: float


@dataclass(frozen=True, slots=True)
class Sent:
    """What the learner must know about the request that was answered."""

    departed_at_ns: int | None
    pace_bound: bool
    is_probe: bool
