"""Does the circuit open on systemic trouble only, let one probe through and close on its success?"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.circuit_breaker import (
    ANSWERS_BEFORE_OPENING,
    COOL_DOWN_MAX_NS,
    COOL_DOWN_NS,
    RECENT_ANSWERS,
    CircuitBreaker,
    CircuitEvent,
    CircuitState,
    after,
)
from remora.core.units import SECOND_NS

NOW_NS = 1_000 * SECOND_NS
CLOSED = CircuitBreaker()
OPEN = CircuitBreaker(state=CircuitState.OPEN, open_until_ns=NOW_NS + COOL_DOWN_NS)
HALF_OPEN = CircuitBreaker(state=CircuitState.HALF_OPEN, open_until_ns=NOW_NS)
BY_STATE = {circuit.state: circuit for circuit in (CLOSED, OPEN, HALF_OPEN)}

# One event alone; a closed circuit opens only on a run of bad answers.
NEXT = {
    (CircuitState.CLOSED, CircuitEvent.GOOD): CircuitState.CLOSED,
    (CircuitState.CLOSED, CircuitEvent.BAD): CircuitState.CLOSED,
    (CircuitState.CLOSED, CircuitEvent.PROBE): CircuitState.CLOSED,
    (CircuitState.CLOSED, CircuitEvent.PROBE_LOST): CircuitState.CLOSED,
    (CircuitState.OPEN, CircuitEvent.GOOD): CircuitState.OPEN,
    (CircuitState.OPEN, CircuitEvent.BAD): CircuitState.OPEN,
    (CircuitState.OPEN, CircuitEvent.PROBE): CircuitState.HALF_OPEN,
    (CircuitState.OPEN, CircuitEvent.PROBE_LOST): CircuitState.OPEN,
    (CircuitState.HALF_OPEN, CircuitEvent.GOOD): CircuitState.CLOSED,
    (CircuitState.HALF_OPEN, CircuitEvent.BAD): CircuitState.OPEN,
    (CircuitState.HALF_OPEN, CircuitEvent.PROBE): CircuitState.HALF_OPEN,
    (CircuitState.HALF_OPEN, CircuitEvent.PROBE_LOST): CircuitState.OPEN,
}


def heard(circuit: CircuitBreaker, *events: CircuitEvent) -> CircuitBreaker:
    for event in events:
        circuit = after(circuit, event, now_ns=NOW_NS)
    return circuit


@pytest.mark.parametrize("state, event", list(product(CircuitState, CircuitEvent)))
def test_every_pair_of_state_and_event_has_one_next_state(state: CircuitState, event: CircuitEvent) -> None:
    assert heard(BY_STATE[state], event).state is NEXT[state, event]


def test_answers_to_what_left_before_it_opened_change_nothing() -> None:
    assert heard(OPEN, CircuitEvent.GOOD, CircuitEvent.BAD, CircuitEvent.BAD) == OPEN


@given(st.lists(st.booleans(), max_size=100))
def test_it_opens_exactly_when_half_of_enough_recent_answers_are_bad(bad: list[bool]) -> None:
    circuit = CLOSED
    recent: list[bool] = []
    for is_bad in bad:
        circuit = heard(circuit, CircuitEvent.BAD if is_bad else CircuitEvent.GOOD)
        recent = [*recent, is_bad][-RECENT_ANSWERS:]
        should_open = is_bad and len(recent) >= ANSWERS_BEFORE_OPENING and 2 * sum(recent) >= len(recent)
        assert (circuit.state is CircuitState.OPEN) == should_open
        if should_open:
            return


@given(st.integers(RECENT_ANSWERS, 200))
def test_one_bad_answer_among_many_good_ones_never_opens_it(rounds: int) -> None:
    circuit = heard(CLOSED, *[CircuitEvent.GOOD] * 3)
    for _ in range(rounds):
        circuit = heard(circuit, CircuitEvent.BAD, CircuitEvent.GOOD, CircuitEvent.GOOD)
        assert circuit.state is CircuitState.CLOSED


def test_each_failed_probe_doubles_the_cool_down_up_to_its_bound_and_a_success_resets_it() -> None:
    circuit, waits = OPEN, []
    for _ in range(6):
        circuit = heard(circuit, CircuitEvent.PROBE, CircuitEvent.BAD)
        waits.append(circuit.wait_ns(now_ns=NOW_NS))
    assert waits == [min(COOL_DOWN_NS * 2**count, COOL_DOWN_MAX_NS) for count in range(1, 7)]
    assert heard(circuit, CircuitEvent.PROBE, CircuitEvent.GOOD) == CLOSED


def test_a_lost_probe_makes_room_for_another_one_at_once_and_lengthens_nothing() -> None:
    lost = heard(OPEN, CircuitEvent.PROBE, CircuitEvent.PROBE_LOST)
    assert lost.wait_ns(now_ns=NOW_NS) == 0
    assert lost.cool_down_ns == OPEN.cool_down_ns


@given(st.sampled_from(list(BY_STATE.values())), st.integers(0, 2 * NOW_NS))
def test_reading_the_cool_down_changes_nothing_and_is_never_negative(circuit: CircuitBreaker, now_ns: int) -> None:
    first = circuit.wait_ns(now_ns=now_ns)
    assert first == circuit.wait_ns(now_ns=now_ns)
    assert (first is None) == (circuit.state is CircuitState.HALF_OPEN)
    assert first is None or first >= 0
    if circuit.state is CircuitState.OPEN:
        assert first == max(0, circuit.open_until_ns - now_ns)
