"""What do the reader's tests read? A mirror with front pages, a long thread, every break, a deletion, attacks, documents."""

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from remora.contracts import Observation, Store
from remora.core.item import Document, Entry, Item, User
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_walk import WalkState
from remora.core.reasons import GapReason
from remora.core.status.model import Status
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Missing, Trouble, Verdict
from remora.operate.console.access import Access
from remora.operate.console.api import ReadApi
from remora.operate.console.read_allowance import ReadAllowance
from remora.operate.console.reader.routes import reader_routes
from remora.operate.console.server import ConsoleServer
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.search_index import build
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.status_cache import StatusCache
from remora.read.browsing import Browsing
from remora.stores import open_store

NEWS: Final = "hackernews"
CHATS: Final = "chats"
DAY_S: Final = 86_400
NOON_S: Final = 1_790_000_000 // DAY_S * DAY_S + DAY_S // 2
LONG_STORY: Final = 1_000
LONG_COMMENTS: Final = 2_000
BROKEN_STORY: Final = 10
ATTACK_STORY: Final = 20
DELETED_COMMENT: Final = 12
ORPHAN: Final = 15
OWED: Final = 90
POLL: Final = 30
ATTACK: Final = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<a href='javascript:window.hacked = 1'>click</a><svg onload='window.hacked = 1'></svg>"
    "<details open ontoggle='window.hacked = 1'>x</details><iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>"
)
WORDS: Final = [
    "tide",
    "harbour",
    "lamp",
    "rope",
    "signal",
    "chart",
    "keel",
    "wind",
    "anchor",
    "buoy",
    "compass",
    "current",
    "swell",
    "pilot",
    "mast",
]


def body(item_id: int, **fields: object) -> Item:
    told = {"by": "ada", "id": item_id, "time": NOON_S + item_id % 3_600, "type": "comment", **fields}
    names = ("type", "by", "time", "parent", "score", "descendants", "deleted")
    columns = {name: told[name] for name in names if name in told}
    content = json.dumps([told.get(name) for name in ("title", "text", "url", "deleted")]).encode()
    return Item(item_id, json.dumps(told).encode(), content=content, **columns)  # type: ignore[arg-type]


def stories() -> list[Item]:
    chance = random.Random(7)
    made = []
    for number in range(40):
        title = f"{('Ask HN: ', 'Show HN: ', '')[number % 3]}{' '.join(chance.sample(WORDS, 4)).capitalize()}"
        when = NOON_S - (number // 8) * DAY_S - number * 60
        made.append(
            body(
                100 + number,
                type="job" if number % 13 == 12 else "story",
                by=chance.choice(("ada", "bob", "eve")),
                title=title,
                time=when,
                score=chance.randrange(400),
                descendants=chance.randrange(90),
                url=f"https://www.{chance.choice(WORDS)}.example/{number}",
            )
        )
    return made


def long_thread() -> list[Item]:
    chance = random.Random(8)
    ids = [LONG_STORY]
    made = []
    for number in range(1, LONG_COMMENTS + 1):
        parent = chance.choice(ids[-60:])
        text = "<p>".join(
            " ".join(chance.choices(WORDS, k=chance.randrange(8, 60))) for _ in range(chance.randrange(1, 4))
        )
        made.append(body(LONG_STORY + number, parent=parent, by=f"user{number % 97}", text=text.capitalize()))
        ids.append(LONG_STORY + number)
    story = body(
        LONG_STORY, type="story", title="A very long discussion of tides", score=999, descendants=LONG_COMMENTS
    )
    return [story, *made]


def broken_thread() -> list[Item]:
    return [
        body(8863, type="story", by="dhouston", title="My YC app: Dropbox", score=111, kids=[8952]),
        body(8952, parent=8863, by="norm", text="A reply"),
        body(BROKEN_STORY, type="story", title="A story with breaks", score=50, kids=[11, 19, 15], descendants=4),
        body(
            11,
            parent=BROKEN_STORY,
            by="bob",
            text="A whole reply, with <i>words</i> and <pre><code>code()\n</code></pre>",
        ),
        body(DELETED_COMMENT, parent=11, by="eve", text="The words that were deleted later."),
        body(ORPHAN, parent=14, by="bob", text="A comment outside its story."),
        body(POLL, type="poll", title="Which knot?", parts=[POLL + 1, POLL + 2, POLL + 3]),
        body(POLL + 1, type="pollopt", text="Bowline", score=1),
        body(POLL + 2, type="pollopt", text="Reef knot"),
        body(16, parent=17, by="Ada Lovelace", text="One half of a circle"),
        body(17, parent=16, text="The other half"),
        body(18, type="story", title="First title", text="A <i>red</i> fish swims here."),
        body(
            ATTACK_STORY,
            type="story",
            title=f"An attack {ATTACK}",
            text=ATTACK,
            url="javascript:alert(1)",
            by="<b>eve</b>",
        ),
        body(21, parent=ATTACK_STORY, text=ATTACK, by='"><script>window.hacked = 1</script>'),
    ]


def documents() -> list[Document]:
    chat = {
        "id": "chat/1",
        "title": "How to read a tide table",
        "model": "small",
        "messages": [
            {"role": "user", "text": "How do I read a tide table?\nI have one for my harbour."},
            {"role": "assistant", "text": "Find the day, then the two high waters. " * 5},
        ],
        "tags": ["tides", "harbour"],
        "attack": ATTACK,
    }
    return [
        Document("chat/1", json.dumps(chat).encode(), "2026-01-01"),
        Document("chat/2", b'{"id":"chat/2","name":"Without a title","n":1}', "2026-01-02"),
        Document("chat/3", b"not json", "2026-01-03"),
    ]


async def fill_library(store: Store) -> None:
    """Everything above, recorded as a service would."""
    now_ns = (NOON_S + DAY_S) * SECOND_NS

    async def keep(source: str, kind: Kind, key: str, verdict: Verdict, later_s: int = 0) -> None:
        discovery = Discovery(kind, key, Lane.LIVE)
        when_ns = now_ns + later_s * SECOND_NS
        await store.record(source, Observation(discovery, verdict, when_ns, when_ns))

    items = [*stories(), *long_thread(), *broken_thread()]
    await asyncio.gather(*(keep(NEWS, Kind.ITEM, str(item.item_id), Found(item)) for item in items))
    gone = Item(DELETED_COMMENT, b'{"id":12,"deleted":true,"parent":11,"time":%d,"type":"comment"}' % NOON_S,
                type="comment", parent=11, time=NOON_S, deleted=True, content=b"deleted")  # fmt: skip
    await keep(NEWS, Kind.ITEM, str(DELETED_COMMENT), Found(gone), 60)
    edited = body(18, type="story", title="Second title", text="A <i>blue</i> fish swims here and there.")
    await keep(NEWS, Kind.ITEM, "18", Found(edited), 90)
    await keep(NEWS, Kind.ITEM, str(OWED), Trouble(GapReason.TIMEOUT), 120)
    about = (
        b'{"id":"ada","karma":1234,"created":1160418111,"about":"I like <i>tides</i>.<script>window.hacked=1</script>"}'
    )
    await keep(NEWS, Kind.USER, "ada", Found(User("ada", about)), 130)
    await store.cover(NEWS, IdRange(1, LONG_STORY + LONG_COMMENTS))
    entries = [Entry(document.key, document.updated_at) for document in documents()]
    await store.record_page(CHATS, [*entries, Entry("chat/4", "2026-01-04")], WalkState(), now_ns=now_ns)
    for document in documents():
        await keep(CHATS, Kind.DOCUMENT, document.key, Found(document), 200)
    later = Document("chat/2", b'{"id":"chat/2","name":"With another name","n":2}', "2026-01-05")
    await keep(CHATS, Kind.DOCUMENT, "chat/2", Found(later), 300)
    await keep(CHATS, Kind.DOCUMENT, "chat/3", Missing(GapReason.GONE), 400)


async def make_library(url: str) -> None:
    """A file with the library and its search index."""
    store = open_store(url)
    await store.open()
    await fill_library(store)
    await store.close()
    await build(url, rebuild=False, tell=lambda _: None)


@asynccontextmanager
async def opened_library(
    url: str, *, access: Access | None = None, allowance: ReadAllowance | None = None
) -> AsyncIterator[ConsoleServer]:
    """A console whose reader shows the mirror at this address."""
    clock, metrics = SystemClock(), Metrics()
    browsing = Browsing(url)

    async def nothing() -> Status:
        return Status(as_of_ns=clock.wall_ns(), sources={}, runtimes=())

    async def no_replay(source: str | None, reason: GapReason | None, key: str | None) -> int:
        return 0

    console = ConsoleServer(
        StatusCache(nothing, metrics, clock=clock),
        metrics,
        no_replay,
        address=("127.0.0.1", 0),
        clock=clock,
        access=access,
    )
    console.add_pages([*reader_routes(browsing), *ReadApi(browsing, clock=clock, allowance=allowance).routes()])
    await console.open()
    try:
        yield console
    finally:
        await console.close()
        await browsing.close()


@contextmanager
def console_in_a_thread(
    path: Path, *, access: Access | None = None, allowance: ReadAllowance | None = None
) -> Iterator[str]:
    """The address of a console with a new library, for clients that ask and wait."""
    told: list[str] = []
    is_open, is_over, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        await make_library(f"sqlite:///{path}")
        async with opened_library(f"sqlite:///{path}", access=access, allowance=allowance) as console:
            told.append(console.url)
            is_open.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert is_open.wait(60)
    yield told[0]
    loop.call_soon_threadsafe(is_over.set)
    thread.join()
    loop.close()
