"""What does a running Remora say of itself? The facts of one heartbeat, and those of the ledger beside it.

These are inputs: plain facts with wall-clock times in nanoseconds. `core.readout` judges them. What a runtime does not
know it leaves at None; it never writes a zero instead.
"""

from enum import StrEnum

import msgspec

from remora.core.ledger.coverage import Coverage
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.rate.gate_types import LimitedBy
from remora.core.reasons import GapReason

SNAPSHOT_SCHEMA = 1
# Why a runtime ended that came to its own end.
ENDED_DONE = "done"


class Role(StrEnum):
    """Which runtime beats."""

    SERVICE = "service"
    BACKFILL = "backfill"
    RUN = "run"
    WORKER = "worker"


class BackOffFacts(msgspec.Struct, frozen=True):
    """The last time the pace went down."""

    at_ns: int
    reason: str
    from_per_second: float
    to_per_second: float


class RateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the governor of one source says."""

    interval_ns: int
    ceiling_interval_ns: int
    limited_by: LimitedBy
    circuit: str
    edge_per_second: float | None = None
    not_before_ns: int | None = None  # the provider asked for silence until then
    in_flight: int = 0
    in_flight_bound: int | None = None
    waiting: int = 0
    departures: int = 0
    wire_sends: int | None = None
    recent_requests: int | None = None  # answered in the recent window
    recent_refused: int | None = None
    recent_per_second: float | None = None  # departures in the recent window
    recent_window_ns: int | None = None
    last_backoff: BackOffFacts | None = None


class StreamFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of changes, with its two clocks."""

    connected: bool
    last_byte_at_ns: int | None = None
    last_event_at_ns: int | None = None
    reconnects: int = 0


class InboxFacts(msgspec.Struct, frozen=True):
    """What is discovered and waits."""

    depth: int
    bound: int


class RescanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The rescan, and whether it finds anything."""

    last_success_at_ns: int | None = None
    running: bool = False
    processed: int = 0
    changed: int = 0
    window_ns: int | None = None
    suggested_window_ns: int | None = None
    every_ns: int | None = None


class LoopFacts(msgspec.Struct, frozen=True):
    """One loop of the service."""

    alive: bool
    restarts: int = 0
    last_error: str | None = None  # the class of the last error, never its text


class SourceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one runtime knows about one source."""

    rate: RateFacts | None = None
    stream: StreamFacts | None = None
    inbox: InboxFacts | None = None
    rescan: RescanFacts | None = None
    newest_id: int | None = None
    newest_id_at_ns: int | None = None  # when the source last told us its newest id
    loops: dict[str, LoopFacts] = {}
    workers_alive: int | None = None  # update workers; None where there are none to be alive
    update_ages: tuple[int, ...] | None = None  # the counts of `core.freshness.UpdateAges`
    doing: str | None = None  # one short word: catching up, watching, walking the list
    next_run_at_ns: int | None = None
    why_not_now: str | None = None
    stands_by: bool = False  # another process does what one alone does, and knows more about it


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One heartbeat."""

    role: Role
    started_at_ns: int
    schema: int = SNAPSHOT_SCHEMA
    pid: int | None = None
    version: str | None = None
    ended_at_ns: int | None = None  # the runtime said good-bye
    ended_because: str | None = None
    sources: dict[str, SourceFacts] = {}


class Beat(msgspec.Struct, frozen=True):
    """A heartbeat and when it was stored."""

    at_ns: int
    snapshot: Snapshot


class GapTally(msgspec.Struct, frozen=True):
    """How many gaps share a kind, a state and a reason."""

    kind: Kind
    state: GapState
    reason: GapReason
    count: int
    oldest_at_ns: int
    next_at_ns: int


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded run over a listed source."""

    run_id: int
    started_at_ns: int
    ended_at_ns: int | None = None
    stopped_by: str | None = None
    counts: dict[str, int] = {}


class LedgerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows about one source, whoever runs."""

    kind: str
    first_id: int = 1
    coverage: Coverage | None = None
    newest_id: int | None = None
    gaps: tuple[GapTally, ...] = ()
    inbox_depth: int | None = None
    owed_details: int | None = None  # listed sources: found in the list, detail not yet asked for
    runs: tuple[RunFacts, ...] = ()
    every_ns: int | None = None  # how often a run is meant to begin
    max_wall_ns: int | None = None  # what a run may spend; None: no bound
    max_fetches: int | None = None
    ceiling_interval_ns: int | None = None
    poll_every_ns: int | None = None  # numbered sources: how often the newest id is asked for at the least
    has_stream: bool = True  # numbered sources: whether a stream of changes is declared
    has_rescan: bool = True  # numbered sources: whether items say how old they are
    is_public: bool = False  # its items may be shown
