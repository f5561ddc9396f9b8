"""Which loops are restarted after a failure? A retryable failure restarts its loop; any other stops all loops.

What a provider does is a value and never gets here. What gets here is an error of the store, which may pass, or a bug,
which only a person or a new process can repair. An `OSError` counts as a bug: every adapter handles its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from remora.contracts import Clock
from remora.core.errors import RemoraError, StoreError
from remora.core.repeats import Repeats
from remora.core.status.snapshot import LoopFacts
from remora.core.units import MINUTE_NS, SECOND_NS

log = structlog.get_logger()

T = TypeVar("T")
Run = Callable[[], Awaitable[None]]

RESTART_FIRST_NS: Final = SECOND_NS
RESTART_MAX_NS: Final = MINUTE_NS
# A loop that ran this long has recovered: its next failure starts with the shortest delay again.
WELL_AFTER_NS: Final = 5 * MINUTE_NS
# Releasing leases takes milliseconds. A store that hangs must not keep the process from ending.
STOP_MAX_S: Final = 8.0


def is_retryable(error: BaseException) -> bool:
    """Whether the same work may succeed in a moment. A group is retryable when every error in it is."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_retryable(leaf) for leaf in error.exceptions)
    return isinstance(error, RemoraError) and error.retryable


def first_leaf(error: BaseException, *, retryable: bool = False) -> BaseException:
    """The error to show for a group: the first that is (or is not) worth a retry."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first_leaf(leaf, retryable=retryable) for leaf in error.exceptions]
    return next((leaf for leaf in leaves if is_retryable(leaf) == retryable), leaves[0])


def first_of_ours(error: BaseException) -> RemoraError | None:
    """Our own error, also from groups of tasks; None if it is a bug."""
    if isinstance(error, RemoraError):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for leaf in inner if (found := first_of_ours(leaf)) is not None), None)


def restart_delay_ns(failures: int) -> int:
    """The delay before a restart after this many failures in a row (at least 1)."""
    assert failures >= 1, f"{failures} failures"
    return min(RESTART_MAX_NS, RESTART_FIRST_NS << min(failures - 1, RESTART_MAX_NS.bit_length()))


def pass_on_cancellation() -> None:
    """Stop if this task was cancelled while a task group failed: the group raises the failure and forgets the cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def until_it_works(call: Callable[[], Awaitable[T]], *, clock: Clock, what: str) -> T:
    """Repeat a store call until the store answers, so that nothing in memory is lost. Other errors are raised."""
    repeats = Repeats()
    while True:
        try:
            result = await call()
        except RemoraError as error:
            if not error.retryable:
                raise
            if repeats.is_worth_telling(now_ns=clock.monotonic_ns()):
                log.warning("store_awaited", what=what, error=type(error).__name__, failures=repeats.failures)
        else:
            if failures := repeats.over():
                log.info("store_answers_again", what=what, failures=failures)
            return result
        await clock.sleep_until(clock.monotonic_ns() + restart_delay_ns(repeats.failures))


@dataclass(slots=True)
class _Life:
    """One loop: whether it runs, and how often it was restarted."""

    alive: bool = False
    restarts: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    last_error: str | None = None


class Supervisor:
    """Runs named loops until one fails for good or all are cancelled."""

    def __init__(self, loops: Mapping[str, Run], *, clock: Clock) -> None:
        assert loops, "nothing to supervise"
        self._loops = loops
        self._clock = clock
        self._lives = {name: _Life() for name in loops}
        self._stopping = False

    async def run(self) -> None:
        """Run until all loops have finished, one fails for good (its error is raised), or the caller cancels."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._keep(name, run), name=f"loop:{name}") for name, run in self._loops.items()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._stopping = True
            await _stop(tasks)
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def state(self) -> dict[str, LoopFacts]:
        """The state of every loop, for the status."""
        return {name: LoopFacts(life.alive, life.restarts, life.last_error) for name, life in self._lives.items()}

    async def _keep(self, name: str, run: Run) -> None:
        life = self._lives[name]
        while True:
            started_ns = self._clock.monotonic_ns()
            life.alive = True
            try:
                return await run()
            except Exception as error:
                leaf = first_leaf(error)
                kind = type(leaf).__name__
                # The words of our own error help its reader. The text of another one may quote an item's content.
                life.last_error = leaf.message if isinstance(leaf, StoreError) else kind
                if self._stopping:
                    # The store failed while leases were released. They expire by themselves; nothing is restarted now.
                    log.warning("loop_stopped_badly", loop=name, error=kind)
                    return None
                if not is_retryable(error):
                    log.error("loop_failed", loop=name, error=kind)  # noqa: TRY400 - the caller has the rest
                    if leaf is error:
                        raise
                    raise leaf from None
                if self._clock.monotonic_ns() - started_ns >= WELL_AFTER_NS:
                    life.repeats.over()
                life.restarts += 1
            finally:
                life.alive = False
            now_ns = self._clock.monotonic_ns()
            if life.repeats.is_worth_telling(now_ns=now_ns):
                log.warning("loop_restarts", loop=name, error=kind, failures=life.repeats.failures)
            await self._clock.sleep_until(now_ns + restart_delay_ns(life.repeats.failures))


async def _stop(tasks: list["asyncio.Task[None]"]) -> None:
    """Cancel the loops and wait for a bounded time."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=STOP_MAX_S)
    if left:
        log.error("loops_left_behind", loops=sorted(task.get_name() for task in left))
