"""Which resources does every job need? Store, clock, meters, a name and a heartbeat."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from remora.contracts import Clock, Sharing, Store
from remora.core.errors import RemoraError
from remora.core.status.snapshot import ENDED_DONE, ENDED_ON_REQUEST, Role, Snapshot, SourceFacts
from remora.operate.config.settings import Settings
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.gates import Gates
from remora.operate.jobs.startup_checks import naming_store, tell_upgrade
from remora.operate.observe.heartbeat import Heart
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.recent_meter import RecentMeter
from remora.stores import open_sharing, open_store
from remora.version import __version__

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one job."""

    settings: Settings
    store: Store
    clock: Clock
    metrics: Metrics
    meter: RecentMeter
    owner: str  # the name of this process in leases
    gates: Gates  # one per account
    sharing: Sharing | None = None  # what processes on one store share; None for a store with one process


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Open the store and everything around it; close all of it in order at the end."""
    clock = SystemClock()
    metrics = Metrics()
    for name, source in settings.sources.items():
        metrics.watch(name, ceiling_interval_ns=source.ceiling_interval_ns)
    owner = f"{socket.gethostname()}:{os.getpid()}"
    store = open_store(settings.store.url, on_batch=metrics.batch_stored)
    tell_upgrade(settings.store.url)
    with naming_store(settings.store.url):
        await store.open()
    sharing = open_sharing(settings.store.url, owner=owner, clock=clock)
    try:
        meter = RecentMeter(metrics, clock=clock)
        gates = Gates(settings.sources, store=store, clock=clock, meter=meter, sharing=sharing)
        yield Resources(settings, store, clock, metrics, meter, owner, gates, sharing)
    finally:
        if sharing is not None:
            await sharing.close()
        await store.close()


@asynccontextmanager
async def beating(ground: Resources, role: Role, facts: Callable[[], Mapping[str, SourceFacts]]) -> AsyncIterator[None]:
    """Store heartbeats while the block runs, and at its end the reason why it ended."""
    started_at_ns = ground.clock.wall_ns()

    def snapshot() -> Snapshot:
        return Snapshot(
            role=role, started_at_ns=started_at_ns, pid=os.getpid(), version=__version__, sources=dict(facts())
        )

    # A run belongs to one source. Each source keeps the end of its last run, however often others run.
    runtime = f"{role}:{'+'.join(facts())}:{ground.owner}" if role is Role.RUN else f"{role}:{ground.owner}"
    heart = Heart(runtime, ground.store, snapshot, clock=ground.clock)
    beats = asyncio.get_running_loop().create_task(heart.run(), name="heart")
    because = ENDED_DONE
    try:
        yield
    except asyncio.CancelledError:
        because = ENDED_ON_REQUEST
        raise
    except Exception as error:
        because = error.message if isinstance(error, RemoraError) else type(error).__name__
        raise
    finally:
        beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)
        try:
            await heart.say_goodbye(because)
        except RemoraError as error:
            log.warning("heartbeat_missed", why=error.message)
