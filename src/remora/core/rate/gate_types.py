"""What does the gate say about itself? Why nothing may be sent, what was sent, and the facts about the rate.

`RateFacts` is the one shape of the rate: the gate fills it, a heartbeat carries it, and the status, the metrics and the
browser read the same fields. Moments are wall clock; waits count from `at_ns`.
"""

from enum import StrEnum

import msgspec

from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.pace_record import Restore
from remora.core.rate.pacing import burst_allowance
from remora.core.units import SECOND_NS


class LimitedBy(StrEnum):
    """What keeps the rate from being higher. Closed: `core.status.words` has one sentence for each."""

    CEILING = "ceiling"
    PACE = "pace"
    QUOTA = "quota"
    RETRY_AFTER = "retry_after"
    REFUSALS = "refusals"
    CIRCUIT = "circuit"
    IN_FLIGHT = "in_flight"
    ANSWERS = "answers"
    STORE = "store"
    CPU = "cpu"
    NO_WORK = "no_work"
    # The gate cannot tell these from NO_WORK; the readout can.
    PAUSED = "paused"
    BY_CHOICE = "by_choice"
    NO_ANSWER = "no_answer"
    NOT_ASKED = "not_asked"
    SCHEDULE = "schedule"
    BUDGET = "budget"

    __hash__ = str.__hash__  # an enum's own hash runs Python code, and a cause is looked up several times a request


PACING = frozenset({LimitedBy.CEILING, LimitedBy.PACE, LimitedBy.QUOTA})
# While one of these holds a request, nothing at all is sent: it is shown at once.
STOPS = frozenset({LimitedBy.RETRY_AFTER, LimitedBy.CIRCUIT})


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Why nothing may be sent, and until when; None means until something changes."""

    limited_by: LimitedBy
    until_ns: int | None


class Sent(msgspec.Struct, frozen=True, gc=False):
    """What the learner must know about the request that was answered."""

    departed_at_ns: int | None
    pace_bound: bool
    is_probe: bool
    is_canary: bool = False  # it asked for something that is known to be good


class BackOff(msgspec.Struct, frozen=True):
    """The last time the pace went down."""

    at_ns: int
    reason: str
    from_per_s: float
    to_per_s: float


class Recent(msgspec.Struct, frozen=True):
    """What was counted in the last seconds."""

    departures: int
    answers: int
    refused: int
    failed: int  # no answer, or a fault of the provider
    window_ns: int  # shorter while the source has not been watched for a whole window

    def per_s(self, *, ceiling_interval_ns: int) -> float | None:
        """Departures per second; unknown before the first second has passed.

        A short window may hold one burst more than the ceiling allows over time. That is no higher rate.
        """
        if self.window_ns < SECOND_NS:
            return None
        evenly = max(self.window_ns / ceiling_interval_ns, self.departures - burst_allowance(ceiling_interval_ns))
        return min(self.departures, evenly) * SECOND_NS / self.window_ns


class ProviderDown(msgspec.Struct, frozen=True):
    """The circuit breaker is not closed: since when, and what the provider answers."""

    since_ns: int
    answers: str


class Barred(msgspec.Struct, frozen=True):
    """Every request is refused, whatever the rate: a token that is no longer valid, or an address that was blocked."""

    since_ns: int
    reason: str
    answers: int  # in a row


class BanFacts(msgspec.Struct, frozen=True):
    """A ban, and the limit on refusals that it has taught."""

    refusals: int  # that came right before it, within about a minute
    lasted_ns: int  # for how long everything was refused, as far as is known
    most_per_min: int
    until_ns: int  # how long the limit is kept


class QuotaFacts(msgspec.Struct, frozen=True):
    """What the provider last said about its quota."""

    remaining: int
    limit: int | None  # None: it did not say
    until_ns: int  # when it resets


class RateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How fast requests may be sent, and what limits that."""

    known: bool = True
    at_ns: int = 0  # when this was read
    interval_ns: int
    ceiling_interval_ns: int
    edge_per_s: float | None = None
    limited_by: LimitedBy
    limit: str = ""  # the same as a sentence; the readout writes it
    held: dict[LimitedBy, float] = {}  # the share of the last seconds that each cause took
    circuit: CircuitState
    circuit_wait_ns: int | None = 0  # 0: requests pass; None: one probe's answer is awaited
    provider_down: ProviderDown | None = None
    barred: Barred | None = None  # None: the last answer was no refusal of this kind
    provider_back_at_ns: int | None = None  # when it last answered again after it was down
    not_before_in_ns: int = 0  # how long the provider's own wait still lasts
    refusals_left: int | None = None  # how many more the limit on refusals allows; None: there is none
    ban: BanFacts | None = None  # what taught that limit; None: the owner wrote it, or there is none
    quota: QuotaFacts | None = None  # None: the provider named none, or it was reset
    next_in_ns: int = 0  # how long a request that asks now waits at least
    next_held_by: LimitedBy | None = None  # and for what
    in_flight: int = 0
    in_flight_bound: int | None = None
    leaving: int = 0  # of those in flight: admitted, not sent yet
    waiting: int = 0
    departures: int = 0
    wire_sends: int | None = None
    recent: Recent | None = None
    recent_per_s: float | None = None  # what was really sent; unknown before the first second has passed
    last_back_off: BackOff | None = None
    restored: Restore = Restore.COLD_NONE

    @property
    def per_s(self) -> float:
        """The pace: what may be sent."""
        return SECOND_NS / self.interval_ns

    @property
    def ceiling_per_s(self) -> float:
        """The owner's ceiling."""
        return SECOND_NS / self.ceiling_interval_ns

    def __post_init__(self) -> None:
        """Derive what is shown, so that every screen shows the same."""
        per_s = None if self.recent is None else self.recent.per_s(ceiling_interval_ns=self.ceiling_interval_ns)
        msgspec.structs.force_setattr(self, "recent_per_s", per_s)
