"""How does one process write its observations to PostgreSQL? In two lanes of batches, each batch one transaction."""

import asyncio
from collections.abc import Sequence
from typing import Final

from remora.contracts import Observation, Outcome
from remora.core.errors import StoreError, StoreUnavailable
from remora.core.lanes import PATIENT
from remora.stores.batches import Batches
from remora.stores.decisions import OnBatch
from remora.stores.postgres.connections import Connection, Pool
from remora.stores.postgres.faults import BadRow
from remora.stores.postgres.recording import Job, Recorder, name_of

# As many as fit into one transaction before the first caller notices the wait for the last.
BATCH_MAX: Final = 1_000
# While the server writes one lane's batch, the other lane's batch is judged.
LANES: Final = 2
# Observations that can wait are written when a lane has so many of them, or this long after its last ones; both lanes
# together as in the SQLite store. A transaction takes four round trips, however few items it has.
ENOUGH: Final = 128
PAUSE_S: Final = 0.065
_DIGITS_OF_A_HUNDRED: Final = 2


class Writer:
    """Writes what this process observes. Each key has its lane, so observations of one key keep their order."""

    def __init__(self, pool: Pool, on_batch: OnBatch | None = None) -> None:
        self._pool = pool
        self._lanes = [_Lane(pool, on_batch) for _ in range(LANES)]
        self._closed = False

    def record(self, source: str, observation: Observation) -> "asyncio.Future[Outcome]":
        """The outcome, once it is durable."""
        self._check_open()
        return self._lanes[_lane_of(observation.discovery.key)].batches.put((source, observation))

    async def record_many(self, source: str, observations: Sequence[Observation]) -> list[Outcome]:
        """The same for many. Both lanes write at the same time; the first error is raised when both are done."""
        self._check_open()
        can_wait = PATIENT.issuperset([observation.discovery.via for observation in observations])
        parts: list[list[int]] = [[] for _ in range(LANES)]
        for place, observation in enumerate(observations):
            parts[_lane_of(observation.discovery.key)].append(place)
        writing = [
            lane.batches.put_many([(source, observations[place]) for place in part], can_wait=can_wait)
            for lane, part in zip(self._lanes, parts, strict=True)
            if part
        ]
        outcomes: dict[int, Outcome] = {}
        written = await asyncio.gather(*writing, return_exceptions=True)
        for part, found in zip([part for part in parts if part], written, strict=True):
            if isinstance(found, BaseException):
                raise found
            outcomes.update(zip(part, found, strict=True))
        return [outcomes[place] for place in range(len(observations))]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="open it first")

    async def close(self) -> None:
        """Write what was accepted, then close."""
        self._closed = True
        for lane in self._lanes:
            await lane.batches.finish()
        await self._pool.close()


def _lane_of(key: str) -> int:
    # By hundreds of ids, as in `core.ledger.reads`: two lanes never write the same range. Not by `hash`: it
    # differs from process to process, and a simulated world must repeat exactly.
    return ord(key[-3]) % LANES if len(key) > _DIGITS_OF_A_HUNDRED else 0


class _Lane:
    """Batches one after another, each with a key at most once."""

    def __init__(self, pool: Pool, on_batch: OnBatch | None) -> None:
        self._pool = pool
        self._recorder = Recorder()
        self.batches = Batches(
            self._write, batch_max=BATCH_MAX, once_each=name_of, on_batch=on_batch, pause_s=PAUSE_S, enough=ENOUGH
        )

    async def _write(self, jobs: Sequence[Job]) -> list[Outcome | Exception]:
        """All in one transaction. If one of them has a value that the database refuses, each gets its own."""
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
