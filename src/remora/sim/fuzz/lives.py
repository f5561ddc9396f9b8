"""How does a simulated process live? It starts, works, is killed or asked to stop, and starts again."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from remora.collect import Collector
from remora.contracts import Clock, LeaderLease, NumberedSource, Store, Transport
from remora.core.errors import StoreError
from remora.core.ledger.asking import LISTED
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.sole import SoleRight
from remora.loops.listed.joining import JoiningCollector
from remora.loops.listed.run import RunOptions
from remora.loops.listed.schedule import ListedSchedule
from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import NumberedService, ServiceSettings
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.fuzz.counted import CountedWire
from remora.sim.fuzz.dialects import rules_of
from remora.sim.fuzz.forms import CHANNELS, CHANNELS_DETAIL, CHANNELS_LIST, detail_settings, list_settings
from remora.sim.fuzz.governors import Gates
from remora.sim.fuzz.judge import CANARY, NAME, Judge
from remora.sim.fuzz.scenario import Scenario, SourceShape
from remora.sim.fuzz.second_source import SECOND, SECOND_DETAIL, SECOND_LIST
from remora.sim.fuzz.stage import Stage
from remora.sim.fuzz.watched import StoreTrouble, watched
from remora.sim.meter import CountingMeter
from remora.sim.transport import SimTransport
from remora.sources.auth import Credential, SignedTransport, Way
from remora.sources.declaration import Declaration, ItemSettings, NewestSettings
from remora.sources.dialects import Dialects
from remora.sources.hackernews import DECLARATION, HackerNewsReading
from remora.sources.json_path import WHOLE_BODY
from remora.sources.listed import Listed, ListedSettings
from remora.sources.numbered import Numbered
from remora.sources.secret import Secret
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore

WINDOW_NS = 60 * DAY_NS  # of a rescan: all items of a small world are younger
AGAIN_AFTER_NS = 30 * SECOND_NS
SPARSE = Declaration(
    item=ItemSettings(path="/item/{id}.json", id="id", time="time", type="type"),
    newest=NewestSettings(path="/maxitem.json", at=WHOLE_BODY),
)


@dataclass(frozen=True, slots=True)
class Given:
    """What every process is given."""

    life: Generation
    real: Store  # as it is
    store: Store  # as the process sees it
    governor: Governor
    clock: Clock
    owner: str
    wire: CountedWire


@dataclass(slots=True)
class Running:
    """A process that is alive."""

    given: Given
    collector: Collector
    work: Callable[[], Awaitable[None]]
    started_wall_ns: int
    service: NumberedService | None = None
    schedule: ListedSchedule | None = None
    lease: LeaderLease | None = None
    channels: Collector | None = None  # of the list whose entries have lists of their own
    second: "Running | None" = None  # another source of the same account


class Home:
    """What outlives every process: the stage, the store and the gate."""

    def __init__(self, scenario: Scenario, clock: SimClock, stage: Stage, judge: Judge, folder: Path) -> None:
        self.scenario = scenario
        self.clock = clock
        self.stage = stage
        self.judge = judge
        self.trouble = StoreTrouble()
        self.gates = Gates(clock, processes=scenario.processes)
        self.meter = CountingMeter()
        self.path = folder / "fuzzed.db"
        self._memory = MemoryStore() if scenario.store == "memory" else None
        self._reader: SqliteStore | None = None
        self._writer: SqliteStore | None = None  # of the process that was started last
        self._is_disk_full = False
        self.ceiling_ns = round(SECOND_NS / scenario.ceiling_per_s)

    def fill_disk(self, *, is_full: bool) -> None:
        """Let the file grow no more, or let it grow again."""
        self._is_disk_full = is_full
        self.trouble.failures += is_full  # from now on a process may end because of it
        if self._writer is not None:
            self._writer.limit_pages(grows=not is_full)

    async def reader(self) -> Store | None:
        """The store for reading only; None before the first process has created it."""
        if self._memory is not None:
            return self._memory
        if self._reader is None and self.path.exists():
            reader = SqliteStore(self.path, read_only=True, offload=InPlace)
            await reader.open()
            self._reader = reader
        return self._reader

    async def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            await self._reader.close()
            self._reader = None
        shutil.rmtree(self.path.parent, ignore_errors=True)

    def right(self) -> SoleRight | None:
        """What a process needs to send; None: any process may."""
        lease = self.gates.leader_lease(f"send:{NAME}", self.clock.restarted()) if self.scenario.refusal_limit else None
        return None if lease is None else SoleRight(lease)

    async def start(self, life: Generation, owner: str, right: SoleRight | None = None) -> Running:
        """Make one more process; its loops do not run yet."""
        clock = self.clock.restarted()
        real: Store = self._memory or SqliteStore(self.path, offload=InPlace)
        await real.open()
        if isinstance(real, SqliteStore):
            self._writer = real
            self.fill_disk(is_full=self._is_disk_full)
            self.judge.forget_leases()
        store = life.guard(watched(real, self.trouble, self.judge))
        most = self.scenario.refusal_limit
        limits = Limits(
            ceiling_interval_ns=self.ceiling_ns,
            in_flight=self.scenario.in_flight,
            refusal_limit=RefusalLimit(most, MINUTE_NS) if most else None,
        )
        governor = self.gates.governor(NAME, limits, life=life, clock=clock, store=store, meter=self.meter, right=right)
        counted = CountedWire(self.stage, clock, in_flight=self.scenario.in_flight, fail=self.judge.fail)
        wire = life.guard(counted)
        try:
            await governor.open()
        except BaseException:
            _abandon(real)
            raise
        given = Given(life, real, store, governor, clock, owner, counted)
        if self.scenario.shape.paging is None:
            return self._numbered(given, self._source(wire), wire)
        return self._listed(given, wire)

    def _source(self, wire: SimTransport) -> NumberedSource:
        token = Secret(CANARY)
        if self.scenario.shape is SourceShape.HACKERNEWS:
            return Numbered(wire, "http://sim/v0", DECLARATION, name=NAME, token=token, reading=HackerNewsReading())
        return Numbered(wire, "http://sim/v0", SPARSE, name=NAME, token=token)

    def _numbered(self, given: Given, source: NumberedSource, wire: SimTransport) -> Running:
        dialect = Dialects(rules_of(self.scenario.dialect))
        collector = Collector(source, given.store, given.governor, clock=given.clock, meter=self.meter, dialect=dialect)
        lease = self.gates.leader_lease(f"watch:{NAME}", given.clock)
        settings = ServiceSettings(
            rescan=RescanSettings(window_ns=WINDOW_NS) if self.scenario.backstop else None,
            walk_width=self.scenario.in_flight,
            poll_every_ns=round(self.scenario.poll_every_s * SECOND_NS),
        )
        service = NumberedService(
            source,
            given.store,
            collector,
            given.governor,
            clock=given.clock,
            owner=given.owner,
            settings=settings,
            alone=lease,
        )
        running = Running(given, collector, service.run, given.clock.wall_ns(), service=service, lease=lease)
        if not self.scenario.uses.second:
            return running
        declared = ListedSettings("http://sim/archive", SECOND_LIST, SECOND_DETAIL, token=Secret(CANARY))
        second = self._scheduled(given, Listed(wire, declared, name=SECOND), None)
        works = (running.work, second.work)
        return replace(running, work=lambda: _together(works), second=second)

    def _listed(self, given: Given, wire: SimTransport) -> Running:
        form, paging = self.scenario.form, self.scenario.shape.paging
        assert paging is not None
        address, each, rotation = "http://sim/archive", CHANNELS if form.channels else None, self.stage.rotation
        token: Secret | None = Secret(CANARY)
        credential: Credential | None = None
        transport: Transport = wire
        if rotation is not None:
            token, credential = None, Credential(Way.BEARER, rotation, clock=given.clock)
            transport = SignedTransport(wire, credential, url=address)
        declared = ListedSettings(address, list_settings(form, paging), detail_settings(form), each=each, token=token)
        running = self._scheduled(given, Listed(transport, declared, name=NAME), credential)
        if each is None:
            return running
        # Both are sources of one account: they share its gate and ceiling.
        listed = ListedSettings(address, CHANNELS_LIST, CHANNELS_DETAIL, token=token)
        channels = self._scheduled(given, Listed(transport, listed, name=each), credential)
        works = (channels.work, running.work)
        return replace(running, work=lambda: _together(works), channels=channels.collector)

    def _scheduled(self, given: Given, source: Listed, credential: Credential | None) -> Running:
        scenario = self.scenario
        collector = JoiningCollector(
            source,
            given.store,
            given.governor,
            clock=given.clock,
            meter=self.meter,
            policy=LISTED,
            dialect=Dialects(rules_of(scenario.dialect)),
            credential=credential,
        )
        lease = self.gates.leader_lease(f"run:{source.name}", given.clock)
        schedule = ListedSchedule(
            source.name,
            collector,
            given.store,
            given.governor,
            clock=given.clock,
            owner=given.owner,
            every_ns=round(scenario.every_s * SECOND_NS),
            options=RunOptions(max_fetches=scenario.max_fetches),
        )

        async def work() -> None:
            await (schedule.run() if lease is None else lease.run(schedule.run))

        return Running(given, collector, work, given.clock.wall_ns(), schedule=schedule, lease=lease)


class Process:
    """One process of the world, through all its lives."""

    def __init__(self, home: Home, number: int) -> None:
        self._home = home
        self._number = number
        self.lives = 0
        self._stop = asyncio.Event()
        self.down_for_ns = 0
        self.crashes = 0
        self.restarts = 0
        self.running: Running | None = None
        self.life = Generation()
        self.alone = asyncio.Lock()  # held during each life, and by whoever works on the store between two of them

    async def live_on(self) -> None:
        """Live one life after another, until cancelled."""
        while True:
            async with self.alone:
                await self._live()
            await self._home.clock.sleep_until(self._home.clock.monotonic_ns() + self.down_for_ns)
            self.down_for_ns = 0

    async def _live(self) -> None:
        self.lives += 1
        self._stop.clear()
        self.life = Generation()
        try:
            await self.life.live(self._one_life())
        except Crashed:
            self.crashes += 1
        finally:
            # Also if the world ends at this very moment: a dead process must not hold its file.
            if self.life.dead and self.running is not None:
                _abandon(self.running.given.real)
            self.running = None
            self._home.stage.forgive()

    def is_awake(self) -> bool:
        """Whether it runs, and is not suspended."""
        return self.running is not None and not self._home.clock.is_suspended(self.life)

    def crash(self, *, calls: int, after_effect: bool, down_for_ns: int) -> None:
        """Die this many calls from now, and stay down for a while."""
        self.down_for_ns = down_for_ns
        self.life.die_in(calls, after_effect=after_effect)

    def stop(self, *, down_for_ns: int) -> None:
        """Be asked to stop."""
        self.down_for_ns = down_for_ns
        self._stop.set()

    async def _one_life(self) -> None:
        right = self._home.right()
        if right is None:
            await self._work(None)
            return
        asked = asyncio.ensure_future(self._stop.wait())
        working = asyncio.ensure_future(right.run(partial(self._work, right)))
        try:
            await asyncio.wait({asked, working}, return_when=asyncio.FIRST_COMPLETED)
            if self.running is not None:
                await working  # it was asked to stop, too
        finally:
            asked.cancel()
            working.cancel()
            await asyncio.gather(asked, working, return_exceptions=True)

    async def _work(self, right: SoleRight | None) -> None:
        home, life = self._home, self.life
        try:
            running = await home.start(life, f"process-{self._number}-{self.lives}", right)
        except StoreError as error:
            self._ended_by(error)
            return
        self.running = running
        asked = asyncio.ensure_future(self._stop.wait())
        working = asyncio.ensure_future(running.work())
        try:
            await asyncio.wait({asked, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                self._ended_by(working.exception())
            else:
                self.restarts += 1
        finally:
            asked.cancel()
            working.cancel()
            await asyncio.gather(asked, working, return_exceptions=True)
            if not life.dead:
                with suppress(StoreError):
                    await running.given.governor.close()
                await running.given.real.close()
            if right is not None:
                self.running = None

    def _ended_by(self, error: BaseException | None) -> None:
        """Only an unreachable store may end a process."""
        home = self._home
        if isinstance(error, Crashed):
            return
        if not (isinstance(error, StoreError) and home.trouble.failures):
            home.judge.fail(f"a process ended by itself: {type(error).__name__}: {error}")
        self.down_for_ns = max(self.down_for_ns, AGAIN_AFTER_NS)


async def _together(works: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run all, until the first one ends; an error of one ends all."""
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _abandon(store: Store) -> None:
    """Clean up after a killed process: roll back an open transaction and close an open file."""
    if isinstance(store, SqliteStore):
        store.abandon()
