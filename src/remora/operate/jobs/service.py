"""What runs in `remora up`? Every configured source with all its loops, the console, and their snapshots."""

import asyncio
import os
import resource
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import msgspec
import structlog

from remora.contracts import LeaderLease
from remora.core.errors import ConfigurationError, StoreError
from remora.core.rate.gate_types import RateFacts
from remora.core.reasons import GapReason
from remora.core.status.model import Covered, Status, Unknown
from remora.core.status.snapshot import SourceFacts
from remora.core.status.words import phase_in_words
from remora.core.units import SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.loops.listed.schedule import ListedSchedule
from remora.loops.numbered.rescan import RescanSettings
from remora.loops.numbered.service import NumberedService, ServiceSettings
from remora.operate.config.settings import SourceSettings
from remora.operate.console.access import Access
from remora.operate.console.api import ReadApi
from remora.operate.console.changes_feed import ChangesFeed
from remora.operate.console.connections import bounds_for
from remora.operate.console.reader.routes import reader_routes
from remora.operate.console.server import ConsoleServer
from remora.operate.console.token import Found, console_token
from remora.operate.jobs.operator import ServiceOperator
from remora.operate.jobs.progress import Progress, ProgressView, with_rate
from remora.operate.jobs.replaying import replay_gaps
from remora.operate.jobs.resources import Resources
from remora.operate.jobs.run import run_name
from remora.operate.jobs.runtime import (
    OPENERS,
    ListedRuntime,
    Numbered,
    Run,
    missing_secret,
    once_signed,
    rate_facts,
)
from remora.operate.jobs.search_index import keep_fresh
from remora.operate.jobs.steering import steered
from remora.operate.observe.disk import DiskGauge
from remora.operate.observe.newest_items import NewestItems
from remora.operate.observe.notify import Notifier
from remora.operate.observe.read_status import read_status
from remora.operate.observe.status_cache import StatusCache
from remora.operate.observe.summary import HourlySummary
from remora.read.browsing import Browsing

log = structlog.get_logger()

SHOW_EVERY_S: Final = 0.5

Facts = Callable[[], SourceFacts]


def chosen(source: SourceSettings, *, backfill: bool) -> ServiceSettings:
    """The owner's settings of a numbered source, as its loops take them."""
    return ServiceSettings(
        first_id=source.first_id,
        backfill=backfill,
        rescan=RescanSettings(source.rescan.every_ns, source.rescan.window_ns or None),
        update_workers=source.workers,
        walk_width=source.in_flight,
        poll_every_ns=source.poll_every_ns,
    )


class Service:
    """The whole service of one process."""

    def __init__(self, resources: Resources, *, view: ProgressView, backfill: bool) -> None:
        self._resources = resources
        self._settings = resources.settings
        self._store = resources.store
        self._clock = resources.clock
        assert resources.metrics is not None, "the console shows metrics"
        self._metrics = resources.metrics
        self._meter = resources.meter
        self._owner = resources.owner
        self._sharing = resources.sharing
        self._view = view
        self._backfill = backfill
        self._started_ns = resources.clock.monotonic_ns()
        self._facts: dict[str, Facts] = {}
        self._disk = DiskGauge(resources.settings.store.url)
        self._feed = StatusCache(self._read_status, resources.metrics, clock=resources.clock)
        self._notifier = Notifier(resources.settings.notify, resources.store, clock=resources.clock)
        self._steering = resources.gates.steering
        self._operator = ServiceOperator(
            resources.settings,
            resources.store,
            self._steering,
            self._feed.timeline,
            test_notifications=self._notifier.test,
        )

    async def run(self) -> None:
        """Run until cancelled, or until a source fails for good; then its error is raised."""
        async with AsyncExitStack() as opened:
            console = self._console(console_token(self._settings, os.environ))
            browsing = Browsing(self._settings.store.url)
            opened.push_async_callback(browsing.close)
            console.add_pages([*reader_routes(browsing), *ReadApi(browsing, clock=self._clock).routes()])
            changes = ChangesFeed(self._settings.store.url, clock=self._clock, closing=console.closing)
            console.add_pages(changes.routes())
            history = self._feed.history
            await history.open(self._store, self._settings.sources, now_ns=self._clock.wall_ns())
            await self._feed.timeline.open(self._store, self._settings.sources)
            console.obey(self._operator)
            opened.push_async_callback(self._feed.close)
            await console.open()
            opened.push_async_callback(console.close)
            runs = [await self._open(name, source, opened) for name, source in self._settings.sources.items()]
            self._view.say(f"the console is at {console.url}; Ctrl-C ends the service")
            async with asyncio.TaskGroup() as group:
                group.create_task(self._show(), name="view")
                group.create_task(self._notifier.run(self._feed), name="notify")
                group.create_task(self._steering.run(), name="steering")
                group.create_task(self._feed.timeline.run(self._store, clock=self._clock), name="timeline")
                group.create_task(HourlySummary(clock=self._clock).run(self._feed), name="summary")
                group.create_task(history.run(self._store, clock=self._clock), name="rate_history")
                group.create_task(keep_fresh(self._settings.store.url), name="search_index")
                for run in runs:
                    group.create_task(_awaited(run))

    def _console(self, token: Found | None) -> ConsoleServer:
        settings, sources = self._settings.console, self._settings.sources.values()
        host = settings.address[0]
        if token is not None and token.file is not None:
            self._view.say(f"the console asks for the token in {token.file}")
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        in_flight = sum(source.in_flight for source in sources)
        return ConsoleServer(
            self._feed,
            self._metrics,
            self._replay,
            address=settings.address,
            clock=self._clock,
            newest_items=NewestItems(self._store, clock=self._clock),
            access=Access(host, frozenset(settings.hosts), None if token is None else token.secret),
            bounds=bounds_for(descriptors, in_flight=in_flight, sources=len(sources)),
        )

    def facts(self) -> Mapping[str, SourceFacts]:
        """What every source reports about itself."""
        return {name: facts() for name, facts in self._facts.items()}

    async def _open(self, name: str, source: SourceSettings, opened: AsyncExitStack) -> Run:
        right = self._resources.gates.right(name)
        if right is None:
            return await self._open_source(name, source, opened)
        self._stand_by(name, right)
        return partial(right.run, partial(self._run_alone, name, source, right))

    def _stand_by(self, name: str, right: LeaderLease) -> None:
        """Another process sends for this source, or the store does not tell."""

        def facts() -> SourceFacts:
            why = _unanswered(right)
            return SourceFacts(doing=_waiting(why), stands_by=True, unanswered=why, orders=self._steering.of(name))

        self._facts[name] = facts
        self._operator.run_now_by_source.pop(name, None)
        self._operator.stands_by[name] = lambda: True

    async def _run_alone(self, name: str, source: SourceSettings, right: LeaderLease) -> None:
        """Run a source for which only one process sends, from the moment on at which this process may."""
        while True:
            async with AsyncExitStack() as opened:
                try:
                    run = await self._open_source(name, source, opened)
                except StoreError as error:
                    if not error.retryable:
                        raise
                    log.warning("source_not_opened", source=name, why=error.message)
                    await self._clock.sleep_until(self._clock.monotonic_ns() + SECOND_NS)
                    continue
                try:
                    return await run()
                finally:
                    self._stand_by(name, right)

    async def _open_source(self, name: str, source: SourceSettings, opened: AsyncExitStack) -> Run:
        opening = OPENERS[source.kind](name, self._resources)
        runtime = await opened.enter_async_context(opening)
        self._operator.stands_by.pop(name, None)
        match runtime:
            case Numbered() as numbered:
                return once_signed(numbered, self._numbered(numbered))
            case ListedRuntime() as listed:
                return once_signed(listed, self._listed(listed))

    def _numbered(self, runtime: Numbered) -> Run:
        source = runtime.settings
        alone = None if self._sharing is None else self._sharing.leader_lease(f"watch:{runtime.name}")
        service = NumberedService(
            runtime.source,
            self._store,
            runtime.collector,
            runtime.governor,
            clock=self._clock,
            owner=self._owner,
            settings=chosen(source, backfill=self._backfill),
            alone=alone,
        )

        def facts() -> SourceFacts:
            state = service.state()
            orders = self._steering.of(runtime.name)
            rate = steered(rate_facts(runtime.governor, self._meter, runtime.name), orders)
            if state.stands_by:
                loops, why = dict(state.loops), _unanswered(alone)
                return SourceFacts(
                    rate=rate,
                    orders=orders,
                    newest_id=state.newest_id,
                    loops=loops,
                    doing=_waiting(why),
                    stands_by=True,
                    unanswered=why,
                    missing_secret=missing_secret(runtime),
                )
            return SourceFacts(
                rate=rate,
                stream=state.stream,
                inbox=state.inbox,
                rescan=state.rescan,
                newest_id=state.newest_id,
                newest_id_at_ns=state.newest_id_at_ns,
                backfill=self._backfill,
                newest_refused=state.newest_refused,
                newest_went_back=state.newest_went_back,
                changes_unread_since_ns=state.changes_unread_since_ns,
                loops=dict(state.loops),
                workers_alive=state.workers_alive,
                update_ages=state.update_ages.counts,
                doing="watching",
                orders=orders,
                missing_secret=missing_secret(runtime),
            )

        self._facts[runtime.name] = facts
        return service.run

    def _listed(self, runtime: ListedRuntime) -> Run:
        source = runtime.settings
        schedule = ListedSchedule(
            runtime.name,
            runtime.collector,
            self._store,
            runtime.governor,
            clock=self._clock,
            owner=self._owner,
            every_ns=source.every_ns,
            options=RunOptions(
                max_wall_ns=source.max_wall_ns, max_fetches=source.max_fetches, in_flight=source.in_flight
            ),
        )

        alone = None if self._sharing is None else self._sharing.leader_lease(run_name(runtime.name))

        def stands_by() -> bool:
            return alone is not None and not alone.holds()

        def facts() -> SourceFacts:
            state, orders = schedule.state(), self._steering.of(runtime.name)
            return SourceFacts(
                rate=steered(rate_facts(runtime.governor, self._meter, runtime.name), orders),
                orders=orders,
                doing=phase_in_words(state.run) or state.doing,
                run=state.run,
                next_run_at_ns=state.next_run_at_ns,
                why_not_now=state.why_not_now,
                stands_by=stands_by(),
                unanswered=_unanswered(alone) if stands_by() else None,
                missing_secret=missing_secret(runtime),
            )

        self._facts[runtime.name] = facts
        self._operator.run_now_by_source[runtime.name] = schedule.run_now
        self._operator.missing_secrets[runtime.name] = partial(missing_secret, runtime)
        self._operator.stands_by[runtime.name] = stands_by
        return schedule.run if alone is None else partial(alone.run, schedule.run)

    async def _read_status(self) -> Status:
        now_ns = self._clock.wall_ns()
        disk = self._disk.read(now_ns=now_ns)
        return await read_status(self._store, self._settings, now_ns=now_ns, disk=disk)

    async def _replay(self, source: str | None, reason: GapReason | None, key: str | None) -> int:
        names = [source] if source is not None else list(self._settings.sources)
        unknown = [name for name in names if name not in self._settings.sources]
        if unknown:
            raise ConfigurationError(
                f"there is no source {unknown[0]}", hint=f"configured: {', '.join(self._settings.sources)}"
            )
        now_ns = self._clock.wall_ns()
        return await replay_gaps(self._store, self._settings.sources, names, reason=reason, key=key, now_ns=now_ns)

    async def _show(self) -> None:
        """Keep the terminal's view of every source up to date."""
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            try:
                status = await self._feed.latest()
            except StoreError:
                continue  # the writer reports the error; a view is no reason to end
            for name, source in status.sources.items():
                if isinstance(source.coverage, Covered):
                    self._view.show(self._progress(name, source.coverage, source.rate))

    def _progress(self, name: str, covered: Covered, rate: RateFacts | Unknown) -> Progress:
        known = rate if isinstance(rate, RateFacts) else None
        progress = Progress(
            source=name,
            done=covered.max_id - covered.first_id + 1 - covered.pending,
            total=covered.max_id - covered.first_id + 1,
            gaps=covered.owed + covered.dead,
            eta_s=_eta_s(covered, known),
        )
        if known is None:
            return progress
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) / SECOND_NS
        told = with_rate(progress, known, elapsed_s=elapsed_s)
        return msgspec.structs.replace(
            told, limited_by=known.limited_by, is_learning=told.is_learning and covered.pending > 0
        )


def _eta_s(covered: Covered, rate: RateFacts | None) -> float | None:
    """How long the ids that were never requested will take. Gaps do not count: they wait for their own time."""
    if covered.pending == 0:
        return 0.0
    return covered.pending / rate.recent_per_s if rate and rate.recent_per_s else None


def _unanswered(lease: LeaderLease | None) -> str | None:
    """What the store said instead of telling whether this process may begin."""
    return None if lease is None or lease.unanswered is None else lease.unanswered.message


def _waiting(unanswered: str | None) -> str:
    return "standing by" if unanswered is None else "waiting for the store"


async def _awaited(run: Run) -> None:
    await run()
