"""Does every shape of list lose nothing on every store? Faults, kills and changes, on memory, SQLite and PostgreSQL."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from remora.contracts import Store
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response
from remora.stores.memory import MemoryStore
from remora.stores.postgres import PostgresStore
from remora.stores.sqlite import InPlace, SqliteStore
from tests.loops import (
    test_listed_batches,
    test_listed_each,
    test_listed_holes,
    test_listed_parts,
    test_listed_posted,
    test_listed_since,
)
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.loops.outside_store import outside
from tests.loops.test_listed_kills import killed

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@contextmanager
def opened(kind: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    folder: Path = request.getfixturevalue("tmp_path")
    if kind == "memory":
        yield MemoryStore()
        return
    store: Store = SqliteStore(folder / "remora.db", offload=InPlace)
    if kind == "postgres":
        # In service the database's clock judges leases; here the simulated one does.
        store = PostgresStore(request.getfixturevalue("postgres_url"), callers_clock=True)
    with outside(store) as held:
        yield held


async def with_parts(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    rig, archive = test_listed_parts.rig_of(clock, "page", entries=3, comments=14)
    rig.store = store

    async def is_equal() -> bool:
        return await test_listed_parts.held(rig) == test_listed_parts.truth(archive)

    return rig, is_equal


async def for_each(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    rig, workspace = await test_listed_each.rig_of(clock, "offset", channels=3, messages=4, store=store)

    async def is_equal() -> bool:
        return await rig.mirror() == workspace.documents()

    return rig, is_equal


async def in_batches(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    rig, _ = test_listed_batches.rig_of(clock, entries=25)
    rig.store = store
    return rig, rig.is_complete


async def since(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    rig = test_listed_since.rig_of(clock, "cursor", entries=14)
    rig.store = store
    return rig, rig.is_complete


async def in_windows(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    rig = test_listed_since.rig_of(clock, "window", entries=14)
    rig.store = store
    return rig, rig.is_complete


async def posted(clock: SimClock, store: Store) -> tuple[ListedRig, Callable[[], Awaitable[bool]]]:
    detail = test_listed_posted.POSTED
    settings = test_listed_posted.WAYS["page"]
    rig = ListedRig(clock, SmallArchive(14), store, settings=settings, detail=detail, ceiling_ns=SECOND_NS // 50)
    return rig, rig.is_complete


SHAPES = {shape.__name__: shape for shape in (with_parts, for_each, in_batches, since, in_windows, posted)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["memory", "sqlite", POSTGRES])
@pytest.mark.slow
def test_faults_and_kills_lose_nothing(kind: str, shape: str, request: pytest.FixtureRequest) -> None:
    chance = Random(7)

    def hook(_asked: str) -> Response | None:
        return chance.choice([Answer(500, b"{}"), Answer(429, b"{}")]) if chance.random() < 0.1 else None

    async def main(clock: SimClock, store: Store) -> None:
        rig, is_equal = await SHAPES[shape](clock, store)
        rig.archive.hook = hook
        for after_effect in (False, True):
            died = Generation(die_at_call=chance.randrange(15, 45), after_effect=after_effect)
            assert await killed(rig, died), "it is killed in the middle of its work"
            await rig.wait(HOUR_NS)
        await rig.run(RunOptions(force=True))
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert await is_equal()

    with opened(kind, request) as store:
        run(lambda clock: main(clock, store))


@pytest.mark.parametrize("kind", ["memory", "sqlite", POSTGRES])
def test_a_page_that_cannot_be_read_is_owed_across_kills_and_read_in_the_end(
    kind: str, request: pytest.FixtureRequest
) -> None:
    async def main(clock: SimClock, store: Store) -> None:
        settings, failing = test_listed_holes.WAYS["offset"]
        rig = ListedRig(clock, SmallArchive(47), store, settings=settings, ceiling_ns=SECOND_NS // 50)
        rig.archive.hook = lambda asked: test_listed_holes.SPOILED if asked == failing else None
        await killed(rig, Generation(die_at_call=40, after_effect=True))
        await rig.wait(HOUR_NS)
        assert (await rig.run()).unread_pages >= 1
        assert "entries 25 to 34 cannot be read (server_error" in await test_listed_holes.what_is_missing(rig)
        rig.archive.add("new", "c5")
        rig.archive.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).unread_pages == 0
        assert await rig.is_complete()
        assert await store.gaps(NAME) == ()

    with opened(kind, request) as store:
        run(lambda clock: main(clock, store))
