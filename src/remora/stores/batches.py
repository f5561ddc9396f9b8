"""When is a write durable? When its batch is committed. Writes that queue up meanwhile form the next batch.

There is no timer: a single write is committed at once, and under load the batches grow.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
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


class Batches(Generic[J]):
    """Writes jobs in the order of their arrival, one batch after another."""

    def __init__(
        self,
        write: Callable[[list[J]], Awaitable[Sequence[object]]],
        *,
        batch_max: int,
        once_each: Callable[[J], Hashable] | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        """`write` returns one result per job. An exception among them is raised to that job's caller only.

        Jobs with the same `once_each` value never share a batch: the second must see the result of the first.
        """
        self._write = write
        self._batch_max = batch_max
        self._once_each = once_each
        self._on_batch = on_batch
        self._queue: deque[_Waiting] = deque()
        self._draining: asyncio.Task[None] | None = None

    def put(self, job: J) -> "asyncio.Future[Any]":
        """Return the job's result once it is durable."""
        return self._join((job,), is_one=True)

    def put_many(self, jobs: Sequence[J]) -> "asyncio.Future[list[Any]]":
        """Return the results of all these jobs, in order, once they are durable: they share a batch.

        If some of them fail, the others are written, and the caller gets the first error. No two of them may have the
        same `once_each` value.
        """
        assert self._once_each is None or len(set(map(self._once_each, jobs))) == len(jobs), "one job twice"
        return self._join(jobs, is_one=False)

    def _join(self, jobs: Sequence[J], *, is_one: bool) -> "asyncio.Future[Any]":
        assert len(self._queue) < QUEUE_MAX, "more writes wait than callers can exist"
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._queue.append(_Waiting(jobs, done, is_one))
        if self._draining is None:
            self._draining = loop.create_task(self._drain(), name="store-writer")
        return done

    async def finish(self) -> None:
        """Write what was accepted."""
        while self._draining is not None:
            await asyncio.wait([self._draining])

    def drop(self) -> None:
        """Forget waiting jobs, as a killed process would."""
        self._queue.clear()

    async def _drain(self) -> None:
        now_s = asyncio.get_running_loop().time
        try:
            while self._queue:
                batch = self._take()
                if not batch:
                    continue
                began_s = now_s()
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
            if self._once_each is not None:
                mine = set(map(self._once_each, waiting.jobs))
                is_later = not names.isdisjoint(mine)
                names |= mine  # also of what is written later: a third job of that name comes after it
                if is_later:
                    later.append(waiting)
                    continue
            batch.append(waiting)
            count += len(waiting.jobs)
        self._queue.extendleft(reversed(later))
        return batch


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for _, done, _ in batch:
        if not done.done():
            done.set_exception(
                StoreUnavailable(f"the writer stopped: {type(error).__name__}", hint="open the store again")
            )


def _resolve(batch: Sequence[_Waiting], results: Sequence[object]) -> None:
    assert len(results) == sum(len(waiting.jobs) for waiting in batch), "one result for each job"
    first = 0
    for jobs, done, is_one in batch:
        mine = (results[first],) if is_one else results[first : first + len(jobs)]
        first += len(jobs)
        if done.done():
            continue
        error = None
        for result in mine:
            if isinstance(result, Exception):
                error = result
                break
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(mine[0] if is_one else mine)
