"""Does the circuit let a request pass, in this process and in all that share the store?

Each process judges by its own answers. One that opens shuts the common gate for all, and whichever process the gate then
lets through sends the one probe of all: its answer opens the gate again, or keeps it shut for longer.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from remora.contracts import Clock, GateHome, Meter, SharedPace
from remora.core.rate import circuit_breaker as circuits
from remora.core.rate.circuit_breaker import CircuitBreaker, CircuitEvent, CircuitState
from remora.core.rate.gate_types import ProviderDown, Sent
from remora.core.rate.law import Answer
from remora.core.units import SECOND_NS

log = structlog.get_logger()

# The gate may open long before its time, when another process's probe is answered: it is looked at this often.
LOOK_AGAIN_NS: Final = SECOND_NS
ANOTHER_PROCESS: Final = "another process met trouble"


class SourceBreaker:
    """One source's circuit. `on_change` is called when it moves, `on_news` when all processes should hear of it."""

    def __init__(
        self,
        source: str,
        *,
        clock: Clock,
        meter: Meter,
        on_change: Callable[[], None],
        on_news: Callable[[], None],
    ) -> None:
        self._source = source
        self._clock = clock
        self._meter = meter
        self._on_change = on_change
        self._on_news = on_news
        self._own = CircuitBreaker()
        self._answers = ""  # what the provider said to the last request that failed, in words
        self.down: ProviderDown | None = None  # while requests are not let through
        self._shut_until_ns = 0  # by another process, as far as this one has heard
        self._shared_cool_down_ns = 0  # the longest that any process has told
        self._probes_for_all = False
        self.is_told = True  # whether all processes know what this one found

    @property
    def state(self) -> CircuitState:
        """As this process's own answers have it."""
        return self._own.state

    def is_shut(self, *, now_ns: int) -> bool:
        """Whether another process found the provider in trouble."""
        return self._shut_until_ns > now_ns

    def wait_ns(self, *, now_ns: int, is_probe: bool = False) -> int | None:
        """How long until a request may pass: 0 now, None while the probe's answer is awaited. Changes nothing."""
        if self.is_shut(now_ns=now_ns):
            return self._shut_until_ns - now_ns
        return 0 if is_probe else self._own.wait_ns(now_ns=now_ns)

    def hear(self, sent: Sent, answer: Answer | None, *, already_counted: bool, told: str) -> None:
        """Hear what an answer says about the provider as a whole; None says something about one item only."""
        if self.state is not CircuitState.CLOSED and not sent.is_probe:
            return  # it left before the circuit opened
        if already_counted and answer is Answer.TROUBLED and not sent.is_probe:
            return  # one item's fault, met again; pressure is the provider's as often as it says so
        if answer is Answer.REFUSED or answer is Answer.TROUBLED:
            self._answers = told
        match answer:
            case Answer.GOOD:
                self.move(CircuitEvent.GOOD)
            case Answer.REFUSED | Answer.TROUBLED:
                self.move(CircuitEvent.BAD)
            case None:  # one item's own refusal: the provider answers, which is all a probe asks
                if sent.is_probe:
                    self.move(CircuitEvent.GOOD)

    def move(self, event: CircuitEvent) -> None:
        """Let something happen to the circuit; a change of state is an event."""
        self._become(circuits.after(self._own, event, now_ns=self._clock.monotonic_ns()))
        # A probe of our own that was lost is no news; the one that all wait for is.
        is_bad = event is CircuitEvent.BAD and self.state is CircuitState.OPEN
        if is_bad or (self._probes_for_all and self.state is not CircuitState.HALF_OPEN):
            self.is_told = False
            self._on_news()

    def probe_for_all(self) -> None:
        """This request is the only one that may leave in any process: all wait for its answer."""
        self._probes_for_all = True
        longest_ns = max(self._own.cool_down_ns, self._shared_cool_down_ns)
        self._become(replace(self._own, state=CircuitState.HALF_OPEN, cool_down_ns=longest_ns))

    def adopt(self, shared: SharedPace) -> None:
        """Another process may have shut the gate; or its probe was answered well, which closes every circuit."""
        now_ns = self._clock.monotonic_ns()
        shut_in_ns = shared.shut_in_ns
        self._shared_cool_down_ns = shared.cool_down_ns
        self._shut_until_ns = now_ns + min(shut_in_ns, LOOK_AGAIN_NS) if shut_in_ns else 0
        if shut_in_ns == 0 and self.is_told and not self._probes_for_all and self.state is not CircuitState.CLOSED:
            self._become(CircuitBreaker())
        self._note_down()

    async def tell(self, home: GateHome) -> None:
        """Let all processes know what this one found."""
        if self.is_told:
            return
        found, was_prober = self._own, self._probes_for_all
        self.is_told, self._probes_for_all = True, False
        try:
            if found.state is CircuitState.OPEN:
                wait_ns = max(0, found.open_until_ns - self._clock.monotonic_ns())
                await home.shut(for_ns=wait_ns, cool_down_ns=found.cool_down_ns, was_prober=was_prober)
            elif was_prober:
                await home.open_again()
        except BaseException:
            self.is_told, self._probes_for_all = False, was_prober
            raise

    def _become(self, circuit: CircuitBreaker) -> None:
        before, self._own = self._own, circuit
        self._note_down()
        if circuit.state is not before.state:
            self._meter.circuit_changed(self._source, circuit.state)
            wait_ns = circuit.wait_ns(now_ns=self._clock.monotonic_ns())
            log.info(
                "circuit_changed",
                source=self._source,
                state=str(circuit.state),
                was=str(before.state),
                reason=self._reason(),
                next_probe_in_s=None if wait_ns is None else round(wait_ns / SECOND_NS, 3),
            )
            self._on_change()

    def _reason(self) -> str:
        match self.state:
            case CircuitState.CLOSED:
                return "the provider answers again"
            case CircuitState.OPEN:
                return self._answers or ANOTHER_PROCESS
            case CircuitState.HALF_OPEN:
                return "one probe asks whether the provider answers again"

    def _note_down(self) -> None:
        """Since when the provider is down, and what it answers; a failed probe may change the words, never the time."""
        if self._own.state is CircuitState.CLOSED and self._shut_until_ns == 0:
            self.down = None
            return
        since_ns = self._clock.wall_ns() if self.down is None else self.down.since_ns
        self.down = ProviderDown(since_ns, self._answers or ANOTHER_PROCESS)
