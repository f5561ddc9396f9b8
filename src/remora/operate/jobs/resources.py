"""Which resources does every job need? Store, clock, meters, a name and a heartbeat."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import structlog

from remora.contracts import Clock, Meter, Sharing, Store
from remora.core.errors import RemoraError
from remora.core.status.snapshot import ENDED_DONE, ENDED_ON_REQUEST, Role, Snapshot, SourceFacts
from remora.loops.supervisor import first_leaf, first_of_ours
from remora.operate.config.credentials import Credentials
from remora.operate.config.settings import Settings, SourceSettings
from remora.operate.jobs.clock import SystemClock, ahead_ns
from remora.operate.jobs.gates import Gates
from remora.operate.jobs.startup_checks import naming_store, tell_upgrade
from remora.operate.observe.heartbeat import Heart
from remora.operate.observe.recent_meter import RecentMeter, Uncounted
from remora.stores import check_is_there, open_sharing, open_store
from remora.stores.copied import take_over
from remora.version import __version__

if TYPE_CHECKING:
    from remora.operate.observe.metrics import Metrics

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResources:
    """What sources are opened with."""

    sources: Mapping[str, SourceSettings]
    store: Store
    clock: Clock
    meter: Meter
    gates: Gates  # one per account
    credentials: Credentials  # one per account
    runs_for_ever: bool = False  # it waits for a secret that cannot be read; else the source is not opened

    @classmethod
    def alone(cls, name: str, source: SourceSettings, *, store: Store, clock: Clock, meter: Meter) -> Self:
        """For one source of one process."""
        sources = {name: source}
        gates = Gates(sources, store=store, clock=clock, meter=meter)
        credentials = Credentials(sources, os.environ, clock=clock)
        return cls(sources=sources, store=store, clock=clock, meter=meter, gates=gates, credentials=credentials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(SourceResources):
    """The resources of one job."""

    settings: Settings
    metrics: "Metrics | None"  # None: nobody can read them
    meter: RecentMeter
    owner: str  # the name of this process in leases
    sharing: Sharing | None  # what processes on one store share; None for a store with one process


@asynccontextmanager
async def open_resources(
    settings: Settings,
    *,
    for_sources: Iterable[str] = (),
    metrics: "Metrics | None" = None,
    runs_for_ever: bool = False,
    makes_store: bool = True,
) -> AsyncIterator[Resources]:
    """Open the store and everything around it; close all of it in order at the end.

    A source whose secret cannot be read is refused before the store is touched. What `runs_for_ever` waits for a secret
    that a command prints, and while an operator has paused a source; a command ends instead. Only the service shows
    `metrics`. Without `makes_store` a SQLite file that does not exist is refused.
    """
    clock = SystemClock()
    credentials = Credentials(settings.sources, os.environ, clock=clock)
    for name in for_sources:
        await credentials.check(name, only_open=runs_for_ever)
    if metrics is not None:
        for name, source in settings.sources.items():
            metrics.watch(name, ceiling_interval_ns=source.ceiling_interval_ns)
    owner = f"{socket.gethostname()}:{os.getpid()}"
    if not makes_store:
        check_is_there(settings.store.url)
    store = open_store(settings.store.url, on_batch=None if metrics is None else metrics.batch_stored)
    tell_upgrade(settings.store.url)
    with naming_store(settings.store.url):
        await store.open()
    sharing = open_sharing(settings.store.url, owner=owner, clock=clock)
    try:
        await take_over(store)
        meter = RecentMeter(metrics or Uncounted(), clock=clock)
        gates = Gates(
            settings.sources,
            store=store,
            clock=clock,
            meter=meter,
            sharing=sharing,
            waits_while_paused=runs_for_ever,
        )
        yield Resources(
            sources=settings.sources,
            store=store,
            clock=clock,
            meter=meter,
            gates=gates,
            credentials=credentials,
            runs_for_ever=runs_for_ever,
            settings=settings,
            metrics=metrics,
            owner=owner,
            sharing=sharing,
        )
    finally:
        if sharing is not None:
            await sharing.close()
        await store.close()


@asynccontextmanager
async def beating(
    resources: Resources, role: Role, facts: Callable[[], Mapping[str, SourceFacts]]
) -> AsyncIterator[None]:
    """Store heartbeats while the block runs, and at its end the reason why it ended."""
    started_at_ns = resources.clock.wall_ns()

    def snapshot() -> Snapshot:
        return Snapshot(
            role=role,
            started_at_ns=started_at_ns,
            pid=os.getpid(),
            version=__version__,
            clock_ahead_ns=ahead_ns(resources.clock),
            sources=dict(facts()),
        )

    # A run belongs to one source. Each source keeps the end of its last run, however often others run.
    runtime = f"{role}:{'+'.join(facts())}:{resources.owner}" if role is Role.RUN else f"{role}:{resources.owner}"
    heart = Heart(runtime, resources.store, snapshot, clock=resources.clock)
    beats = asyncio.get_running_loop().create_task(heart.run(), name="heart")
    because = ENDED_DONE
    try:
        yield
    except asyncio.CancelledError:
        because = ENDED_ON_REQUEST
        raise
    except Exception as error:
        ours = first_of_ours(error)
        because = ours.message if ours is not None else type(first_leaf(error)).__name__
        raise
    finally:
        beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)
        try:
            await heart.say_goodbye(because)
        except RemoraError as error:
            log.warning("heartbeat_missed", why=error.message)
