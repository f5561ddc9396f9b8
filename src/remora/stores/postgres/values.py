"""How does a row become a value, and a value a row? Times are nanoseconds in values and milliseconds in tables.

PostgreSQL's text has neither NUL nor halves of surrogate pairs. Bodies are bytes and stay as they are; keys and marks,
which must come back exactly, are escaped; what is only derived from a body is cleaned by `stores.shared`.
"""

import json
import re
from typing import Final

from remora.contracts import Json, RunRecord, StoredDocument, StoredItem
from remora.core.discovery import Kind
from remora.core.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS
from remora.stores.postgres.connections import Row

# The line break is escaped because some statements take many keys as the lines of one text.
_NEEDS_ESCAPE: Final = re.compile("[\0\n\\\\\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\(0|n|\\|u[0-9a-f]{4})")


def milliseconds(moment_ns: int) -> int:
    """A moment as tables hold it."""
    return moment_ns // MILLISECOND_NS


def dump_json(value: Json) -> str:
    """JSON in plain ASCII: what PostgreSQL's text cannot hold is written as an escape."""
    return json.dumps(value)


def load_json(text: str | None) -> Json:
    """What was kept. Text that somebody damaged comes back as the text it is: whoever asked judges it."""
    if text is None:
        return None
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def dump_key(key: str) -> str:
    """A key as text that PostgreSQL accepts; almost always the key itself."""
    return _NEEDS_ESCAPE.sub(_escape, key)


def load_key(text: str) -> str:
    """The key that was dumped."""
    return _ESCAPED.sub(_unescape, text) if "\\" in text else text


def dump_mark(mark: str | None) -> str | None:
    """A source's own mark or position; none stays none."""
    return None if mark is None else dump_key(mark)


def load_mark(text: str | None) -> str | None:
    """The mark that was dumped."""
    return None if text is None else load_key(text)


def _escape(found: re.Match[str]) -> str:
    match found[0]:
        case "\0":
            return "\\0"
        case "\n":
            return "\\n"
        case "\\":
            return "\\\\"
        case half:
            return f"\\u{ord(half):04x}"


def _unescape(found: re.Match[str]) -> str:
    match found[1]:
        case "0":
            return "\0"
        case "n":
            return "\n"
        case "\\":
            return "\\"
        case code:
            return chr(int(code[1:], 16))


def gap_from_row(row: Row) -> Gap:
    """Columns: kind, key, state, reason, attempts, looks, was_young, not_before_at, first_seen_at, last_seen_at."""
    return Gap(
        kind=Kind(row[0]),
        key=load_key(row[1]),
        state=GapState(row[2]),
        reason=GapReason(row[3]),
        attempts=row[4],
        looks=row[5],
        was_young=row[6],
        not_before_ns=row[7] * MILLISECOND_NS,
        first_seen_ns=row[8] * MILLISECOND_NS,
        last_seen_ns=row[9] * MILLISECOND_NS,
    )


def gap_to_row(gap: Gap) -> Row:
    """The same columns, in the same order."""
    return (
        gap.kind.value,
        dump_key(gap.key),
        gap.state.value,
        gap.reason.value,
        gap.attempts,
        gap.looks,
        gap.was_young,
        milliseconds(gap.not_before_ns),
        milliseconds(gap.first_seen_ns),
        milliseconds(gap.last_seen_ns),
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


def document_from_row(row: Row) -> StoredDocument:
    """Columns: key, fingerprint, updated_at, body, fetched_at."""
    key, fingerprint, updated_at, body, fetched_at = row
    return StoredDocument(load_key(key), fingerprint, load_mark(updated_at), body, _moment_ns(fetched_at))


def run_from_row(row: Row) -> RunRecord:
    """Columns: run_id, started_at, ended_at, stopped_by, counts."""
    run_id, started_at, ended_at, stopped_by, counts = row
    kept = load_json(counts)
    numbers = {name: count for name, count in kept.items() if isinstance(count, int)} if isinstance(kept, dict) else {}
    return RunRecord(run_id, started_at * MILLISECOND_NS, _moment_ns(ended_at), stopped_by, numbers)


def _moment_ns(moment: int | None) -> int | None:
    return None if moment is None else moment * MILLISECOND_NS
