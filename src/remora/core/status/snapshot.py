"""What does a running process report about itself? The facts of one heartbeat, and the facts of the ledger.

Each fact has one type. The loops fill it, a heartbeat carries it, and the status, the metrics and the browser read the
same fields. Times are wall clock in nanoseconds; only a screen turns them into text. An unknown value is None, never
zero.
"""

from enum import StrEnum
from typing import Final

import msgspec

from remora.core.ledger.coverage import Coverage
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.ledger.newest_id import WentBack
from remora.core.rate.gate_types import RateFacts
from remora.core.reasons import GapReason

SNAPSHOT_SCHEMA: Final = 1  # the version of the fields of a heartbeat
# The reason of a process that ended by itself.
ENDED_DONE = "done"
# The reason of a process that somebody stopped.
ENDED_ON_REQUEST = "stopped on request"
ENDED_AS_ASKED = frozenset({ENDED_DONE, ENDED_ON_REQUEST})


class Role(StrEnum):
    """Which process sends the heartbeat."""

    SERVICE = "service"
    BACKFILL = "backfill"
    RUN = "run"
    WORKER = "worker"


class StreamFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The change stream: when it was last alive, and when it last announced something."""

    known: bool = True
    connected: bool
    last_byte_at_ns: int | None = None
    last_event_at_ns: int | None = None
    reconnects: int = 0
    unread_events: int = 0  # too long, not JSON, or without a path
    dropped_keys: int = 0  # in events that could be read


class InboxFacts(msgspec.Struct, frozen=True):
    """What was announced and waits to be fetched."""

    depth: int
    bound: int | None
    known: bool = True


class RescanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The rescan, and whether it finds anything."""

    known: bool = True
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
    last_error: str | None = None  # what the store said, or the class of another error, never its text


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator ordered; it can only make the mirror slower."""

    paused_at_ns: int | None = None  # since when nothing is sent
    interval_ns: int | None = None  # at most this fast, instead of the owner's ceiling
    until_ns: int | None = None  # until when the ceiling is lowered, by the clock of whoever tells it
    for_ns: int | None = None  # for how long it was lowered


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded run over a listed source."""

    run_id: int
    started_at_ns: int
    ended_at_ns: int | None = None
    stopped_by: str | None = None
    phase: str | None = None  # what it does now; None: it ended, or no live process told
    counts: dict[str, int] = {}


class SourceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one process knows about one source."""

    rate: RateFacts | None = None
    stream: StreamFacts | None = None
    inbox: InboxFacts | None = None
    rescan: RescanFacts | None = None
    newest_id: int | None = None
    newest_id_at_ns: int | None = None  # when the source last reported its newest id
    backfill: bool | None = None  # whether history is collected; False: switched off by the owner
    newest_refused: int | None = None  # the source reports this newest id, but no item near it exists
    newest_went_back: WentBack | None = None  # the source reports newest ids far below an item that was read
    changes_unread_since_ns: int | None = None  # since when the list of changes could not be read; None while it can be
    loops: dict[str, LoopFacts] = {}
    workers_alive: int | None = None  # update workers; None if this process has none
    update_ages: tuple[int, ...] | None = None  # the counts of `core.ledger.freshness.UpdateAges`
    doing: str | None = None  # one short word: catching up, watching, walking the list
    run: RunFacts | None = None  # listed sources: the run in progress, with its counts so far
    next_run_at_ns: int | None = None
    why_not_now: str | None = None
    orders: Orders = Orders()
    stands_by: bool = False  # another process watches the source and knows more about it
    unanswered: str | None = None  # why the store does not tell whether this process may watch the source
    missing_secret: str | None = None  # why the credential was never read, so that nothing is sent


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One heartbeat."""

    role: Role
    started_at_ns: int
    schema: int = SNAPSHOT_SCHEMA
    pid: int | None = None
    version: str | None = None
    ended_at_ns: int | None = None  # when the process ended in an orderly way
    ended_because: str | None = None
    clock_ahead_ns: int = 0  # how far the clock of the process is ahead of the system clock, which was set back
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
    next_at_ns: int | None  # the next attempt; None: there will be none


class LedgerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows about one source, even if no process runs."""

    kind: str
    first_id: int = 1
    coverage: Coverage | None = None
    newest_id: int | None = None
    gaps: tuple[GapTally, ...] = ()
    held_gaps: int | None = 0  # numbered sources: gaps whose items are held all the same; None: too many to look
    inbox_depth: int | None = None
    owed_details: int | None = None  # listed sources: found in the list, detail not yet asked for
    documents: int | None = None  # listed sources: how many are known, fetched or not
    runs: tuple[RunFacts, ...] = ()
    hole: str | None = None  # listed sources: the page that the last run had to leave behind
    told: str | None = None  # listed sources: how the last run ended, in its own words
    whole_walk_at_ns: int | None = None  # listed sources: when a walk last saw the whole list
    every_ns: int | None = None  # how often a run should start
    max_wall_ns: int | None = None  # what a run may spend; None: no bound
    max_fetches: int | None = None
    ceiling_interval_ns: int | None = None
    poll_every_ns: int | None = None  # numbered sources: how often the newest id is requested at least
    has_stream: bool = True  # numbered sources: whether a stream of changes is declared
    has_change_list: bool = False  # numbered sources: whether a list of what changed lately is polled
    is_stream_too_dear: bool = False  # the ceiling is so low that connects would use more than a tenth of it
    has_rescan: bool = True  # numbered sources: whether items say how old they are
    is_public: bool = False  # its items may be shown
    account: str | None = None  # the account that it shares with other sources; None: its own account
