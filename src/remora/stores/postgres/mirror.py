"""How does the PostgreSQL store keep the mirror itself?"""

from remora.contracts import Observation, Outcome
from remora.stores.common import CommonMirror
from remora.stores.postgres.session import PostgresPart


class PostgresMirror(PostgresPart, CommonMirror):
    """The mirrored items, users and documents."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable."""
        return await self._open_writer().record(source, observation)
