"""What remains when a process is killed? A generation is one life of a simulated process; a kill is not a cancellation.

A killed process runs no `finally` block. Inside one interpreter these blocks do run, so they must have no effect: the
generation is first marked dead, from then on each of its ports raises `Crashed`, and only then are its tasks cancelled.
Nothing durable can happen between the crash and the next generation.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final, TypeVar, cast

from remora.sim.loop import OWNER, SimTask

Port = TypeVar("Port")
T = TypeVar("T")

# A task that is not done after this many cancellations swallows them; that is a bug in the task.
_CANCELLATIONS_MAX: Final = 100


class Crashed(BaseException):
    """The process is dead. Not an `Exception`, so that `except Exception` does not catch it."""


class Generation:
    """One life of a process.

    `guard` wraps every port (store, transport, clock) of the process. `die_at_call` kills it at its n-th guarded call,
    before the call has any effect; with `after_effect` it dies after the effect and never sees the answer.
    """

    def __init__(self, *, die_at_call: int | None = None, after_effect: bool = False) -> None:
        self.calls = 0
        self.dead = False
        self._die_at_call = die_at_call
        self._after_effect = after_effect
        self._died: asyncio.Event | None = None

    def crash(self) -> None:
        """Die now."""
        self.dead = True
        if self._died is not None:
            self._died.set()

    def die_in(self, calls: int, *, after_effect: bool) -> None:
        """Die at the n-th guarded call from now; zero dies at once."""
        if calls <= 0:
            self.crash()
        self._die_at_call, self._after_effect = self.calls + calls, after_effect

    def check(self) -> None:
        """Raise if the process is dead."""
        if self.dead:
            raise Crashed("this process has been killed")

    def guard(self, port: Port) -> Port:
        """The same port, unusable once the process is dead."""
        return cast("Port", _Guarded(port, self))

    async def live(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the process to its end, or until it dies: then clean up and raise `Crashed`."""
        self._died = asyncio.Event()
        if self.dead:
            self._died.set()
        context = copy_context()
        context.run(OWNER.set, self)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report_the_living)
        process = loop.create_task(main, context=context)
        death = asyncio.ensure_future(self._died.wait())
        try:
            await asyncio.wait({process, death}, return_when=asyncio.FIRST_COMPLETED)
            if not self.dead:
                return await process
            await self._bury()
            raise Crashed("this process has been killed")
        finally:
            death.cancel()
            if not process.done():  # our caller was cancelled: ask the process to stop and let it drain
                process.cancel()
                await asyncio.wait([process])

    async def _bury(self) -> None:
        """End every task of the dead process. Any effect they still attempt fails at a port."""
        for _ in range(_CANCELLATIONS_MAX):
            tasks = [task for task in asyncio.all_tasks() if isinstance(task, SimTask) and task.owner is self]
            if not tasks:
                return
            for task in sorted(tasks, key=hash):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise AssertionError("a task of a dead process swallows its cancellation")

    def enter(self) -> bool:
        """Count a call; True if the process dies after its effect."""
        self.check()
        self.calls += 1
        if self.calls != self._die_at_call:
            return False
        if self._after_effect:
            return True
        self.crash()
        raise Crashed(f"killed before call {self.calls}")

    def leave(self, *, last: bool) -> None:
        """End a call that had its effect; raise instead of answering if the process is dead."""
        if last:
            self.crash()
        self.check()


def _report_the_living(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors that nobody retrieved from a dead process's tasks; report everything else as usual."""
    if not _is_crash(context.get("exception")):
        loop.default_exception_handler(context)


def _is_crash(error: object) -> bool:
    """Whether this is a crash, or a group of crashes and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Crashed)[1] is None
    return isinstance(error, Crashed)


class _Guarded:
    """Passes every call on while the generation lives."""

    def __init__(self, port: object, generation: Generation) -> None:
        self._port = port
        self._generation = generation

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        if not callable(value):
            return value
        guarded = self.__dict__[name] = self._call(value)  # found there from now on: a clock is asked very often
        return guarded

    def _call(self, method: Callable[..., Any]) -> Callable[..., Any]:
        generation = self._generation

        def call(*args: Any, **kwargs: Any) -> Any:
            last = generation.enter()
            result = method(*args, **kwargs)
            if type(result) is int:  # a moment, the most frequent answer
                generation.leave(last=last)
                return result
            if isinstance(result, Awaitable):
                return _awaited(result, generation, last=last)
            if isinstance(result, AsyncIterator):
                return _iterated(result, generation, last=last)
            generation.leave(last=last)
            return result

        return call


async def _awaited(result: Awaitable[T], generation: Generation, *, last: bool) -> T:
    value = await result
    generation.leave(last=last)
    return value


async def _iterated(result: AsyncIterator[T], generation: Generation, *, last: bool) -> AsyncIterator[T]:
    async for value in result:
        generation.leave(last=last)
        yield value
