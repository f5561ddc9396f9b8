"""How often does a batch wait for the server, and what happens if something of what was sent together fails?"""

import asyncio
import select
import socket
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.waiting import Ready, Wait

from remora.contracts import Outcome
from remora.core.errors import StoreError
from remora.core.verdict import Found
from remora.stores.postgres import PostgresStore
from remora.stores.postgres.connections import (
    Connection,
    Pool,
    connect,
    rolling_back,
    sent_at_once,
)
from tests.contract.answers import SOURCE, TIMEOUT, observed, story
from tests.integration.test_postgres_sharing import several

pytestmark = pytest.mark.postgres

# Begin and read; COPY; its end; the feed and commit.
ROUND_TRIPS = 4
REFUSING = """
CREATE SEQUENCE tries;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('tries') <= {times} THEN
    RAISE EXCEPTION 'refused' USING ERRCODE = '{code}';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refusing BEFORE INSERT ON changes FOR EACH STATEMENT EXECUTE FUNCTION refuse();
"""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'remora' AND datname = current_database()"


async def put(store: PostgresStore, count: int) -> Sequence[Outcome]:
    return await store.record_many(SOURCE, [observed(n, Found(story(n)), started_s=1) for n in range(count)])


async def test_a_batch_of_new_items_waits_for_the_server_four_times(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with several(postgres_url, 1) as (store,):
        await put(store, 20)  # opens the connection
        waits: list[int] = []
        loop = asyncio.get_running_loop()
        watch = loop.add_reader

        def watching(descriptor: int, *arguments: Any) -> None:
            waits.append(descriptor)
            watch(descriptor, *arguments)

        monkeypatch.setattr(loop, "add_reader", watching)
        answers = [observed(n, Found(story(n)), started_s=1) for n in range(1_000, 1_100)]
        assert await store.record_many(SOURCE, answers) == [Outcome.NEW] * 100
        assert len(waits) <= ROUND_TRIPS


@pytest.mark.parametrize("code, times", [("40001", 1), ("40P01", 3)])
async def test_a_conflict_in_what_is_sent_together_is_tried_again_on_the_same_connection(
    postgres_url: str, code: str, times: int
) -> None:
    async with several(postgres_url, 1) as (store,):
        await put(store, 5)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(REFUSING.format(code=code, times=times).encode())
            before = connection.execute(SESSIONS).fetchall()
            answers = [observed(n, Found(story(n)), started_s=1) for n in range(100, 200)]
            assert await store.record_many(SOURCE, answers) == [Outcome.NEW] * 100
            assert set(connection.execute(SESSIONS).fetchall()) == set(before)
            assert connection.execute("SELECT count(*) FROM stored_items").fetchone() == (105,)
            assert connection.execute("SELECT count(*) FROM changes").fetchone() == (105,)


async def test_what_the_server_refuses_in_what_is_sent_together_leaves_nothing_half_written(postgres_url: str) -> None:
    async with several(postgres_url, 1) as (store,):
        await put(store, 5)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(REFUSING.format(code="22003", times=10**6).encode())
            answers = [observed(n, Found(story(n)), started_s=1) for n in range(100, 110)]
            failures = [observed(n, TIMEOUT, started_s=1) for n in range(110, 113)]
            told = await asyncio.gather(
                *(store.record(SOURCE, each) for each in [*answers, *failures]), return_exceptions=True
            )
            assert [type(each).__name__ for each in told] == ["BadRow"] * 10 + ["Outcome"] * 3
            assert all("22003" in str(each) for each in told if isinstance(each, StoreError))
            assert connection.execute("SELECT count(*) FROM stored_items").fetchone() == (5,)
            assert connection.execute("SELECT count(*) FROM gaps").fetchone() == (3,)
            connection.execute("DROP TRIGGER refusing ON changes")
            assert await store.record_many(SOURCE, answers) == [Outcome.NEW] * 10


async def test_a_batch_that_is_cancelled_anywhere_is_recorded_whole_or_not_at_all(postgres_url: str) -> None:
    async with several(postgres_url, 1) as (store,):
        await put(store, 5)
        for turn in range(40):
            first = 1_000 * (turn + 1)
            answers = [observed(n, Found(story(n)), started_s=1) for n in range(first, first + 50)]
            recording = asyncio.ensure_future(store.record_many(SOURCE, answers))
            await asyncio.sleep(turn * 0.0003)
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            assert await store.record_many(SOURCE, answers) in ([Outcome.NEW] * 50, [Outcome.UNCHANGED] * 50)


async def test_what_is_sent_together_may_take_as_long_as_if_it_were_sent_alone(postgres_url: str) -> None:
    connection = await connect(postgres_url)
    connection.answers_within_s = 1.0
    await connection.in_one_round_trip([(b"SELECT pg_sleep(0.6)", None)] * 3)
    with pytest.raises(psycopg.OperationalError):
        await connection.in_one_round_trip([(b"SELECT pg_sleep(60)", None)])
    await connection.close()


@pytest.mark.parametrize("again_s", [0.0, 0.001, 0.01])
async def test_an_order_to_stop_that_is_repeated_is_obeyed_and_the_work_is_not(
    postgres_url: str, again_s: float
) -> None:
    pool, runs = Pool(postgres_url, size=1), list[int]()

    async def work(connection: Connection) -> str:
        runs.append(1)
        async with rolling_back(connection):
            await connection.in_one_round_trip([(b"BEGIN", None), (b"SELECT pg_sleep(1)", None), (b"COMMIT", None)])
        return "done"

    working = asyncio.ensure_future(pool.run(work))
    await asyncio.sleep(0.3)
    working.cancel()
    await asyncio.sleep(again_s)
    working.cancel()
    (end,) = await asyncio.gather(working, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError)
    assert runs == [1]
    assert await pool.run(answer) == 1
    await pool.close()


async def answer(connection: Connection) -> int:
    (found,) = await connection.in_one_round_trip([(b"SELECT 1", None)])
    row = await found.fetchone()
    assert row is not None
    return int(row[0])


def test_what_can_be_sent_is_sent_without_a_turn_of_the_event_loop() -> None:
    asked: list[object] = []

    def talking() -> Generator[Wait, Ready | int, str]:
        asked.extend([(yield Wait.RW), (yield Wait.W), (yield Wait.R), (yield Wait.RW)])
        return "done"

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(b"x")  # what has come is read later
        talk = sent_at_once(talking(), ours.fileno())
        assert next(talk) == Wait.R
        while select.select([], [ours], [], 0)[1]:
            ours.send(b"x" * 65_536)
        assert talk.send(Ready.R) == Wait.RW  # nothing more fits: only the event loop can wait
        with pytest.raises(StopIteration, match="done"):
            talk.send(Ready.RW)
        assert asked == [Ready.W, Ready.W, Ready.R, Ready.RW]


async def test_a_connection_that_was_closed_says_so(postgres_url: str) -> None:
    connection = await connect(postgres_url)
    await connection.close()
    with pytest.raises(psycopg.OperationalError):
        await connection.execute("SELECT 1")
