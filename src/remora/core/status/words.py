"""How are reasons put into words? Every word and sentence for a closed set of values, defined once.

The console's `reasons.js` is generated from this file (`python -m tools.console_words`); a test compares the two.
"""

from typing import Final

from remora.core.ledger.run import Phase, StoppedBy
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy
from remora.core.reasons import GapReason
from remora.core.status.snapshot import RunFacts

QUESTIONS: Final = ("complete", "fresh", "polite", "working")

# What keeps the rate from being higher, as a sentence. `{pending}` is the number of ids that were not requested yet.
LIMITS: Final[dict[LimitedBy, str]] = {
    LimitedBy.CEILING: "At the ceiling: as fast as the owner allows.",
    LimitedBy.PACE: "At the learned pace: above it, the provider has refused requests.",
    LimitedBy.QUOTA: "At the provider's quota: what is left of it is spread until it is full again.",
    LimitedBy.RETRY_AFTER: "The provider asked for a pause (Retry-After). Nothing is sent until it ends.",
    LimitedBy.REFUSALS: "At the limit on refusals: each request in flight may be refused, and no more may be.",
    LimitedBy.CIRCUIT: "The provider is in trouble: the circuit breaker lets only one probe pass after each pause.",
    LimitedBy.IN_FLIGHT: "Answers are slow: as many requests are in flight as are allowed.",
    LimitedBy.ANSWERS: "Waiting for answers: all requests that were made are in flight.",
    LimitedBy.STORE: "Waiting for the store to write.",
    LimitedBy.CPU: "This machine is too busy: requests leave later than the pace allows.",
    LimitedBy.NO_WORK: "Idle: nothing to fetch right now.",
    LimitedBy.PAUSED: "Paused by an operator: nothing is sent until it is resumed.",
    LimitedBy.BY_CHOICE: "Idle by choice: the backfill is switched off, and {pending} ids stay pending.",
    LimitedBy.NO_ANSWER: "The provider has not answered since the start.",
    LimitedBy.NOT_ASKED: "{pending} ids are pending, but no loop has asked for one in the last seconds.",
    LimitedBy.SCHEDULE: "Idle between two runs.",
    LimitedBy.BUDGET: "The last run used up its budget. The rest waits for the next run.",
}
# While no limit of the provider is known, the pace is still rising.
LEARNING: Final = "Learning the pace: it rises for as long as the provider refuses nothing."

# Why nothing is sent until a known moment.
WAITS: Final[dict[LimitedBy, str]] = {
    LimitedBy.RETRY_AFTER: "the provider asked for a pause (Retry-After)",
    LimitedBy.REFUSALS: "the limit on refusals allows no request before that",
    LimitedBy.CIRCUIT: "the provider is in trouble",
    LimitedBy.PACE: "the pace allows no request before that",
    LimitedBy.QUOTA: "the provider's quota allows no request before that",
    LimitedBy.CEILING: "the ceiling allows no request before that",
    LimitedBy.STORE: "the store has to keep what was learned first",
}

CIRCUIT: Final[dict[CircuitState, str]] = {
    CircuitState.CLOSED: "closed",
    CircuitState.OPEN: "open",
    CircuitState.HALF_OPEN: "half open: one probe is under way",
}

GAP_REASONS: Final[dict[GapReason, str]] = {reason: reason.replace("_", " ") for reason in GapReason} | {
    GapReason.RATE_LIMITED: "rate limited",
    GapReason.MAX_WALL_CLOCK: "the run's time was used up",
    GapReason.MAX_FETCHES: "the run's requests were used up",
    GapReason.RETRY_BUDGET: "too many retries in the run",
    GapReason.NOT_YET: "not there yet",
}

# What a run in progress does.
PHASES: Final[dict[Phase, str]] = {
    Phase.RECOVERY: "retrying what is owed",
    Phase.WALK: "walking the list",
    Phase.DETAILS: "fetching details",
}

STOPPED: Final[dict[StoppedBy, str]] = {
    StoppedBy.COMPLETE: "complete: everything listed was asked for",
    StoppedBy.RECOVER_ONLY: "only what was owed was asked for, as requested",
    StoppedBy.COOL_DOWN: "an earlier run met pressure; the walk waits",
    StoppedBy.MAX_WALL_CLOCK: "its time was used up",
    StoppedBy.MAX_FETCHES: "its requests were used up",
    StoppedBy.RETRY_BUDGET: "too many retries after faults",
    StoppedBy.UPSTREAM_PRESSURE: "the provider kept asking for less",
    StoppedBy.REFUSED: "the provider refused one detail after another",
    StoppedBy.LIST_REFUSED: "the provider refuses the list",
    StoppedBy.LIST_UNREADABLE: "a part of the list cannot be read",
    StoppedBy.LIST_TROUBLE: "the list does not answer as it should",
    StoppedBy.LIST_CONTRADICTS: "the list contradicts its declaration",
}


def phase_in_words(run: RunFacts | None) -> str | None:
    """What a run in progress does; None if there is none."""
    return None if run is None or run.phase is None else PHASES[Phase(run.phase)]
