"""What may an operator change while it runs? Pause, resume, and lower the ceiling for a while; never raise it.

A gate home is asked for time before every departure. The steered home grants none while it is paused, and names a
slower pace while the ceiling is lowered. So an order takes effect before the next request, and no loop knows of it.
Orders are kept as notes: a restart does not undo them.

Clocks disagree after a system clock was set back: a process that runs keeps the time it had. So the time of a lowered
ceiling is counted by the monotonic clock from when a process first sees the order.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from remora.contracts import Clock, GateHome, Json, Notes
from remora.core.errors import ConfigurationError, StoreError, StoreUnavailable
from remora.core.ledger.notes import STEERING_NOTE
from remora.core.quantities import format_rate
from remora.core.rate.gate_types import RateFacts
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Stretch
from remora.core.status.snapshot import Orders
from remora.core.units import DAY_NS, SECOND_NS
from remora.gate.home_around import HomeAround

LOOK_EVERY_NS: Final = 2 * SECOND_NS
LOWERED_MAX_NS: Final = 30 * DAY_NS
# Each lost try means that another process gave an order at the same moment.
TRIES_AT_MOST: Final = 20


class SteeredHome(HomeAround):
    """`contracts.GateHome` that grants no time while it is paused, and only slow time while it is lowered."""

    def __init__(self, inner: GateHome, orders: Orders) -> None:
        super().__init__(inner)
        self.orders = orders

    def obey(self, orders: Orders) -> None:
        """Follow these orders from now on."""
        self.orders = orders
        if self._gate is not None:
            self._gate.changed()

    @property
    def interval_ns(self) -> int:
        return max(super().interval_ns, self.orders.interval_ns or 0)

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        return None if self.orders.paused_at_ns is not None else self._inner.stretch(pacer, now_ns=now_ns)


class _Lowering(msgspec.Struct, frozen=True):
    """A lowered ceiling as this process counts its time."""

    order: Orders  # as it is kept, without a pause
    ends_ns: int  # on our own monotonic clock
    until_ns: int  # the same moment on our own wall clock


class Steering:
    """The orders of every account. Sources of one account share its gate, and so its orders."""

    def __init__(
        self, homes: Mapping[str, SteeredHome], accounts: Mapping[str, str], *, store: Notes, clock: Clock
    ) -> None:
        self._homes = homes  # of open gates, by account
        self._accounts = accounts  # the account of each source
        self._store = store
        self._clock = clock
        self._orders: dict[str, Orders] = {}  # of each account, as this process follows them
        self._lowerings: dict[str, _Lowering | None] = {}  # of each account whose orders were read
        # By account; held from reading the orders until they are followed, so that no older answer undoes an order.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self) -> None:
        """Know the orders of accounts for which another process sends, for ever."""
        while True:
            for account in dict.fromkeys(self._accounts.values()):
                if account not in self._homes:
                    await self._look(account)
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_EVERY_NS)

    async def follow(self, account: str) -> None:
        """Follow what other processes order, and end what was lowered only for a while, for ever."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_EVERY_NS)
            await self._look(account)

    async def _look(self, account: str) -> None:
        with suppress(StoreError):
            await self.take_up(account)

    async def take_up(self, account: str) -> None:
        """Follow the orders that are kept. Unreadable ones are ignored: the ceiling holds without them."""
        async with self._turns[account]:
            await self._read(account)

    async def _read(self, account: str) -> tuple[Json, Orders]:
        """The orders as they are kept, and without what is over."""
        kept = await self._store.note(account, STEERING_NOTE)
        try:
            orders = msgspec.convert(kept or {}, Orders)
        except msgspec.ValidationError:
            return kept, self.orders(account)
        lowering = self._lowerings[account] = self._lowered(account, orders)
        if lowering is not None and lowering.ends_ns <= self._clock.monotonic_ns():
            orders = msgspec.structs.replace(orders, interval_ns=None, until_ns=None, for_ns=None)
        self._follow(account, orders)
        return kept, orders

    def _lowered(self, account: str, orders: Orders) -> _Lowering | None:
        """When a lowered ceiling ends for this process: decided when it first sees the order, and then kept."""
        if orders.until_ns is None:
            return None
        order, known = msgspec.structs.replace(orders, paused_at_ns=None), self._lowerings.get(account)
        if known is not None and known.order == order:
            return known
        now_ns = self._clock.wall_ns()
        left_ns = orders.until_ns - now_ns
        if orders.for_ns is not None:
            # An order that was not there at the last look is new, whatever moment the other clock gave it.
            left_ns = orders.for_ns if account in self._lowerings else min(left_ns, orders.for_ns)
        return _Lowering(order, self._clock.monotonic_ns() + left_ns, now_ns + left_ns)

    def _follow(self, account: str, orders: Orders) -> None:
        """Also without a gate: another process may send for this account, and this one take over later."""
        lowering = self._lowerings.get(account)
        if lowering is not None and orders.until_ns is not None:
            orders = msgspec.structs.replace(orders, until_ns=lowering.until_ns)
        self._orders[account] = orders
        home = self._homes.get(account)
        if home is not None and home.orders != orders:
            home.obey(orders)

    def of(self, source: str) -> Orders:
        """The orders that this source follows."""
        return self.orders(self._account(source))

    def orders(self, account: str) -> Orders:
        """The orders of an account."""
        return self._orders.get(account, Orders())

    async def pause(self, source: str) -> None:
        """Send nothing until it is resumed."""
        now_ns = self._clock.wall_ns()
        await self._order(source, lambda kept: {"paused_at_ns": kept.paused_at_ns or now_ns})

    async def resume(self, source: str) -> None:
        """Go on after a pause."""
        await self._order(source, lambda _: {"paused_at_ns": None})

    async def lower(self, source: str, *, interval_ns: int, for_ns: int, ceiling_interval_ns: int) -> None:
        """Send at most this fast for a while. Refuses a rate above the owner's ceiling."""
        if interval_ns < ceiling_interval_ns:
            told, ceiling = (format_rate(SECOND_NS / each_ns) for each_ns in (interval_ns, ceiling_interval_ns))
            raise ConfigurationError(
                f"{told} is above the ceiling of {ceiling}",
                hint="write a lower rate; only remora.toml raises the ceiling",
            )
        if not 0 < for_ns <= LOWERED_MAX_NS:
            raise ConfigurationError(
                "the ceiling can be lowered for at most 30 days", hint="write a span, as 30m or 6h"
            )
        until_ns = self._clock.wall_ns() + for_ns
        await self._order(source, lambda _: {"interval_ns": interval_ns, "until_ns": until_ns, "for_ns": for_ns})

    async def restore(self, source: str) -> None:
        """Back to the owner's ceiling."""
        await self._order(source, lambda _: {"interval_ns": None, "until_ns": None, "for_ns": None})

    async def _order(self, source: str, change: Callable[[Orders], Mapping[str, int | None]]) -> None:
        """Change the orders as they are now; whoever changes them in another process at this moment loses nothing."""
        account = self._account(source)
        async with self._turns[account]:
            for _ in range(TRIES_AT_MOST):
                kept, orders = await self._read(account)
                orders = msgspec.structs.replace(orders, **change(orders))
                if await self._store.swap_note(account, STEERING_NOTE, old=kept, new=msgspec.to_builtins(orders)):
                    self._lowerings[account] = self._lowered(account, orders)
                    self._follow(account, orders)
                    return
        raise StoreUnavailable(f"other processes change the orders of {account}, too", hint="give the order again")

    def _account(self, source: str) -> str:
        return self._accounts[source]


def steered(rate: RateFacts, orders: Orders) -> RateFacts:
    """The facts about the rate with the pace that an operator allows."""
    return msgspec.structs.replace(rate, interval_ns=max(rate.interval_ns, orders.interval_ns or 0))
