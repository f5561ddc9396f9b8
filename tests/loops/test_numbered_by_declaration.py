"""Is a source mirrored that is only declared? A world without streams, with sparse ids and late changes, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from remora.collect import Collector
from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.core.ledger.gap import GapState
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.numbered.service import NumberedService
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, SourceSettings
from remora.operate.jobs.backfill import BackfillJob, BackfillSummary, Wanted
from remora.operate.jobs.progress import SilentView
from remora.operate.jobs.runtime import Numbered
from remora.operate.jobs.service import chosen
from remora.operate.observe.recent_meter import RecentMeter
from remora.sim.checks import compare, worst_window
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.meter import CountingMeter
from remora.sim.transport import Answering, SimTransport
from remora.sources.numbered import Numbered as NumberedSource
from remora.stores.memory import MemoryStore
from tests.loops.rig import in_virtual_time
from tests.world.rfcs import DECLARED, Rfcs

NAME = "rfcs"
CEILING_NS = SECOND_NS // 20


@pytest.fixture
def declared(tmp_path: Path) -> SourceSettings:
    (tmp_path / "remora.toml").write_text(DECLARED)
    return load(Flags(ceiling="20/s"), {}, directory=tmp_path).sources[NAME]


class World:
    """The provider, the store and the clock; they outlive every process."""

    def __init__(
        self, clock: SimClock, settings: SourceSettings, *, name: str = NAME, provider: Answering | None = None
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.name = name
        self.rfcs = Rfcs(clock.true_ns, clock.monotonic_ns)
        self.provider: Answering = provider or self.rfcs
        self.store: Store = MemoryStore()

    @asynccontextmanager
    async def process(self, life: Generation | None = None) -> AsyncIterator[Numbered]:
        """One life of a process, as `open_numbered` would open it."""
        clock = self.clock.restarted()
        store: Store = self.store if life is None else life.guard(self.store)
        wire = SimTransport(self.provider, clock)
        wire = wire if life is None else life.guard(wire)
        source = NumberedSource(wire, self.settings.url, self.settings.declaration, name=self.name)
        limits = Limits(ceiling_interval_ns=CEILING_NS, in_flight=8)
        meter = CountingMeter()
        governor = Governor(
            self.name,
            limits,
            clock=clock,
            home=LocalHome(self.name, store),
            meter=meter,
            chance=self.clock.random.random,
        )
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        try:
            yield Numbered(self.name, self.settings, source, governor, collector)
        finally:
            await governor.close()

    def service(self, runtime: Numbered, store: Store) -> NumberedService:
        settings = chosen(self.settings, backfill=True)
        return NumberedService(
            runtime.source,
            store,
            runtime.collector,
            runtime.governor,
            clock=self.clock,
            owner="one",
            settings=settings,
        )

    async def up(self, for_ns: int, life: Generation | None = None) -> None:
        """What `remora up` runs, for a while."""
        async with self.process(life) as runtime:
            service = self.service(runtime, self.store if life is None else life.guard(self.store))
            running = asyncio.get_running_loop().create_task(service.run())
            await self.clock.sleep_until(self.clock.monotonic_ns() + for_ns)
            assert not running.done(), "the service ended by itself"
            state = service.state()
            assert (state.stream, "updates" in state.loops, "live" in state.loops) == (None, False, True)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def catchup(self, life: Generation | None = None) -> BackfillSummary:
        """What `remora catchup` runs."""
        async with self.process(life) as runtime:
            store: Store = self.store if life is None else life.guard(self.store)
            meter = RecentMeter(CountingMeter(), clock=self.clock)
            job = BackfillJob(runtime, store, clock=self.clock, meter=meter, view=SilentView(), owner="one")
            return await job.run(Wanted())

    async def differences(self) -> list[object]:
        mirror = [pair async for pair in self.store.bodies(NAME)]
        return [*compare(mirror, self.rfcs.truth())]


@pytest.mark.slow
def test_a_declared_source_without_a_stream_is_mirrored_whole_and_stays_fresh(declared: SourceSettings) -> None:
    async def main(clock: SimClock) -> None:
        world = World(clock, declared)
        await world.up(DAY_NS + 5 * MINUTE_NS)
        newest_id = world.rfcs.newest_id()
        gaps = {gap.key: gap.state for gap in await world.store.gaps(NAME)}
        assert (await world.store.coverage(NAME)).frontier(first_id=1) == newest_id
        # Late changes are found by the rescan: whatever changed since its last pass may still be different.
        changed_lately = {str(number) for number in range(newest_id - 14, newest_id + 1)}
        assert {str(found.item_id) for found in await world.differences()} <= changed_lately  # type: ignore[attr-defined]
        assert all(gaps[str(number)] is GapState.ABSENT for number in range(7, newest_id - 60, 7))
        assert world.rfcs.streams_opened == 0
        assert worst_window(world.rfcs.arrivals_ns, CEILING_NS).excess <= 0

    in_virtual_time(main)


@pytest.mark.slow
def test_catchup_brings_everything_there_is_and_calls_the_rest_absent(declared: SourceSettings) -> None:
    async def main(clock: SimClock) -> None:
        world = World(clock, declared)
        first = await world.catchup()
        assert await world.differences() == []
        assert (first.frontier, first.owed) == (300, 42)
        for _ in range(3):
            await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
            await world.catchup()
        absent = [gap.key for gap in await world.store.gaps(NAME) if gap.state is GapState.ABSENT]
        assert {str(number) for number in range(7, 250, 7)} <= set(absent)
        held = [item_id async for item_id, _ in world.store.bodies(NAME)]
        assert held == [number for number, _ in world.rfcs.truth()]

    in_virtual_time(main)


@pytest.mark.parametrize("die_at_call", [3, 40, 200, 431, 900])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.slow
def test_a_kill_at_any_moment_loses_nothing_of_a_declared_source(
    declared: SourceSettings, die_at_call: int, after_effect: bool
) -> None:
    async def main(clock: SimClock) -> None:
        world = World(clock, declared)
        life = Generation(die_at_call=die_at_call, after_effect=after_effect)
        with pytest.raises(Crashed):
            await life.live(world.catchup(life))
        life = Generation(die_at_call=die_at_call + 17, after_effect=after_effect)
        with pytest.raises(Crashed):
            await life.live(world.up(DAY_NS, life))
        # Within the first hour nothing is revised: a catch-up does not look for changes of what is held.
        await clock.sleep_until(clock.monotonic_ns() + 20 * MINUTE_NS)
        await world.catchup()
        assert await world.differences() == []
        assert (await world.store.coverage(NAME)).frontier(first_id=1) == world.rfcs.newest_id()
        assert worst_window(world.rfcs.arrivals_ns, CEILING_NS).excess <= 0

    in_virtual_time(main)


def test_a_place_without_a_number_ends_the_service_and_the_catchup_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(DECLARED.replace("latest.number", "latest.nmber"))
    mistyped = load(Flags(ceiling="20/s"), {}, directory=tmp_path).sources[NAME]

    async def main(clock: SimClock) -> None:
        world = World(clock, mistyped)
        with pytest.raises(ConfigurationError, match=r'without a newest id; .*"latest.nmber" in its body should be'):
            await world.catchup()
        with pytest.raises(ConfigurationError, match="rfcs answers, but without a newest id"):
            async with world.process() as runtime:
                await world.service(runtime, world.store).run()

    in_virtual_time(main)
