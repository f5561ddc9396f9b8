"""How long may this request take? A deadline is free to set or move, because one timer serves them all.

At thousands of requests a second, one timer per phase of each request would cost more than the whole gate. Here a
deadline is a number, and all of them are checked many times a second while there are any.
"""

import asyncio
from math import inf
from types import TracebackType
from typing import Final, Self

# How much later than its deadline a request may end.
LOOK_EVERY_S: Final = 0.05
# A look that comes so late means that this process was stopped. That time is nobody's: what came meanwhile was not read.
LATE_S: Final = LOOK_EVERY_S


class Deadlines:
    """The deadlines of all requests that one transport has in flight."""

    def __init__(self) -> None:
        self._watched: set[Deadline] = set()
        self._next_look: asyncio.TimerHandle | None = None
        self._look_due_s = 0.0

    def within(self, seconds: float) -> "Deadline":
        """A deadline this far from now; use it in a `with` around what must end by then."""
        return Deadline(self, seconds)

    def watch(self, deadline: "Deadline") -> None:
        """Check this deadline from now on."""
        self._watched.add(deadline)
        if self._next_look is None:
            self._look_later()

    def forget(self, deadline: "Deadline") -> None:
        """Stop checking it: the block has ended."""
        self._watched.discard(deadline)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_due_s = loop.time() + LOOK_EVERY_S
        self._next_look = loop.call_at(self._look_due_s, self._look)

    def _look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        stopped_s = now_s - self._look_due_s
        if stopped_s > LATE_S:
            for deadline in self._watched:
                deadline.due_s += stopped_s
        else:
            for deadline in [each for each in self._watched if each.due_s <= now_s]:
                deadline.end()
        self._next_look = None
        if self._watched:
            self._look_later()


class Deadline:
    """Ends its block with `TimeoutError`, as `asyncio.timeout` would, at most one check interval after it is due.

    Time in which this process was stopped does not count.
    """

    __slots__ = ("_among", "_cancellings", "_task", "due_s", "was_missed")

    def __init__(self, among: Deadlines, seconds: float) -> None:
        self._among = among
        self._task: asyncio.Task[object] | None = None
        self._cancellings = 0
        self.was_missed = False
        self.due_s = 0.0
        self.set(seconds)

    def set(self, seconds: float) -> None:
        """Set it this far from now, whatever it was before."""
        self.due_s = asyncio.get_running_loop().time() + seconds

    def pause(self) -> None:
        """No deadline until it is set again."""
        self.due_s = inf

    def end(self) -> None:
        """The deadline has passed: cancel the task inside the block."""
        assert self._task is not None, "a deadline that nobody entered is not watched"
        self.was_missed = True
        self._task.cancel()
        self._among.forget(self)

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a deadline belongs to a task"
        self._task, self._cancellings = task, task.cancelling()
        self._among.watch(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._among.forget(self)
        if not self.was_missed:
            return
        assert self._task is not None, "left without having entered"
        # Somebody else may have cancelled the task at the same moment: then that cancellation counts.
        cancelled_by_others = self._task.uncancel() > self._cancellings
        if kind is asyncio.CancelledError and not cancelled_by_others:
            raise TimeoutError from error
