"""How are announced changes fetched? Every key is made durable first; then a few workers fetch one key after another.

At most `MEMORY_MAX` keys are in memory. The rest waits in the store, up to `SPILL_MAX`; beyond that the reader of the
stream waits. One worker at a time fetches a key, and once more at most if it was announced again meanwhile: its ticket
shows that. Everything here uses the lane `update`, so a flood of changes does not delay a new item.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from remora.collect import Collector
from remora.contracts import Clock, InboxEntry, Outcome, Store
from remora.core.errors import RemoraError
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, FromInbox, Kind
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.loops.supervisor import is_retryable, restart_delay_ns, until_it_works

log = structlog.get_logger()

Key = tuple[Kind, str]

MEMORY_MAX: Final = 4_096
SPILL_MAX: Final = 65_536
ANNOUNCE_MAX: Final = 1_000  # keys in one transaction
LOAD_MAX: Final = 512
LOOK_EVERY_NS: Final = 10 * SECOND_NS
# Now and then the store is read from the start, for keys whose worker failed and for announcements by other processes.
SWEEP_EVERY_NS: Final = MINUTE_NS
WORKERS: Final = 8
# A worker that fails with this many keys in a row is dead. The same poison key is counted only once.
FAILURES_BEFORE_DEAD: Final = 5
POISON_MAX: Final = 1_000
# Profiles come after items, but once in this many turns a profile goes first.
USER_EVERY_TURNS: Final = 16


class WorkersDead(RemoraError):
    """No update worker is left."""


class Line:
    """The keys in memory: in order of announcement, none twice, none while it is being fetched."""

    def __init__(self, *, most: int = MEMORY_MAX) -> None:
        self._most = most
        self._waiting: dict[Kind, dict[str, int]] = {Kind.ITEM: {}, Kind.USER: {}}
        self._in_flight: dict[Key, int] = {}
        self._turns = 0

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._waiting.values())

    @property
    def room(self) -> int:
        """How many more keys fit."""
        return self._most - len(self)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self._in_flight and len(self) == 0

    def offer(self, entry: InboxEntry) -> None:
        """Add it, unless this same ticket already waits or is in flight."""
        keys = self._waiting[entry.kind]
        if self._in_flight.get((entry.kind, entry.key)) == entry.ticket:
            return
        assert entry.key in keys or self.room > 0, "the line is full"
        keys[entry.key] = max(entry.ticket, keys.get(entry.key, 0))

    def take(self) -> InboxEntry | None:
        """The next key that no worker is fetching."""
        self._turns += 1
        order = (Kind.USER, Kind.ITEM) if self._turns % USER_EVERY_TURNS == 0 else (Kind.ITEM, Kind.USER)
        for kind in order:
            for key, ticket in self._waiting[kind].items():  # skips at most as many as are in flight
                if (kind, key) not in self._in_flight:
                    del self._waiting[kind][key]
                    self._in_flight[kind, key] = ticket
                    return InboxEntry(kind, key, ticket)
        return None

    def done(self, entry: InboxEntry) -> None:
        """The worker has finished with it."""
        del self._in_flight[entry.kind, entry.key]


@dataclass(slots=True)
class _Worker:
    """What one worker is fetching, and with how many keys in a row it failed."""

    key: Key | None = None
    failures: int = 0


class InboxWorkers:
    """The inbox of one source and the workers that drain it."""

    def __init__(
        self,
        source: str,
        collector: Collector,
        store: Store,
        *,
        clock: Clock,
        workers: int = WORKERS,
        spill_max: int = SPILL_MAX,
        on_changed: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._clock = clock
        self._workers = workers
        self._spill_max = spill_max
        self._on_changed = on_changed
        self._line = Line()
        self._poison: set[Key] = set()  # keys that made a worker fail
        self._read_up_to = 0
        self._swept_at_ns = clock.monotonic_ns()
        self._announced = asyncio.Event()
        self._arrived = asyncio.Event()
        self.alive = 0
        self.restarts = 0
        self.depth: int | None = None

    @property
    def in_memory(self) -> int:
        """How many keys wait in memory."""
        return len(self._line)

    async def announce(self, keys: Sequence[Key]) -> None:
        """Returns when all keys are durable and the inbox is not overfull. Waits while the store is down."""
        for start in range(0, len(keys), ANNOUNCE_MAX):
            await self._announce(keys[start : start + ANNOUNCE_MAX])
        while self.depth is not None and self.depth >= self._spill_max:
            await self._clock.sleep_until(self._clock.monotonic_ns() + SECOND_NS)
            self.depth = await until_it_works(
                lambda: self._store.inbox_depth(self._source), clock=self._clock, what="inbox"
            )

    async def _announce(self, keys: Sequence[Key]) -> None:
        self.depth = await until_it_works(
            lambda: self._store.announce(self._source, keys, now_ns=self._clock.wall_ns()),
            clock=self._clock,
            what="inbox",
        )
        self._announced.set()

    async def run(self) -> None:
        """Drain the inbox, for ever."""
        # The keys that an earlier run of this loop had in memory are still in the store.
        self._line, self._read_up_to = Line(), 0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed())
            living = [group.create_task(self._keep_worker(number)) for number in range(self._workers)]
            causes = await asyncio.gather(*living)
            raise WorkersDead(
                f"all {self._workers} update workers have failed, the last with {causes[-1]}",
                hint="see the log lines worker_failed above; the inbox is durable and goes on after a restart",
            )

    async def run_once(self) -> Counter[Outcome]:
        """Fetch everything that waits now, and what is announced meanwhile."""
        outcomes: Counter[Outcome] = Counter()
        self._read_up_to = 0
        while await self._load():
            while (entry := self._line.take()) is not None:
                outcomes[await self._serve(entry)] += 1
        return outcomes

    # ── from the store into the line ────────────────────────────────────────────────────────────────────────────────

    async def _feed(self) -> None:
        while True:
            self._announced.clear()
            now_ns = self._clock.monotonic_ns()
            if self._line.idle or now_ns - self._swept_at_ns >= SWEEP_EVERY_NS:
                self._read_up_to, self._swept_at_ns = 0, now_ns
            await self._load()
            self.depth = await self._store.inbox_depth(self._source)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_NS / SECOND_NS):
                    await self._announced.wait()

    async def _load(self) -> int:
        """Read waiting keys until the line is full or all are read; returns how many."""
        loaded = 0
        while (limit := min(LOAD_MAX, self._line.room)) > 0:
            entries = await self._store.waiting(self._source, limit=limit, after_ticket=self._read_up_to)
            for entry in entries:
                if self._collector.capabilities.can_ask(entry.kind):  # otherwise it waits until a declaration can
                    self._line.offer(entry)
                self._read_up_to = entry.ticket
            loaded += len(entries)
            if entries:
                self._arrived.set()
            if len(entries) < limit:
                break
        return loaded

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_worker(self, number: int) -> str:
        """Run one worker and restart it after a pause. Returns the error once it fails with key after key."""
        worker = _Worker()
        while True:
            self.alive += 1
            try:
                await self._work(worker)
            except Exception as error:  # noqa: BLE001 - one poison key must not end its neighbours; counted, and bounded
                cause = type(error).__name__
                self._count_failure(worker)
                log.warning("worker_failed", source=self._source, worker=number, error=cause, failures=worker.failures)
                if worker.failures >= FAILURES_BEFORE_DEAD and not is_retryable(error):
                    return cause
            finally:
                self.alive -= 1
            self.restarts += 1
            await self._clock.sleep_until(self._clock.monotonic_ns() + restart_delay_ns(max(1, worker.failures)))

    def _count_failure(self, worker: "_Worker") -> None:
        if worker.key not in self._poison:
            worker.failures += 1
        if worker.key is not None and len(self._poison) < POISON_MAX:
            self._poison.add(worker.key)

    async def _work(self, worker: "_Worker") -> None:
        while True:
            entry = self._line.take()
            if entry is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            worker.key = (entry.kind, entry.key)
            await self._serve(entry)
            worker.failures = 0

    async def _serve(self, entry: InboxEntry) -> Outcome:
        try:
            discovery = Discovery(entry.kind, entry.key, Lane.UPDATE, FromInbox(entry.ticket))
            asked = await self._collector.ask(discovery)
            # An answer that cannot be stored yet is kept: asking again would cost the provider a request and help nobody.
            outcome = await until_it_works(
                lambda: self._collector.record(discovery, asked), clock=self._clock, what="inbox"
            )
        finally:
            self._line.done(entry)
            self._arrived.set()  # the same key may wait again
        self.depth = max(0, (self.depth or 0) - 1)
        if self._line.room == MEMORY_MAX // 2 or self._line.idle:
            self._announced.set()  # there may be more in the store
        if outcome is Outcome.CHANGED and entry.kind is Kind.ITEM and self._on_changed is not None:
            await self._on_changed(int(entry.key))
        return outcome
