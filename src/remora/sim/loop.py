"""How can asyncio run without waiting? An event loop whose time jumps to the next timer instead of sleeping until it.

Time is an integer of nanoseconds. Timers that are due at the same moment run in the order in which they were set, and
tasks hash by their number, so the same program does the same thing every time. There are no file descriptors: a socket,
a subprocess or a thread inside this loop is a mistake and raises an error.
"""

import asyncio
import heapq
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from threading import get_ident
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from remora.core.units import DAY_NS, SECOND_NS

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A simulation that runs for longer than this polls for something that never happens.
VIRTUAL_LIMIT_NS: Final = 1_000 * DAY_NS
# So many rounds at one moment: what a crowd of tasks has to do is done in a few hundred.
ROUNDS_AT_ONE_MOMENT_MAX: Final = 100_000
_DEADLOCK_TASKS_SHOWN: Final = 12
_NO_SOCKETS: Final = "real sockets do not exist in simulated time; use the simulated transport"

# The owner of a task. Tasks inherit it from the task that starts them; see `sim.crash`.
OWNER: Final[ContextVar[object]] = ContextVar("OWNER", default=None)


class Deadlock(RuntimeError):
    """Every task is waiting and nothing is scheduled, so time cannot move."""


class RanTooLong(RuntimeError):
    """Virtual time passed its limit: something polls for an event that never happens."""


class Livelock(RuntimeError):
    """Tasks run and run and nobody waits, so time cannot move: a loop that spins."""


class SimTask(asyncio.Task[T]):
    """A task with a stable hash: asyncio keeps tasks in sets, and their order would depend on memory addresses."""

    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: "JumpingLoop",
        number: int,
        context: Context | None,
    ) -> None:
        # Set first: the base class adds the task to a set immediately.
        self._number = number
        self.owner: object = OWNER.get() if context is None else context.get(OWNER)
        super().__init__(coro, loop=loop, name=f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self._number


class _Handle(asyncio.TimerHandle):
    """A call to make, at once or later. A long simulation is millions of them: what only a debugger reads is left out."""

    __slots__ = ()

    _args: Any
    _callback: Any
    _context: Context
    _loop: "JumpingLoop"
    _repr: str | None
    _source_traceback: None
    _when: float

    def __init__(  # the base class asks the loop whether it debugs, once for each call
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "JumpingLoop",
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when_ns / SECOND_NS

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # it may wait in the heap for long


class JumpingLoop(asyncio.BaseEventLoop):
    """Runs what is ready; when nothing is, time jumps to the next timer."""

    def __init__(self, *, limit_ns: int = VIRTUAL_LIMIT_NS) -> None:
        super().__init__()
        self._now_ns = 0
        self._limit_ns = limit_ns
        self._rounds = 0  # since time moved
        self._tasks_made = 0
        self._timers_made = 0
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._ready: Any  # the base class's queue of handles that call_soon fills
        self._stopping: bool
        self._closed: bool
        self._suspended: dict[object, int] = {}  # by owner, until when
        self.set_task_factory(self._make_task)

    @property
    def now_ns(self) -> int:
        """Nanoseconds since the loop was made."""
        return self._now_ns

    def stall(self, for_ns: int) -> None:
        """Suspend the machine: this much time passes and nothing runs."""
        self._now_ns += for_ns

    def suspend(self, owner: object, for_ns: int) -> None:
        """Suspend one process: nothing of it runs for this time, and everything else goes on.

        A shorter time within a longer one changes nothing.
        """
        self._suspended[owner] = max(self._suspended.get(owner, 0), self._now_ns + for_ns)

    def is_suspended(self, owner: object) -> bool:
        """Whether nothing of this process runs now."""
        return self._suspended.get(owner, 0) > self._now_ns

    def time(self) -> float:
        return self._now_ns / SECOND_NS

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at_ns(self._now_ns + max(0, round(delay * SECOND_NS)), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at_ns(round(when * SECOND_NS), callback, *args, context=context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Like `call_at`, exact to the nanosecond."""
        timer = _Handle(when_ns, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when_ns, self._timers_made, timer))
        return timer

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("the simulation is over")
        handle = _Handle(self._now_ns, callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        if not self._ready and not self._stopping:
            self._jump()
            self._rounds = 0
        self._rounds += 1
        if self._rounds > ROUNDS_AT_ONE_MOMENT_MAX:
            self._rounds = 0
            raise Livelock(f"time stands still; {self._who_waits()}")
        timers = self._timers
        ready = self._ready
        while timers and timers[0][0] <= self._now_ns:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled and not (self._suspended and self._put_off(handle)):  # noqa: SLF001  a loop's job
                handle._run()  # noqa: SLF001  running handles is a loop's job

    def _put_off(self, handle: Any) -> bool:
        """Whether the handle belongs to a suspended process; then it runs, in its order, when that goes on."""
        until_ns = self._suspended.get(handle._context.get(OWNER), 0)  # noqa: SLF001  running handles is a loop's job
        if until_ns <= self._now_ns:
            return False
        self._timers_made += 1
        heapq.heappush(self._timers, (until_ns, self._timers_made, handle))
        return True

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is scheduled: {self._who_waits()}")
        self._now_ns = max(self._now_ns, timers[0][0])
        if self._now_ns > self._limit_ns:
            raise RanTooLong(f"{self._limit_ns / DAY_NS:g} simulated days have passed; {self._who_waits()}")

    def _who_waits(self) -> str:
        waiting = sorted(asyncio.all_tasks(self), key=hash)
        shown = "; ".join(f"{task.get_name()} in {_place(task)}" for task in waiting[:_DEADLOCK_TASKS_SHOWN])
        return f"{len(waiting)} tasks: {shown}"

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        context: Context | None = None,
    ) -> SimTask[T]:
        self._tasks_made += 1
        return SimTask(coro, loop=self, number=self._tasks_made, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The base class counts cancelled timers to clean its heap; this loop skips them when they are due."""

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if events._get_running_loop() is not self or get_ident() != self._thread_id:  # type: ignore[attr-defined]  # noqa: SLF001
            raise RuntimeError("another thread called into simulated time; hand the work an inline off-loader instead")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        raise RuntimeError(f"{func!r} was sent to a thread; threads do not exist in simulated time")

    async def create_connection(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(_NO_SOCKETS)

    async def create_server(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(_NO_SOCKETS)

    async def create_datagram_endpoint(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(_NO_SOCKETS)

    def _process_events(self, event_list: list[object]) -> None:
        raise AssertionError("a loop without file descriptors has no events")


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost coroutine in which the task waits."""
    coroutine: Any = task.get_coro()
    while inspect.iscoroutine(getattr(coroutine, "cr_await", None)):
        coroutine = coroutine.cr_await
    frame = getattr(coroutine, "cr_frame", None)
    return f"{coroutine.__qualname__}:{frame.f_lineno}" if frame else "no frame"
