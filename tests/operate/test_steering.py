"""Does an operator's order hold from the next request on, and can it only ever slow things down?"""

import asyncio

import pytest

from remora.core.errors import ConfigurationError
from remora.core.lanes import Lane
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.operate.jobs.steering import SteeredHome, Steering
from remora.sim.clock import SimClock, run
from remora.sim.meter import CountingMeter
from remora.stores.memory import MemoryStore
from tests.gate.rig import GOOD, Gate, always, warm

CEILING_NS = SECOND_NS // 4
LIMITS = Limits(ceiling_interval_ns=CEILING_NS)


class Scene:
    """A gate at its ceiling of 4 per second, and an operator."""

    def __init__(self, clock: SimClock, store: MemoryStore) -> None:
        self.clock = clock
        self.home = SteeredHome(LocalHome("chats", warm(clock, LIMITS)))
        self.governor = Governor(
            "chats", LIMITS, clock=clock, home=self.home, meter=CountingMeter(), chance=lambda: 0.0
        )
        self.gate = Gate(clock, self.governor, always(GOOD))
        self.steering = Steering({"chats": self.home}, {"chats": "chats"}, store=store, clock=clock)

    async def after(self, span_ns: int) -> int:
        """How many left until then."""
        await self.clock.sleep_until(self.clock.monotonic_ns() + span_ns)
        return len(self.gate.departures)

    async def flood(self) -> None:
        while True:
            await self.gate.send(Lane.LIVE)


async def opened(clock: SimClock, store: MemoryStore) -> tuple[Scene, "asyncio.Task[None]"]:
    scene = Scene(clock, store)
    await scene.governor.open()
    await scene.steering.open()
    return scene, asyncio.get_running_loop().create_task(scene.flood())


async def closed(scene: Scene, flood: "asyncio.Task[None]") -> None:
    flood.cancel()
    await asyncio.gather(flood, return_exceptions=True)
    await scene.governor.close()


def test_a_pause_holds_from_the_next_request_on_and_survives_a_restart() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        scene, flood = await opened(clock, store)
        assert await scene.after(10 * SECOND_NS) > 30
        await scene.steering.pause("chats")
        sent = len(scene.gate.departures)
        assert await scene.after(MINUTE_NS) == sent
        await closed(scene, flood)
        again, flood = await opened(clock, store)
        assert await again.after(MINUTE_NS) == 0
        await again.steering.resume("chats")
        assert await again.after(10 * SECOND_NS) > 5
        await closed(again, flood)

    run(story)


def test_a_lower_ceiling_holds_for_its_time_and_then_ends() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        scene, flood = await opened(clock, store)
        watching = asyncio.get_running_loop().create_task(scene.steering.run())
        await scene.after(10 * SECOND_NS)
        before = len(scene.gate.departures)
        await scene.steering.lower("chats", interval_ns=5 * SECOND_NS, for_ns=MINUTE_NS, ceiling_interval_ns=CEILING_NS)
        assert await scene.after(50 * SECOND_NS) - before <= 11
        await scene.after(20 * SECOND_NS)
        before = len(scene.gate.departures)
        assert await scene.after(10 * SECOND_NS) - before > 30
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await closed(scene, flood)

    run(story)


@pytest.mark.parametrize(
    "interval_ns, for_ns", [(CEILING_NS - 1, HOUR_NS), (SECOND_NS, 0), (SECOND_NS, 31 * 24 * HOUR_NS)]
)
def test_an_operator_never_raises_the_ceiling_nor_lowers_it_for_ever(interval_ns: int, for_ns: int) -> None:
    async def story(clock: SimClock) -> None:
        scene = Scene(clock, MemoryStore())
        with pytest.raises(ConfigurationError):
            await scene.steering.lower("chats", interval_ns=interval_ns, for_ns=for_ns, ceiling_interval_ns=CEILING_NS)
        assert scene.steering.of("chats").interval_ns is None

    run(story)


def test_another_process_follows_the_orders_that_one_kept() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        one, flood = await opened(clock, store)
        other, other_flood = await opened(clock, store)
        following = asyncio.get_running_loop().create_task(other.steering.run())
        await one.steering.pause("chats")
        await other.after(5 * SECOND_NS)
        sent = len(other.gate.departures)
        assert await other.after(MINUTE_NS) == sent
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await closed(one, flood)
        await closed(other, other_flood)

    run(story)


def test_an_order_to_a_process_that_stands_by_is_kept_and_changes_no_other_order() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        scene, flood = await opened(clock, store)
        await scene.steering.lower("chats", interval_ns=SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=CEILING_NS)
        # It has no gate: another process sends for the account, and it has heard of no order yet.
        standby = Steering({}, {"chats": "chats"}, store=store, clock=clock)
        await standby.resume("chats")
        await standby.pause("chats")
        assert standby.of("chats").interval_ns == SECOND_NS
        following = asyncio.get_running_loop().create_task(scene.steering.run())
        await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
        assert scene.home.orders == standby.of("chats")
        sent = len(scene.gate.departures)
        assert await scene.after(MINUTE_NS) == sent, "it is paused"
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await closed(scene, flood)

    run(story)
