"""Does what was acknowledged survive, and does one bad write hurt only itself?"""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreError, StoreUnavailable
from remora.core.item import User
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery, FromGap, FromInbox, Kind
from remora.core.ledger.segment import SegmentKind
from remora.core.units import SECOND_NS
from remora.core.verdict import Found
from remora.stores.sqlite import InPlace, SqliteStore
from remora.stores.sqlite.database import Connection, connect_writer, steps_behind
from remora.stores.sqlite.importing import ImportingSqliteStore
from remora.stores.sqlite.offload import InThread
from remora.stores.sqlite.recording import Recorder
from remora.stores.sqlite.writer import BATCH_MAX, Writer
from tests.contract.answers import MISSING, SOURCE, TIMEOUT, at, observed, record, story
from tests.full_disk import files_limited_to

KILLS = 5
IN_FILES, IN_MEMORY = 1, 2  # how SQLite tells where it keeps temporary data
ROOT = Path(__file__).resolve().parent.parent.parent
CHILD = "tests.integration.sqlite_child"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "remora.db"


async def test_a_poison_observation_fails_alone_and_its_batch_mates_are_stored(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    poison = Discovery(Kind.USER, "half \ud800", Lane.UPDATE)
    bad = Observation(poison, Found(User("half \ud800", b"{}")), at(1), at(1))
    results = await asyncio.gather(
        *(record(store, item_id, story(item_id), at_s=1) for item_id in range(50)),
        store.record(SOURCE, bad),
        *(record(store, item_id, story(item_id), at_s=1) for item_id in range(50, 100)),
        return_exceptions=True,
    )
    assert [result for result in results if isinstance(result, Outcome)] == [Outcome.NEW] * 100
    assert isinstance(results[50], StoreError)
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == list(range(100))
    await store.close()


async def test_our_own_mistake_is_raised_as_what_it_is_and_the_writer_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    with pytest.raises(AssertionError):
        await store.record(SOURCE, Observation(Discovery.newest(), Found(story(1)), at(1), at(1)))
    assert await record(store, 1, story(1), at_s=1) is Outcome.NEW
    await store.close()


async def test_a_mistake_that_nobody_thought_of_hurts_only_itself_and_nobody_waits_for_ever(path: Path) -> None:
    writer = Writer(path, InThread())
    await writer.open()

    def blow_up(_: sqlite3.Connection) -> int:
        raise RuntimeError("nobody thought of this")

    async with asyncio.timeout(120):
        results = await asyncio.gather(
            writer.run(blow_up), *(writer.run(lambda _: 1) for _ in range(BATCH_MAX + 10)), return_exceptions=True
        )
    assert isinstance(results[0], RuntimeError)
    assert results[1:] == [1] * (BATCH_MAX + 10)
    await writer.close()


async def test_after_a_restart_with_a_clock_that_was_set_back_by_seconds_no_change_is_taken_for_an_old_one(
    path: Path,
) -> None:
    for text, at_s in (("before", 40), ("after the restart", 10), ("a moment later", 11)):
        store = SqliteStore(path)
        await store.open()
        await store.announce(SOURCE, [(Kind.ITEM, "1")], now_ns=at(at_s))
        (entry,) = await store.waiting(SOURCE, limit=1)
        await record(store, 1, story(1, text=text), at_s=at_s, origin=FromInbox(entry.ticket))
        held = await store.item(SOURCE, 1)
        await store.close()
        assert held is not None
        assert held.body == story(1, text=text).body


@pytest.mark.parametrize("size_kib", [400, 640, 704, 800])
def test_a_new_file_has_all_tables_or_none_whenever_its_first_open_ends(path: Path, size_kib: int) -> None:
    path.touch()
    with files_limited_to(size_kib << 10), suppress(StoreError):
        connect_writer(path).close()
    assert steps_behind(path) == 0, "another process that opens it would tell an upgrade"


async def test_a_full_disk_fails_every_caller_of_the_batch_and_nothing_is_half_written(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await record(store, 0, story(0), at_s=1)
    big = replace(story(1), body=b'{"id":1,"text":"' + b"x" * 2_000_000 + b'"}')
    wal = path.with_name(path.name + "-wal")
    with files_limited_to(wal.stat().st_size + 1_000_000):
        results = await asyncio.gather(
            record(store, 1, big, at_s=2),
            record(store, 2, story(2), at_s=2),
            return_exceptions=True,
        )
    assert [type(result) for result in results] == [StoreUnavailable, StoreUnavailable]
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == [0]
    assert await record(store, 1, big, at_s=2) is Outcome.NEW
    # What never became durable must not refuse an older fetch.
    assert await record(store, 2, story(2), at_s=1) is Outcome.NEW
    await store.close()


async def test_one_of_many_that_cannot_be_stored_is_told_and_its_neighbours_are_stored(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    poison = Discovery(Kind.USER, "half \ud800", Lane.UPDATE)
    bad = Observation(poison, Found(User("half \ud800", b"{}")), at(1), at(1))
    many = [observed(1, Found(story(1)), started_s=1), bad, observed(3, Found(story(3)), started_s=1)]
    with pytest.raises(StoreError, match="cannot be stored"):
        await store.record_many(SOURCE, many)
    assert [item_id async for item_id, _ in store.bodies(SOURCE)] == [1, 3]
    await store.close()


def move(source: Path, target: Path) -> None:
    source.rename(target)


async def test_a_file_that_was_moved_away_is_noticed(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    elsewhere = path.with_name("elsewhere.db")
    move(path, elsewhere)
    with pytest.raises(StoreUnavailable, match="moved or removed"):
        await record(store, 1, story(1), at_s=1)
    move(elsewhere, path)
    assert await record(store, 1, story(1), at_s=1) is Outcome.NEW
    await store.close()


async def test_what_was_accepted_is_written_before_the_store_closes(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    accepted = [asyncio.ensure_future(record(store, item_id, story(item_id), at_s=1)) for item_id in range(2_000)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*accepted) == [Outcome.NEW] * 2_000


async def cancelled_close(store: SqliteStore, path: Path) -> "asyncio.Task[None]":
    """Give up closing while a write waits for another program. Returns the write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.keep_note(SOURCE, "note", 1))
        await asyncio.sleep(0)
        ending = asyncio.create_task(store.close())
        await asyncio.sleep(0.05)
        ending.cancel()
        assert (await asyncio.gather(ending, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    return writing


async def test_closing_again_after_a_cancelled_close_writes_what_was_accepted_and_frees_the_file(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    writing = await cancelled_close(store, path)
    await store.close()
    await writing
    again = SqliteStore(path)
    await again.open()
    assert await again.note(SOURCE, "note") == 1
    await again.close()


async def test_a_store_whose_close_was_cancelled_takes_no_more_work_and_can_be_opened_again(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    writing = await cancelled_close(store, path)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.keep_note(SOURCE, "late", 1)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.note(SOURCE, "note")
    await store.open()
    await writing
    assert await store.note(SOURCE, "note") == 1
    await store.close()


async def test_two_that_close_a_store_at_once_do_not_disturb_each_other(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    accepted = asyncio.create_task(record(store, 1, story(1), at_s=1))
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert await accepted is Outcome.NEW


async def test_a_caller_that_gave_up_disturbs_nobody(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    tasks = [asyncio.ensure_future(record(store, item_id, story(item_id), at_s=1)) for item_id in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result for result in results if isinstance(result, Outcome)] == [Outcome.NEW] * 10
    assert await record(store, 99, story(99), at_s=2) is Outcome.NEW
    await store.close()


async def test_an_advance_never_becomes_durable_before_the_records_it_follows(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.plan(SOURCE, SegmentKind.BACKFILL, [IdRange(1, 100)], now_ns=at(0))
    segment = await store.claim(SOURCE, [SegmentKind.BACKFILL], owner="one", lease_ns=SECOND_NS, now_ns=at(0))
    assert segment is not None
    written = asyncio.gather(*(record(store, item_id, story(item_id), at_s=1) for item_id in range(1, 101)))
    await asyncio.sleep(0)
    assert await store.advance(SOURCE, segment, 100, lease_ns=SECOND_NS, now_ns=at(1))
    reader = SqliteStore(path, read_only=True)
    await reader.open()
    assert len([item_id async for item_id, _ in reader.bodies(SOURCE)]) == 100
    await reader.close()
    await written
    await store.close()


def killed_child(path: Path, *, first_id: int, after_lines: int) -> set[int]:
    """What a child had acknowledged when it was killed in the middle of its work."""
    acknowledged: set[int] = set()
    command = [sys.executable, "-m", CHILD, str(path), str(first_id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.endswith("\n"):  # the last one may be cut off
                acknowledged.add(int(line))
            if len(acknowledged) == after_lines:
                child.kill()
    assert len(acknowledged) >= after_lines
    return acknowledged


@pytest.mark.slow
async def test_after_kill_9_every_acknowledged_observation_is_there_and_the_lock_is_free(path: Path) -> None:
    acknowledged: set[int] = set()
    for kill in range(KILLS):
        acknowledged |= killed_child(path, first_id=max(acknowledged, default=0) + 1, after_lines=500 + 137 * kill)
    store = SqliteStore(path)
    await store.open()
    held = {item_id async for item_id, _ in store.bodies(SOURCE)}
    assert acknowledged <= held
    (gap,) = await store.gaps(SOURCE, limit=1)
    assert gap.key == "0"
    await store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_an_abandoned_store_keeps_what_was_durable_and_can_be_opened_at_once(path: Path) -> None:
    store = SqliteStore(path, offload=InPlace)
    await store.open()
    await record(store, 1, story(1), at_s=1)
    lost = asyncio.ensure_future(record(store, 2, story(2), at_s=1))
    await asyncio.sleep(0)
    store.abandon()
    lost.cancel()
    again = SqliteStore(path, offload=InPlace)
    await again.open()
    assert [item_id async for item_id, _ in again.bodies(SOURCE)] == [1]
    await again.close()


async def test_a_key_that_is_no_number_is_refused_alone(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    odd = Observation(Discovery(Kind.ITEM, "seven", Lane.LIVE), Found(story(7)), at(1), at(1))
    results = await asyncio.gather(
        store.record(SOURCE, odd), record(store, 1, story(1), at_s=1), return_exceptions=True
    )
    assert isinstance(results[0], ValueError)
    assert results[1] is Outcome.NEW
    await store.close()


def test_what_undoes_a_statement_is_kept_in_memory(path: Path) -> None:
    connection = connect_writer(path)
    assert _temporary_data(connection) == IN_MEMORY
    connection.close()


async def test_an_index_of_a_large_mirror_is_sorted_in_files(path: Path) -> None:
    store = ImportingSqliteStore(path)
    await store.open()
    await store.restore_indexes()
    assert await store._write(_temporary_data) == IN_FILES
    await store.close()


def _temporary_data(connection: Connection) -> int:
    (where,) = connection.execute("PRAGMA temp_store").fetchone()
    return int(where)


async def test_a_batch_needs_few_statements_so_that_a_busy_event_loop_cannot_hold_it_up(path: Path) -> None:
    connection = connect_writer(path)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    answers = [(SOURCE, observed(item_id, Found(story(item_id)), started_s=1)) for item_id in range(500)]
    failures = [(SOURCE, observed(item_id, TIMEOUT, started_s=1)) for item_id in range(500, 600)]
    connection.execute("BEGIN IMMEDIATE")
    outcomes = Recorder().record(connection, [*answers, *failures])
    connection.execute("COMMIT")
    connection.close()
    assert outcomes == [Outcome.NEW] * 500 + [Outcome.OWED] * 100
    assert len(statements) < 20


observations_of_a_few = st.builds(
    lambda item_id, said, started_s, later_s, origin: observed(
        item_id,
        Found(story(item_id, text=said)) if isinstance(said, str) else said,
        started_s=started_s,
        done_s=started_s + later_s,
        origin=origin,
    ),
    st.integers(1, 3),
    st.sampled_from(["now", "now", "other", TIMEOUT, MISSING]),
    st.integers(1, 9),
    st.integers(0, 9),
    st.sampled_from([None, None, FromGap("somebody"), FromInbox(1)]),
)
HELD = (
    "SELECT id, hex(body), revision, first_seen_at, last_fetched_at, changed_at FROM items ORDER BY id",
    "SELECT item_id, revision, hex(body) FROM revisions ORDER BY item_id, revision",
    "SELECT key, state, reason, attempts, null_count FROM gaps ORDER BY key",
)


@pytest.mark.slow
@given(st.lists(observations_of_a_few, max_size=7))
def test_a_batch_ends_as_if_each_of_its_observations_were_recorded_alone(
    tmp_path_factory: pytest.TempPathFactory, seen: list[Observation]
) -> None:
    ends = []
    for size in (1, 7):
        path = tmp_path_factory.mktemp("batches") / "remora.db"
        path.touch()
        connection, recorder, outcomes = connect_writer(path), Recorder(), list[Outcome]()
        for first in range(0, len(seen), size):
            connection.execute("BEGIN IMMEDIATE")
            outcomes += recorder.record(connection, [(SOURCE, each) for each in seen[first : first + size]])
            connection.execute("COMMIT")
            recorder.committed()
        told = connection.execute("SELECT key, change FROM changes ORDER BY key, seq").fetchall()
        ends.append((outcomes, told, *(connection.execute(query).fetchall() for query in HELD)))
        connection.close()
    assert ends[0] == ends[1]
