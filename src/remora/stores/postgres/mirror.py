"""How does the PostgreSQL store keep the mirror itself?"""

from collections.abc import Sequence

from remora.contracts import Observation, Outcome
from remora.stores.common import CommonMirror
from remora.stores.postgres.session import PostgresPart


class PostgresMirror(PostgresPart, CommonMirror):
    """The mirrored items, users and documents."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable."""
        return await self._open_writer().record(source, observation)

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        """The same for many, in one transaction per lane of the writer."""
        return await self._open_writer().record_many(source, observations) if observations else ()
