"""Does an operator's order hold from the next request on, and can it only ever slow things down?"""

import asyncio
from contextlib import AsyncExitStack

import pytest

from remora.contracts import Json, SharedPace
from remora.core.errors import ConfigurationError, SourcePaused, StoreUnavailable
from remora.core.lanes import Lane
from remora.core.status.snapshot import Orders
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.operate.config.settings import SourceKind, SourceSettings
from remora.operate.jobs.gates import Gates
from remora.operate.jobs.steering import SteeredHome, Steering
from remora.sim.clock import SimClock, run
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate, SimNames, SimSharing
from remora.stores.memory import MemoryStore
from tests.gate.rig import GOOD, Gate, always, warm

CEILING_NS = SECOND_NS // 4
LIMITS = Limits(ceiling_interval_ns=CEILING_NS)


class Scene:
    """A gate at its ceiling of 4 per second, and an operator."""

    def __init__(self, clock: SimClock, store: MemoryStore, inner: LocalHome | None = None) -> None:
        self.clock = clock
        self.home = SteeredHome(inner or LocalHome("chats", warm(clock, LIMITS)), Orders())
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


async def opened(
    clock: SimClock, store: MemoryStore, inner: LocalHome | None = None
) -> tuple[Scene, "asyncio.Task[None]"]:
    scene = Scene(clock, store, inner)
    await scene.governor.open()
    await scene.steering.take_up("chats")
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
        watching = asyncio.get_running_loop().create_task(scene.steering.follow("chats"))
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
        following = asyncio.get_running_loop().create_task(other.steering.follow("chats"))
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
        following = asyncio.get_running_loop().create_task(scene.steering.follow("chats"))
        await clock.sleep_until(clock.monotonic_ns() + 10 * SECOND_NS)
        assert scene.home.orders == standby.of("chats")
        sent = len(scene.gate.departures)
        assert await scene.after(MINUTE_NS) == sent, "it is paused"
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await closed(scene, flood)

    run(story)


class LateAnswers(MemoryStore):
    """A store that reads a note at once; the next answer arrives this much later."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock
        self.late_ns = 0

    async def note(self, source: str, name: str) -> Json:
        found = await super().note(source, name)
        late_ns, self.late_ns = self.late_ns, 0
        await self._clock.sleep_until(self._clock.monotonic_ns() + late_ns)
        return found


def test_a_look_at_the_orders_that_began_before_a_pause_does_not_end_it() -> None:
    async def story(clock: SimClock) -> None:
        store = LateAnswers(clock)
        scene, flood = await opened(clock, store)
        store.late_ns = SECOND_NS
        looking = asyncio.get_running_loop().create_task(scene.steering.take_up("chats"))
        await asyncio.sleep(0)
        await scene.steering.pause("chats")
        sent = len(scene.gate.departures)
        await looking
        assert await scene.after(10 * SECOND_NS) == sent
        await closed(scene, flood)

    run(story)


def test_two_orders_at_once_are_both_kept() -> None:
    async def story(clock: SimClock) -> None:
        store = LateAnswers(clock)
        scene, flood = await opened(clock, store)
        store.late_ns = SECOND_NS
        lowering = scene.steering.lower("chats", interval_ns=SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=CEILING_NS)
        await asyncio.gather(lowering, scene.steering.pause("chats"))
        assert scene.home.orders.interval_ns == SECOND_NS
        assert scene.home.orders.paused_at_ns is not None
        await closed(scene, flood)

    run(story)


def test_orders_that_two_processes_get_at_once_are_both_kept() -> None:
    async def story(clock: SimClock) -> None:
        store = LateAnswers(clock)
        scene, flood = await opened(clock, store)
        other = Steering({}, {"chats": "chats"}, store=store, clock=clock)
        store.late_ns = SECOND_NS
        lowering = scene.steering.lower("chats", interval_ns=SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=CEILING_NS)
        await asyncio.gather(lowering, other.pause("chats"))
        assert scene.home.orders.interval_ns == SECOND_NS
        assert scene.home.orders.paused_at_ns is not None, "the other console was told that nothing is sent"
        await closed(scene, flood)

    run(story)


def lowered_for_ns(steering: Steering, clock: SimClock) -> int:
    """How long the ceiling is still lowered, as the process tells it; 0 if it is not."""
    until_ns = steering.of("chats").until_ns
    return 0 if until_ns is None else until_ns - clock.wall_ns()


async def lower_for_an_hour(steering: Steering) -> None:
    await steering.lower("chats", interval_ns=SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=CEILING_NS)


def test_a_lower_ceiling_from_a_clock_that_was_ahead_lasts_no_longer_than_ordered_after_a_restart() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        clock.step_wall(24 * HOUR_NS)
        await lower_for_an_hour(Steering({}, {"chats": "chats"}, store=store, clock=clock))
        clock.step_wall(-24 * HOUR_NS)
        later = clock.restarted()
        service = Steering({}, {"chats": "chats"}, store=store, clock=later)
        await service.take_up("chats")
        assert lowered_for_ns(service, later) == HOUR_NS
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
        await service.take_up("chats")
        assert service.of("chats") == Orders()

    run(story)


def test_a_lower_ceiling_lasts_as_ordered_in_a_service_whose_clock_is_ahead_of_who_ordered_it() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        clock.step_wall(24 * HOUR_NS)
        service = Steering({}, {"chats": "chats"}, store=store, clock=clock)
        await service.take_up("chats")
        was_ns = clock.wall_ns()
        clock.step_wall(-24 * HOUR_NS)
        assert clock.wall_ns() == was_ns, "the clock of a process never goes back"
        await lower_for_an_hour(Steering({}, {"chats": "chats"}, store=store, clock=clock.restarted()))
        await service.take_up("chats")
        assert lowered_for_ns(service, clock) == HOUR_NS
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS - 1)
        await service.take_up("chats")
        assert service.of("chats").interval_ns == SECOND_NS
        await clock.sleep_until(clock.monotonic_ns() + 1)
        await service.take_up("chats")
        assert service.of("chats") == Orders()

    run(story)


def test_a_pause_by_a_process_with_another_clock_leaves_the_end_of_a_lower_ceiling_as_it_was() -> None:
    async def story(clock: SimClock) -> None:
        store = MemoryStore()
        clock.step_wall(24 * HOUR_NS)
        service = Steering({}, {"chats": "chats"}, store=store, clock=clock)
        await lower_for_an_hour(service)
        clock.step_wall(-24 * HOUR_NS)
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS // 2)
        await Steering({}, {"chats": "chats"}, store=store, clock=clock.restarted()).pause("chats")
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS // 2)
        await service.take_up("chats")
        assert service.of("chats").paused_at_ns is not None
        assert service.of("chats").interval_ns is None, "its hour is over"

    run(story)


class NeverSwaps(MemoryStore):
    """A store in which somebody else always changes a note first."""

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        del source, name, old, new
        return False


def test_an_order_that_others_always_overtake_is_refused_and_not_called_done() -> None:
    async def story(clock: SimClock) -> None:
        steering = Steering({}, {"chats": "chats"}, store=NeverSwaps(), clock=clock)
        with pytest.raises(StoreUnavailable, match="other processes change the orders of chats"):
            await steering.pause("chats")
        assert steering.of("chats") == Orders()

    run(story)


class FailsOnce(LocalHome):
    """A home whose store does not answer the next question, if told so."""

    is_down = False

    async def look(self) -> SharedPace:
        if self.is_down:
            self.is_down = False
            raise StoreUnavailable("the store does not answer", hint="wait")
        return await super().look()


def test_an_order_is_followed_although_the_store_of_the_pace_does_not_answer() -> None:
    async def story(clock: SimClock) -> None:
        inner = FailsOnce("chats", warm(clock, LIMITS))
        scene, flood = await opened(clock, MemoryStore(), inner)
        inner.is_down = True
        await scene.steering.lower("chats", interval_ns=SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=CEILING_NS)
        await scene.after(5 * SECOND_NS)
        sent = len(scene.gate.departures)
        assert await scene.after(MINUTE_NS) - sent <= 61
        await scene.steering.pause("chats")
        inner.is_down = True
        await scene.steering.resume("chats")
        sent = len(scene.gate.departures)
        assert await scene.after(MINUTE_NS) > sent + 50
        await closed(scene, flood)

    run(story)


def gates_of(clock: SimClock, gate: SimGate, store: MemoryStore, *, waits_while_paused: bool = True) -> Gates:
    """The gates of one process among several, with one source."""
    source = SourceSettings(
        kind=SourceKind.LISTED, url="https://api.example/chats", ceiling_interval_ns=CEILING_NS, in_flight=4
    )
    sharing = SimSharing(gate, SimNames(), clock)
    return Gates(
        {"chats": source},
        store=store,
        clock=clock,
        meter=CountingMeter(),
        sharing=sharing,
        waits_while_paused=waits_while_paused,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 6])
def test_a_lower_ceiling_holds_for_all_processes_together(processes: int) -> None:
    async def story(clock: SimClock) -> None:
        gate, store = SimGate(clock), MemoryStore()
        async with AsyncExitStack() as opened, asyncio.TaskGroup() as group:
            every = [gates_of(clock, gate, store) for _ in range(processes)]
            passed = [await opened.enter_async_context(gates.pass_through("chats")) for gates in every]
            senders = [Gate(clock, governor, always(GOOD)) for governor in passed]
            until_ns = clock.monotonic_ns() + 10 * MINUTE_NS
            for sender in senders:
                group.create_task(sender.send_until(until_ns, workers=4))

            async def rate_per_s(span_ns: int) -> float:
                before = sum(len(sender.departures) for sender in senders)
                await clock.sleep_until(clock.monotonic_ns() + span_ns)
                return (sum(len(sender.departures) for sender in senders) - before) * SECOND_NS / span_ns

            await rate_per_s(2 * MINUTE_NS)
            assert await rate_per_s(MINUTE_NS) > 3
            await every[0].steering.lower("chats", interval_ns=2 * SECOND_NS, for_ns=HOUR_NS, ceiling_interval_ns=1)
            await rate_per_s(10 * SECOND_NS)
            assert 0.4 < await rate_per_s(5 * MINUTE_NS) <= 0.51
            await every[-1].steering.restore("chats")
            await rate_per_s(10 * SECOND_NS)
            assert await rate_per_s(MINUTE_NS) > 3

    run(story)


def test_a_gate_that_is_opened_during_a_pause_sends_nothing_and_a_command_is_told() -> None:
    async def story(clock: SimClock) -> None:
        gate, store = SimGate(clock), MemoryStore()
        service, command = gates_of(clock, gate, store), gates_of(clock, gate, store, waits_while_paused=False)
        async with command.pass_through("chats"):
            pass
        await service.steering.pause("chats")
        with pytest.raises(SourcePaused, match="chats is paused"):
            async with command.pass_through("chats"):
                raise AssertionError("never opened")
        async with service.pass_through("chats") as governor:
            sender = Gate(clock, governor, always(GOOD))
            sending = asyncio.get_running_loop().create_task(sender.send())
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            assert sender.departures == []
            await command.steering.resume("chats")
            await sending
            assert len(sender.departures) == 1

    run(story)
