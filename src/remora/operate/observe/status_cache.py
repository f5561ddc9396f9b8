"""Who reads the status, and how often? All viewers share one reading, at most one a second, and none waits long for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from remora.contracts import Clock
from remora.core.errors import StoreError, StoreUnavailable
from remora.core.status.model import Status
from remora.core.units import SECOND_NS
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.rate_history import RateHistory
from remora.operate.observe.timeline import Timeline

READ_EVERY_NS: Final = SECOND_NS
# A server that is silent is given up after most of a minute; whoever scrapes metrics waits 10 s.
ANSWER_WITHIN_S: Final = 5.0

ReadStatus = Callable[[], Awaitable[Status]]


class StatusCache:
    """The latest status, read again when it is older than a second. Every reading also sets the gauges and the chart."""

    def __init__(
        self, read: ReadStatus, metrics: Metrics, *, clock: Clock, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._read = read
        self._metrics = metrics
        self._clock = clock
        self._answer_within_s = answer_within_s
        self.history = RateHistory()
        self.timeline = Timeline()
        self._reading: asyncio.Task[Status] | None = None  # under way; it goes on when those who waited have left
        self._latest: Status | None = None
        self._read_at_ns = 0

    async def latest(self) -> Status:
        """The status, at most a second old. Raises `StoreError` while the store does not answer, or not soon."""
        if self._latest is not None and self._clock.monotonic_ns() - self._read_at_ns < READ_EVERY_NS:
            return self._latest
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_anew(), name="status")
            self._reading.add_done_callback(_heard)
        reading = self._reading
        await asyncio.wait((reading,), timeout=self._answer_within_s)
        if reading.done():
            return reading.result()
        self._metrics.forget()
        raise StoreUnavailable(
            f"the store has not answered for {self._answer_within_s:g} s",
            hint="check the store and its disk or server; a running Remora goes on by itself when it answers",
        )

    async def _read_anew(self) -> Status:
        try:
            status = self._latest = await self._read()
        except StoreError:
            self._metrics.forget()
            raise
        finally:
            self._reading = None
        self._read_at_ns = self._clock.monotonic_ns()
        for name, source in status.sources.items():
            self._metrics.take(name, source)
        self.history.take(status)
        self.timeline.take(status)
        return status

    async def close(self) -> None:
        """End a reading that is under way. Before the store is closed."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def as_json(self) -> bytes:
        """The status as JSON, or why there is none."""
        try:
            return msgspec.json.encode(await self.latest())
        except StoreError as error:
            return msgspec.json.encode({"schema": 1, "known": False, "reason": error.message, "hint": error.hint})

    def forget(self) -> None:
        """The operator changed something: the next call reads again."""
        self._latest = None


def _heard(reading: asyncio.Task[Status]) -> None:
    """A failure that came after everybody had left is no surprise."""
    if not reading.cancelled():
        reading.exception()
