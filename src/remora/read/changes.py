"""How is a change written for machines? As one JSON object; the same in `remora changes`, a webhook and the console."""

import msgspec

from remora.contracts.reader import Change
from remora.core.status.answers import iso


def as_line(change: Change) -> bytes:
    """One change as JSON."""
    return msgspec.json.encode(
        {
            "position": change.position,
            "source": change.source,
            "kind": change.kind,
            "key": change.key,
            "change": change.change,
            "changed_at": iso(change.changed_ns),
        }
    )
