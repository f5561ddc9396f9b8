"""How does a job end when it is asked to? SIGINT and SIGTERM cancel it; it drains and is gone within ten seconds."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from remora.core.errors import Exit, RemoraError

DRAIN_MAX_S: Final = 10.0
# Who stops a whole group of processes may reach one of them twice; signals this close together are one wish.
ONE_WISH_S: Final = 0.5
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """What the job gave back, and whether it was asked to stop. A job stopped early may have nothing to give."""

    result: T | None
    stopped: bool


def run_job(
    job: Coroutine[Any, Any, T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Ended[T]:
    """Run one job to its end or until a signal. Our own errors come out as themselves, also from task groups."""
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_until_signal(job))
    except BaseExceptionGroup as group:
        found = _first_of_ours(group)
        if found is None:
            raise
        raise found from None


async def _until_signal(job: Coroutine[Any, Any, T]) -> Ended[T]:
    loop = asyncio.get_running_loop()
    task = loop.create_task(job, name="job")
    stopped_s: float | None = None

    def on_signal() -> None:
        nonlocal stopped_s
        if stopped_s is not None:
            if loop.time() - stopped_s >= ONE_WISH_S:
                _give_up("asked twice")
            return
        stopped_s = loop.time()
        print("stopping: finishing what is in flight", file=sys.stderr, flush=True)
        task.cancel()
        loop.call_later(DRAIN_MAX_S, _give_up, f"still not done after {DRAIN_MAX_S:.0f} s")

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return Ended(await task, stopped=stopped_s is not None)
    except asyncio.CancelledError:
        if stopped_s is None:
            raise
        return Ended(None, stopped=True)
    finally:
        _let_go(loop, deaf=stopped_s is not None)


def _let_go(loop: asyncio.AbstractEventLoop, *, deaf: bool) -> None:
    """Hear no signals any more. Who was asked once and has ended is not interrupted in saying so."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for number in SIGNALS:
        loop.remove_signal_handler(number)
        if deaf:
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _give_up(why: str) -> None:
    # What was acknowledged is durable and leases run out by themselves, so leaving now loses nothing.
    print(f"remora: leaving at once, {why}; the next start resumes", file=sys.stderr, flush=True)
    os._exit(Exit.FAILED)


def _first_of_ours(group: BaseExceptionGroup[BaseException]) -> RemoraError | None:
    for error in group.exceptions:
        if isinstance(error, RemoraError):
            return error
        if isinstance(error, BaseExceptionGroup) and (inner := _first_of_ours(error)) is not None:
            return inner
    return None
