"""What does a status consist of? The sections of schema 1, as the terminal, the console and machines read them.

A section that is not known is an `Unknown` with its reason, never a zero. Times are UTC texts, spans are seconds.
"""

from enum import StrEnum
from typing import Final

import msgspec

from remora.core.rate.gate_types import LimitedBy
from remora.core.status.snapshot import Role

SCHEMA: Final = 1


class YesNo(StrEnum):
    """An answer."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Answer(msgspec.Struct, frozen=True):
    """One of the four questions, answered with its reason."""

    answer: YesNo
    reason: str


class Answers(msgspec.Struct, frozen=True):
    """What an operator wants to know in five seconds."""

    complete: Answer
    fresh: Answer
    polite: Answer
    working: Answer


class Unknown(msgspec.Struct, frozen=True):
    """Not known: why, and since when. `was` is the last value anybody saw, never the present one."""

    reason: str
    since: str | None = None
    was: float | None = None
    known: bool = False


class LastBackoff(msgspec.Struct, frozen=True):
    """The last time the pace went down."""

    at: str
    reason: str
    from_per_second: float
    to_per_second: float


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast requests may leave right now, and what holds them there."""

    known: bool = True
    per_second: float
    interval_s: float
    ceiling_per_second: float
    edge_per_second: float | None
    recent_per_second: float | None
    recent_window_s: float | None = None
    recent_requests: int | None = None  # answered in that window
    recent_refused: int | None = None
    limited_by: LimitedBy
    limit: str = ""  # the same as a sentence
    circuit: str
    retry_after_until: str | None
    in_flight: int
    in_flight_bound: int | None = None
    waiting: int
    last_backoff: LastBackoff | None
    as_of: str


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """settled + pending + owed + absent + dead is the number of ids from first_id to max_id, always."""

    known: bool = True
    first_id: int
    frontier: int
    max_id: int
    lag: int
    settled: int
    pending: int
    owed: int
    absent: int
    dead: int
    awaited: int  # the part of owed that does not exist yet


class CoveredList(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage of a listed source: what was found in the list and is not here yet."""

    known: bool = True
    pending: int
    owed: int
    absent: int
    dead: int
    awaited: int = 0


class Fresh(msgspec.Struct, frozen=True, kw_only=True):
    """When the source last told us its newest id, and how far the copy is behind it."""

    known: bool = True
    newest_id: int | None
    newest_id_at: str
    age_s: float
    lag: int | None
    stale_after_s: float


class FreshList(msgspec.Struct, frozen=True, kw_only=True):
    """When a run last walked the whole list."""

    known: bool = True
    walked_at: str
    age_s: float
    every_s: float | None


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of changes. Ages are None for what never happened."""

    known: bool = True
    connected: bool
    last_byte_at: str | None
    last_byte_age_s: float | None
    last_event_at: str | None
    last_event_age_s: float | None
    reconnects: int


class NoStream(msgspec.Struct, frozen=True):
    """The source has no stream of changes, and says so."""

    reason: str
    declared: bool = False
    known: bool = True


class Inbox(msgspec.Struct, frozen=True):
    """What is discovered and waits."""

    depth: int
    bound: int | None
    known: bool = True


class AgeBucket(msgspec.Struct, frozen=True):
    """How many changes were of items up to this old; None: older than every bound."""

    up_to_s: int | None
    count: int


class Rescan(msgspec.Struct, frozen=True, kw_only=True):
    """The rescan, and whether it finds anything."""

    known: bool = True
    running: bool
    last_success_at: str | None
    age_s: float | None
    processed: int
    changed: int
    window_s: float | None
    suggested_window_s: float | None
    every_s: float | None
    update_ages: tuple[AgeBucket, ...] | None = None  # None: nobody has counted


class Gaps(msgspec.Struct, frozen=True):
    """Gaps of one kind, state and reason."""

    kind: str
    state: str
    reason: str
    count: int
    oldest_at: str
    next_attempt_at: str | None


class Loop(msgspec.Struct, frozen=True):
    """One loop of the service."""

    alive: bool
    restarts: int
    last_error: str | None


class Run(msgspec.Struct, frozen=True):
    """One run over a listed source."""

    run_id: int
    started_at: str
    ended_at: str | None
    stopped_by: str | None
    counts: dict[str, int]


class RunBudget(msgspec.Struct, frozen=True):
    """What one run may spend; None: no bound."""

    max_wall_s: float | None
    max_fetches: int | None


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one source."""

    kind: str
    state: str
    doing: str | None
    answers: Answers
    rate: Rate | Unknown
    coverage: Covered | CoveredList | Unknown
    fresh: Fresh | FreshList | Unknown
    stream: Stream | NoStream | Unknown
    inbox: Inbox | Unknown
    rescan: Rescan | Unknown
    gaps: tuple[Gaps, ...]
    loops: dict[str, Loop]
    workers_alive: int | None
    next_run_at: str | None
    why_not_now: str | None
    runs: tuple[Run, ...]
    budget: RunBudget | None = None  # listed sources only
    ceiling_per_second: float | None = None  # the owner's number, known whoever runs
    is_public: bool = False  # its items may be shown


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One process that beats, or beat."""

    role: Role
    alive: bool
    last_beat_at: str
    last_beat_age_s: float
    started_at: str
    ended_at: str | None
    ended_because: str | None
    pid: int | None
    version: str | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole readout, the same for the terminal, the console and machines."""

    schema: int = SCHEMA
    as_of: str
    runtimes: tuple[Runtime, ...]
    sources: dict[str, SourceStatus]
