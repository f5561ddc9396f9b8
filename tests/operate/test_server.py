"""Is the console safe and honest? Its data, its live events, its guards, over a real socket on loopback."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import ClientSession
from prometheus_client.openmetrics import parser as openmetrics

from remora.core.errors import ConfigurationError, StoreUnavailable
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, RateFacts
from remora.core.reasons import GapReason
from remora.core.status.model import Status
from remora.core.status.snapshot import LoopFacts, Role, Snapshot, SourceFacts
from remora.core.units import SECOND_NS
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings
from remora.operate.console.access import Access
from remora.operate.console.connections import Bounds
from remora.operate.console.server import FILES, STATIC, ConsoleServer
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.heartbeat import Heart
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.newest_items import NewestItems
from remora.operate.observe.read_status import read_status
from remora.operate.observe.status_cache import StatusCache
from remora.stores.memory import MemoryStore
from tests.operate.small_mirror import DEAD_ID, NEWEST_ID, SOURCE, fill

OURS = {"X-Remora": "1"}
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
PACE = LimitedBy.PACE


class Console:
    """A console over a small mirror, and somebody who looks at it."""

    def __init__(self, settings: Settings, *, access: Access | None = None, bounds: Bounds | None = None) -> None:
        self.clock = SystemClock()
        self.store = MemoryStore()
        self.metrics = Metrics()
        self.settings = settings
        self.broken = False
        self.feed = StatusCache(self._read, self.metrics, clock=self.clock)
        self.server = ConsoleServer(
            self.feed,
            self.metrics,
            self._replay,
            address=settings.console.address,
            clock=self.clock,
            newest_items=NewestItems(self.store, clock=self.clock),
            access=access,
            bounds=bounds,
        )

    async def _read(self) -> Status:
        if self.broken:
            raise StoreUnavailable("the store does not answer", hint="wait a moment")
        return await read_status(self.store, self.settings, now_ns=self.clock.wall_ns())

    async def _replay(self, source: str | None, reason: GapReason | None, key: str | None) -> int:
        return await self.store.replay_gaps(source or SOURCE, reason=reason, key=key, now_ns=self.clock.wall_ns())

    async def beat(self, rate: RateFacts | None = None) -> None:
        facts = SourceFacts(
            newest_id=NEWEST_ID, newest_id_at_ns=self.clock.wall_ns(), loops={"live": LoopFacts(alive=True)}, rate=rate
        )
        snapshot = Snapshot(role=Role.SERVICE, started_at_ns=self.clock.wall_ns(), sources={SOURCE: facts})
        await Heart("service", self.store, lambda: snapshot, clock=self.clock).run_once()


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    made = Console(load(Flags(listen="127.0.0.1:0"), {}, directory=tmp_path))
    made.metrics.watch(SOURCE, ceiling_interval_ns=4_000_000)
    await fill(made.store, now_ns=time.time_ns())
    await made.server.open()
    yield made
    await made.server.close()


@asynccontextmanager
async def visitor(console: Console) -> AsyncIterator[ClientSession]:
    async with ClientSession(console.server.url) as session:
        yield session


async def test_the_status_is_the_same_that_the_command_line_prints(console: Console) -> None:
    async with visitor(console) as session, session.get("/api/status") as reply:
        assert reply.status == 200
        status = await reply.json()
    assert status["schema"] == 1
    assert status["sources"][SOURCE]["coverage"]["settled"] == 8


async def test_health_needs_a_runtime_that_beats(console: Console) -> None:
    async with visitor(console) as session:
        async with session.get("/health") as reply:
            assert reply.status == 503
            assert "no process" in (await reply.json())["reasons"][0]
        await console.beat()
        console.feed.forget()
        async with session.get("/health") as reply:
            assert (reply.status, await reply.json()) == (200, {"healthy": True, "reasons": []})


async def test_a_store_that_is_down_is_told_and_metrics_go_on(console: Console) -> None:
    console.broken = True
    async with visitor(console) as session:
        async with session.get("/health") as reply:
            assert (reply.status, (await reply.json())["reasons"]) == (503, ["the store does not answer"])
        async with session.get("/api/status") as reply:
            assert (reply.status, (await reply.json())["hint"]) == (503, "wait a moment")
        async with session.get("/metrics") as reply:
            assert reply.status == 200
            assert "remora_wire_sends_total" in await reply.text()


async def test_what_was_read_before_the_store_went_down_is_not_served_as_if_it_were_now(console: Console) -> None:
    gauges = ("remora_answer", "remora_pace_interval_seconds", "remora_circuit_state", "remora_frontier_id",
              "remora_inbox_depth", "remora_dead_letters", "remora_gaps")  # fmt: skip

    async def numbers(session: ClientSession) -> list[str]:
        async with session.get("/metrics") as reply:
            lines = (await reply.text()).splitlines()
        return [line.rpartition(" ")[2] for line in lines if line.startswith(tuple(f"{gauge}{{" for gauge in gauges))]

    rate = RateFacts(interval_ns=8_000_000, ceiling_interval_ns=4_000_000, limited_by=PACE, circuit=CircuitState.CLOSED)
    await console.beat(rate)
    async with visitor(console) as session:
        assert "NaN" not in await numbers(session)
        console.broken = True
        console.feed.forget()
        assert set(await numbers(session)) == {"NaN"}
        console.broken = False
        assert "NaN" not in await numbers(session)


async def test_metrics_speak_openmetrics_when_asked(console: Console) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with visitor(console) as session, session.get("/metrics", headers=headers) as reply:
        assert reply.content_type == "application/openmetrics-text"
        assert 'remora_dead_letters{source="hackernews"} 1.0' in await reply.text()


async def test_live_events_carry_the_status(console: Console) -> None:
    async with visitor(console) as session, session.get("/api/events") as reply:
        assert reply.content_type == "text/event-stream"
        lines = [(await reply.content.readline()).decode().rstrip() for _ in range(4)]
    assert lines[2] == "event: status"
    assert json.loads(lines[3].removeprefix("data: "))["sources"][SOURCE]["coverage"]["dead"] == 1


@pytest.mark.parametrize("path", ["/api/events", "/api/changes", "/health", "/nothing"])
async def test_every_answer_has_the_headers_that_keep_it_from_other_pages(console: Console, path: str) -> None:
    async with visitor(console) as session, session.get(path) as reply:
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert reply.headers["Server"] == "remora"


async def test_a_stream_cannot_be_asked_for_its_headers_only(console: Console) -> None:
    async with visitor(console) as session, session.head("/api/events") as reply:
        assert (reply.status, reply.headers["Allow"]) == (405, "GET")


async def test_closing_lets_every_viewer_go_at_once(console: Console) -> None:
    async with visitor(console) as session, session.get("/api/events") as reply:
        await reply.content.readline()
        async with asyncio.timeout(120):  # only guards against a viewer that is kept
            await console.server.close()
            while await reply.content.readline():
                pass
        assert reply.content.at_eof()


@pytest.mark.parametrize("path", FILES)
async def test_the_page_comes_whole_from_here_under_a_strict_policy(console: Console, path: str) -> None:
    async with visitor(console) as session, session.get(path) as reply:
        assert reply.status == 200
        policy = reply.headers["Content-Security-Policy"]
        text = await reply.text()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "https://" not in text
    assert "<script>" not in text


def test_the_page_has_no_inline_handlers_or_styles() -> None:
    page = (STATIC / "index.html").read_text()
    assert "onclick" not in page
    assert "style=" not in page


async def test_dead_letters_are_replayed_by_a_request_of_our_own(console: Console) -> None:
    async with visitor(console) as session:
        async with session.post("/api/gaps/replay", json={"id": str(DEAD_ID)}, headers=OURS) as reply:
            assert (reply.status, await reply.json()) == (200, {"replayed": 1})
        async with session.get("/api/status") as reply:
            assert (await reply.json())["sources"][SOURCE]["coverage"]["dead"] == 0


@pytest.mark.parametrize(
    "headers", [{}, {"X-Remora": "0"}, {**OURS, "Origin": "https://evil.example"}, {**OURS, "Origin": "null"}]
)
async def test_a_foreign_page_cannot_replay(console: Console, headers: dict[str, str]) -> None:
    wanted = {"all": True}
    async with visitor(console) as session, session.post("/api/gaps/replay", json=wanted, headers=headers) as reply:
        assert reply.status == 403
    assert [count.count for count in await console.store.gap_counts(SOURCE) if count.state == "dead"] == [1]


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"{", b'{"all": true, "id": "3"}', b'{"everything": true}', b'{"reason": "luck"}']
)
async def test_a_replay_that_is_not_clear_is_refused(console: Console, body: bytes) -> None:
    async with visitor(console) as session, session.post("/api/gaps/replay", data=body, headers=OURS) as reply:
        assert reply.status == 400
        assert "send {" in (await reply.json())["hint"]


@pytest.mark.parametrize("path", ["/api/gaps/replay", "/login"])
async def test_a_body_that_is_not_packed_as_it_says_is_refused(console: Console, path: str) -> None:
    packed = {**OURS, "Content-Encoding": "gzip"}
    async with visitor(console) as session, session.post(path, data=b'{"all": true}', headers=packed) as reply:
        assert reply.status == 400
        assert "Content-Encoding" in (await reply.json())["hint"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8611", "[", ""])
async def test_a_forged_name_does_not_reach_a_loopback_console(console: Console, host: str) -> None:
    async with visitor(console) as session, session.get("/api/status", headers={"Host": host}) as reply:
        assert reply.status in {400, 403}


@pytest.mark.parametrize("path", ["/nothing", "/../config.py", "/console.js/x"])
async def test_what_is_not_there_is_not_found(console: Console, path: str) -> None:
    async with visitor(console) as session, session.get(path) as reply:
        assert reply.status == 404
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


async def test_an_address_that_is_taken_is_the_owners_to_change(console: Console) -> None:
    port = int(console.server.url.rpartition(":")[2])
    other = ConsoleServer(
        console.feed, console.metrics, console._replay, address=("127.0.0.1", port), clock=console.clock
    )
    with pytest.raises(ConfigurationError, match="choose another address with --listen"):
        await other.open()


async def test_viewers_share_one_reading_a_second(console: Console) -> None:
    first = await console.feed.latest()
    assert await console.feed.latest() is first


async def test_whoever_waits_for_the_same_reading_hears_that_it_failed() -> None:
    begun: list[None] = []
    fails = asyncio.Event()

    async def read() -> Status:
        begun.append(None)
        await fails.wait()
        raise StoreUnavailable("the store does not answer", hint="wait a moment")

    feed = StatusCache(read, Metrics(), clock=SystemClock())
    waiting = [asyncio.create_task(feed.latest()) for _ in range(10)]
    await asyncio.sleep(0)
    fails.set()
    heard = await asyncio.gather(*waiting, return_exceptions=True)
    assert (len(begun), {type(each) for each in heard}) == (1, {StoreUnavailable})


async def test_a_store_that_is_silent_keeps_nobody_waiting_and_what_it_says_later_is_heard(console: Console) -> None:
    answers = asyncio.Event()
    begun: list[None] = []

    async def read() -> Status:
        begun.append(None)
        await answers.wait()
        return await console._read()

    feed = StatusCache(read, console.metrics, clock=console.clock, answer_within_s=0.01)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="has not answered"):
            await feed.latest()
    assert "NaN" in console.metrics.scrape("")[0].decode()
    answers.set()
    later: Status | None = None
    while later is None:  # a busy machine may need longer than 10 ms for it
        with suppress(StoreUnavailable):
            later = await feed.latest()
    assert SOURCE in later.sources
    assert len(begun) == 1
    await feed.close()


async def test_a_scrape_of_a_running_console_has_exactly_the_documented_metrics(console: Console) -> None:
    await console.beat()
    console.metrics.batch_stored(0.001)
    async with visitor(console) as session, session.get("/metrics", headers=OPENMETRICS) as reply:
        families = openmetrics.text_string_to_metric_families(await reply.text())  # type: ignore[no-untyped-call]
        scraped = {family.name: family.type for family in families}
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    documented = dict(re.findall(r"^\| `(remora_\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert {name.removesuffix("_total"): kind for name, kind in documented.items()} == scraped


async def test_the_chart_begins_where_the_service_began(console: Console) -> None:
    await console.beat(
        rate=RateFacts(
            interval_ns=SECOND_NS, ceiling_interval_ns=SECOND_NS, limited_by=PACE, circuit=CircuitState.CLOSED
        )
    )
    console.feed.forget()
    await console.feed.latest()
    async with visitor(console) as session, session.get("/api/history") as reply:
        history = (await reply.json())["sources"][SOURCE]
    assert [point[2:4] for point in history["points"]] == [[1.0, None]]


async def test_new_items_are_told_as_they_arrive(console: Console) -> None:
    async with visitor(console) as session, session.get("/api/events") as reply:
        lines = [(await reply.content.readline()).decode().rstrip() for _ in range(7)]
    assert lines[5] == "event: items"
    newest = json.loads(lines[6].removeprefix("data: "))[SOURCE]
    assert [item["id"] for item in newest] == [10, 9, 8, 6, 5, 3, 2, 1]
    assert newest[0]["text"] == "Café"
