"""What is the smallest gate a shared home can serve? A pacer that sends whenever it may, without a network."""

import asyncio
from collections.abc import Callable

from remora.contracts import Clock, SharedPace
from remora.core.rate.pacing import Pacer, new_pacer
from remora.core.rate.stretches import Stretch
from remora.gate.shared import SharedHome

LOOK_AGAIN_S = 0.05


class Sender:
    """`contracts.Borrower` with an endless line of requests, or as many as `ready` says."""

    def __init__(self, home: SharedHome, *, interval_ns: int, clock: Clock, ready: int = 1 << 20) -> None:
        self._home = home
        self._clock = clock
        self._news = asyncio.Event()
        self._inside: Stretch | None = None
        self.interval_ns = interval_ns
        self.pacer: Pacer = new_pacer(
            ceiling_interval_ns=interval_ns, interval_ns=interval_ns, now_ns=clock.monotonic_ns()
        )
        self.ready = ready
        self.heard: list[SharedPace] = []
        home.serve(self)

    def demand(self) -> int:
        return self.ready

    def adopt(self, pace: SharedPace) -> None:
        self.heard.append(pace)

    def changed(self) -> None:
        self._news.set()

    def time(self, now_ns: int) -> Stretch | None:
        """The time in which the next request may leave, entered if it is new."""
        stretch = self._home.stretch(self.pacer, now_ns=now_ns)
        if stretch is not None and stretch is not self._inside:
            self._inside = stretch
            self.pacer = self.pacer.starting_at(stretch.starts_ns)
        return stretch

    async def send(self, before_look: Callable[[], None] = lambda: None) -> tuple[int, Stretch]:
        """Wait for the next moment and leave: when, and in which time."""
        while True:
            self._news.clear()
            if self.time(self._clock.monotonic_ns()) is None:
                try:
                    async with asyncio.timeout(LOOK_AGAIN_S):
                        await self._news.wait()
                except TimeoutError:
                    pass
                continue
            await self._clock.sleep_exactly_until(self.pacer.earliest_ns())
            before_look()
            now_ns = self._clock.monotonic_ns()
            stretch = self.time(now_ns)
            if stretch is not None and self.pacer.earliest_ns() <= now_ns:
                before, self.pacer = self.pacer, self.pacer.departed(now_ns=now_ns)
                self._home.departed(stretch, before, now_ns=now_ns)
                return now_ns, stretch

    def on_the_wire(self) -> None:
        """The request has left: whatever held it up counts."""
        self.pacer = self.pacer.sent(now_ns=self._clock.monotonic_ns())
