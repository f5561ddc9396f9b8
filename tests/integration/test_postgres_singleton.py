"""Is there exactly one, also when that one dies or freezes?"""

import asyncio
import time
from pathlib import Path

import psycopg
import pytest

from remora.core.errors import StoreUnavailable
from remora.core.units import SECOND_NS
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import Singleton, migrate
from remora.stores.postgres.singleton import Superseded
from tests.integration.postgres_processes import Event, Fleet
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

WAIT_S = 120.0  # only guards against processes that hang; simulated time tests the fifteen seconds


@pytest.fixture
async def url(postgres_url: str) -> str:
    await migrate(postgres_url)
    return postgres_url


def one(url: str, owner: str) -> Singleton:
    return Singleton(url, "stream:hackernews", owner=owner, clock=SystemClock())


def test_nobody_holds_it_before_taking_it(url: str) -> None:
    first = one(url, "first")
    assert not first.holds()
    assert first.fence is None
    with pytest.raises(Superseded):
        first.check()


async def test_only_one_can_take_it_and_a_release_lets_the_next_one_in_at_once(url: str) -> None:
    first, second = one(url, "first"), one(url, "second")
    assert await first.take()
    assert not await second.take()
    assert await first.beat()
    first.check()
    first_fence = first.fence
    await first.release()
    assert not first.holds()
    assert await second.take()
    assert first_fence is not None
    assert second.fence == first_fence + 1
    await second.release()


async def test_mirrors_in_two_schemas_of_one_database_have_a_holder_each(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("CREATE SCHEMA mirror")
    beside = f"{url}?options=-csearch_path%3Dmirror"
    await migrate(beside)
    here, there, waiting = one(url, "here"), one(beside, "there"), one(beside, "waiting")
    assert await here.take()
    assert await there.take()
    assert not await waiting.take()
    await there.release()
    assert await waiting.take()
    for each in (here, waiting):
        await each.release()


async def test_a_database_that_does_not_tell_who_holds_it_is_remembered_until_it_does(
    url: str, postgres_server: PostgresServer
) -> None:
    postgres_server.command("CREATE ROLE eve LOGIN CONNECTION LIMIT 0")
    try:
        await migrate(url, grant_to="eve")
        first, second = one(url, "first"), one(url.replace("remora@", "eve@"), "second")
        assert await first.take()
        with pytest.raises(StoreUnavailable, match="no free connection"):
            await second.take()
        assert "no free connection" in str(second.unanswered)
        postgres_server.command("ALTER ROLE eve CONNECTION LIMIT -1")
        assert not await second.take()
        assert second.unanswered is None
        for each in (first, second):
            await each.release()
    finally:
        with psycopg.connect(url, autocommit=True) as operator:
            operator.execute("DROP OWNED BY eve")
        postgres_server.drop_role("eve")


async def test_a_holder_whose_session_was_cut_keeps_its_lease_if_it_comes_back_in_time(url: str) -> None:
    first = one(url, "first")
    assert await first.take()
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert first.holds()
    with pytest.raises(StoreUnavailable):
        await first.beat()
    assert await first.beat()
    await first.release()


async def test_a_holder_that_was_replaced_learns_it_with_its_next_heartbeat(url: str) -> None:
    first = one(url, "first")
    assert await first.take()
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("UPDATE singletons SET fence = fence + 1")
    assert not await first.beat()
    assert not first.holds()
    await first.release()


async def test_the_work_runs_once_and_its_result_comes_back(url: str) -> None:
    async def work(alone: Singleton) -> str:
        alone.check()
        return "done"

    assert await one(url, "first").run(work) == "done"
    assert await one(url, "second").run(work) == "done"


def acts(fleet: Fleet, worker: int) -> list[Event]:
    return fleet.events("acted", worker=worker)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_and_a_frozen_holder_are_replaced_and_never_overlap(url: str, tmp_path: Path) -> None:
    with Fleet(url, tmp_path) as fleet:
        killed = fleet.start("singleton")
        fleet.wait_for("took", after_ns=0, timeout_s=WAIT_S)
        frozen = fleet.start("singleton")
        time.sleep(0.5)
        assert acts(fleet, frozen) == []
        fleet.kill(killed)
        killed_at_ns = time.monotonic_ns()
        taken = fleet.wait_for("took", after_ns=killed_at_ns, timeout_s=WAIT_S)
        assert taken.worker == frozen

        last = fleet.start("singleton")
        fleet.freeze(frozen)
        frozen_at_ns = time.monotonic_ns()
        taken = fleet.wait_for("took", after_ns=frozen_at_ns, timeout_s=WAIT_S)
        assert taken.worker == last
        fleet.wake(frozen)
        woken_at_ns = time.monotonic_ns()
        after = fleet.wait_for("acted", after_ns=woken_at_ns + SECOND_NS, timeout_s=WAIT_S)
        assert after.worker == last
    assert [event for event in acts(fleet, frozen) if event.at_ns >= frozen_at_ns] == []
    for earlier, later in ((killed, frozen), (frozen, last)):
        assert acts(fleet, earlier)[-1].at_ns < acts(fleet, later)[0].at_ns


async def test_work_goes_on_while_the_database_refuses_for_a_moment(url: str) -> None:
    first = one(url, "first")
    begun, done = asyncio.Event(), asyncio.Event()

    async def work(_: Singleton) -> int:
        begun.set()
        await done.wait()
        return 7

    working = asyncio.ensure_future(first.run(work))
    await begun.wait()
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("ALTER TABLE singletons RENAME TO elsewhere")
        await asyncio.sleep(3)  # at least one heartbeat is refused
        operator.execute("ALTER TABLE elsewhere RENAME TO singletons")
    assert not working.done()
    await asyncio.sleep(3)
    assert first.holds()
    done.set()
    assert await working == 7
