"""How do heartbeats and the ledger become a status? Read from any process, from a store opened read-only."""

from collections.abc import Iterable

import msgspec

from remora.contracts import Json, Store
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import is_stream_too_dear, poll_interval_ns
from remora.core.ledger.notes import BACKLOG_NOTE, FULL_WALK_NOTE, NEWEST_NOTE
from remora.core.status.alarms import with_alarms
from remora.core.status.model import Disk, Status
from remora.core.status.readout import iso, read_out
from remora.core.status.snapshot import Beat, GapTally, LedgerFacts, RunFacts, Snapshot
from remora.loops.listed.owed_pages import owed_pages
from remora.operate.config.settings import Settings, SourceSettings

RUNS_SHOWN = 10
# Each look whether an item with a gap is held reads one row. Absent ids can be many, and the status is read every second.
HELD_GAPS_LOOKED_AT = 10_000


async def read_status(
    store: Store, settings: Settings, *, now_ns: int, only: str | None = None, disk: Disk | None = None
) -> Status:
    """The status of every configured source, or of one. `disk`: the room for the store, if it was measured."""
    beats = decode_beats(await store.heartbeats())
    names = [only] if only is not None else sorted(settings.sources)
    ledgers = {name: await read_ledger(store, name, settings.sources[name]) for name in names}
    return with_alarms(read_out(beats, ledgers, now_ns=now_ns, disk=disk))


async def read_ledger(store: Store, name: str, source: SourceSettings) -> LedgerFacts:
    """What the store knows about one source."""
    # Counted before what is owed: a document that is recorded in between is not called settled.
    documents = None if source.capabilities.newest_id else await store.count_documents(name)
    gaps = tuple(
        GapTally(count.kind, count.state, count.reason, count.count, count.oldest_ns, count.next_ns)
        for count in await store.gap_counts(name)
    )
    if not source.capabilities.newest_id:
        backlog = await store.note(name, BACKLOG_NOTE)
        return LedgerFacts(
            kind=source.kind,
            gaps=gaps,
            documents=documents,
            owed_details=await store.count_owed_details(name),
            runs=await _runs(store, name),
            hole=await _hole(store, name, gaps, backlog),
            told=_text(backlog, "told"),
            whole_walk_at_ns=_whole_walk_at_ns(await store.note(name, FULL_WALK_NOTE)),
            every_ns=source.every_ns,
            max_wall_ns=source.max_wall_ns,
            max_fetches=source.max_fetches,
            ceiling_interval_ns=source.ceiling_interval_ns,
            account=source.account,
        )
    can, interval_ns = source.capabilities, source.ceiling_interval_ns
    streams = int(can.change_stream) + int(can.newest_stream)
    return LedgerFacts(
        kind=source.kind,
        first_id=source.first_id,
        coverage=await store.coverage(name),
        newest_id=_newest_id(await store.note(name, NEWEST_NOTE)),
        gaps=gaps,
        held_gaps=await _held_gaps(store, name, gaps),
        inbox_depth=await store.inbox_depth(name),
        ceiling_interval_ns=source.ceiling_interval_ns,
        poll_every_ns=poll_interval_ns(source.poll_every_ns, ceiling_interval_ns=interval_ns),
        has_stream=can.change_stream,
        has_change_list=can.change_list,
        is_stream_too_dear=is_stream_too_dear(ceiling_interval_ns=interval_ns, streams=streams),
        has_rescan=can.item_times,
        is_public=can.public,
    )


def decode_beats(rows: Iterable[tuple[str, int, Json]]) -> tuple[Beat, ...]:
    """The readable heartbeats. One written by another version is skipped rather than misread."""
    beats = []
    for _, at_ns, snapshot in rows:
        try:
            beats.append(Beat(at_ns, msgspec.convert(snapshot, Snapshot)))
        except msgspec.ValidationError:
            continue
    return tuple(beats)


async def _runs(store: Store, name: str) -> tuple[RunFacts, ...]:
    return tuple(
        RunFacts(
            run_id=run.run_id,
            started_at_ns=run.started_ns,
            ended_at_ns=run.ended_ns,
            stopped_by=run.stopped_by,
            counts=dict(run.counts),
        )
        for run in await store.runs(name, limit=RUNS_SHOWN)
    )


async def _held_gaps(store: Store, name: str, gaps: Iterable[GapTally]) -> int | None:
    """How many items are held although they are owed, absent, gone or dead; None if there are too many to look."""
    unsettled = sum(tally.count for tally in gaps if tally.kind is Kind.ITEM)
    if unsettled > HELD_GAPS_LOOKED_AT:
        return None
    return await store.count_held_gaps(name) if unsettled else 0


async def _hole(store: Store, name: str, gaps: Iterable[GapTally], backlog: Json) -> str | None:
    """What of the list could not be read."""
    owes_pages = any(tally.kind is Kind.UNREAD_PAGE for tally in gaps)
    if owes_pages and (pages := await owed_pages(store, name)):
        more = "" if len(pages) == 1 else f"; {len(pages) - 1:,} more of its pages cannot be read"
        first = pages[0]
        return f"{first.words}; it is asked for again after {iso(first.gap.not_before_ns)}{more}"
    return _text(backlog, "hole")


def _text(note: Json, name: str) -> str | None:
    found = note.get(name) if isinstance(note, dict) else None
    return found if isinstance(found, str) else None


def _whole_walk_at_ns(note: Json) -> int | None:
    """When a walk last saw the whole list; a zero asks for another one."""
    return note if isinstance(note, int) and note > 0 else None


def _newest_id(note: Json) -> int | None:
    return note if isinstance(note, int) and not isinstance(note, bool) else None
