"""When is an observation durable? When its batch is committed: whatever queued while one ran is the next.

There is no timer: a lone write is committed at once, and under load the batches grow by themselves.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreError, StoreUnavailable
from remora.stores.decisions import OnBatch, is_durable
from remora.stores.postgres.connections import Connection, Pool
from remora.stores.postgres.faults import BadRow
from remora.stores.postgres.recording import Job, Recorder, name_of

# As many as one transaction can take without making the first caller wait noticeably for the last.
BATCH_MAX: Final = 1_000
# While the server takes one lane's batch, the other lane's is judged.
LANES: Final = 2
# Callers wait for their own write, so only a runaway caller comes near this.
QUEUE_MAX: Final = 100_000


class _Waiting(NamedTuple):
    name: tuple[str, str]
    job: Job
    done: "asyncio.Future[Outcome]"


class Writer:
    """Writes what this process observes. Each key has its lane, so looks at one key keep their order."""

    def __init__(self, pool: Pool, on_batch: OnBatch | None = None) -> None:
        self._pool = pool
        self._lanes = [_Lane(pool, on_batch) for _ in range(LANES)]
        self._closed = False

    def record(self, source: str, observation: Observation) -> "asyncio.Future[Outcome]":
        """The outcome, once it is durable."""
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="open it first")
        job = (source, observation)
        return self._lanes[_lane_of(observation.discovery.key)].record(job)

    async def close(self) -> None:
        """Write what was accepted, then let go."""
        self._closed = True
        for lane in self._lanes:
            await lane.finish()
        await self._pool.close()


def _lane_of(key: str) -> int:
    # Not `hash`: it differs from process to process, and a simulated world must repeat exactly.
    return ord(key[-1]) % LANES if key else 0


class _Lane:
    """Batches that follow one another."""

    def __init__(self, pool: Pool, on_batch: OnBatch | None) -> None:
        self._pool = pool
        self._on_batch = on_batch
        self._recorder = Recorder()
        self._queue: deque[_Waiting] = deque()
        self._draining: asyncio.Task[None] | None = None

    def record(self, job: Job) -> "asyncio.Future[Outcome]":
        """The outcome, once it is durable."""
        assert len(self._queue) < QUEUE_MAX, "more writes wait than callers can exist"
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(name_of(job), job, done))
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="store-writer")
        return done

    async def finish(self) -> None:
        """Write what was accepted."""
        while self._draining is not None:
            await asyncio.wait([self._draining])

    async def _drain(self) -> None:
        now_s = asyncio.get_running_loop().time
        try:
            while self._queue:
                batch = self._take()
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
        """The oldest observations, each key once: the next look at the same key is judged by what this one left."""
        batch: dict[tuple[str, str], _Waiting] = {}
        later: list[_Waiting] = []
        while self._queue and len(batch) < BATCH_MAX:
            waiting = self._queue.popleft()
            if waiting.done.cancelled():  # nobody waits for it any more
                continue
            if batch.setdefault(waiting.name, waiting) is not waiting:
                later.append(waiting)
        self._queue.extendleft(reversed(later))
        return list(batch.values())

    async def _write(self, jobs: Sequence[Job]) -> list[Outcome | Exception]:
        """All in one transaction; when one of them is poison, each in its own."""
        tries = 0

        async def work(connection: Connection) -> list[Outcome]:
            nonlocal tries
            tries += 1
            return await self._recorder.record(connection, jobs, again=tries > 1)

        try:
            return list(await self._pool.run(work))
        except Exception as error:  # noqa: BLE001 - a bad value or our own mistake: told to whoever made it, to nobody else
            if len(jobs) == 1:
                return [error]
            if isinstance(error, StoreError) and not isinstance(error, BadRow):
                return [error] * len(jobs)
            return [result for job in jobs for result in await self._write([job])]


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(
                StoreUnavailable(f"the writer stopped: {type(error).__name__}", hint="open the store again")
            )


def _resolve(batch: Sequence[_Waiting], results: Sequence[Outcome | Exception]) -> None:
    for waiting, result in zip(batch, results, strict=True):
        if waiting.done.done():
            continue
        if isinstance(result, Exception):
            waiting.done.set_exception(result)
        else:
            waiting.done.set_result(result)
