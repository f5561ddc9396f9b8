"""How does a stream connect pass the gate? Like every request: a turn, a departure, an answer to learn from.

Each hop of a redirect is a request of its own. The permit is given back when the answer's head has arrived: an open
stream takes no place in flight.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from remora.contracts import Clock, Meter, Permit
from remora.core.lanes import Lane
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.units import SECOND_NS
from remora.core.verdict import Deferred, Found, NoReply, Pressure, Reply, Trouble, Verdict, classify_connect
from remora.gate.governor import GovernedPermit, Governor

# While the circuit is open, items probe the provider: a stream may be broken although items are answered.
LOOK_AGAIN_NS: Final = SECOND_NS


class StreamGate:
    """The gate for the connects of one stream; `contracts.ConnectGate`."""

    def __init__(self, source: str, lane: Lane, governor: Governor, *, clock: Clock, meter: Meter) -> None:
        self._source = source
        self._lane = lane
        self._governor = governor
        self._clock = clock
        self._meter = meter
        self._last: type[Verdict] | None = None

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator["Connecting"]:
        """Wait until the circuit is closed, then for a turn; the permit is held until the block ends."""
        while self._governor.state().circuit != CircuitState.CLOSED:
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_AGAIN_NS)
        async with self._governor.admit(self._lane, self._source) as permit:
            yield Connecting(self, permit)

    def hear(self, permit: GovernedPermit, reply: Reply | NoReply) -> None:
        """Learn from the answer to a connect."""
        verdict = classify_connect(reply, now_wall_ns=self._clock.wall_ns())
        self._meter.judged(self._source, self._lane, verdict)
        if isinstance(verdict, Deferred):  # a request that this machine could not send teaches nothing
            return
        # A stream that stays broken is one fault, not a new one at every connect. A refusal is news each time. But on a
        # quiet mirror nothing else may be asked for hours: it is also a reason to ask whether the provider answers.
        is_repeated = type(verdict) is self._last and not isinstance(verdict, Found | Pressure)
        self._last = type(verdict)
        self._governor.learn(permit, reply, verdict, already_counted=is_repeated)
        if is_repeated and isinstance(verdict, Trouble):
            self._governor.canaries.ask_whether_it_answers()


class Connecting:
    """One connect under way; `contracts.StreamConnect`."""

    def __init__(self, gate: StreamGate, permit: GovernedPermit) -> None:
        self._gate = gate
        self._permit = permit

    @property
    def permit(self) -> Permit:
        """The permit; depart with it right before the request is written."""
        return self._permit

    def answered(self, reply: Reply | NoReply) -> None:
        """What came back."""
        self._gate.hear(self._permit, reply)
