"""Is the provider as a whole in trouble? An open circuit means "pause, then try again", never "stop for good"."""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from remora.core.units import SECOND_NS

RECENT_ANSWERS: Final = 20
ANSWERS_BEFORE_OPENING: Final = 6
BAD_SHARE_TO_OPEN: Final = 0.5
COOL_DOWN_NS: Final = 10 * SECOND_NS
COOL_DOWN_MAX_NS: Final = 120 * SECOND_NS
_ALL_GOOD: Final = (False,) * RECENT_ANSWERS
# As many bad answers in a row, with no good one in between.
BAD_IN_A_ROW: Final = (True,) * ANSWERS_BEFORE_OPENING


class CircuitState(StrEnum):
    """Whether requests may pass."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitEvent(StrEnum):
    """What can happen to a circuit."""

    GOOD = "good"
    BAD = "bad"  # pressure or trouble; a single-item refusal is neither good nor bad
    PROBE = "probe"  # the one request after the cool-down was sent
    PROBE_LOST = "probe_lost"  # it was cancelled before its answer came


class CircuitBreaker(msgspec.Struct, frozen=True):
    """The circuit of one source."""

    state: CircuitState = CircuitState.CLOSED
    recent_bad: tuple[bool, ...] = ()
    cool_down_ns: int = COOL_DOWN_NS
    open_until_ns: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether all remembered answers were good: one more changes nothing."""
        return self.state is CircuitState.CLOSED and self.recent_bad == _ALL_GOOD

    @property
    def looks_down(self) -> bool:
        """Whether enough answers were bad to open, or none of the latest ones was good."""
        return _is_mostly_bad(self.recent_bad) or self.recent_bad[-ANSWERS_BEFORE_OPENING:] == BAD_IN_A_ROW

    def wait_ns(self, *, now_ns: int) -> int | None:
        """How long until a request may pass: 0 now, None while the probe's answer is awaited. Changes nothing."""
        match self.state:
            case CircuitState.CLOSED:
                return 0
            case CircuitState.OPEN:
                return max(0, self.open_until_ns - now_ns)
            case CircuitState.HALF_OPEN:
                return None


def after(circuit: CircuitBreaker, event: CircuitEvent, *, now_ns: int) -> CircuitBreaker:
    """The circuit after one event; every pair of state and event is defined."""
    match circuit.state, event:
        case CircuitState.CLOSED, CircuitEvent.GOOD | CircuitEvent.BAD:
            return _judge(circuit, bad=event is CircuitEvent.BAD, now_ns=now_ns)
        case CircuitState.OPEN, CircuitEvent.PROBE:
            return replace(circuit, state=CircuitState.HALF_OPEN)
        case CircuitState.HALF_OPEN, CircuitEvent.GOOD:
            return CircuitBreaker()
        case CircuitState.HALF_OPEN, CircuitEvent.BAD:
            longer_ns = min(circuit.cool_down_ns * 2, COOL_DOWN_MAX_NS)
            return replace(circuit, state=CircuitState.OPEN, cool_down_ns=longer_ns, open_until_ns=now_ns + longer_ns)
        case CircuitState.HALF_OPEN, CircuitEvent.PROBE_LOST:
            return replace(circuit, state=CircuitState.OPEN, open_until_ns=now_ns)
        case _:
            # Answers to requests that were sent before the circuit opened say nothing new.
            return circuit


def _judge(circuit: CircuitBreaker, *, bad: bool, now_ns: int) -> CircuitBreaker:
    if not bad and circuit.is_calm:
        return circuit
    noted = note(circuit, bad=bad)
    return opened(circuit, now_ns=now_ns) if bad and _is_mostly_bad(noted.recent_bad) else noted


def note(circuit: CircuitBreaker, *, bad: bool) -> CircuitBreaker:
    """Count one more answer without opening the circuit."""
    recent = (*circuit.recent_bad, bad)[-RECENT_ANSWERS:]
    return CircuitBreaker(circuit.state, recent, circuit.cool_down_ns, circuit.open_until_ns)


def opened(circuit: CircuitBreaker, *, now_ns: int) -> CircuitBreaker:
    """Let nothing pass until the cool-down is over."""
    return CircuitBreaker(
        state=CircuitState.OPEN, cool_down_ns=circuit.cool_down_ns, open_until_ns=now_ns + circuit.cool_down_ns
    )


def _is_mostly_bad(recent: tuple[bool, ...]) -> bool:
    return len(recent) >= ANSWERS_BEFORE_OPENING and sum(recent) >= BAD_SHARE_TO_OPEN * len(recent)
