"""Which gaps does a person mean? Those of a source, with a reason, or of one item or document by its own key."""

from collections.abc import Iterable, Mapping

from remora.contracts import Store
from remora.core.ledger.discovery import fingerprint
from remora.core.reasons import GapReason
from remora.operate.config.settings import SourceSettings


async def replay_gaps(
    store: Store,
    sources: Mapping[str, SourceSettings],
    names: Iterable[str],
    *,
    reason: GapReason | None,
    key: str | None,
    now_ns: int,
) -> int:
    """Make gaps of these sources due now; returns how many. A document is named by its key or by its fingerprint."""
    count = 0
    for name in names:
        keys = [key]
        if key is not None and not sources[name].capabilities.newest_id:
            keys.append(fingerprint(name, key))
        count += sum([await store.replay_gaps(name, reason=reason, key=each, now_ns=now_ns) for each in keys])
    return count
