"""What do processes on one PostgreSQL share beyond their rows? The gate of each source, and the names of what one does alone."""

from collections.abc import Awaitable, Callable

from remora.contracts import Clock
from remora.stores.postgres.gate import SharedGate
from remora.stores.postgres.singleton import Singleton
from remora.stores.slots import Slots


class PostgresAlone:
    """`fleet.Alone` on an advisory lock and a fenced lease."""

    def __init__(self, singleton: Singleton) -> None:
        self._singleton = singleton

    def holds(self) -> bool:
        """Whether this process is the one right now; false at once after a freeze."""
        return self._singleton.holds()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be the one and do the work; stop it at once when the right is lost, and begin anew."""

        async def alone(_: Singleton) -> None:
            await work()

        await self._singleton.run(alone)


class PostgresFleet:
    """`fleet.Fleet` of all processes that share a database."""

    def __init__(self, url: str, *, owner: str, clock: Clock) -> None:
        self._url = url
        self._owner = owner
        self._clock = clock
        self._gate = SharedGate(url, clock=clock)

    def common_gate(self, source: str, *, ceiling_interval_ns: int) -> Slots:
        """The gate of all processes that mirror this source."""
        return Slots(self._gate, source, ceiling_interval_ns=ceiling_interval_ns, clock=self._clock)

    def alone(self, name: str) -> PostgresAlone:
        """The right to do what has this name."""
        return PostgresAlone(Singleton(self._url, name, owner=self._owner, clock=self._clock))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._gate.close()
