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
    job: Any
    done: "asyncio.Future[Any]"


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
        assert len(self._queue) < QUEUE_MAX, "more writes wait than callers can exist"
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._queue.append(_Waiting(job, done))
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
                    results = await self._write([waiting.job for waiting in batch])
                except BaseException as error:
                    _fail(batch, error)
                    raise
                _resolve(batch, results)
                if self._on_batch is not None and is_durable(results):
                    self._on_batch(now_s() - began_s)
        finally:
            self._draining = None

    def _take(self) -> list[_Waiting]:
        """The oldest jobs, without those that nobody waits for any more."""
        if self._once_each is not None:
            return self._take_once_each(self._once_each)
        count = min(len(self._queue), self._batch_max)
        taken = [self._queue.popleft() for _ in range(count)]
        return [waiting for waiting in taken if not waiting.done.cancelled()]

    def _take_once_each(self, once_each: Callable[[J], Hashable]) -> list[_Waiting]:
        batch: dict[Hashable, _Waiting] = {}
        later: list[_Waiting] = []
        while self._queue and len(batch) < self._batch_max:
            waiting = self._queue.popleft()
            if not waiting.done.cancelled() and batch.setdefault(once_each(waiting.job), waiting) is not waiting:
                later.append(waiting)
        self._queue.extendleft(reversed(later))
        return list(batch.values())


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for _, done in batch:
        if not done.done():
            done.set_exception(
                StoreUnavailable(f"the writer stopped: {type(error).__name__}", hint="open the store again")
            )


def _resolve(batch: Sequence[_Waiting], results: Sequence[object]) -> None:
    for (_, done), result in zip(batch, results, strict=True):
        if done.done():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
