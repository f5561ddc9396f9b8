"""What does a gate say about its rate? The facts that heartbeats store and screens show."""

from typing import NamedTuple

from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import Hold, RateFacts
from remora.core.rate.held_time import limiting
from remora.core.rate.limits import Limits
from remora.gate.hold_record import HoldRecord
from remora.gate.learner import Learner


class Counts(NamedTuple):
    """How many requests a gate has where."""

    in_flight: int
    leaving: int
    waiting: int
    departures: int


def rate_facts(
    limits: Limits, learner: Learner, holds: HoldRecord, counts: Counts, hold: Hold | None, *, now_ns: int, wall_ns: int
) -> RateFacts:
    """The facts at this moment; `hold` is what the next request waits for. Changes nothing."""
    pace, circuit, held = learner.pace, learner.circuit, holds.shares(now_ns=now_ns)
    return RateFacts(
        at_ns=wall_ns,
        interval_ns=pace.interval_ns,
        ceiling_interval_ns=limits.ceiling_interval_ns,
        edge_per_s=pace.edges_per_s[0] if pace.edges_per_s else None,
        limited_by=holds.stopped_by() or limiting(held),
        held=dict(held),
        circuit=CircuitState.OPEN if circuit.is_shut(now_ns=now_ns) else circuit.state,
        circuit_wait_ns=circuit.wait_ns(now_ns=now_ns),
        provider_down=circuit.down,
        provider_back_at_ns=circuit.back_at_ns,
        not_before_in_ns=max(0, learner.not_before_ns - now_ns),
        refusals_left=learner.refusals.left(now_ns=now_ns),
        ban=learner.refusals.ban(now_ns=now_ns, wall_ns=wall_ns),
        quota=learner.quota.facts(),
        next_in_ns=0 if hold is None or hold.until_ns is None else max(0, hold.until_ns - now_ns),
        next_held_by=None if hold is None else hold.limited_by,
        in_flight=counts.in_flight,
        in_flight_bound=limits.in_flight,
        leaving=counts.leaving,
        waiting=counts.waiting,
        last_back_off=learner.last_back_off,
        restored=learner.restored,
        departures=counts.departures,
    )
