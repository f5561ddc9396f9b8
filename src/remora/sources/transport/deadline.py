"""Until when may this request take? A deadline that costs nothing to set or to move, because one timer serves them all.

A timer of its own for each phase of each request costs more than the whole gate does at thousands of requests a second.
Here a deadline is a number, and all of them are looked at many times a second while there are any.
"""

import asyncio
from math import inf
from types import TracebackType
from typing import Final, Self

# How much later than its deadline a request may end.
LOOK_EVERY_S: Final = 0.05


class Deadlines:
    """The deadlines of everything one transport has under way."""

    def __init__(self) -> None:
        self._watched: set[Deadline] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> "Deadline":
        """A deadline so far from now; `with` it around what must end by then."""
        return Deadline(self, seconds)

    def watch(self, deadline: "Deadline") -> None:
        """Look at it from now on."""
        self._watched.add(deadline)
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)

    def forget(self, deadline: "Deadline") -> None:
        """It is over, in time or not."""
        self._watched.discard(deadline)

    def _look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for deadline in [each for each in self._watched if each.due_s <= now_s]:
            deadline.end()
        self._next_look = None
        if self._watched:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)


class Deadline:
    """Ends its block with `TimeoutError`, as `asyncio.timeout` would, at most a look later than it is due."""

    __slots__ = ("_among", "_cancellings", "_task", "due_s", "was_missed")

    def __init__(self, among: Deadlines, seconds: float) -> None:
        self._among = among
        self._task: asyncio.Task[object] | None = None
        self._cancellings = 0
        self.was_missed = False
        self.due_s = 0.0
        self.set(seconds)

    def set(self, seconds: float) -> None:
        """So far from now, whatever it was before."""
        self.due_s = asyncio.get_running_loop().time() + seconds

    def pause(self) -> None:
        """Not before it is set again."""
        self.due_s = inf

    def end(self) -> None:
        """It is past: whoever is inside is told."""
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
        # Somebody else may have cancelled the task in the same moment: then that is what counts.
        cancelled_by_others = self._task.uncancel() > self._cancellings
        if kind is asyncio.CancelledError and not cancelled_by_others:
            raise TimeoutError from error
