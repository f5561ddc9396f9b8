"""Why did a run stop, and what follows from it? A stop we impose on ourselves and one the provider forces never mix."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from remora.core.errors import Exit
from remora.core.reasons import GapFamily, GapReason


class Phase(StrEnum):
    """The parts of a run, in their order."""

    RECOVERY = "recovery"
    WALK = "walk"
    DETAILS = "details"


class StoppedBy(StrEnum):
    """Why a run ended."""

    COMPLETE = "complete"
    RECOVER_ONLY = "recover_only"
    COOL_DOWN = "cool_down"  # an earlier run met pressure; the walk waits
    MAX_WALL_CLOCK = "max_wall_clock"
    MAX_FETCHES = "max_fetches"
    RETRY_BUDGET = "retry_budget"
    UPSTREAM_PRESSURE = "upstream_pressure"
    LIST_REFUSED = "list_refused"
    LIST_UNREADABLE = "list_unreadable"
    LIST_TROUBLE = "list_trouble"

    @property
    def exit_code(self) -> Exit:
        """What the process tells its caller."""
        match self:
            case StoppedBy.COMPLETE | StoppedBy.RECOVER_ONLY | StoppedBy.COOL_DOWN:
                return Exit.DONE
            case (
                StoppedBy.MAX_WALL_CLOCK | StoppedBy.MAX_FETCHES | StoppedBy.RETRY_BUDGET | StoppedBy.UPSTREAM_PRESSURE
            ):
                return Exit.BUDGET_USED
            case StoppedBy.LIST_REFUSED | StoppedBy.LIST_UNREADABLE | StoppedBy.LIST_TROUBLE:
                return Exit.FAILED


@dataclass(frozen=True, slots=True)
class Stop:
    """The run cannot go on."""

    by: StoppedBy
    reason: GapReason  # why the rest is owed
    wait_ns: int = 0  # how long at least nothing can be sent, where that is known


@dataclass(slots=True)
class RunCounts:
    """What a run did."""

    requests: int = 0
    pages: int = 0
    listed: int = 0  # entries that became owed details
    outcomes: Counter[str] = field(default_factory=Counter)
    waits: int = 0  # times the provider asked for less and was waited out

    def as_mapping(self) -> dict[str, int]:
        """The counts by name, as they are stored."""
        return {
            "requests": self.requests,
            "pages": self.pages,
            "listed": self.listed,
            "waits": self.waits,
            **dict(self.outcomes),
        }


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended."""

    stopped_by: StoppedBy
    counts: RunCounts
    owed: int  # details that are still owed
    next_not_before_ns: int | None = None  # wall clock; when the walk may go on after pressure


def stop_for_cap(reason: GapReason, *, wait_ns: int = 0) -> Stop:
    """A stop because the run's own budget is used up, or would be before the next request could leave."""
    assert reason.family is GapFamily.RUN_CAP, f"{reason} is not a cap of ours"
    return Stop(StoppedBy(reason.value), reason, wait_ns)


def stop_for_pressure(*, wait_ns: int) -> Stop:
    """A stop because the provider kept asking for less."""
    return Stop(StoppedBy.UPSTREAM_PRESSURE, GapReason.UPSTREAM_PRESSURE, wait_ns)
