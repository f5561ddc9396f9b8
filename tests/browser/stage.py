"""How is a page shown a state that is hard to meet? A real console server over a scene that can change while one looks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from remora.contracts import Observation
from remora.core.errors import StoreUnavailable
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.reasons import GapReason
from remora.core.status.alarms import with_alarms
from remora.core.status.disk_full import with_disk
from remora.core.status.model import Disk, Status
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.operate.console.access import Access
from remora.operate.console.server import ConsoleServer
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.newest_items import NewestItems
from remora.operate.observe.status_cache import StatusCache
from remora.stores.memory import MemoryStore
from tests.browser.scenes import CATCHING_UP, LISTED, NEWEST_ID, Scene
from tests.operate.test_actions import Recording

SEVERAL: Final = Scene(
    "several",
    lambda now_ns: {**LISTED.facts(now_ns), **CATCHING_UP.facts(now_ns)},
    lambda now_ns: {**LISTED.ledgers(now_ns), **CATCHING_UP.ledgers(now_ns)},
)
PAST_S: Final = 6 * 3_600
PAST_STEP_S: Final = 20
FINE_PAST_S: Final = 2_400
ITEMS: Final = (
    b'{"by":"ilya","id":%d,"time":%d,"title":"Show HN: A tide clock that runs on moonlight","type":"story","score":12}',
    b'{"by":"mara","id":%d,"time":%d,"parent":1,"text":"I keep mine on a windowsill. <p>It loses a minute a day &amp; I do not mind.","type":"comment"}',
    b'{"by":"oduya","id":%d,"time":%d,"title":"How ships knew where they were before satellites","type":"story"}',
    b'{"id":%d,"time":%d,"deleted":true,"type":"comment"}',
    b'{"by":"pat","id":%d,"time":%d,"parent":2,"text":"<i>Well</i>, actually &lt;b&gt;it depends&lt;/b&gt; on the harbour.","type":"comment"}',
    b'{"by":"harbourlabs","id":%d,"time":%d,"title":"Harbour Labs is hiring a hydrographer","type":"job"}',
)


class Stage:
    """A console over whatever scene is played."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.clock = SystemClock()
        self.metrics = Metrics()
        self.store = MemoryStore()
        self.replayed: list[tuple[str | None, GapReason | None, str | None]] = []
        self.feed = StatusCache(self._read, self.metrics, clock=self.clock)
        self._port = 0
        self._broken = False
        self._server: ConsoleServer | None = None
        self.access: Access | None = None
        self.disk: Disk | None = None
        self.operator = Recording()

    @property
    def url(self) -> str:
        assert self._server is not None, "the curtain is down"
        return self._server.url

    async def open(self) -> None:
        """Raise the curtain; after the first time, at the same address."""
        self._server = ConsoleServer(
            self.feed,
            self.metrics,
            self._replay,
            address=("127.0.0.1", self._port),
            clock=self.clock,
            newest_items=NewestItems(self.store, clock=self.clock),
            access=self.access,
        )
        self._server.obey(self.operator)
        await self._server.open()
        self._port = int(self._server.url.rpartition(":")[2])

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    def play(self, scene: Scene) -> None:
        """Change the world."""
        self.scene = scene
        self.feed.forget()

    def remember(self) -> None:
        """Give the chart the hours before the curtain rose."""
        now_ns = self.clock.wall_ns()
        first_s = int(self.scene.beat_age_ns / SECOND_NS) + PAST_STEP_S
        for ago_s in (*range(PAST_S, FINE_PAST_S, -PAST_STEP_S), *range(FINE_PAST_S, first_s, -5)):
            self.feed.history.take(self.scene.past(now_ns, ago_s))

    async def arrive(self, count: int = 12) -> None:
        """Items come in."""
        for step in range(count):
            await self.arrives(NEWEST_ID - count + 1 + step, ago_s=9 * (count - step))

    async def arrives(self, item_id: int, *, ago_s: int = 0, body: bytes | None = None) -> None:
        """One item comes in."""
        now_ns = self.clock.wall_ns() - ago_s * SECOND_NS
        if body is None:
            body = ITEMS[item_id % len(ITEMS)] % (item_id, now_ns // SECOND_NS)
        else:
            body %= item_id
        discovery = Discovery.item(item_id, via=Lane.LIVE)
        observation = Observation(discovery, Found(Item(item_id, body)), started_at_ns=now_ns, now_ns=now_ns)
        await self.store.record("hackernews", observation)

    def break_store(self) -> None:
        """From now on nothing can be read."""
        self._broken = True
        self.feed.forget()

    async def _read(self) -> Status:
        if self._broken:
            raise StoreUnavailable("the store does not answer", hint="wait a moment")
        return with_alarms(with_disk(self.scene.status(self.clock.wall_ns()), self.disk))

    async def _replay(self, source: str | None, reason: GapReason | None, key: str | None) -> int:
        self.replayed.append((source, reason, key))
        return 3


@asynccontextmanager
async def staged(scene: Scene, *, with_past: bool = True) -> AsyncIterator[Stage]:
    """A stage with its curtain up."""
    stage = Stage(scene)
    if with_past and scene.status(stage.clock.wall_ns()).runtimes:
        stage.remember()
    await stage.arrive()
    await stage.open()
    try:
        yield stage
    finally:
        await stage.close()
