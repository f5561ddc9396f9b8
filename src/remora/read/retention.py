"""What of a mirror may be deleted? Old changes that every reader has worked on, old contents, and gaps settled long ago."""

from dataclasses import dataclass
from typing import Final

from remora.contracts.keeping import Housekeeping
from remora.contracts.search import SearchIndex
from remora.read.indexing import load_progress

BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted, and who kept the rest."""

    changes: int
    revisions: int
    settled_gaps: int
    waits_for: str | None  # the reader that is furthest behind


async def forget_old(
    store: Housekeeping,
    index: SearchIndex,
    *,
    changes_before_ns: int | None,
    revisions_before_ns: int | None,
    settled_before_ns: int | None = None,
) -> Forgotten:
    """Delete changes, contents and settled gaps from before these moments, in short steps; None: none."""
    name, position = await furthest_behind(store, index)
    changes = revisions = settled_gaps = 0
    if changes_before_ns is not None:
        while count := await store.forget_changes(before_ns=changes_before_ns, up_to=position, limit=BATCH_ROWS):
            changes += count
    if revisions_before_ns is not None:
        revisions = await store.forget_revisions(before_ns=revisions_before_ns, limit=BATCH_ROWS)
    if settled_before_ns is not None:
        settled_gaps = await store.forget_settled_gaps(before_ns=settled_before_ns, limit=BATCH_ROWS)
    return Forgotten(changes, revisions, settled_gaps, name)


async def furthest_behind(store: Housekeeping, index: SearchIndex) -> tuple[str | None, str | None]:
    """The reader of changes that has come least far, and its position. The search index is a reader, too."""
    positions = {reader.name: reader.position for reader in await store.named_readers()}
    if await index.exists():
        await index.open(to_write=False)
        try:
            kept = await index.progress()
        finally:
            await index.close()
        positions["the search index"] = "0" if kept is None else load_progress(kept).position
    if not positions:
        return None, None
    name = min(positions, key=lambda each: order(positions[each]))
    return name, positions[name]


def order(position: str) -> tuple[int, ...]:
    """Positions in the order of the feed. One is a number, or two numbers with a colon between them."""
    return tuple(int(part) for part in position.split(":"))
