"""How do the parts come together? The composition root: the service, the back-fill and the bounded run."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from remora import __version__
from remora.contracts import Clock, Store
from remora.core.errors import Exit, RemoraError
from remora.core.snapshot import Role, Snapshot, SourceFacts
from remora.core.units import SECOND_NS
from remora.loops.archive_run import RunOptions
from remora.operate.back_fill import BackFill, CatchUpSummary, Wanted
from remora.operate.clock import SystemClock
from remora.operate.config import Settings
from remora.operate.demo import demo_provider
from remora.operate.heartbeat import Heart
from remora.operate.metrics import Metrics
from remora.operate.progress import ProgressView
from remora.operate.recent import RecentMeter
from remora.operate.runs import RunReport, run_listed
from remora.operate.runtime import open_listed, open_numbered, rate_facts
from remora.operate.service import Service
from remora.stores import open_store

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ground:
    """What every job stands on."""

    settings: Settings
    store: Store
    clock: Clock
    metrics: Metrics
    meter: RecentMeter
    owner: str  # who holds a lease: this process on this machine


async def serve(settings: Settings, *, demo: bool, catchup: bool, view: ProgressView) -> Exit:
    """The service, until it is cancelled or fails for good."""
    if demo:
        async with demo_provider(settings, view) as shown:
            return await serve(shown, demo=False, catchup=catchup, view=view)
    async with _ground(settings) as ground:
        service = Service(
            settings,
            ground.store,
            clock=ground.clock,
            metrics=ground.metrics,
            meter=ground.meter,
            owner=ground.owner,
            view=view,
            catch_up=catchup,
        )
        async with _beating(ground, Role.SERVICE, service.facts):
            await service.run()
    return Exit.DONE


async def catch_up(
    settings: Settings,
    *,
    source: str,
    start_id: int | None,
    end_id: int | None,
    limit: int | None,
    replay: bool,
    view: ProgressView,
) -> CatchUpSummary:
    """One back-fill of a numbered source."""
    wanted = Wanted(start_id, end_id, limit, replay)
    configured = settings.sources[source]
    async with (
        _ground(settings) as ground,
        open_numbered(source, configured, store=ground.store, clock=ground.clock, meter=ground.meter) as runtime,
    ):

        def facts() -> Mapping[str, SourceFacts]:
            rate = rate_facts(runtime.governor.state(), configured, ground.meter, source, ground.clock)
            return {source: SourceFacts(rate=rate, newest_id=runtime.collector.newest_id, doing="catching up")}

        job = BackFill(runtime, ground.store, clock=ground.clock, meter=ground.meter, view=view, owner=ground.owner)
        async with _beating(ground, Role.CATCH_UP, facts):
            return await job.run(wanted)


async def run_archive(
    settings: Settings,
    *,
    source: str,
    max_seconds: float | None,
    max_fetches: int | None,
    recover_only: bool,
    force: bool,
    view: ProgressView,
) -> RunReport:
    """One bounded run over a listed source."""
    configured = settings.sources[source]
    options = RunOptions(
        max_wall_ns=configured.max_wall_ns if max_seconds is None else int(max_seconds * SECOND_NS),
        max_fetches=configured.max_fetches if max_fetches is None else max_fetches,
        recover_only=recover_only,
        force=force,
    )
    async with (
        _ground(settings) as ground,
        open_listed(source, configured, store=ground.store, clock=ground.clock, meter=ground.meter) as runtime,
    ):

        def facts() -> Mapping[str, SourceFacts]:
            rate = rate_facts(runtime.governor.state(), configured, ground.meter, source, ground.clock)
            return {source: SourceFacts(rate=rate, doing="running")}

        async with _beating(ground, Role.RUN, facts):
            return await run_listed(
                runtime, ground.store, options, clock=ground.clock, meter=ground.meter, view=view, owner=ground.owner
            )


@asynccontextmanager
async def _ground(settings: Settings) -> AsyncIterator[Ground]:
    clock = SystemClock()
    metrics = Metrics()
    for name, source in settings.sources.items():
        metrics.watch(name, ceiling_interval_ns=source.ceiling_interval_ns)
    owner = f"{socket.gethostname()}:{os.getpid()}"
    store = open_store(settings.store.url)
    await store.open()
    try:
        yield Ground(settings, store, clock, metrics, RecentMeter(metrics, clock=clock), owner)
    finally:
        await store.close()


@asynccontextmanager
async def _beating(ground: Ground, role: Role, facts: Callable[[], Mapping[str, SourceFacts]]) -> AsyncIterator[None]:
    """Beat while the block runs, and say at its end why it ended."""
    started_at_ns = ground.clock.wall_ns()

    def snapshot() -> Snapshot:
        return Snapshot(
            role=role, started_at_ns=started_at_ns, pid=os.getpid(), version=__version__, sources=dict(facts())
        )

    heart = Heart(f"{role}:{ground.owner}", ground.store, snapshot, clock=ground.clock)
    beating = asyncio.get_running_loop().create_task(heart.run(), name="heart")
    because = "done"
    try:
        yield
    except asyncio.CancelledError:
        because = "stopped on request"
        raise
    except Exception as error:
        because = error.message if isinstance(error, RemoraError) else type(error).__name__
        raise
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        try:
            await heart.say_goodbye(because)
        except RemoraError as error:
            log.warning("heartbeat_missed", why=error.message)
