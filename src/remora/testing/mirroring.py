"""Does a source mirror a fake to the last thing? It is run in simulated time, with faults and kills, to completion.

The code that runs is the code of `remora run`: the gate, the walk, the details, the recovery, on a store in memory.
"""

import json
import random
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from remora.collect import Collector
from remora.contracts import Clock, Source, SourcePlugin, SourceSetup, Store, Transport
from remora.core.errors import ConfigurationError
from remora.core.ledger.asking import LISTED
from remora.core.ledger.run import RunSummary, StoppedBy
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.listed.run import ListedRun, RunOptions
from remora.operate.config.credentials import auth_of
from remora.operate.config.reader import read_source
from remora.operate.config.settings import SourceSettings
from remora.operate.jobs.runtime import listed_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.meter import CountingMeter
from remora.sim.transport import SimTransport
from remora.sources.auth import Credential, Issued, SignedTransport
from remora.sources.dialects import Dialects
from remora.sources.plugins import open_plugin
from remora.sources.rules import Rule
from remora.sources.secret import Secret
from remora.stores.memory import MemoryStore
from remora.testing.fake import TOKEN, Fake

RUNS_MAX: Final = 60
BETWEEN_RUNS_NS: Final = MINUTE_NS
# A full walk, which finds what was deleted, is due every seven days.
UNTIL_FULL_WALK_NS: Final = 8 * DAY_NS
CALLS_OF_A_LIFE: Final = (10, 250)  # a process is killed at one of these calls to store, clock or transport


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What the mirror holds after everything was run to its end, and what it cost."""

    documents: Mapping[str, object]  # what the list shows, by key; JSON is read, other bodies are bytes
    vanished: frozenset[str]  # held, and no longer listed
    requests: int
    refusals: int  # requests that the provider refused as too many
    runs: int
    kills: int
    simulated_s: int


@dataclass(frozen=True, slots=True)
class _Subject:
    """A source that can be opened again and again, as after a kill."""

    name: str
    url: str
    ceiling_ns: int
    make: Callable[[Transport], Source]
    credential: Callable[[Clock], Credential | None]
    rules: tuple[Rule, ...] = ()
    in_flight: int = 1


def mirror_declared(
    text: str, fake: Fake, *, kills: int = 3, seed: int = 1, change: Mapping[str, Any] | None = None
) -> Mirrored:
    """Mirror a fake by a declaration: the text of a `remora.toml` with one source.

    `change` overrides settings of its list, as `{"page_size": 10}`: small worlds need small pages.
    """
    sources = tomllib.loads(text)["sources"]
    ((name, table),) = sources.items()
    table["list"] = {**table.get("list", {}), **(change or {})}
    settings = read_source(name, table)
    subject = _Subject(
        name,
        settings.url,
        settings.ceiling_interval_ns,
        lambda transport: listed_source(name, settings, transport),
        lambda clock: _credential(settings, clock),
        settings.rules,
        settings.in_flight,
    )
    return _mirrored(subject, fake, kills=kills, seed=seed)


def mirror_plugin(
    plugin: SourcePlugin, fake: Fake, *, options: Mapping[str, Any] | None = None, kills: int = 3, seed: int = 1
) -> Mirrored:
    """Mirror a fake by a plug-in whose source has a list. The plug-in need not be installed."""
    if not plugin.capabilities.list:
        raise ConfigurationError("this plug-in has no list", hint="test it with CountingServer and CountingGate")
    url = plugin.url or "https://plug-in.example"
    interval_ns = read_source("plug-in", {"kind": "listed", "url": url, "ceiling": plugin.ceiling}).ceiling_interval_ns

    def make(transport: Transport) -> Source:
        return open_plugin("plug-in", plugin, SourceSetup("plug-in", url, transport, {}, options or {}))

    return _mirrored(_Subject("plug-in", url, interval_ns, make, lambda _clock: None), fake, kills=kills, seed=seed)


def _mirrored(subject: _Subject, fake: Fake, *, kills: int, seed: int) -> Mirrored:
    parts = urlsplit(subject.url)
    fake.origin, fake.base = f"{parts.scheme}://{parts.netloc}", parts.path

    async def main(clock: SimClock) -> Mirrored:
        fake.world.now_ns = clock.true_ns
        return await _Trial(subject, fake, clock, random.Random(seed)).to_the_end(kills)

    return run(main, seed=seed)


@dataclass(slots=True)
class _Trial:
    """One world, one store, and one process after the other."""

    subject: _Subject
    fake: Fake
    clock: SimClock
    chance: random.Random
    store: Store = field(default_factory=MemoryStore)
    meter: CountingMeter = field(default_factory=CountingMeter)
    runs: int = 0
    killed: int = 0

    async def to_the_end(self, kills: int) -> Mirrored:
        for _ in range(kills):
            await self._killed()
            await self._wait(BETWEEN_RUNS_NS)
        await self._until_complete()
        await self._wait(UNTIL_FULL_WALK_NS)
        await self._until_complete()
        held = [document async for document in self.store.documents(self.subject.name)]
        return Mirrored(
            documents={one.key: _value(one.body or b"") for one in held if one.vanished_ns is None},
            vanished=frozenset(one.key for one in held if one.vanished_ns is not None),
            requests=len(self.fake.requests),
            refusals=self.fake.refusals,
            runs=self.runs,
            kills=self.killed,
            simulated_s=self.clock.monotonic_ns() // SECOND_NS,
        )

    async def _until_complete(self) -> None:
        """Run after run, until the world has been quiet for a whole run and nothing is owed."""
        last = "no run"
        for _ in range(RUNS_MAX):
            is_quiet = self.fake.now_s >= self.fake.world.quiet_from_s
            summary = await self._run(None)
            if is_quiet and summary.stopped_by is StoppedBy.COMPLETE and not summary.owed:
                return
            if summary.stopped_by is StoppedBy.LIST_CONTRADICTS:
                raise AssertionError(summary.because)
            last = f"{summary.because}; {summary.owed} owed"
            await self._wait(BETWEEN_RUNS_NS)
        raise AssertionError(f"not complete after {RUNS_MAX} runs: {last}")

    async def _killed(self) -> None:
        life = Generation(die_at_call=self.chance.randint(*CALLS_OF_A_LIFE), after_effect=self.chance.random() < 0.5)
        try:
            await life.live(self._run(life))
        except Crashed:
            self.killed += 1

    async def _run(self, life: Generation | None) -> RunSummary:
        self.runs += 1
        async with self._process(life) as (governor, collector, store, clock):
            options = RunOptions(in_flight=self.subject.in_flight)
            run = ListedRun(
                self.subject.name, collector, store, governor, clock=clock, owner="testing", options=options
            )
            return await run.run_once()

    @asynccontextmanager
    async def _process(self, life: Generation | None) -> AsyncIterator[tuple[Governor, Collector, Store, Clock]]:
        own = self.clock.restarted()
        wire = SimTransport(self.fake, own)
        clock: Clock = own if life is None else life.guard(own)
        store = self.store if life is None else life.guard(self.store)
        transport: Transport = wire if life is None else life.guard(wire)
        name, credential = self.subject.name, self.subject.credential(clock)
        if credential is not None:
            transport = SignedTransport(transport, credential, url=self.subject.url)
        limits = Limits(ceiling_interval_ns=self.subject.ceiling_ns, in_flight=self.subject.in_flight)
        home = LocalHome(name, store)
        governor = Governor(name, limits, clock=clock, home=home, meter=self.meter, chance=self.clock.random.random)
        await governor.open()
        collector = Collector(
            self.subject.make(transport),
            store,
            governor,
            clock=clock,
            meter=self.meter,
            policy=LISTED,
            dialect=Dialects(self.subject.rules),
            credential=credential,
        )
        try:
            yield governor, collector, store, clock
        finally:
            await governor.close()

    async def _wait(self, for_ns: int) -> None:
        await self.clock.sleep_until(self.clock.monotonic_ns() + for_ns)


class _FixedToken:
    """The fakes' token, whatever the declaration says about its origin."""

    def has_changed(self) -> bool:
        return False

    async def read(self) -> Issued:
        return Issued(Secret(TOKEN))


def _credential(settings: SourceSettings, clock: Clock) -> Credential | None:
    auth = auth_of(settings)
    return None if auth is None else Credential(auth.way, _FixedToken(), clock=clock, name=auth.name or "")


def _value(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body
