"""Is what happened told once, with its beginning and its end, and never without bound?"""

import msgspec
import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import BackOff, ProviderDown
from remora.core.reasons import GapReason
from remora.core.status.model import SourceStatus
from remora.core.status.snapshot import Orders, RunFacts
from remora.core.status.timeline import EVENTS_MAX, KEPT_NS, Event, added, as_last_told, events_between
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from tests.core.test_readout import NOW_NS, a_gap, a_rate, beat, facts, ledger, seen

CALM = seen(beat())
DOWN = seen(
    beat(
        of=facts(
            rate=a_rate(circuit=CircuitState.OPEN, provider_down=ProviderDown(NOW_NS - HOUR_NS, "it answers HTTP 503"))
        )
    )
)
PAUSED = msgspec.structs.replace(CALM, orders=Orders(paused_at_ns=NOW_NS - MINUTE_NS))
LOWERED = msgspec.structs.replace(CALM, orders=Orders(interval_ns=SECOND_NS, until_ns=NOW_NS + HOUR_NS))
BACKED_OFF = seen(beat(of=facts(rate=a_rate(last_back_off=BackOff(NOW_NS, "rate_limited", 2.0, 1.0)))))
HALF = seen(beat(), of=ledger(coverage=Coverage((IdRange(1, 50),))))
DEAD = seen(beat(), of=ledger(gaps=(a_gap(GapState.DEAD, GapReason.MALFORMED, 2),)))
RAN = msgspec.structs.replace(
    CALM,
    runs=(
        RunFacts(run_id=2, started_at_ns=NOW_NS - HOUR_NS, ended_at_ns=NOW_NS, stopped_by="complete"),
        RunFacts(run_id=1, started_at_ns=1, ended_at_ns=2, stopped_by="complete"),
    ),
)
RUNS = msgspec.structs.replace(CALM, runs=RAN.runs[1:])


@pytest.mark.parametrize(
    "before, now, told",
    [
        (None, CALM, ["started"]),
        (CALM, CALM, []),
        (CALM, DOWN, ["provider_down"]),
        (DOWN, CALM, ["provider_down"]),
        (CALM, PAUSED, ["operator"]),
        (PAUSED, CALM, ["operator"]),
        (CALM, LOWERED, ["operator"]),
        (LOWERED, CALM, ["operator"]),
        (HALF, CALM, ["complete"]),
        (CALM, DEAD, ["attention", "dead_letters"]),
        (DEAD, CALM, ["complete", "resolved"]),
        (RUNS, RAN, ["run"]),
    ],
)
def test_a_change_is_told_once(before: SourceStatus | None, now: SourceStatus, told: list[str]) -> None:
    assert [event.kind for event in events_between(before, now, at_ns=NOW_NS)] == told


@pytest.mark.parametrize("lasting", [DOWN, PAUSED, LOWERED, DEAD, BACKED_OFF])
def test_what_lasts_does_not_end_while_no_heartbeat_comes(lasting: SourceStatus) -> None:
    gaps = (a_gap(GapState.DEAD, GapReason.MALFORMED, 2),) if lasting is DEAD else ()
    silent = seen(beat(age_ns=MINUTE_NS), of=ledger(gaps=gaps))
    assert silent.state == "silent"
    before, told = CALM, list[str]()
    for read in (lasting, silent, silent, lasting):
        now = as_last_told(before, read)
        told += [event.kind for event in events_between(before, now, at_ns=NOW_NS)]
        before = now
    assert told == [event.kind for event in events_between(CALM, lasting, at_ns=NOW_NS)]


def test_an_outage_has_its_beginning_and_its_end() -> None:
    began = added((), events_between(CALM, DOWN, at_ns=NOW_NS), now_ns=NOW_NS)
    assert [(event.at_ns, event.until_ns) for event in began] == [(NOW_NS - HOUR_NS, None)]
    over = added(began, events_between(DOWN, CALM, at_ns=NOW_NS + SECOND_NS), now_ns=NOW_NS)
    assert [(event.at_ns, event.until_ns) for event in over] == [(NOW_NS - HOUR_NS, NOW_NS + SECOND_NS)]


def test_an_outage_that_was_not_over_when_the_service_stopped_is_not_told_as_if_it_lasted() -> None:
    began = added((), events_between(CALM, DOWN, at_ns=NOW_NS), now_ns=NOW_NS)
    restarted = added(began, events_between(None, CALM, at_ns=NOW_NS + HOUR_NS), now_ns=NOW_NS + HOUR_NS)
    outage, started = restarted
    assert outage.text == "the provider was down when the service stopped: it answers HTTP 503"
    assert (outage.at_ns, outage.until_ns, started.kind) == (NOW_NS - HOUR_NS, None, "started")


def test_an_outage_that_lasts_over_a_restart_is_told_once() -> None:
    began = added((), events_between(CALM, DOWN, at_ns=NOW_NS), now_ns=NOW_NS)
    restarted = added(began, events_between(None, DOWN, at_ns=NOW_NS + HOUR_NS), now_ns=NOW_NS + HOUR_NS)
    assert [event.text for event in restarted if event.kind == "provider_down"] == [
        "the provider is down: it answers HTTP 503"
    ]
    over = added(restarted, events_between(DOWN, CALM, at_ns=NOW_NS + 2 * HOUR_NS), now_ns=NOW_NS + 2 * HOUR_NS)
    assert [(event.kind, event.until_ns) for event in over] == [
        ("provider_down", NOW_NS + 2 * HOUR_NS),
        ("started", None),
    ]


def test_back_offs_close_together_are_one_event_with_a_count() -> None:
    events: tuple[Event, ...] = ()
    before = CALM
    for step in range(5):
        back_off = BackOff(NOW_NS + step * MINUTE_NS, "rate_limited", 10.0, 9.0)
        now = seen(beat(of=facts(rate=a_rate(last_back_off=back_off))))
        events = added(events, events_between(before, now, at_ns=NOW_NS), now_ns=NOW_NS)
        before = now
    (event,) = events
    assert (event.count, event.at_ns, event.until_ns) == (5, NOW_NS, NOW_NS + 4 * MINUTE_NS)


def test_the_timeline_is_bounded_in_number_and_age() -> None:
    many = tuple(Event(at_ns=NOW_NS + number, kind="run", text="") for number in range(EVENTS_MAX + 5))
    assert len(added((), many, now_ns=NOW_NS)) == EVENTS_MAX
    assert added(many[:1], (), now_ns=NOW_NS + KEPT_NS + 2) == ()


def test_a_start_leaves_an_outage_alone_whose_end_was_seen() -> None:
    began_ns = NOW_NS - HOUR_NS
    ended = Event(at_ns=began_ns, kind="provider_down", text="it was down for a minute", until_ns=began_ns + MINUTE_NS)
    started = Event(at_ns=NOW_NS, kind="started", text="the service started")
    assert added((ended,), [started], now_ns=NOW_NS) == (ended, started)
