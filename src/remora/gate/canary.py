"""When is a canary sent? At once when the gate suspects an outage, and as the probe while the circuit is open.

There is one at a time. The gate does not know what is good; the code that fetches items does (`CanaryMaker`).
"""

import asyncio
from collections.abc import Callable, Coroutine

from remora.core.rate.attribution import CANARY_PATIENCE_S
from remora.gate.circuit_breaker import SourceBreaker

# Makes a request for something known to be good, through the gate; None: nothing is known to be good.
CanaryMaker = Callable[[], Coroutine[None, None, None] | None]


class Canaries:
    """The canaries of one gate."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._make: CanaryMaker | None = None
        self._task: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._has_left = False
        self._is_called_off = False  # by the gate, because it is not needed
        self._closed = False
        self._circuit: SourceBreaker | None = None
        self._error: BaseException | None = None

    def serve(self, circuit: SourceBreaker) -> None:
        """Work for this circuit from now on."""
        self._circuit = circuit

    def made_by(self, make: CanaryMaker) -> None:
        """Use this function to make canaries."""
        self._make = make

    @property
    def blame_items(self) -> bool:
        """Whether trouble counts as bad items for now: the last canary was answered well."""
        return self._breaker.blames_items

    @property
    def will_probe(self) -> bool:
        """Whether the circuit is not closed, and a canary waits to be the probe."""
        return self._task is not None and not self._has_left and self._breaker.down is not None

    @property
    def _breaker(self) -> SourceBreaker:
        assert self._circuit is not None, "canaries that serve no circuit"
        return self._circuit

    def send(self) -> bool:
        """Send one, unless one is already under way. False: nothing is known to be good."""
        if self._task is not None:
            return True
        request = None if self._make is None or self._closed else self._make()
        if request is None:
            return False
        self._has_left = self._is_called_off = False
        self._task = asyncio.get_running_loop().create_task(request, name=f"canary:{self._source}")
        self._task.add_done_callback(self._is_over)
        return True

    def ask_whether_it_answers(self) -> None:
        """A stream stays broken, and perhaps nothing else is asked: find out whether the provider is down."""
        self._breaker.suspect_outage()

    def tend(self) -> None:
        """While the circuit is open, let a canary wait for the end of the cool-down; cancel one that is not needed."""
        if self._breaker.wants_canary:
            self.send()
        elif self._task is not None and not self._has_left:
            self._is_called_off = True
            self._task.cancel()

    def departed(self) -> None:
        """The canary was sent: wait for its answer from now on."""
        self._has_left = True
        self._patience = asyncio.get_running_loop().call_later(CANARY_PATIENCE_S, self._breaker.canary_is_late)

    async def close(self) -> None:
        """Send no more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._patience is not None:
            self._patience.cancel()
        self._breaker.canary_is_lost()  # no effect if it was answered
        self._error = None if task.cancelled() else task.exception()
        # If somebody else cancelled it, the process is ending: the next one would be cancelled at once, and so on for ever.
        is_ending = task.cancelled() and not self._is_called_off
        if not self._closed and not is_ending and self._error is None:
            self.tend()

    def check(self) -> None:
        """Raise the error that ended a canary: our own bugs must not stay hidden."""
        if self._error is not None:
            raise self._error
