"""Which sources share a gate? All of one account: one ceiling, one pace, one quota, one circuit breaker.

A source that names no account has one of its own, with its own name.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remora.contracts import Clock, GateHome, Meter, Sharing, Store
from remora.core.errors import SourcePaused, StoreUnavailable
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.operate.config.settings import SourceSettings, account_of
from remora.operate.jobs.steering import SteeredHome, Steering

if TYPE_CHECKING:
    from remora.gate.sole import SoleRight

# What several processes need is imported by those that share a store.


@dataclass(slots=True)
class _Open:
    governor: Governor
    following: asyncio.Task[None]  # what an operator orders
    users: int = 0

    async def close(self) -> None:
        self.following.cancel()
        try:
            await asyncio.wait([self.following])
        finally:
            await self.governor.close()


class Gates:
    """The gates of one process, each opened for its first source and closed after its last."""

    def __init__(
        self,
        sources: Mapping[str, SourceSettings],
        *,
        store: Store,
        clock: Clock,
        meter: Meter,
        sharing: Sharing | None = None,
        waits_while_paused: bool = False,
    ) -> None:
        """`waits_while_paused`: a paused account has a gate that sends nothing yet; else none is opened for it."""
        self._sources = sources
        self._store = store
        self._clock = clock
        self._meter = meter
        self._sharing = sharing
        self._waits_while_paused = waits_while_paused
        self._open: dict[str, _Open] = {}
        self._opening: dict[str, asyncio.Lock] = {}  # by account; held while its gate is opened or closed
        self._rights: dict[str, SoleRight] = {}  # by account
        self._homes: dict[str, SteeredHome] = {}  # by account; what an operator orders goes there
        accounts = {name: account_of(name, source) for name, source in sources.items()}
        self.steering = Steering(self._homes, accounts, store=store, clock=clock)

    def right(self, source: str) -> "SoleRight | None":
        """What a process needs to send for this source; None: any process may.

        Only one process can count refusals. So where they are limited, and the store is shared, everything that sends
        must `run` within this right and pass through the gate there.
        """
        if self._sharing is None or self._sources[source].refusal_limit is None:
            return None
        from remora.gate.sole import SoleRight  # noqa: PLC0415

        account = account_of(source, self._sources[source])
        if account not in self._rights:
            self._rights[account] = SoleRight(self._sharing.leader_lease(f"send:{account}"))
        return self._rights[account]

    @asynccontextmanager
    async def pass_through(self, source: str) -> AsyncIterator[Governor]:
        """The gate of this source's account. It starts with the stored pace and stores what it learned."""
        right, account = self.right(source), account_of(source, self._sources[source])
        if right is not None and not right.holds():
            raise StoreUnavailable(f"another process may send for {account} now", hint="wait for it, or stop it first")
        async with self._opening.setdefault(account, asyncio.Lock()):
            gate = self._open.get(account)
            if gate is None:
                gate = self._open[account] = await self._opened(account)
            gate.users += 1
        try:
            yield gate.governor
        finally:
            async with self._opening[account]:  # nobody opens the next one before this one is closed
                gate.users -= 1
                if not gate.users:
                    del self._open[account], self._homes[account]
                    await gate.close()

    async def _opened(self, account: str) -> _Open:
        await self.steering.take_up(account)
        if self.steering.orders(account).paused_at_ns is not None and not self._waits_while_paused:
            raise SourcePaused(f"{account} is paused", hint="resume it in the console, which `remora up` opens")
        governor = self._governor(account)
        try:
            await governor.open()
        except BaseException:
            # Not the gate: it would store what it has not learned.
            await self._homes.pop(account).close()
            raise
        following = asyncio.get_running_loop().create_task(self.steering.follow(account), name=f"orders:{account}")
        return _Open(governor, following)

    def _governor(self, account: str) -> Governor:
        members = {name: one for name, one in self._sources.items() if account_of(name, one) == account}
        limits = limits_of(list(members.values()))
        home = gate_home(
            account, self._store, self._sharing, ceiling_interval_ns=limits.ceiling_interval_ns, clock=self._clock
        )
        if (right := self.right(next(iter(members)))) is not None:
            from remora.gate.sole import SoleHome  # noqa: PLC0415

            home = SoleHome(home, right)
        steered = self._homes[account] = SteeredHome(home, self.steering.orders(account))
        meter = AccountMeter(self._meter, tuple(members))
        return Governor(account, limits, clock=self._clock, home=steered, meter=meter, chance=random.random)


class AccountMeter:
    """`Meter` of a gate: what happens to the account happens to each of its sources."""

    def __init__(self, inner: Meter, sources: Sequence[str]) -> None:
        self._inner = inner
        self._sources = sources
        # What happens to one request happens to its source alone.
        self.departed, self.wire_sent, self.judged = inner.departed, inner.wire_sent, inner.judged
        self.recorded = inner.recorded

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        del source
        for name in self._sources:
            self._inner.pace_changed(name, interval_ns=interval_ns, backed_off_because=backed_off_because)

    def circuit_changed(self, source: str, state: str) -> None:
        del source
        for name in self._sources:
            self._inner.circuit_changed(name, state)


def gate_home(
    account: str, store: Store, sharing: Sharing | None, *, ceiling_interval_ns: int, clock: Clock
) -> GateHome:
    """Where the gate gets its time: from this process alone, unless the store is shared."""
    if sharing is None:
        return LocalHome(account, store)
    from remora.gate.shared import SharedHome  # noqa: PLC0415

    return SharedHome(account, sharing.gate_store, ceiling_interval_ns=ceiling_interval_ns, clock=clock)


def limits_of(members: Sequence[SourceSettings]) -> Limits:
    """The ceiling of the account, its limit on refusals, and limits that can only make it slower.

    Each source adds its requests in flight.
    """
    ceiling_interval_ns = max(source.ceiling_interval_ns for source in members)
    return Limits(
        ceiling_interval_ns=ceiling_interval_ns,
        in_flight=sum(source.in_flight for source in members),
        jitter_min_ns=max(source.jitter_min_ns for source in members),
        jitter_max_ns=max(source.jitter_max_ns for source in members),
        refusal_limit=members[0].refusal_limit,
    )
