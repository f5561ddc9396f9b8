"""Who reads the status, and how often? All viewers share one reading, at most one a second."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from remora.contracts import Clock
from remora.core.errors import StoreError
from remora.core.status.model import Status
from remora.core.units import SECOND_NS
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.rate_history import RateHistory
from remora.operate.observe.timeline import Timeline

READ_EVERY_NS: Final = SECOND_NS

ReadStatus = Callable[[], Awaitable[Status]]


class StatusCache:
    """The latest status, read again when it is older than a second. Every reading also sets the gauges and the chart."""

    def __init__(self, read: ReadStatus, metrics: Metrics, *, clock: Clock) -> None:
        self._read = read
        self._metrics = metrics
        self._clock = clock
        self.history = RateHistory()
        self.timeline = Timeline()
        self._reading = asyncio.Lock()
        self._latest: Status | None = None
        self._read_at_ns = 0

    async def latest(self) -> Status:
        """The status, at most a second old. Raises `StoreError` while the store does not answer."""
        async with self._reading:
            if self._latest is None or self._clock.monotonic_ns() - self._read_at_ns >= READ_EVERY_NS:
                try:
                    self._latest = await self._read()
                except StoreError:
                    self._metrics.forget()
                    raise
                self._read_at_ns = self._clock.monotonic_ns()
                for name, source in self._latest.sources.items():
                    self._metrics.take(name, source)
                self.history.take(self._latest)
                self.timeline.take(self._latest)
            return self._latest

    async def as_json(self) -> bytes:
        """The status as JSON, or why there is none."""
        try:
            return msgspec.json.encode(await self.latest())
        except StoreError as error:
            return msgspec.json.encode({"schema": 1, "known": False, "reason": error.message, "hint": error.hint})

    def forget(self) -> None:
        """The operator changed something: the next call reads again."""
        self._latest = None
