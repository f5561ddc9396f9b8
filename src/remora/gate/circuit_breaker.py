"""May a request pass the circuit breaker, in this process and in all that share the store?

Bad answers alone do not open the circuit while something is known to be good. They only raise suspicion, and a canary
decides: if it is answered well, the failures are caused by bad items; if it fails, the circuit opens.

Each process judges by its own answers. A process that opens its circuit shuts the shared gate for all. After the
cool-down one of them sends a single probe: its answer opens the gate again, or keeps it shut for longer.
"""

from collections.abc import Callable
from typing import Final, Protocol

import structlog
from msgspec.structs import replace

from remora.contracts import Clock, GateHome, Meter, SharedPace
from remora.core.rate import attribution as blame
from remora.core.rate import circuit_breaker as circuits
from remora.core.rate.attribution import Attribution, Lesson
from remora.core.rate.circuit_breaker import ANSWERS_BEFORE_OPENING, CircuitBreaker, CircuitEvent, CircuitState
from remora.core.rate.gate_types import ProviderDown, Sent
from remora.core.rate.law import Answer
from remora.core.units import SECOND_NS

log = structlog.get_logger()

# The shared gate may open early, when another process's probe is answered: it is checked this often.
LOOK_AGAIN_NS: Final = SECOND_NS
ANOTHER_PROCESS: Final = "another process met trouble"
LATE: Final = "it does not answer in time"


class OnAttributed(Protocol):
    """Is called when it is known who caused the troubled answers that were held back."""

    def __call__(self, *, is_provider: bool) -> None:
        """The provider, or bad items."""


class SourceBreaker:
    """One source's circuit. `on_change` is called when it changes, `on_news` when all processes should know of it.

    `send_canary` sends one; False: nothing is known to be good.
    """

    def __init__(
        self,
        source: str,
        *,
        clock: Clock,
        meter: Meter,
        on_change: Callable[[], None],
        on_news: Callable[[], None],
        send_canary: Callable[[], bool],
        on_attributed: OnAttributed,
    ) -> None:
        self._source = source
        self._clock = clock
        self._meter = meter
        self._on_change = on_change
        self._on_news = on_news
        self._send_canary = send_canary
        self._on_attributed = on_attributed
        self._own = CircuitBreaker()
        self._attribution = Attribution()
        self._probes_with_canary = False  # the next probe is a canary; otherwise it is a waiting request
        self._answers = ""  # what the provider answered to the last request that failed, in words
        self._failing_since_ns: int | None = None  # wall clock: the first bad answer since the last good one
        self.down: ProviderDown | None = None  # while requests may not pass
        self.back_at_ns: int | None = None  # wall clock: when the provider was last found to answer again
        self._shut_until_ns = 0  # by another process, as far as this one knows
        self._shared_cool_down_ns = 0  # the longest that any process has shared
        self._probes_for_all = False
        self.is_told = True  # whether all processes know what this one found

    @property
    def state(self) -> CircuitState:
        """The state according to this process's own answers."""
        return self._own.state

    def passes(self, *, now_ns: int) -> bool:
        """Whether requests may be sent as if there were no circuit breaker."""
        return self._own.state is CircuitState.CLOSED and self._shut_until_ns <= now_ns

    def is_shut(self, *, now_ns: int) -> bool:
        """Whether another process found the provider in trouble."""
        return self._shut_until_ns > now_ns

    def wait_ns(self, *, now_ns: int, is_probe: bool = False) -> int | None:
        """How long until a request may pass: 0 now, None while the probe's answer is awaited. Changes nothing."""
        if self.is_shut(now_ns=now_ns):
            return self._shut_until_ns - now_ns
        return 0 if is_probe else self._own.wait_ns(now_ns=now_ns)

    @property
    def wants_canary(self) -> bool:
        """Whether a canary should be under way, or wait for the end of the cool-down."""
        return self._attribution.is_asked or (self._probes_with_canary and self.state is not CircuitState.CLOSED)

    @property
    def is_untroubled(self) -> bool:
        """Whether nothing is under way that a good answer would change."""
        return self._own.is_calm and self._failing_since_ns is None and self._attribution.is_forgotten

    @property
    def blames_items(self) -> bool:
        """Whether the last canary was answered well, so that troubled answers count as bad items for now."""
        return self._attribution.left > 0

    def hear(
        self, sent: Sent, answer: Answer | None, *, already_counted: bool, told: str, is_nonsense: bool = False
    ) -> Lesson:
        """Learn what an answer says about the provider as a whole; None: it concerns one item only.

        `is_nonsense`: the answer arrived complete and in time, but is not what was asked for.
        """
        if answer is Answer.GOOD and not is_nonsense and self.is_untroubled:
            return Lesson.TEACH  # fast path
        if self.state is not CircuitState.CLOSED and not sent.is_probe:
            return Lesson.TEACH  # it was sent before the circuit opened
        if already_counted and answer is Answer.TROUBLED and not sent.is_probe:
            return Lesson.DROP  # a known bad item again; pressure counts every time, because it comes from the provider
        is_bad = answer is Answer.REFUSED or answer is Answer.TROUBLED
        if sent.is_canary:
            is_bad = is_bad or is_nonsense  # nonsense for something known to be good is a failure
        if is_bad:
            self._answers = told
            if self._failing_since_ns is None:
                self._failing_since_ns = self._clock.wall_ns()
        elif answer is Answer.GOOD:
            self._failing_since_ns = None
        if sent.is_probe:  # a refusal of one item is enough: a probe only asks whether the provider answers
            # After a failed canary a waiting request is the next probe: none waits for ever without being sent.
            self._probes_with_canary = not sent.is_canary and answer is not Answer.REFUSED
            self.move(CircuitEvent.BAD if is_bad else CircuitEvent.GOOD)
        elif sent.is_canary:
            self._hear_canary(is_good=not is_bad)
        elif answer is Answer.TROUBLED or is_nonsense:
            return Lesson.DROP if already_counted else self._hear_trouble(is_nonsense=is_nonsense)
        elif answer is Answer.REFUSED:
            self.move(CircuitEvent.BAD)
        elif answer is Answer.GOOD:
            self._attribution = blame.after_good(self._attribution)
            if not self._own.is_calm:
                self.move(CircuitEvent.GOOD)
        return Lesson.TEACH

    def _hear_trouble(self, *, is_nonsense: bool) -> Lesson:
        """Trouble with one item, or with the provider? Nothing changes until that is known."""
        if self._attribution.is_asked:
            return Lesson.HOLD
        if self._is_excused():
            return Lesson.DROP
        noted = circuits.note(self._own, bad=True)
        if circuits.after(self._own, CircuitEvent.BAD, now_ns=0).state is CircuitState.CLOSED:
            self._become(noted)
        elif self._ask_canary(opens=True):
            self._become(noted)
            return Lesson.HOLD
        else:
            self.move(CircuitEvent.GOOD if is_nonsense else CircuitEvent.BAD)
        return Lesson.TEACH

    def _is_excused(self) -> bool:
        """Whether the last canary excuses this trouble. When it has excused enough, the next one is sent."""
        if not self._attribution.left:
            return False
        self._attribution = blame.after_trouble(self._attribution)
        if self._attribution.left == 0:
            self._ask_canary(opens=self._attribution.troubled > self._attribution.good)
        return True

    def suspect_outage(self) -> None:
        """Something other than an item keeps failing: a canary decides whether the provider is down."""
        if self.state is CircuitState.CLOSED and not self._attribution.is_asked and not self._is_excused():
            self._ask_canary(opens=True)

    def suspect(self) -> bool:
        """Whether a canary decides what the last troubled answer means; False: nothing is known to be good."""
        if self.state is not CircuitState.CLOSED:
            return False
        return self._attribution.is_asked or self._ask_canary(opens=self._own.looks_down)

    def _ask_canary(self, *, opens: bool) -> bool:
        before, self._attribution = self._attribution, blame.asked(self._attribution, opens=opens)
        if not self._send_canary():
            self._attribution = blame.after_lost_canary(before)
            return False
        return True

    def _hear_canary(self, *, is_good: bool) -> None:
        if not self._attribution.is_asked:
            return  # it was late, and others were answered well in the meantime
        # If other requests are answered well, only this key failed, although it was known to be good.
        opens = self._attribution.opens and not is_good and self._attribution.good < ANSWERS_BEFORE_OPENING
        self._attribution = blame.after_canary(self._attribution, is_good=is_good)
        self._on_attributed(is_provider=not is_good)
        if is_good:
            self._become(CircuitBreaker())
        elif opens:
            self._open()

    def canary_is_late(self) -> None:
        """The canary should have been answered by now. If nothing else was answered either, it has failed."""
        if self._attribution.is_asked and self.state is CircuitState.CLOSED and self._attribution.good == 0:
            self._answers = LATE
            self._hear_canary(is_good=False)

    def canary_is_lost(self) -> None:
        """The canary was given up for a reason of our own."""
        self._attribution = blame.after_lost_canary(self._attribution)

    def _open(self) -> None:
        self._probes_with_canary = True
        self._become(circuits.opened(self._own, now_ns=self._clock.monotonic_ns()))
        self.is_told = False
        self._on_news()

    def move(self, event: CircuitEvent) -> None:
        """Apply an event to the circuit; a change of state is logged."""
        self._become(circuits.after(self._own, event, now_ns=self._clock.monotonic_ns()))
        # A lost probe of our own is not news; a lost probe that all processes wait for is.
        is_bad = event is CircuitEvent.BAD and self.state is CircuitState.OPEN
        if is_bad or (self._probes_for_all and self.state is not CircuitState.HALF_OPEN):
            self.is_told = False
            self._on_news()

    def probe_for_all(self) -> None:
        """This request is the only one that any process may send: all wait for its answer."""
        self._probes_for_all = True
        longest_ns = max(self._own.cool_down_ns, self._shared_cool_down_ns)
        self._become(replace(self._own, state=CircuitState.HALF_OPEN, cool_down_ns=longest_ns))
        self._shut_until_ns = 0  # from now on our own circuit says whether the provider is down

    def adopt(self, shared: SharedPace) -> None:
        """Another process may have shut the gate. A good answer to its probe closes every circuit."""
        now_ns = self._clock.monotonic_ns()
        shut_in_ns = shared.shut_in_ns
        if shut_in_ns is None:
            self._shared_cool_down_ns = max(self._shared_cool_down_ns, shared.cool_down_ns)
            self._shut_until_ns = min(self._shut_until_ns, now_ns)  # ask; until it is answered the provider stays down
        else:
            self._shared_cool_down_ns = shared.cool_down_ns
            self._shut_until_ns = now_ns + min(shut_in_ns, LOOK_AGAIN_NS) if shut_in_ns else 0
        if shut_in_ns == 0 and self.is_told and not self._probes_for_all and self.state is not CircuitState.CLOSED:
            self._become(CircuitBreaker())
        self._note_down()

    async def tell(self, home: GateHome) -> None:
        """Tell all processes what this one found."""
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
            is_open = circuit.state is CircuitState.OPEN
            (log.warning if is_open and before.state is CircuitState.CLOSED else log.info)(
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
        """Since when the provider is down, and what it answers. A failed probe may change the words, never the time."""
        if self._own.state is CircuitState.CLOSED and self._shut_until_ns == 0:
            if self.down is not None:
                self.down, self._failing_since_ns, self.back_at_ns = None, None, self._clock.wall_ns()
            return
        since_ns = self._clock.wall_ns() if self._failing_since_ns is None else self._failing_since_ns
        if self.down is not None:
            since_ns = self.down.since_ns
        self.down = ProviderDown(since_ns, self._answers or ANOTHER_PROCESS)
