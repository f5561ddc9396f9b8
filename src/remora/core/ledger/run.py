"""Why did a run stop, and what follows? Our own caps and the provider's pressure never share a reason."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from remora.core.errors import Exit
from remora.core.ledger.budget import Budget
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

# A provider that refuses this many requests in a row, although we kept every wait, will not recover within this run.
WAITS_IN_A_ROW_MAX: Final = 8
# After this many refused details in a row, at any rate, the account is refused, so the other details are not requested.
REFUSED_IN_A_ROW_MAX: Final = 5
# The minimum time between the starts of two runs, however the last one ended, whatever `every` and the clock say.
RUNS_APART_LEAST_NS: Final = MINUTE_NS
PLUGIN_FAILED: Final = "the plug-in failed while it asked for the list (the event plugin_failed says where)"
REFUSED_LATER: Final = "the provider refuses the pages behind those that it showed"
END_OR_LIMIT: Final = (
    'if it takes only some page sizes, write the size into list.path and size_param = ""; '
    'if it answers so behind its last page, write a rule with means = "end"; '
    "if it shows only so many entries, ask for less at a time with window or since"
)
LIMIT_RULE: Final = 'If it says "too many" in this way, write a rule with means = "pressure"'
FAULT_RULE: Final = (
    "see what remora try understands; if the provider tells a fault or a limit in this way, write a rule"
)
PRESSURE: Final = tuple(reason for reason in GapReason if reason.family is GapFamily.PRESSURE)
BUT_PRESSURE: Final = tuple(reason for reason in GapReason if reason.family is not GapFamily.PRESSURE)


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
    REFUSED = "refused"  # every detail in a row: the account is refused, not the details
    LIST_REFUSED = "list_refused"
    LIST_UNREADABLE = "list_unreadable"
    LIST_TROUBLE = "list_trouble"
    LIST_CONTRADICTS = "list_contradicts"  # the list contradicts its declaration

    @property
    def exit_code(self) -> Exit:
        """The exit code of the process."""
        match self:
            case StoppedBy.COMPLETE | StoppedBy.RECOVER_ONLY | StoppedBy.COOL_DOWN:
                return Exit.DONE
            case (
                StoppedBy.MAX_WALL_CLOCK | StoppedBy.MAX_FETCHES | StoppedBy.RETRY_BUDGET | StoppedBy.UPSTREAM_PRESSURE
            ):
                return Exit.BUDGET_USED
            case (
                StoppedBy.REFUSED
                | StoppedBy.LIST_REFUSED
                | StoppedBy.LIST_UNREADABLE
                | StoppedBy.LIST_TROUBLE
                | StoppedBy.LIST_CONTRADICTS
            ):
                return Exit.FAILED


# A run that ended like this needs a person, or another answer of the provider.
FAILURES: Final = frozenset(stopped_by for stopped_by in StoppedBy if stopped_by.exit_code is Exit.FAILED)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the run cannot continue."""

    by: StoppedBy
    reason: GapReason | None = None  # why the rest is owed; None when nothing was refused
    wait_ns: int = 0  # how long nothing will be sent, as far as is known now
    held_ns: int = 0  # how long the provider itself asked us to wait
    why: str = ""  # a sentence about the list, where it says more than the reason
    is_owed: bool = False  # a page was left behind and is a gap of its own: nothing else is left

    @property
    def is_ours(self) -> bool:
        """Whether a cap of the run stopped it. Such a stop starts no cool-down."""
        return self.reason is not None and self.reason.family is GapFamily.RUN_CAP

    @property
    def is_pressure(self) -> bool:
        """Whether the provider asked for less."""
        return self.reason is not None and self.reason.family is GapFamily.PRESSURE

    @property
    def may_be_of_position(self) -> bool:
        """Whether another position of the list might be answered: not if the token is refused, or nothing answers."""
        is_answer = self.by in {StoppedBy.LIST_REFUSED, StoppedBy.LIST_UNREADABLE}
        return is_answer and self.reason is not GapReason.UNAUTHORIZED


@dataclass(slots=True)
class RunCounts:
    """What a run did."""

    requests: int = 0
    pages: int = 0
    entries: int = 0  # entries that the pages showed
    listed: int = 0  # entries that became owed details
    vanished: int = 0  # entries that the list no longer shows
    outcomes: Counter[str] = field(default_factory=Counter)
    waits: int = 0  # how often the provider asked for less and we waited
    retries: int = 0  # requests sent again after a fault

    def as_mapping(self) -> dict[str, int]:
        """The counts by name, as they are stored."""
        return {
            "requests": self.requests,
            "pages": self.pages,
            "entries": self.entries,
            "listed": self.listed,
            "vanished": self.vanished,
            "waits": self.waits,
            "retries": self.retries,
            **dict(self.outcomes),
        }


class RunSummary(msgspec.Struct, frozen=True):
    """How a run ended."""

    stopped_by: StoppedBy
    counts: RunCounts
    owed: int  # details that are still owed
    next_not_before_ns: int | None = None  # wall clock; when the walk may go on after pressure
    because: str = ""  # one sentence that names the limit that ended the run
    dead: int = 0  # details we gave up on for now
    unread_pages: int = 0  # pages of the list that are owed


def stop_for_cap(reason: GapReason, *, wait_ns: int = 0, held_ns: int = 0) -> Stop:
    """A stop because the run's own budget is used up, or would be before the next request could be sent."""
    assert reason.family is GapFamily.RUN_CAP, f"{reason} is not a cap of ours"
    return Stop(StoppedBy(reason.value), reason, wait_ns, held_ns)


def stop_for_pressure(*, wait_ns: int, held_ns: int = 0) -> Stop:
    """A stop because the provider kept asking for less."""
    return Stop(StoppedBy.UPSTREAM_PRESSURE, GapReason.UPSTREAM_PRESSURE, wait_ns, held_ns)


def stop_for_list(verdict: Verdict, *, is_later: bool) -> Stop:
    """A stop because a page of the list could not be had. `is_later`: pages are counted, and this is not the first one."""
    match verdict:
        case Refused(GapReason.FORBIDDEN as reason) | Missing(GapReason.GONE as reason) if is_later:
            return Stop(StoppedBy.LIST_REFUSED, reason, why=f"{REFUSED_LATER} ({reason}); {END_OR_LIMIT}")
        case Refused(reason) | Missing(reason):
            return Stop(StoppedBy.LIST_REFUSED, reason)
        case Malformed(reason):
            return Stop(StoppedBy.LIST_UNREADABLE, reason)
        case Trouble(reason, moved_to) if moved_to:
            return Stop(StoppedBy.LIST_TROUBLE, reason, why=f"the list moved to {moved_to}: write this address")
        case Trouble(reason, odd=odd) if odd:
            return Stop(StoppedBy.LIST_TROUBLE, reason, why=f"the list answers, but {odd}")
        case Trouble(GapReason.MALFORMED):  # of the source's own code
            return Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED, why=PLUGIN_FAILED)
        case Trouble(reason) | Pressure(reason) | Deferred(reason):
            return Stop(StoppedBy.LIST_TROUBLE, reason)
        case Found() | NotYet():
            return Stop(StoppedBy.LIST_UNREADABLE, GapReason.MALFORMED)


def in_words(stop: Stop | None, budget: Budget, counts: RunCounts, *, now_ns: int) -> str:
    """One sentence: which limit ended the run, how much of it was used, and how long the provider asks us to wait."""
    if stop is None:
        return "everything that is listed was asked for"
    match stop.by:
        case StoppedBy.COMPLETE:
            return "everything that is listed was asked for"
        case StoppedBy.RECOVER_ONLY:
            return "what was owed was asked for; the list was left alone, as asked"
        case StoppedBy.COOL_DOWN:
            return f"an earlier run met pressure ({stop.reason}); the walk may go on in {span(stop.wait_ns)}"
        case StoppedBy.MAX_FETCHES:
            return f"all {budget.max_fetches} requests that the run may send are sent"
        case StoppedBy.RETRY_BUDGET:
            return (
                f"{counts.retries} of {counts.requests} requests were repeats after faults, as many as a run may send"
            )
        case StoppedBy.MAX_WALL_CLOCK:
            return _wall_clock_in_words(stop, budget, now_ns=now_ns)
        case StoppedBy.UPSTREAM_PRESSURE:
            return (
                f"the provider asked for less {WAITS_IN_A_ROW_MAX} times in a row, every wait kept; "
                f"used {_used(budget, now_ns=now_ns)}"
            )
        case StoppedBy.REFUSED:
            refused = f"the provider refused {REFUSED_IN_A_ROW_MAX} details in a row ({stop.reason})"
            return f"{refused}; {_ask_about(stop.reason)}"
        case StoppedBy.LIST_REFUSED:
            return stop.why or f"the provider refuses the list ({stop.reason}); {_ask_about(stop.reason)}"
        case StoppedBy.LIST_UNREADABLE:
            told = f"{stop.why or f'a part of the list cannot be read ({stop.reason})'}; the walk did not move past it"
            return told if stop.why or stop.reason is not GapReason.MALFORMED else f"{told}; {FAULT_RULE}"
        case StoppedBy.LIST_TROUBLE if stop.why:
            return stop.why
        case StoppedBy.LIST_TROUBLE:
            return f"the list does not answer ({stop.reason})"
        case StoppedBy.LIST_CONTRADICTS:
            return stop.why


def _ask_about(reason: GapReason | None) -> str:
    """What the owner should check when the list or the details are refused."""
    if reason in {GapReason.NOT_FOUND, GapReason.GONE}:
        return "is list.path right?"
    if reason is GapReason.FORBIDDEN:  # also a request that the provider does not take, whoever sends it
        return f"is the token still good, and is the request declared as the provider wants it? {LIMIT_RULE}"
    return "is the token still good?"


def _wall_clock_in_words(stop: Stop, budget: Budget, *, now_ns: int) -> str:
    left_ns = budget.left_ns(now_ns=now_ns) or 0
    of_the_run = f"the run's {span(budget.max_wall_ns or 0)}"
    asks = f"the provider asks to wait {span(stop.held_ns)}"
    if left_ns <= 0:
        return f"{of_the_run} are used up; {asks}" if stop.held_ns else f"{of_the_run} are used up"
    # "The provider asks" is said only of a wait that the provider named, never of our own waits.
    wait = asks if stop.held_ns > left_ns else f"the next request could leave in {span(stop.wait_ns)}"
    return f"{wait}, longer than the {span(left_ns)} that are left of {of_the_run}"


def _used(budget: Budget, *, now_ns: int) -> str:
    spent = span(now_ns - budget.started_at_ns)
    of_time = "" if budget.max_wall_ns is None else f" of {span(budget.max_wall_ns)}"
    of_fetches = "" if budget.max_fetches is None else f" of {budget.max_fetches}"
    return f"{spent}{of_time} and {budget.fetches}{of_fetches} requests"


def span(length_ns: int) -> str:
    """A span of time as a person would say it: seconds, or minutes and seconds."""
    if length_ns < 2 * MINUTE_NS:
        return f"{max(0, length_ns) / SECOND_NS:.3g} s"
    minutes, seconds = divmod(round(length_ns / SECOND_NS), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
