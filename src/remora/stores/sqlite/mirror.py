"""How does the SQLite store keep the mirror itself?"""

from collections.abc import Sequence

from remora.contracts import Observation, Outcome
from remora.stores.common import CommonMirror
from remora.stores.sqlite.session import SqlitePart


class SqliteMirror(SqlitePart, CommonMirror):
    """The mirrored items, users and documents."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        """Item, ledger and origin in one transaction; returns when it is durable."""
        return await self._open_writer().record(source, observation)

    async def record_many(self, source: str, observations: Sequence[Observation]) -> Sequence[Outcome]:
        """The same for many, in one transaction."""
        return await self._open_writer().record_many(source, observations) if observations else ()
