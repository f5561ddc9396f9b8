"""What does a collector need around it in a test? A numbered source that answers as it is told for each id, and a gate."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from remora.collect import Collector
from remora.contracts import Capabilities, Clock, GateHome, Permit, Store
from remora.core.item import Decoded, Item, Newest, Nothing, Readable, WrongShape
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
) -> AsyncIterator[Process]:
    """A collector at the ceiling's pace, alone unless it gets another home."""
    kept, meter = store or MemoryStore(), CountingMeter()
    guarded: Store = kept if life is None else life.guard(kept)
    home = home or LocalHome(NAME, warm(clock, limits))
    governor = Governor(NAME, limits, clock=clock, home=home, meter=meter, chance=clock.random.random)
    await governor.open()
    collector = Collector(source, guarded, governor, clock=clock, meter=meter)
    collector.newest_id = source.newest
    try:
        yield Process(collector, governor, guarded, clock, meter)
    finally:
        await governor.close()
