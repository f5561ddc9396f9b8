"""How are the parts put together? The composition root of service, worker, backfill and bounded run."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from remora.core.errors import ConfigurationError, Exit
from remora.core.rate.gate_types import RateFacts
from remora.core.status.snapshot import Role, SourceFacts
from remora.core.status.words import phase_in_words
from remora.core.units import SECOND_NS
from remora.operate.config.settings import Settings, pick_numbered
from remora.operate.console.token import console_token
from remora.operate.jobs.alone import alone, with_right
from remora.operate.jobs.backfill import BackfillJob, BackfillSummary, Wanted
from remora.operate.jobs.progress import ProgressView
from remora.operate.jobs.resources import Resources, beating, open_resources
from remora.operate.jobs.run import RunReport, run_listed, run_name
from remora.operate.jobs.runtime import (
    ListedRuntime,
    Numbered,
    Run,
    missing_secret,
    once_signed,
    open_listed,
    open_numbered,
    rate_facts,
)
from remora.operate.jobs.startup_checks import check_address
from remora.operate.jobs.steering import steered
from remora.operate.observe.sd_notify import told_to_systemd
from remora.stores import is_shared

if TYPE_CHECKING:
    from remora.loops.listed.run import ListedRun, RunOptions

log = structlog.get_logger()


async def serve(settings: Settings, *, demo: bool, catchup: bool, view: ProgressView) -> Exit:
    """Run the service until it is cancelled or fails for good."""
    # The service brings the console and its web server; a backfill starts in half the time without them.
    from remora.operate.jobs.demo import demo_provider  # noqa: PLC0415
    from remora.operate.jobs.service import Service  # noqa: PLC0415
    from remora.operate.observe.metrics import Metrics  # noqa: PLC0415

    if demo:
        async with demo_provider(settings, view) as shown:
            return await serve(shown, demo=False, catchup=catchup, view=view)
    console_token(settings, os.environ)  # refuse to start if it is needed and cannot be created
    check_address(settings.console.address)
    async with open_resources(
        settings, for_sources=settings.sources, metrics=Metrics(), runs_for_ever=True
    ) as resources:
        service = Service(resources, view=view, backfill=catchup)
        async with beating(resources, Role.SERVICE, service.facts), told_to_systemd():
            await service.run()
    return Exit.DONE


async def work(settings: Settings, *, only: str | None, view: ProgressView) -> None:
    """Claim and fetch beside other processes, until cancelled or until a source fails for good."""
    names = [name for name, source in settings.sources.items() if source.capabilities.newest_id]
    if only is not None:
        names = [pick_numbered(settings, only)]
    if not is_shared(settings.store.url):
        raise ConfigurationError(
            "a worker needs a store that several processes can write, and SQLite has one writer",
            hint="move the mirror with: remora store copy sqlite:///remora.db postgresql://user@host/database",
        )
    if not names:
        raise ConfigurationError(
            "no numbered source is configured", hint="a listed source is run by `remora up` or `remora run`"
        )
    limited = [name for name in names if settings.sources[name].refusal_limit is not None]
    names = [name for name in names if name not in limited]
    if not names:
        raise ConfigurationError(
            f"{limited[0]} has a refusal_limit: only one process sends for it, so a worker cannot help",
            hint="run a second `remora up`, which stands by and takes over, or leave refusal_limit out",
        )
    opening = open_resources(settings, for_sources=names, runs_for_ever=True)
    async with opening as resources, AsyncExitStack() as opened:
        helpers = {name: await _helper(resources, name, opened) for name in names}
        view.say(f"working on {', '.join(names)} beside the others; Ctrl-C ends it")

        def facts() -> Mapping[str, SourceFacts]:
            return {name: told() for name, (_, told) in helpers.items()}

        async with beating(resources, Role.WORKER, facts), asyncio.TaskGroup() as group:
            for run, _ in helpers.values():
                group.create_task(run())


async def _helper(resources: Resources, name: str, opened: AsyncExitStack) -> tuple[Run, Callable[[], SourceFacts]]:
    from remora.loops.numbered.worker import Worker  # noqa: PLC0415

    configured = resources.settings.sources[name]
    runtime = await opened.enter_async_context(open_numbered(name, resources))
    worker = Worker(
        name,
        runtime.collector,
        resources.store,
        clock=resources.clock,
        owner=resources.owner,
        width=configured.in_flight,
    )

    def facts() -> SourceFacts:
        return SourceFacts(
            rate=_rate(runtime, resources),
            orders=resources.gates.steering.of(name),
            newest_id=runtime.collector.newest_id,
            loops=dict(worker.state()),
            doing="helping",
            stands_by=True,
            missing_secret=missing_secret(runtime),
        )

    return once_signed(runtime, worker.run), facts


def _rate(runtime: Numbered | ListedRuntime, resources: Resources) -> RateFacts:
    """What the gate says, with the pace that an operator allows."""
    rate = rate_facts(runtime.governor, resources.meter, runtime.name)
    return steered(rate, resources.gates.steering.of(runtime.name))


async def backfill(
    settings: Settings,
    *,
    source: str,
    start_id: int | None,
    end_id: int | None,
    limit: int | None,
    replay: bool,
    view: ProgressView,
) -> BackfillSummary:
    """One backfill of a numbered source."""
    wanted = Wanted(start_id, end_id, limit, replay)
    async with open_resources(settings, for_sources=(source,)) as resources:

        async def run() -> BackfillSummary:
            async with open_numbered(source, resources) as runtime:
                return await _backfill(runtime, resources, wanted, view)

        return await with_right(resources, source, run)


async def _backfill(runtime: Numbered, resources: Resources, wanted: Wanted, view: ProgressView) -> BackfillSummary:
    def facts() -> Mapping[str, SourceFacts]:
        rate, orders = _rate(runtime, resources), resources.gates.steering.of(runtime.name)
        newest_id = runtime.collector.newest_id
        return {runtime.name: SourceFacts(rate=rate, orders=orders, newest_id=newest_id, doing="catching up")}

    job = BackfillJob(
        runtime, resources.store, clock=resources.clock, meter=resources.meter, view=view, owner=resources.owner
    )
    async with beating(resources, Role.BACKFILL, facts):
        return await job.run(wanted)


async def run_listed_job(
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
    from remora.loops.listed.run import RunOptions  # noqa: PLC0415 - only a listed source needs the walks over lists

    configured = settings.sources[source]
    options = RunOptions(
        max_wall_ns=configured.max_wall_ns if max_seconds is None else int(max_seconds * SECOND_NS),
        max_fetches=configured.max_fetches if max_fetches is None else max_fetches,
        recover_only=recover_only,
        force=force,
        in_flight=configured.in_flight,
    )
    async with open_resources(settings, for_sources=(source,)) as resources:

        async def run() -> RunReport:
            async with open_listed(source, resources) as runtime:
                return await _run_listed(runtime, resources, options, view)

        return await with_right(resources, source, run)


async def _run_listed(
    runtime: ListedRuntime, resources: Resources, options: "RunOptions", view: ProgressView
) -> RunReport:
    begun: list[ListedRun] = []
    source = runtime.name

    def facts() -> Mapping[str, SourceFacts]:
        rate, orders = _rate(runtime, resources), resources.gates.steering.of(source)
        told = begun[-1].facts() if begun else None
        return {source: SourceFacts(rate=rate, orders=orders, doing=phase_in_words(told) or "running", run=told)}

    async def run() -> RunReport:
        begun.append(runtime.run(resources.store, options, clock=resources.clock, owner=resources.owner))
        return await run_listed(begun[-1], runtime, clock=resources.clock, meter=resources.meter, view=view)

    async with beating(resources, Role.RUN, facts):
        return await (
            run() if resources.sharing is None else alone(resources.sharing.leader_lease(run_name(source)), source, run)
        )
