"""How are rows converted to values and back in every database? Values have nanoseconds, tables milliseconds."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remora.contracts import GapCount, Json, RunRecord, StoredDocument, StoredItem, WalkState
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS

Row = Sequence[Any]


def milliseconds(moment_ns: int) -> int:
    """Nanoseconds as milliseconds, for a table."""
    return moment_ns // MILLISECOND_NS


def nanoseconds(moment: int | None) -> int | None:
    """Milliseconds from a table as nanoseconds; None stays None."""
    return None if moment is None else moment * MILLISECOND_NS


def load_json(text: str | None) -> Json:
    """The stored value. Damaged text is returned as it is, for the caller to judge."""
    if text is None:
        return None
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def dump_json(value: Json | Mapping[str, Json]) -> str:
    """JSON in plain ASCII, so that no database refuses it."""
    return json.dumps(value)


def gap_from_row(row: Row) -> Gap:
    """Columns: kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at."""
    return Gap(
        kind=Kind(row[0]),
        key=row[1],
        state=GapState(row[2]),
        reason=GapReason(row[3]),
        attempts=row[4],
        null_count=row[5],
        near_newest=bool(row[6]),
        not_before_ns=row[7] * MILLISECOND_NS,
        first_seen_ns=row[8] * MILLISECOND_NS,
        last_seen_ns=row[9] * MILLISECOND_NS,
    )


def gap_to_row(gap: Gap) -> tuple[object, ...]:
    """The same columns, in the same order."""
    return (
        gap.kind.value,
        gap.key,
        gap.state.value,
        gap.reason.value,
        gap.attempts,
        gap.null_count,
        gap.near_newest,
        gap.not_before_ns // MILLISECOND_NS,
        gap.first_seen_ns // MILLISECOND_NS,
        gap.last_seen_ns // MILLISECOND_NS,
    )


def gap_count_from_row(row: Row) -> GapCount:
    """Columns: kind, state, reason, how many, the oldest first_seen_at, the next not_before_at."""
    kind, state, reason, count, oldest_at, next_at = row
    return GapCount(
        kind=Kind(kind),
        state=GapState(state),
        reason=GapReason(reason),
        count=count,
        oldest_ns=oldest_at * MILLISECOND_NS,
        next_ns=next_at * MILLISECOND_NS,
    )


def item_from_row(row: Row) -> StoredItem:
    """Columns: id, body, revision, first_seen_at, last_fetched_at, changed_at."""
    return StoredItem(
        item_id=row[0],
        body=row[1],
        revision=row[2],
        first_seen_ns=row[3] * MILLISECOND_NS,
        last_fetched_ns=row[4] * MILLISECOND_NS,
        changed_ns=row[5] * MILLISECOND_NS,
    )


def document_from_row(row: Row, load: Callable[[str], str] = str) -> StoredDocument:
    """Columns: key, fingerprint, updated_at, body, fetched_at, revision, first_seen_at, changed_at, vanished_at, owed."""
    key, fingerprint, updated_at, body, fetched_at, revision, first_seen_at, changed_at, vanished_at, owed = row
    return StoredDocument(
        key=load(key),
        fingerprint=fingerprint,
        updated_at=None if updated_at is None else load(updated_at),
        body=body,
        fetched_ns=nanoseconds(fetched_at),
        revision=revision,
        first_seen_ns=first_seen_at * MILLISECOND_NS,
        changed_ns=nanoseconds(changed_at),
        vanished_ns=nanoseconds(vanished_at),
        owed=bool(owed),
    )


def walk_from_row(row: Row, load: Callable[[str], str] = str) -> WalkState:
    """Columns: watermark, walking_from, seen_down_to, position, walk, full_walk."""
    *texts, walk, full_walk = row
    watermark, walking_from, seen_down_to, position = (None if text is None else load(text) for text in texts)
    return WalkState(watermark, walking_from, seen_down_to, position, walk, full_walk)


def run_from_row(row: Row) -> RunRecord:
    """Columns: run_id, started_at, ended_at, stopped_by, counts."""
    run_id, started_at, ended_at, stopped_by, counts = row
    kept = load_json(counts)
    numbers = {name: count for name, count in kept.items() if isinstance(count, int)} if isinstance(kept, dict) else {}
    return RunRecord(run_id, started_at * MILLISECOND_NS, nanoseconds(ended_at), stopped_by, numbers)
