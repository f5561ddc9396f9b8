"""What does `remora store repair` do? It asks each numbered source for its newest id and forgets what lies beyond it."""

import msgspec

from remora.contracts import Json
from remora.core.errors import RemoraError, StoreError
from remora.core.ledger.notes import NEWEST_NOTE
from remora.operate.config.settings import Settings
from remora.operate.jobs.alone import with_right
from remora.operate.jobs.resources import Resources, open_resources
from remora.operate.jobs.runtime import newest_now, open_numbered


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What the store believed about one source, and what is true."""

    source: str
    believed: int | None
    newest_id: int | None  # None: the source did not tell it, and nothing was changed
    failure: RemoraError | None = None  # why it is not known

    @property
    def was_wrong(self) -> bool:
        """Whether the store believed more than the source has."""
        return self.believed is not None and self.newest_id is not None and self.believed > self.newest_id


async def repair(settings: Settings, *, only: str | None) -> list[Repaired]:
    """Correct what the store believes. Every request passes the gate; no other process may be writing the store.

    A source that does not answer keeps no other from being repaired.
    """
    numbered = [name for name, source in settings.sources.items() if source.capabilities.newest_id]
    names = [name for name in numbered if only in {None, name}]
    async with open_resources(settings, for_sources=names, makes_store=False) as resources:
        return [await _repair(resources, name) for name in names]


async def _repair(resources: Resources, name: str) -> Repaired:
    kept: Json = await resources.store.note(name, NEWEST_NOTE)
    believed = kept if isinstance(kept, int) else None

    async def ask() -> int:
        async with open_numbered(name, resources) as runtime:
            return await newest_now(runtime, resources.store)

    try:
        newest_id = await with_right(resources, name, ask)
    except StoreError:
        raise
    except RemoraError as failure:
        return Repaired(source=name, believed=believed, newest_id=None, failure=failure)
    return Repaired(source=name, believed=believed, newest_id=newest_id)
