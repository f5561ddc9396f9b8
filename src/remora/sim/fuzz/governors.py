"""How does a simulated process get its gate? The only module of this package that builds gates."""

from remora.contracts import Clock, GateHome, LeaderLease, Meter, Store
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.gate.shared import SharedHome
from remora.gate.sole import SoleHome
from remora.sim.clock import SimClock
from remora.sim.crash import Generation
from remora.sim.sharing import SimGate, SimNames, SimSharing


class Gates:
    """The gates of all processes of a world: one per process, or one that all share."""

    def __init__(self, clock: SimClock, *, processes: int) -> None:
        self._clock = clock
        self._shared = SimGate(clock) if processes > 1 else None
        self._names = SimNames()

    def governor(
        self,
        name: str,
        limits: Limits,
        *,
        life: Generation,
        clock: Clock,
        store: Store,
        meter: Meter,
        right: LeaderLease | None = None,
    ) -> Governor:
        """The gate for one life of a process. `right`: it sends only while it holds this."""
        home: GateHome = LocalHome(name, store)
        if self._shared is not None:
            interval_ns = limits.ceiling_interval_ns
            home = SharedHome(name, life.guard(self._shared), ceiling_interval_ns=interval_ns, clock=clock)
        if right is not None:
            home = SoleHome(home, right)
        return Governor(name, limits, clock=clock, home=home, meter=meter, chance=self._clock.random.random)

    def leader_lease(self, name: str, clock: Clock) -> LeaderLease | None:
        """The right to be the only one that watches the source; None if there is only one process."""
        if self._shared is None:
            return None
        return SimSharing(self._shared, self._names, clock).leader_lease(name)
