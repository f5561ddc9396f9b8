"""How does a job end when it is asked to? SIGINT, SIGTERM and SIGHUP cancel it; it drains and ends within ten seconds."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from remora.core.errors import Exit
from remora.loops.supervisor import first_of_ours
from remora.operate.observe.logs import tell

DRAIN_MAX_S: Final = 10.0
# New objects between two collections of garbage; Python's own value is 700.
GARBAGE_THRESHOLD: Final = 20_000
# Stopping a whole process group may reach one process twice; signals this close together count as one.
SAME_REQUEST_S: Final = 0.5
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """What the job returned, and whether it was asked to stop. A job that was stopped early may return nothing."""

    result: T | None
    stopped: bool


def run_job(
    job: Coroutine[Any, Any, T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Ended[T]:
    """Run one job to its end or until a signal. Our own errors are raised as themselves, also from task groups."""
    _collect_garbage_rarely()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_until_signal(job))
    except BaseExceptionGroup as group:
        found = first_of_ours(group)
        if found is None:
            raise
        raise found from None


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end work without an event loop as Ctrl-C does, so that it removes what is unfinished."""
    before = {number: signal.signal(number, _interrupt) for number in _signals_to_hear() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _collect_garbage_rarely() -> None:
    """With Python's own thresholds a backfill spends 8 % of its processor time on the search for cycles of garbage.

    Items in progress are many and form no cycles. What is loaded by now stays until the end.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 10, 10)
    gc.enable()  # it is off while modules are loaded


async def _until_signal(job: Coroutine[Any, Any, T]) -> Ended[T]:
    loop = asyncio.get_running_loop()
    task = loop.create_task(job, name="job")
    stopped_s: float | None = None

    def on_signal() -> None:
        nonlocal stopped_s
        if stopped_s is not None:
            if loop.time() - stopped_s >= SAME_REQUEST_S:
                _give_up("asked twice")
            return
        stopped_s = loop.time()
        _say("stopping: finishing what is in flight")
        task.cancel()
        loop.call_later(DRAIN_MAX_S, _give_up, f"still not done after {DRAIN_MAX_S:.0f} s")

    heard = _signals_to_hear()
    for number in heard:
        loop.add_signal_handler(number, on_signal)
    try:
        return Ended(await task, stopped=stopped_s is not None)
    except asyncio.CancelledError:
        if stopped_s is None:
            raise
        return Ended(None, stopped=True)
    finally:
        _restore(loop, heard, ignore=stopped_s is not None)


def _signals_to_hear() -> tuple[signal.Signals, ...]:
    """`nohup` ignores SIGHUP on purpose, so an ignored SIGHUP stays ignored."""
    return tuple(
        number for number in SIGNALS if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    )


def _restore(loop: asyncio.AbstractEventLoop, heard: tuple[signal.Signals, ...], *, ignore: bool) -> None:
    """Handle no more signals. After a stop they are ignored, so that nothing interrupts the last message."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    for number in heard:
        loop.remove_signal_handler(number)
        if ignore:
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _say(words: str) -> None:
    """Print to stderr. A terminal that was closed (SIGHUP) must not keep the job from draining."""
    try:
        tell(words)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nothing, descriptor)


def _give_up(why: str) -> None:
    # What was acknowledged is durable and leases expire by themselves, so leaving now loses nothing.
    _say(f"remora: leaving at once, {why}; the next start resumes")
    os._exit(Exit.FAILED)
