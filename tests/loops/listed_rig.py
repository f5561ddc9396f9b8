"""What does a run over a listed source need in a test? A small archive that can be changed by hand, a gate and a store."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

from remora.collect import Collector
from remora.contracts import Clock, Store, Transport
from remora.core.ledger.asking import LISTED
from remora.core.ledger.run import RunSummary
from remora.core.units import SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.listed.joining import JoiningCollector
from remora.loops.listed.run import ListedRun, RunOptions
from remora.sim.clock import SimClock
from remora.sim.crash import Generation
from remora.sim.limits import Limit, limiter
from remora.sim.meter import CountingMeter
from remora.sim.provider import Provider
from remora.sim.replies import NOT_FOUND, Answer, Response, ok, rate_limited
from remora.sim.transport import LATENCY_NS, SimTransport
from remora.sources.auth import Credential, SignedTransport
from remora.sources.dialects import Dialects
from remora.sources.listed import DetailSettings, Listed, ListedSettings, ListSettings, Paging
from remora.sources.rules import Rule, ends_of
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore
from tests.prepared_sqlite import prepare

NAME = "chats"
CEILING_NS = SECOND_NS  # 60/min, as a listed source has by default
# Where a test takes a request and answers it itself; None lets the archive answer.
Hook = Callable[[str], Response | None]


class SmallArchive:
    """A list of entries, newest first, and their details. A test changes both while somebody walks them."""

    def __init__(self, entries: int = 0, *, limit: Limit | None = None) -> None:
        self._marks: dict[str, int] = {}
        self._clock = 0
        self._limiter = limiter(limit or Limit())
        self.hook: Hook = lambda _path: None
        self.spoiled: dict[str, Response] = {}
        self.unreadable: set[str] = set()  # entries that stand in the list without their key
        self.asked: list[str] = []  # "page 95" or "detail c7", in the order they came
        self.departures_ns: list[int] = []
        self.ticks: Callable[[], int] = lambda: 0
        for number in range(entries):
            self.add(f"c{number}")

    def add(self, *keys: str) -> None:
        """New entries at the front, or old ones that were updated: the last one stands first."""
        for key in keys:
            self._clock += 1
            self._marks[key] = self._clock

    def place(self, key: str, mark: int) -> None:
        """An entry anywhere in the list."""
        self._marks[key] = mark
        self._clock = max(self._clock, mark)

    def remove(self, *keys: str) -> None:
        for key in keys:
            del self._marks[key]

    def listing(self) -> list[tuple[str, int]]:
        return sorted(self._marks.items(), key=lambda entry: (-entry[1], entry[0]))

    def body(self, key: str) -> bytes:
        return json.dumps({"id": key, "update_time": self._marks[key]}).encode()

    def truth(self) -> dict[str, bytes]:
        return {key: self.body(key) for key in self._marks}

    def requests(self, kind: str) -> Counter[str]:
        """How often each page or detail was asked for."""
        return Counter(asked.partition(" ")[2] for asked in self.asked if asked.startswith(kind))

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        query |= {name: str(value) for name, value in json.loads(body or b"{}").items()}
        is_detail = parts.path.startswith("/detail")
        key = query.get("id", unquote(parts.path.removeprefix("/detail/")))
        where = query.get("offset", query.get("page", query.get("cursor", "")))
        self.asked.append(f"detail {key}" if is_detail else f"page {where}")
        self.departures_ns.append(self.ticks())
        if (answer := self.hook(self.asked[-1])) is not None:
            return answer
        if self._limiter.refuse_ns(self.ticks()) is not None:
            return rate_limited(None)
        return self._detail(key) if is_detail else self._page(parts.path, query)

    def _detail(self, key: str) -> Response:
        if key in self.spoiled:
            return self.spoiled[key]
        return ok(self.body(key)) if key in self._marks else NOT_FOUND

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        size, listing = int(query.get("limit", "10")), self.listing()
        match path:
            case "/list":
                start = int(query.get("offset", "0"))
                return ok(self._lines(listing[start : start + size]))
            case "/pages":
                start = (int(query.get("page", "1")) - 1) * size
                return ok(self._lines(listing[start : start + size]))
            case "/next":
                start = int(query.get("from", "0"))
                following = f"/next?limit={size}&from={start + size}" if start + size < len(listing) else None
                return ok(self._lines(listing[start : start + size], next=following))
            case "/last":
                after = self._marks.get(query.get("starting_after", ""), self._clock + 1)
                return ok(self._lines([(key, mark) for key, mark in listing if mark < after][:size]))
            case "/all":
                return ok(self._lines(listing))
            case "/cursor":
                below = int(query.get("cursor", self._clock + 1))
                rest = [(key, mark) for key, mark in listing if mark < below]
                lines = rest[:size]
                return ok(self._lines(lines, next_cursor=lines[-1][1] if len(rest) > size else None))
            case "/header":
                start = int(query.get("cursor", "0"))
                following = str(start + size) if start + size < len(listing) else ""
                return Answer(200, self._lines(listing[start : start + size]), {"x-next": following})
            case "/links":
                start = int(query.get("from", "0"))
                link = f'</links?limit={size}&from={start + size}>; rel="next"'
                is_more = start + size < len(listing)
                return Answer(200, self._lines(listing[start : start + size]), {"link": link} if is_more else {})
            case _:
                return NOT_FOUND

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": None if key in self.unreadable else key, "update_time": mark} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


PAGINGS = {
    Paging.OFFSET: ListSettings(page_size=10),
    Paging.PAGE: ListSettings(path="/pages", paging=Paging.PAGE, page_size=10),
    Paging.CURSOR: ListSettings(path="/cursor", paging=Paging.CURSOR, page_size=10),
}


@dataclass(slots=True)
class Process:
    """One life of a process that makes runs."""

    store: Store
    governor: Governor
    collector: Collector
    clock: Clock

    def run(self, options: RunOptions | None = None) -> ListedRun:
        return ListedRun(
            NAME,
            self.collector,
            self.store,
            self.governor,
            clock=self.clock,
            owner="one",
            options=options or RunOptions(),
        )


@dataclass(slots=True)
class ListedRig:
    """The world around the runs; it outlives every process."""

    clock: SimClock
    archive: SmallArchive
    store: Store = field(default_factory=MemoryStore)
    settings: ListSettings = field(default_factory=lambda: PAGINGS[Paging.OFFSET])
    ceiling_ns: int = CEILING_NS
    meter: CountingMeter = field(default_factory=CountingMeter)
    provider: Provider | None = None  # another one than the small archive
    url: str = "http://sim"
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: DetailSettings = field(default_factory=lambda: DetailSettings(key="id", updated="update_time"))
    latency_ns: int = LATENCY_NS
    in_flight: int = 1
    each: str | None = None
    rules: Sequence[Rule] = ()
    credential: Credential | None = None

    def __post_init__(self) -> None:
        self.archive.ticks = self.clock.monotonic_ns

    @asynccontextmanager
    async def process(self, life: Generation | None = None) -> AsyncIterator[Process]:
        """A process that has started and has not run yet."""
        own = self.clock.restarted()
        clock: Clock = own if life is None else life.guard(own)
        store = self.store if life is None else life.guard(self.store)
        answering = self.provider or cast("Provider", self.archive)
        wire = SimTransport(answering, own, latency_ns=self.latency_ns)
        secret_param = "" if self.credential is None else self.credential.query_parameter
        declared = ListedSettings(
            self.url,
            self.settings,
            self.detail,
            self.each,
            headers=self.headers,
            secret_param=secret_param,
            ends=ends_of(self.rules),
        )
        way_out: Transport = wire if life is None else life.guard(wire)
        if self.credential is not None:
            way_out = SignedTransport(way_out, self.credential, url=self.url)
        source = Listed(way_out, declared, name=NAME)
        limits = Limits(ceiling_interval_ns=self.ceiling_ns, in_flight=self.in_flight)
        chance = self.clock.random.random
        governor = Governor(NAME, limits, clock=clock, home=LocalHome(NAME, store), meter=self.meter, chance=chance)
        await governor.open()
        dialect = Dialects(self.rules)
        collector = JoiningCollector(
            source,
            store,
            governor,
            clock=clock,
            meter=self.meter,
            policy=LISTED,
            dialect=dialect,
            credential=self.credential,
        )
        try:
            yield Process(store, governor, collector, clock)
        finally:
            await governor.close()

    async def run(self, options: RunOptions | None = None) -> RunSummary:
        """One run in a process of its own."""
        async with self.process() as process:
            return await process.run(options).run_once()

    async def wait(self, for_ns: int) -> None:
        await self.clock.sleep_until(self.clock.monotonic_ns() + for_ns)

    async def mirror(self) -> dict[str, bytes]:
        """Every document that is held."""
        return {held.key: held.body async for held in self.store.documents(NAME) if held.body is not None}

    async def is_complete(self) -> bool:
        return await self.mirror() == self.archive.truth()


@asynccontextmanager
async def sqlite_store(path: Path) -> AsyncIterator[Store]:
    """A store in a file, without threads."""
    store = SqliteStore(prepare(path), offload=InPlace)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def answer_429() -> Answer:
    """Too many requests, and not a word about when to come back."""
    return rate_limited(None)
