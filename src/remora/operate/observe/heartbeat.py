"""How do other processes know that this one is alive? One small snapshot a second, written into the store."""

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock, Notes
from remora.core.errors import StoreError
from remora.core.repeats import Repeats
from remora.core.status.readout import BEAT_NS
from remora.core.status.snapshot import Snapshot

log = structlog.get_logger()

# A reason to end is one short phrase.
BECAUSE_CHARACTERS_MAX: Final = 200


class Heart:
    """Stores heartbeats of one process until it is cancelled. `snapshot` must be cheap and must not wait."""

    def __init__(self, runtime: str, store: Notes, snapshot: Callable[[], Snapshot], *, clock: Clock) -> None:
        self._runtime = runtime
        self._store = store
        self._snapshot = snapshot
        self._clock = clock
        self._missed = Repeats()

    async def run(self) -> None:
        """Store a heartbeat once a second. If the store is down, heartbeats are lost and the process goes on."""
        while True:
            next_ns = self._clock.monotonic_ns() + BEAT_NS
            try:
                await self.run_once()
            except StoreError as error:
                if self._missed.is_worth_telling(now_ns=self._clock.monotonic_ns()):
                    log.warning("heartbeat_missed", why=error.message, missed=self._missed.failures)
            else:
                if missed := self._missed.over():
                    log.warning("heartbeat_stored_again", missed=missed)
            await self._clock.sleep_until(next_ns)

    async def run_once(self) -> None:
        """Store one heartbeat."""
        await self._beat(self._snapshot())

    async def say_goodbye(self, because: str) -> None:
        """Store the last heartbeat: it says that we ended on purpose, and why."""
        ended = msgspec.structs.replace(
            self._snapshot(), ended_at_ns=self._clock.wall_ns(), ended_because=because[:BECAUSE_CHARACTERS_MAX]
        )
        await self._beat(ended)

    async def _beat(self, snapshot: Snapshot) -> None:
        await self._store.beat(self._runtime, msgspec.to_builtins(snapshot), now_ns=self._clock.wall_ns())
