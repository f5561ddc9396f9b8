"""Does a job end when it is asked to? By signal, drained, with our own errors as themselves."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from remora.core.errors import StoreBusy
from remora.operate.jobs.stopping import SIGNALS, Ended, run_job


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A job that was stopped leaves the process deaf, which the tests' own process must not stay."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_job_which_drains_and_ends(number: signal.Signals) -> None:
    drained = []

    async def job() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            drained.append(number)

    assert run_job(job()) == Ended(None, stopped=True)
    assert drained == [number]


def test_a_signal_after_the_drain_changes_nothing_any_more() -> None:
    async def job() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    ended = run_job(job())
    for number in SIGNALS:
        os.kill(os.getpid(), number)
    assert ended == Ended(None, stopped=True)


def test_two_signals_at_once_are_one_wish() -> None:
    drained = []

    async def job() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
            drained.append("all")

    assert run_job(job()) == Ended(None, stopped=True)
    assert drained == ["all"]


def test_a_job_that_was_not_asked_to_stop_leaves_the_signals_as_they_are() -> None:
    async def job() -> None:
        pass

    run_job(job())
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_job_may_still_give_its_summary_when_it_is_stopped() -> None:
    async def job() -> str:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half done"
        return "done"

    assert run_job(job()) == Ended("half done", stopped=True)


def test_a_job_that_ends_by_itself_was_not_stopped() -> None:
    async def job() -> int:
        return 3

    assert run_job(job()) == Ended(3, stopped=False)


def test_our_own_error_comes_out_of_a_group_of_tasks_as_itself() -> None:
    async def fails() -> None:
        raise StoreBusy("another process holds the store", hint="stop it first")

    async def job() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    with pytest.raises(StoreBusy, match="stop it first"):
        run_job(job())


def test_a_bug_stays_a_bug() -> None:
    async def job() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        run_job(job())
