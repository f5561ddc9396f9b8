"""What do processes on one PostgreSQL share beyond their rows? The time of each source's gate, and leader leases."""

from collections.abc import Awaitable, Callable

from remora.contracts import Clock
from remora.core.errors import StoreError
from remora.stores.postgres.gate import PostgresGate
from remora.stores.postgres.singleton import Singleton


class PostgresLease:
    """`contracts.LeaderLease` with an advisory lock and a fenced lease."""

    def __init__(self, singleton: Singleton) -> None:
        self._singleton = singleton

    @property
    def unanswered(self) -> StoreError | None:
        """Why the database did not answer the last question for the lease."""
        return self._singleton.unanswered

    def holds(self) -> bool:
        """Whether this process is the leader right now; false at once after a freeze."""
        return self._singleton.holds()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease and do the work. Stop at once when the lease is lost, and start again."""

        async def alone(_: Singleton) -> None:
            await work()

        await self._singleton.run(alone)


class PostgresSharing:
    """`contracts.Sharing` of all processes on one database."""

    def __init__(self, url: str, *, owner: str, clock: Clock) -> None:
        self._url = url
        self._owner = owner
        self._clock = clock
        self.gate_store = PostgresGate(url, clock=clock)

    def leader_lease(self, name: str) -> PostgresLease:
        """The leader lease with this name."""
        return PostgresLease(Singleton(self._url, name, owner=self._owner, clock=self._clock))

    async def close(self) -> None:
        """Close the connections."""
        await self.gate_store.close()
