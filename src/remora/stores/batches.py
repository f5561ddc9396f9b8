"""When is a write durable? When its batch is committed. Writes that queue up meanwhile form the next batch.

A single write is committed at once, and under load the batches grow. Writes that can wait are committed a few dozen times
a second at most, alone or together with one that cannot: many small batches cost several times as much as a few large ones.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, Generic, NamedTuple, TypeVar

from remora.core.errors import StoreUnavailable
from remora.stores.decisions import OnBatch, is_durable

J = TypeVar("J")

# Callers wait for their own write, so only a faulty caller comes near this limit.
QUEUE_MAX: Final = 100_000


class _Waiting(NamedTuple):
    """Jobs that are written in the same batch, and who waits for their results."""

    jobs: Sequence[Any]
    done: "asyncio.Future[Any]"
    is_one: bool  # the caller gets one result, not a list of them
    can_wait: bool
    names: frozenset[Hashable]  # the `once_each` values


class Batches(Generic[J]):
    """Writes jobs in the order of their arrival, one batch after another."""

    def __init__(
        self,
        write: Callable[[list[J]], Awaitable[Sequence[object]]],
        *,
        batch_max: int,
        once_each: Callable[[J], Hashable] | None = None,
        on_batch: OnBatch | None = None,
        pause_s: float = 0.0,
        enough: int = 1,
    ) -> None:
        """`write` returns one result per job. An exception among them is raised to that job's caller only.

        Jobs with the same `once_each` value never share a batch: the second must see the result of the first.
        Jobs that can wait do so until there are `enough` of them, or `pause_s` after the beginning of the last batch.
        """
        self._write = write
        self._batch_max = batch_max
        self._once_each = once_each
        self._on_batch = on_batch
        self._pause_s = pause_s
        self._enough = enough
        self._pause_ends_s = 0.0
        self._hurry = asyncio.Event()  # a job waits that cannot, or enough others do
        self._queue: deque[_Waiting] = deque()
        self._draining: asyncio.Task[None] | None = None

    def put(self, job: J, *, can_wait: bool = False) -> "asyncio.Future[Any]":
        """Return the job's result once it is durable."""
        return self._join(
            _Waiting((job,), self._new_future(), is_one=True, can_wait=can_wait, names=self._names((job,)))
        )

    def put_many(self, jobs: Sequence[J], *, can_wait: bool = False) -> "asyncio.Future[list[Any]]":
        """Return the results of all these jobs, in order, once they are durable: they share a batch.

        If some of them fail, the others are written, and the caller gets the first error. No two of them may have the
        same `once_each` value.
        """
        names = self._names(jobs)
        assert self._once_each is None or len(names) == len(jobs), "one job twice"
        return self._join(_Waiting(jobs, self._new_future(), is_one=False, can_wait=can_wait, names=names))

    def _names(self, jobs: Sequence[J]) -> frozenset[Hashable]:
        return frozenset() if self._once_each is None else frozenset(map(self._once_each, jobs))

    def _new_future(self) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()

    def _join(self, waiting: _Waiting) -> "asyncio.Future[Any]":
        assert len(self._queue) < QUEUE_MAX, "more writes wait than callers can exist"
        self._queue.append(waiting)
        if not waiting.can_wait or sum(len(each.jobs) for each in self._queue) >= self._enough:
            self._hurry.set()
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="store-writer")
        return waiting.done

    async def finish(self) -> None:
        """Write what was accepted."""
        self._hurry.set()
        while self._draining is not None:
            await asyncio.wait([self._draining])

    def drop(self) -> None:
        """Forget waiting jobs, as a killed process would."""
        self._queue.clear()

    async def _drain(self) -> None:
        now_s = asyncio.get_running_loop().time
        try:
            while self._queue:
                await self._pause(now_s())
                batch = self._take()
                if not batch:
                    continue
                began_s = now_s()
                self._pause_ends_s = began_s + self._pause_s
                try:
                    results = await self._write([job for waiting in batch for job in waiting.jobs])
                except BaseException as error:
                    _fail(batch, error)
                    raise
                _resolve(batch, results)
                if self._on_batch is not None and is_durable(results):
                    self._on_batch(now_s() - began_s)
        finally:
            self._draining = None

    async def _pause(self, now_s: float) -> None:
        """Let more jobs come, as long as all of them can wait."""
        if now_s < self._pause_ends_s and not self._hurry.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_ends_s - now_s):
                    await self._hurry.wait()

    def _take(self) -> list[_Waiting]:
        """The oldest jobs, without those that nobody waits for any more. Jobs that came together stay together."""
        batch: list[_Waiting] = []
        later: list[_Waiting] = []
        names: set[Hashable] = set()
        count = 0
        while self._queue and count < self._batch_max:
            waiting = self._queue.popleft()
            if waiting.done.cancelled():
                continue
            is_later = not names.isdisjoint(waiting.names)
            names |= waiting.names  # also of what is written later: a third job of that name comes after it
            if is_later:
                later.append(waiting)
                continue
            batch.append(waiting)
            count += len(waiting.jobs)
        self._queue.extendleft(reversed(later))
        if all(waiting.can_wait for waiting in self._queue):
            self._hurry.clear()
        return batch


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(
                StoreUnavailable(f"the writer stopped: {type(error).__name__}", hint="open the store again")
            )


def _resolve(batch: Sequence[_Waiting], results: Sequence[object]) -> None:
    assert len(results) == sum(len(waiting.jobs) for waiting in batch), "one result for each job"
    first = 0
    for jobs, done, is_one, _, _ in batch:
        mine = (results[first],) if is_one else results[first : first + len(jobs)]
        first += len(jobs)
        if done.done():
            continue
        if any(map(isinstance, mine, repeat(Exception))):
            error = next(result for result in mine if isinstance(result, Exception))
            done.set_exception(error)
        else:
            done.set_result(mine[0] if is_one else mine)
