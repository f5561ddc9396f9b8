"""Why is an item owed? One closed list of reasons, each in exactly one family."""

from enum import StrEnum
from typing import Final


class GapFamily(StrEnum):
    """What the reasons of one family have in common: what has to change before the item can be collected."""

    PRESSURE = "pressure"  # the provider asks for less
    RUN_CAP = "run_cap"  # we stopped ourselves
    ITEM = "item"  # this one item is refused or wrong
    TRANSPORT = "transport"  # the connection to the provider failed
    YOUNG = "young"  # the item does not exist yet


class GapReason(StrEnum):
    """Why one item is owed."""

    RATE_LIMITED = "rate_limited"
    UPSTREAM_PRESSURE = "upstream_pressure"
    MAX_WALL_CLOCK = "max_wall_clock"
    MAX_FETCHES = "max_fetches"
    RETRY_BUDGET = "retry_budget"
    NOT_FOUND = "not_found"
    GONE = "gone"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER_ERROR = "server_error"
    MOVED = "moved"
    NOT_YET = "not_yet"

    @property
    def family(self) -> GapFamily:
        """The one family this reason belongs to."""
        return FAMILY[self]


# A mapping, not several sets: a reason cannot be in two families.
FAMILY: Final[dict[GapReason, GapFamily]] = {
    GapReason.RATE_LIMITED: GapFamily.PRESSURE,
    GapReason.UPSTREAM_PRESSURE: GapFamily.PRESSURE,
    GapReason.MAX_WALL_CLOCK: GapFamily.RUN_CAP,
    GapReason.MAX_FETCHES: GapFamily.RUN_CAP,
    GapReason.RETRY_BUDGET: GapFamily.RUN_CAP,
    GapReason.NOT_FOUND: GapFamily.ITEM,
    GapReason.GONE: GapFamily.ITEM,
    GapReason.UNAUTHORIZED: GapFamily.ITEM,
    GapReason.FORBIDDEN: GapFamily.ITEM,
    GapReason.MALFORMED: GapFamily.ITEM,
    GapReason.TOO_LARGE: GapFamily.ITEM,
    GapReason.TIMEOUT: GapFamily.TRANSPORT,
    GapReason.CONNECTION: GapFamily.TRANSPORT,
    GapReason.SERVER_ERROR: GapFamily.TRANSPORT,
    GapReason.MOVED: GapFamily.ITEM,
    GapReason.NOT_YET: GapFamily.YOUNG,
}
