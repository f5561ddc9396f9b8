"""What does a collector need around it in a test? A numbered source that answers as it is told for each id, and a gate."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from remora.collect import Collector
from remora.contracts import Capabilities, Clock, Dialect, GateHome, OnReply, Outcome, Permit, PromptPermit, Sent, Store
from remora.core.item import Decoded, Item, Newest, Nothing, Readable, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.sim.clock import SimClock
from remora.sim.crash import Generation
from remora.sim.meter import CountingMeter
from remora.stores.memory import MemoryStore
from tests.gate.rig import GOOD, Answer, warm

T = TypeVar("T")
NAME = "numbers"
QUICK = Limits(SECOND_NS // 1_000, in_flight=64)
NULL = b"null"
NUMBERED = Capabilities(newest_id=True)
POISON = b"poison"


@dataclass
class Numbers:
    """Every id has an item unless it is told otherwise; keeps a list of all requests."""

    clock: SimClock
    newest: int = 1_000_000
    says: Callable[[int, int], Answer] = lambda _item_id, _attempt: GOOD  # id and attempt, from 1
    bodies: dict[int, bytes] = field(default_factory=dict)
    asked: list[tuple[int, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    name: str = NAME
    capabilities: Capabilities = NUMBERED

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        departed_ns = await permit.depart()
        self.asked.append((departed_ns, discovery.key))
        self.counts[discovery.key] += 1
        item_id = discovery.item_id if discovery.kind is Kind.ITEM else 0
        answer = self.says(item_id, self.times(item_id))
        await self.clock.sleep_until(departed_ns + answer.latency_ns)
        if answer.fault is not None:
            return NoReply(answer.fault, departed_ns, self.clock.monotonic_ns())
        headers = {} if answer.retry_after is None else {"retry-after": answer.retry_after}
        return Reply(answer.status, self.body(discovery), departed_ns, self.clock.monotonic_ns(), headers)

    def body(self, discovery: Discovery) -> bytes:
        if discovery.kind is Kind.NEWEST:
            return str(self.newest).encode()
        return self.bodies.get(discovery.item_id, json.dumps({"id": discovery.item_id}).encode())

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        body = reply.body
        if body == NULL:
            return Nothing()
        if body == POISON:
            raise RecursionError("a body nobody thought of")
        value = json.loads(body)
        if discovery.kind is Kind.NEWEST:
            return Readable(Newest(value))
        if value["id"] != discovery.item_id:
            return WrongShape("another id")
        return Readable(Item(item_id=discovery.item_id, body=body, content=body, time=value.get("time")))

    def times(self, item_id: int) -> int:
        return self.counts[str(item_id)]

    @property
    def ids(self) -> list[int]:
        return [int(key) for _, key in self.asked if key]

    @property
    def repeated(self) -> set[int]:
        return {item_id for item_id, count in Counter(self.ids).items() if count > 1}


@dataclass
class PromptNumbers(Numbers):
    """The same source on a transport that sends at once."""

    sent_at_once: int = 0

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        departed_ns = permit.depart_now()
        if departed_ns is None:
            return None
        self.sent_at_once += 1
        return Answering(self.fetch(discovery, Departed(departed_ns)), on_reply)


class Departed:
    """A permit of a request that has departed."""

    def __init__(self, departed_ns: int) -> None:
        self._departed_ns = departed_ns

    async def depart(self) -> int:
        """When it departed."""
        return self._departed_ns

    def sent(self) -> None:
        """Nothing to do."""


class Answering:
    """A request that was sent at once."""

    def __init__(self, answer: Coroutine[None, None, Reply | NoReply], on_reply: OnReply) -> None:
        self._on_reply = on_reply
        self._task = asyncio.ensure_future(answer)
        self._task.add_done_callback(self._answered)

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._task.cancel()

    def _answered(self, task: "asyncio.Task[Reply | NoReply]") -> None:
        if not task.cancelled():
            self._on_reply(task.result())


@dataclass
class Process:
    """One life of a process around one collector."""

    collector: Collector
    governor: Governor
    store: Store
    clock: Clock
    meter: CountingMeter


@asynccontextmanager
async def process(
    clock: SimClock,
    source: Numbers,
    store: Store | None = None,
    *,
    limits: Limits = QUICK,
    life: Generation | None = None,
    home: GateHome | None = None,
    dialect: Dialect | None = None,
) -> AsyncIterator[Process]:
    """A collector at the ceiling's pace, alone unless it gets another home."""
    kept, meter = store or MemoryStore(), CountingMeter()
    guarded: Store = kept if life is None else life.guard(kept)
    home = home or LocalHome(NAME, warm(clock, limits))
    governor = Governor(NAME, limits, clock=clock, home=home, meter=meter, chance=clock.random.random)
    await governor.open()
    collector = Collector(source, guarded, governor, clock=clock, meter=meter, dialect=dialect)
    collector.newest_id = source.newest
    try:
        yield Process(collector, governor, guarded, clock, meter)
    finally:
        await governor.close()


def items(ids: range, via: Lane = Lane.BACKFILL) -> list[Discovery]:
    """These ids in a lane in which nobody waits for a single one, or in another."""
    return [Discovery.item(item_id, via=via) for item_id in ids]


async def collect(one: Process, ids: range) -> dict[int, Outcome]:
    """Collect them together; the outcomes in the order in which they became durable."""
    outcomes: dict[int, Outcome] = {}

    async def durable(collected: Sequence[tuple[Discovery, Outcome]]) -> None:
        outcomes.update((discovery.item_id, outcome) for discovery, outcome in collected)

    await one.collector.collect_many(items(ids), durable)
    return outcomes
