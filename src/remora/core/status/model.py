"""What does a status contain? Answers, coverage and freshness, computed from the heartbeats and the ledger.

An unknown section is an `Unknown` with its reason, never a zero. Times are wall clock in nanoseconds.
"""

from enum import StrEnum
from typing import Final

import msgspec

from remora.core.ledger.newest_id import WentBack
from remora.core.rate.gate_types import RateFacts
from remora.core.status.snapshot import (
    GapTally,
    InboxFacts,
    LoopFacts,
    Orders,
    RescanFacts,
    Role,
    RunFacts,
    StreamFacts,
)

SCHEMA: Final = 1


class YesNo(StrEnum):
    """An answer."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Attention(StrEnum):
    """What an answer asks of the operator."""

    NONE = "none"
    WAIT = "wait"  # it is being worked on, or waits for the provider
    ACT = "act"  # somebody has to look


class Answer(msgspec.Struct, frozen=True):
    """One of the four questions, answered with its reason."""

    answer: YesNo
    reason: str
    attention: Attention = Attention.NONE


class Answers(msgspec.Struct, frozen=True):
    """What an operator wants to know in five seconds."""

    complete: Answer
    fresh: Answer
    polite: Answer
    working: Answer


class Standing(StrEnum):
    """How a source is doing, in one word; the colour of its line."""

    ATTENTION = "attention"
    UNKNOWN = "unknown"
    STOPPED = "stopped"  # nothing runs, because somebody stopped it or a job is done
    WAITING = "waiting"  # for the provider
    COLLECTING = "collecting"
    WATCHING = "watching"  # the backfill is switched off
    COMPLETE = "complete"


class Headline(msgspec.Struct, frozen=True):
    """The line about a source that is read first."""

    standing: Standing
    text: str


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the backfill is. `left_ns` is None while nothing is sent."""

    done: int  # ids that were asked for at least once
    total: int
    held: int  # items that are here, also those that the source no longer has or does not give now
    left_ns: int | None
    is_learning: bool = False  # the pace still rises, so the time left is not known
    holds_more: bool = False  # of many gaps nobody looked whether their items are held: `held` is the least


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What the mirror takes on disk; a value that nobody can tell is None."""

    size_bytes: int | None = None
    growth_bytes_per_day: int | None = None  # of the last hour; None before an hour was measured
    grown_bytes: int | None = None  # since the first measurement, an hour ago at most
    grown_over_ns: int | None = None
    free_bytes: int | None = None
    kept_free_bytes: int | None = None  # the store refuses to write when less is free


class Unknown(msgspec.Struct, frozen=True):
    """Not known: why, and since when. `was_per_s` is the last known rate, never the current one."""

    reason: str
    since_ns: int | None = None
    was_per_s: float | None = None
    known: bool = False


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """settled + pending + owed + absent + gone + dead is the number of ids from first_id to max_id, always."""

    known: bool = True
    first_id: int
    frontier: int
    max_id: int
    lag: int
    settled: int
    pending: int
    owed: int
    absent: int
    gone: int  # deleted upstream; the last content is kept
    dead: int
    awaited: int  # the part of owed that does not exist yet
    unconfirmed: int = 0  # the part of owed that the provider does not have, to be confirmed


class CoveredList(msgspec.Struct, frozen=True, kw_only=True):
    """settled + pending + owed + absent + gone + dead is the number of documents that are known, always."""

    known: bool = True
    settled: int | None  # here, as the list last showed them; None: not counted
    pending: int
    owed: int
    absent: int
    gone: int
    dead: int
    awaited: int = 0
    listed: int | None = None  # settled, or still to be fetched: what the list has shown so far


class Fresh(msgspec.Struct, frozen=True, kw_only=True):
    """When the source last reported its newest id, and how far the mirror is behind it."""

    known: bool = True
    newest_id: int | None
    newest_id_at_ns: int
    lag: int | None
    stale_after_ns: int
    went_back: WentBack | None = None  # what the source reports is far below `newest_id`


class FreshList(msgspec.Struct, frozen=True, kw_only=True):
    """When a run last walked the list down to what was known, and when one last walked all of it.

    Only a walk over the whole list finds what was deleted upstream.
    """

    known: bool = True
    walked_at_ns: int
    every_ns: int | None
    whole_walk_at_ns: int | None = None  # None: not known, so the next run walks the whole list


class NoStream(msgspec.Struct, frozen=True):
    """The source has no stream of changes, and says so."""

    reason: str
    declared: bool = False
    known: bool = True


class AgeBucket(msgspec.Struct, frozen=True):
    """How many changes were of items up to this old; None: older than every bound."""

    up_to_s: int | None
    count: int


class RunBudget(msgspec.Struct, frozen=True):
    """What one run may spend; None: no bound."""

    max_wall_ns: int | None
    max_fetches: int | None


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one source."""

    kind: str
    state: str
    doing: str | None
    headline: Headline
    progress: Progress | None  # None: not known, or a listed source
    answers: Answers
    rate: RateFacts | Unknown
    coverage: Covered | CoveredList | Unknown
    fresh: Fresh | FreshList | Unknown
    stream: StreamFacts | NoStream | Unknown
    inbox: InboxFacts | Unknown
    rescan: RescanFacts | Unknown
    update_ages: tuple[AgeBucket, ...] | None  # None: not counted
    backfill: bool | None  # False: switched off by the owner
    gaps: tuple[GapTally, ...]
    loops: dict[str, LoopFacts]
    workers_alive: int | None
    next_run_at_ns: int | None
    why_not_now: str | None
    runs: tuple[RunFacts, ...]
    newest_refused: int | None = None  # the source reports this newest id, but no item near it exists
    only_provider_is_down: bool = False  # everything on our side works
    budget: RunBudget | None = None  # listed sources only
    ceiling_interval_ns: int | None = None  # the owner's number, known even if no process runs
    is_public: bool = False  # its items may be shown
    account: str | None = None  # the account that it shares with other sources; None: its own account
    orders: Orders = Orders()
    alarms: tuple[str, ...] = ()  # the names of what would wake somebody now; each has a section in the runbook


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One process that sends heartbeats, or did."""

    role: Role
    alive: bool
    last_beat_at_ns: int
    started_at_ns: int
    ended_at_ns: int | None
    ended_because: str | None
    pid: int | None
    version: str | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole status, the same for the terminal, the console and machines."""

    schema: int = SCHEMA
    as_of_ns: int
    runtimes: tuple[Runtime, ...]
    disk: Disk | None = None  # None: nobody measured it
    sources: dict[str, SourceStatus]
