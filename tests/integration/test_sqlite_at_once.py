"""Does the event loop write only what is quick, and leave to the thread what waits for the disk or for another writer?"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreUnavailable
from remora.core.item import Document, Item, Thing, User
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import Found
from remora.stores.sqlite import writer
from remora.stores.sqlite.database import Connection
from remora.stores.sqlite.offload import InThread
from remora.stores.sqlite.writer import AT_ONCE_BYTES, AT_ONCE_S, BATCH_MAX, Writer
from tests.contract.answers import MISSING, SOURCE, at, observed, story

LOOP = threading.main_thread().name
LATER_S = 0.05


class Written:
    """A writer, and which thread ran which statement."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.statements: list[tuple[str, str]] = []

    def note(self, statement: str) -> None:
        self.statements.append((threading.current_thread().name, statement))

    def threads_of(self, beginning: str) -> set[str]:
        return {thread for thread, statement in self.statements if statement.startswith(beginning)}

    async def record(self, first_id: int, count: int = 3) -> Sequence[Outcome]:
        return await self.writer.record_many(SOURCE, items(first_id, count))


def items(first_id: int, count: int) -> list[Observation]:
    return [observed(item_id, Found(story(item_id)), started_s=1) for item_id in range(first_id, first_id + count)]


def of_kind(kind: Kind, key: int, body: bytes) -> Observation:
    things: dict[Kind, Thing] = {
        Kind.ITEM: Item(key, body),
        Kind.DOCUMENT: Document(str(key), body),
        Kind.USER: User(str(key), body),
    }
    return Observation(Discovery(kind, str(key), Lane.DETAIL), Found(things[kind]), at(1), at(1))


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[Written]:
    opened = Writer(tmp_path / "remora.db", InThread())
    await opened.open()
    found = Written(opened)
    assert opened._connection is not None
    opened._connection.set_trace_callback(found.note)
    yield found
    await opened.close()


async def test_what_is_quick_is_recorded_by_the_event_loop(written: Written) -> None:
    assert await written.record(1) == [Outcome.NEW] * 3
    assert written.threads_of("BEGIN") == {LOOP}


async def test_the_event_loop_commits_unless_the_log_begins_anew_which_waits_for_the_disk(written: Written) -> None:
    await written.record(1)
    assert LOOP not in written.threads_of("COMMIT")
    written.statements.clear()
    written.writer._took_s = 0.0  # however busy the machine is
    await written.record(4)
    assert written.threads_of("COMMIT") == {LOOP}


async def test_the_thread_copies_a_long_log_back_and_commits_what_follows(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written.record(1)
    monkeypatch.setattr(writer, "LOG_BYTES_MAX", 0)
    written.statements.clear()
    await written.record(4)
    copying = written.threads_of("PRAGMA wal_checkpoint")
    assert copying
    assert LOOP not in copying
    monkeypatch.undo()
    written.statements.clear()
    await written.record(7)
    assert LOOP not in written.threads_of("COMMIT")


async def test_what_is_durable_is_told_even_if_the_size_of_the_log_cannot_be_read(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> int:
        raise PermissionError

    monkeypatch.setattr(writer, "size_of", fail)
    assert await written.record(1) == [Outcome.NEW] * 3


async def test_a_commit_that_fails_in_the_event_loop_is_tried_again_by_the_thread(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written.record(1)
    commit = Writer._commit

    def fail_in_loop(self: Writer) -> None:
        if threading.current_thread().name == LOOP:
            raise StoreUnavailable("the disk is gone", hint="")
        commit(self)

    monkeypatch.setattr(Writer, "_commit", fail_in_loop)
    assert await written.record(4) == [Outcome.NEW] * 3
    with closing(sqlite3.connect(tmp_path / "remora.db")) as other:
        assert other.execute("SELECT count(*) FROM items").fetchone() == (6,)


async def test_a_commit_that_took_long_leaves_the_next_batch_to_the_thread(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written.record(1)
    commit = Writer._commit

    def commit_slowly(self: Writer) -> None:
        time.sleep(2 * AT_ONCE_S)
        commit(self)

    monkeypatch.setattr(Writer, "_commit", commit_slowly)
    written.writer._took_s = 0.0
    await written.record(4)
    written.statements.clear()
    await written.record(7)
    assert LOOP not in written.threads_of("BEGIN")


async def test_the_batch_after_a_slow_one_is_left_to_the_thread_until_one_is_quick_again(written: Written) -> None:
    written.writer._took_s = 2 * AT_ONCE_S
    assert await written.record(1) == [Outcome.NEW] * 3
    assert LOOP not in written.threads_of("BEGIN")
    written.writer._took_s = 0.0
    assert await written.record(4) == [Outcome.NEW] * 3
    assert LOOP in written.threads_of("BEGIN")


async def test_a_large_batch_is_left_to_the_thread(written: Written) -> None:
    assert await written.record(1, 2 * BATCH_MAX + 1) == [Outcome.NEW] * (2 * BATCH_MAX + 1)
    assert LOOP not in written.threads_of("BEGIN")


@pytest.mark.parametrize("kind", [Kind.ITEM, Kind.DOCUMENT, Kind.USER])
async def test_a_batch_of_large_bodies_is_left_to_the_thread_even_after_a_quick_one(
    written: Written, kind: Kind
) -> None:
    await written.record(1)
    written.statements.clear()
    half = b"x" * (AT_ONCE_BYTES // 2)
    large = [of_kind(kind, key, half) for key in (11, 12, 13)]
    assert await written.writer.record_many(SOURCE, large) == [Outcome.NEW] * 3
    assert LOOP not in written.threads_of("BEGIN")


async def test_light_work_and_answers_without_a_body_do_not_make_a_batch_large(written: Written) -> None:
    absent = observed(7, MISSING, started_s=1)
    asked = written.writer.record(SOURCE, absent), written.writer.run(lambda _: None, is_light=True)
    await asyncio.gather(*asked)
    assert written.threads_of("BEGIN") == {LOOP}


async def test_only_light_work_is_done_by_the_event_loop(written: Written) -> None:
    def work(_: Connection) -> str:
        return threading.current_thread().name

    assert await written.writer.run(work) != LOOP
    assert await written.writer.run(work, is_light=True) == LOOP


async def test_while_somebody_else_writes_the_thread_waits_and_the_event_loop_goes_on(
    written: Written, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "remora.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.ensure_future(written.record(1))
        await asyncio.sleep(LATER_S)
        assert not asked.done()
        other.execute("ROLLBACK")
        assert await asked == [Outcome.NEW] * 3
    waits = {statement for thread, statement in written.statements if thread == LOOP and "timeout" in statement}
    assert waits == {"PRAGMA busy_timeout = 0"}
