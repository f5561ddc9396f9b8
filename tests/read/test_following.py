"""Is every change delivered at least once, whoever follows, and is none deleted that a named reader has not read?"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from remora.contracts import Outcome, Store
from remora.contracts.reader import Change
from remora.core.errors import ConfigurationError, StoreUnavailable
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.gap import GapState
from remora.core.units import HOUR_NS
from remora.operate.console.changes_feed import ChangesFeed
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.following import NamedFeed
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.search_index import build
from remora.operate.jobs.webhook import SIGNATURE, Webhook, signature
from remora.read.mirror import MirrorReader
from remora.read.retention import furthest_behind, order
from remora.stores import open_search_index
from remora.stores.sqlite import SqliteStore
from remora.stores.statements import with_common
from tests.contract.answers import SOURCE, TIMEOUT, at, record
from tests.fixtures import frozen
from tests.read.conftest import item, keep


async def read_on(url: str, name: str, mirror: MirrorReader, *, pages: int | None = None) -> list[Change]:
    """What a named reader gets until it stops; it remembers only what it has worked on."""
    read: list[Change] = []
    async with NamedFeed(url, name) as feed:
        async for page in feed.pages(mirror, follow=False):
            read.extend(page)
            if pages is not None:
                return read  # killed before it could say so
            await feed.done(page[-1].position, now_ns=at(9))
    return read


async def test_a_named_reader_goes_on_where_it_was_and_hears_again_what_it_did_not_finish(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    first = await read_on(url, "lake", mirror, pages=1)
    assert await read_on(url, "lake", mirror) == first
    assert await read_on(url, "lake", mirror) == []
    await keep(store, item(50), at_s=8)
    assert [change.key for change in await read_on(url, "lake", mirror)] == ["50"]


async def test_changes_are_deleted_only_behind_the_slowest_reader(store: Store, mirror: MirrorReader, url: str) -> None:
    every = await read_on(url, "fast", mirror)
    async with housekeeping(url) as keeping:
        await keeping.keep_position("slow", every[3].position, now_ns=at(9))
        assert await furthest_behind(keeping, open_search_index(url)) == ("slow", every[3].position)
        assert await keeping.forget_changes(before_ns=at(1), up_to=every[3].position, limit=100) == 0, "too young"
        assert await keeping.forget_changes(before_ns=at(99), up_to=every[3].position, limit=100) == 4
        assert [change async for change in mirror.changes()] == every[4:]
        assert await keeping.forget_reader("slow")
        assert not await keeping.forget_reader("slow")
        assert [reader.name for reader in await keeping.named_readers()] == ["fast"]
        while await keeping.forget_changes(before_ns=at(99), up_to=every[-1].position, limit=2):
            pass
    assert [change async for change in mirror.changes()] == []


async def test_of_two_processes_that_read_for_one_name_the_slower_one_takes_nothing_back(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    every = await read_on(url, "shared", mirror)
    async with housekeeping(url) as keeping:
        for earlier in ("0", every[1].position):
            await keeping.keep_position("shared", earlier, now_ns=at(9))
        assert [reader.position for reader in await keeping.named_readers()] == [every[-1].position]
        assert await keeping.forget_changes(before_ns=at(99), up_to=None, limit=100) == len(every)
    await keep(store, item(50), at_s=8)
    assert [change.key for change in await read_on(url, "shared", mirror)] == ["50"]


async def test_a_reader_that_comes_while_old_changes_are_deleted_loses_none(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    every = await read_on(url, "fast", mirror)
    async with housekeeping(url) as keeping:
        _, read_by_all = await furthest_behind(keeping, open_search_index(url))
        await keeping.keep_position("late", every[2].position, now_ns=at(9))
        assert await keeping.forget_changes(before_ns=at(99), up_to=read_by_all, limit=100) == 3
        await keeping.keep_position("new", "0", now_ns=0)
        assert await keeping.forget_changes(before_ns=at(99), up_to=None, limit=100) == 0
    assert [change async for change in mirror.changes()] == every[3:]


async def test_changes_are_deleted_from_the_oldest_on_and_leave_no_hole_after_a_clock_was_set_back(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    await keep(store, item(50), at_s=100)
    await keep(store, item(51), at_s=8)
    async with housekeeping(url) as keeping:
        while await keeping.forget_changes(before_ns=at(50), up_to=None, limit=2):
            pass
        assert [change.key async for change in mirror.changes()] == ["50", "51"]
        assert await keeping.forget_changes(before_ns=at(101), up_to=None, limit=100) == 2


async def test_a_reader_without_a_name_is_told_when_changes_after_its_position_were_deleted(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    every = [change async for change in mirror.changes()]
    async with housekeeping(url) as keeping:
        assert await keeping.forget_changes(before_ns=at(99), up_to=every[4].position, limit=100) == 5
    with pytest.raises(ConfigurationError, match="were deleted"):
        _ = [change async for change in mirror.changes(since=every[2].position)]
    for last in (4, 6, len(every) - 1):
        assert [change async for change in mirror.changes(since=every[last].position)] == every[last + 1 :]
    assert [change async for change in mirror.changes()] == every[5:]


async def test_a_position_that_a_restored_store_has_not_reached_is_refused(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    newest = await mirror.newest_position()
    assert [change async for change in mirror.changes(since=newest)] == []
    beyond = str(int(newest) + 1) if isinstance(store, SqliteStore) else "9000000000000000000:1"
    with pytest.raises(ConfigurationError, match=r"was the (store|database) restored"):
        _ = [change async for change in mirror.changes(since=beyond)]


async def test_the_search_index_is_a_reader_too(store: Store, mirror: MirrorReader, url: str) -> None:
    async with housekeeping(url) as keeping:
        assert await furthest_behind(keeping, open_search_index(url)) == (None, None)
        await build(url, rebuild=False, tell=lambda _: None)
        newest = await mirror.newest_position()
        assert await furthest_behind(keeping, open_search_index(url)) == ("the search index", newest)


async def test_old_revisions_go_and_sizes_are_told(store: Store, url: str) -> None:
    async with housekeeping(url) as keeping:
        assert await keeping.forget_revisions(before_ns=at(2), limit=10) == 0
        assert len(await store.revisions(SOURCE, 5)) == 1
        assert await keeping.forget_revisions(before_ns=at(99), limit=10) == 1
        assert await store.revisions(SOURCE, 5) == ()
        sizes = {size.name: size for size in await keeping.table_sizes(seconds_max=10)}
        assert sizes["stored_items"].bytes > 0
        assert (await keeping.changes_since(0))["item new"] == 9
        if url.startswith("postgresql"):
            await keeping.compact()


async def test_old_revisions_between_young_ones_go_however_short_the_steps_are(store: Store, url: str) -> None:
    for item_id in range(60, 67):
        for turn in range(3):
            await keep(store, item(item_id, title=f"{turn}"), at_s=30 + turn + 100 * (item_id % 2))
    async with housekeeping(url) as keeping:
        assert await keeping.forget_revisions(before_ns=at(99), limit=2) == 1 + 2 * 4
        left = [item_id for item_id in range(60, 67) if await store.revisions(SOURCE, item_id)]
        assert left == [61, 63, 65]
        assert await keeping.forget_revisions(before_ns=at(999), limit=2) == 2 * 3


async def test_gaps_that_were_settled_long_ago_go_and_what_is_owed_stays(store: Store, url: str) -> None:
    for item_id in range(70, 77):
        await record(store, item_id, TIMEOUT, at_s=30)
    for item_id in range(70, 75):
        await keep(store, item(item_id), at_s=40 + 100 * (item_id % 2))
    async with housekeeping(url) as keeping:
        assert await keeping.forget_settled_gaps(before_ns=at(99), limit=2) == 3
        assert [gap.key for gap in await store.gaps(SOURCE, state=GapState.SETTLED)] == ["71", "73"]
        assert [gap.key for gap in await store.gaps(SOURCE)] == ["75", "76"]
        assert set(await store.recorded_ids(SOURCE, IdRange(70, 76))) == set(range(70, 77))
        assert await record(store, 70, TIMEOUT, at_s=200) is Outcome.OWED
        assert await keeping.forget_settled_gaps(before_ns=at(999), limit=2) == 2
    assert [gap.key for gap in await store.gaps(SOURCE)] == ["75", "76", "70"]


async def test_no_step_of_forgetting_reads_more_than_its_own_rows_while_the_writer_waits(
    store: Store, tmp_path: Path
) -> None:
    if not isinstance(store, SqliteStore):
        pytest.skip("nobody waits for a reader of PostgreSQL")
    statements = with_common(files("remora.stores.sqlite").joinpath("keeping.sql").read_text("utf-8"))
    (file,) = tmp_path.glob("*.db")  # noqa: ASYNC240 - a folder of the test
    with closing(sqlite3.connect(file)) as connection:
        for name in ("forget_revisions", "forget_document_revisions"):
            values = {"k0": 0, "e0": 1, "before": 0, "limit": 1}
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[name]}", values)]
            assert plan == [f"SEARCH {plan[0].split()[1]} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"], plan
        ends = {f"{letter}{at}": "" for letter in "ke" for at in range(3)}
        told = connection.execute(f"EXPLAIN QUERY PLAN {statements['forget_settled_gaps']}", {**ends, "before": 0})
        assert [row[3] for row in told] == [
            "SEARCH gaps USING PRIMARY KEY ((source,kind,key)>(?,?,?) AND (source,kind,key)<(?,?,?))"
        ]


def test_positions_are_in_the_order_of_the_feed() -> None:
    assert sorted(["10", "9", "0"], key=order) == ["0", "9", "10"]
    assert sorted(["812:4", "99:100", "812:10"], key=order) == ["99:100", "812:4", "812:10"]


async def test_a_writer_keeps_a_part_of_the_disk_free_and_goes_on_when_there_is_room(store: Store) -> None:
    if not isinstance(store, SqliteStore):
        pytest.skip("a server looks after its own disk")
    assert store._writer is not None
    reserve, store._writer._reserve_bytes = store._writer._reserve_bytes, 1 << 62
    with pytest.raises(StoreUnavailable, match="are kept free"):
        await keep(store, item(60))
    store._writer._reserve_bytes = reserve
    await keep(store, item(60))
    assert await store.item(SOURCE, 60) is not None


class Receiver:
    """A webhook's other side: refuses a few posts, then accepts and remembers."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.accepted: list[str] = []
        self.signatures: list[tuple[str, bytes]] = []

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.signatures.append((request.headers[SIGNATURE], body))
        if self.refusals:
            self.refusals -= 1
            raise web.HTTPServiceUnavailable
        self.accepted += [change["key"] for change in json.loads(body)["changes"]]
        return web.Response()


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[TestServer]:
    server = TestServer(app)
    await server.start_server()
    try:
        yield server
    finally:
        await server.close()


async def test_a_webhook_repeats_a_batch_until_it_is_accepted_and_signs_each_post(
    store: Store, mirror: MirrorReader
) -> None:
    receiver, told = Receiver(refusals=2), list[str]()
    app = web.Application()
    app.router.add_post("/hook", receiver.take)
    changes = [change async for change in mirror.changes()]
    async with (
        served(app) as server,
        Webhook(
            str(server.make_url("/hook")), "secret", tell=told.append, wall_s=lambda: 1_000.0, first_wait_s=0
        ) as webhook,
    ):
        await webhook.deliver(changes)
        await webhook.deliver([])
    assert receiver.accepted == [change.key for change in changes]
    assert len(receiver.signatures) == 3
    assert all(header == signature("secret", 1_000, body) for header, body in receiver.signatures)
    assert signature("secret", 1_000, b"x") != signature("other", 1_000, b"x")
    assert told[0].startswith(f"the webhook did not accept {len(changes)} changes (HTTP 503)")


async def test_a_store_that_cannot_be_read_now_is_no_mistake_of_the_program_that_follows(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:  # of an older version: nobody has migrated it yet
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
    app = web.Application()
    app.add_routes(ChangesFeed(f"sqlite:///{tmp_path}/old.db", clock=SystemClock(), stream_ns=1).routes())
    async with served(app) as server, ClientSession() as session:
        reply = await session.get(server.make_url("/api/changes"))
        assert (reply.status, "remora store migrate" in await reply.text()) == (503, True)


async def test_server_sent_events_go_on_after_the_last_position(store: Store, mirror: MirrorReader, url: str) -> None:
    app = web.Application()
    app.add_routes(ChangesFeed(url, clock=SystemClock(), stream_ns=1).routes())
    changes = [change async for change in mirror.changes()]
    async with served(app) as server, ClientSession() as session:
        address = server.make_url("/api/changes")
        first = await (await session.get(address)).text()
        assert [json.loads(line[6:])["key"] for line in first.splitlines() if line.startswith("data: ")] == [
            change.key for change in changes
        ]
        ids = [line[4:] for line in first.splitlines() if line.startswith("id: ")]
        rest = await (await session.get(address, headers={"Last-Event-ID": ids[-3]})).text()
        assert [line[4:] for line in rest.splitlines() if line.startswith("id: ")] == ids[-2:]
        assert "data: " not in await (await session.get(address, params={"since": "now"})).text()
        refused = await session.get(address, params={"since": "yesterday"})
        assert refused.status == 400
        assert "not a position" in (await refused.json())["error"]


async def test_a_stream_ends_whole_when_the_store_fails_and_the_next_one_says_why(store: Store, url: str) -> None:
    if not isinstance(store, SqliteStore):
        pytest.skip("only SQLite has a file to damage")
    app = web.Application()
    app.add_routes(ChangesFeed(url, clock=SystemClock()).routes())
    async with served(app) as server, ClientSession() as session:
        reply = await session.get(server.make_url("/api/changes"), params={"since": "now"})
        assert await reply.content.readuntil(b": alive\n\n")
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("DROP VIEW changes")
        assert b"HTTP/1.1" not in await reply.read()
        assert (await session.get(server.make_url("/api/changes"))).status == 503


async def test_a_console_that_closes_ends_its_streams_whole_and_soon(store: Store, url: str) -> None:
    app, closing_now = web.Application(), asyncio.Event()
    app.add_routes(ChangesFeed(url, clock=SystemClock(), stream_ns=HOUR_NS, closing=closing_now).routes())
    async with served(app) as server, ClientSession() as session:
        reply = await session.get(server.make_url("/api/changes"), params={"since": "now"})
        assert await reply.content.readuntil(b": alive\n\n")
        closing_now.set()
        async with asyncio.timeout(60):
            assert b"data: " not in await reply.read()


async def test_a_position_of_another_kind_of_store_is_refused(url: str, store: Store) -> None:
    async with housekeeping(url) as keeping:
        with pytest.raises(ConfigurationError, match="not a position"):
            await keeping.keep_position("x", "what?", now_ns=1)
