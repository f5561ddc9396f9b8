"""Does a source mirror a fake to the last thing? It is run in simulated time, with faults and kills, to completion.

The code that runs is the code of `remora run`: the gate, the walk, the details, the recovery, on a store in memory.
"""

import json
import random
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from remora.collect import Collector
from remora.contracts import Clock, Source, SourcePlugin, SourceSetup, Store, Transport
from remora.core.errors import ConfigurationError
from remora.core.ledger.asking import LISTED
from remora.core.ledger.run import RunSummary, StoppedBy
from remora.core.units import DAY_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.listed.joining import JoiningCollector
from remora.loops.listed.run import ListedRun, RunOptions
from remora.operate.config.reader import read_source
from remora.operate.config.settings import SourceSettings
from remora.operate.config.source_defaults import with_accounts
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
BETWEEN_RUNS_NS: Final = 20 * SECOND_NS
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


def mirror_declared(text: str, fake: Fake, *, kills: int = 3, seed: int = 1, page_size: int | None = None) -> Mirrored:
    """Mirror a fake by a declaration: the text of a `remora.toml`.

    `page_size` replaces that of its lists, because small worlds need small pages. Where there are several sources, each
    key begins with the name of its source and a slash.
    """
    written = tomllib.loads(text)
    subjects = [
        _declared(name, table, page_size)
        for name, table in with_accounts(written.get("accounts", {}), written["sources"]).items()
    ]
    return _mirrored(subjects, fake, kills=kills, seed=seed)


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

    return _mirrored([_Subject("plug-in", url, interval_ns, make, lambda _clock: None)], fake, kills=kills, seed=seed)


def _declared(name: str, table: dict[str, Any], page_size: int | None) -> _Subject:
    if page_size is not None:
        table = {**table, "list": {**table.get("list", {}), "page_size": page_size}}
    settings = read_source(name, table)
    return _Subject(
        name,
        settings.url,
        settings.ceiling_interval_ns,
        lambda transport: listed_source(name, settings, transport),
        lambda clock: _credential(settings, clock),
        settings.rules,
        settings.in_flight,
    )


def _mirrored(subjects: Sequence[_Subject], fake: Fake, *, kills: int, seed: int) -> Mirrored:
    parts = urlsplit(subjects[0].url)
    fake.origin, fake.base = f"{parts.scheme}://{parts.netloc}", parts.path

    async def main(clock: SimClock) -> Mirrored:
        fake.world.now_ns = clock.true_ns
        chance, store = random.Random(seed), MemoryStore()
        trials = [_Trial(subject, fake, clock, chance, store) for subject in subjects]
        for trial in trials:
            await trial.begin(kills)
        await clock.sleep_until(clock.monotonic_ns() + UNTIL_FULL_WALK_NS)
        for trial in trials:
            await trial.until_complete(owes_nothing=True)
        shown, vanished = await _held(store, subjects)
        return Mirrored(
            shown,
            vanished,
            requests=len(fake.requests),
            refusals=fake.refusals,
            runs=sum(trial.runs for trial in trials),
            kills=sum(trial.killed for trial in trials),
            simulated_s=clock.monotonic_ns() // SECOND_NS,
        )

    return run(main, seed=seed)


async def _held(store: Store, subjects: Sequence[_Subject]) -> tuple[dict[str, object], frozenset[str]]:
    """What the lists show, and the keys of what they no longer show."""
    shown: dict[str, object] = {}
    vanished: set[str] = set()
    for subject in subjects:
        prefix = f"{subject.name}/" if len(subjects) > 1 else ""
        async for one in store.documents(subject.name):
            if one.vanished_ns is None:
                shown[f"{prefix}{one.key}"] = _value(one.body or b"")
            else:
                vanished.add(f"{prefix}{one.key}")
    return shown, frozenset(vanished)


@dataclass(slots=True)
class _Trial:
    """One world, one store, and one process after the other."""

    subject: _Subject
    fake: Fake
    clock: SimClock
    chance: random.Random
    store: Store
    meter: CountingMeter = field(default_factory=CountingMeter)
    runs: int = 0
    killed: int = 0

    async def begin(self, kills: int) -> None:
        """Lives that are killed, and then as many runs as it takes."""
        for _ in range(kills):
            await self._killed()
            await self._wait(BETWEEN_RUNS_NS)
        # A detail that was deleted stays owed until a full walk shows that the list has lost it, too.
        await self.until_complete(owes_nothing=False)

    async def until_complete(self, *, owes_nothing: bool) -> None:
        """Run after run, until the world has been quiet for a whole run."""
        last = "no run"
        for _ in range(RUNS_MAX):
            is_quiet = self.fake.now_s >= self.fake.world.quiet_from_s
            summary = await self._run(None)
            is_done = summary.stopped_by is StoppedBy.COMPLETE and not (owes_nothing and summary.owed)
            if is_quiet and is_done:
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
        collector = JoiningCollector(
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
    auth = settings.credential
    return None if auth is None else Credential(auth.way, _FixedToken(), clock=clock, name=auth.name or "")


def _value(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body
