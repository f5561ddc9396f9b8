"""Is somebody woken when they should be, once, and told when it is over?"""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import SILENT_NS
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, ProviderDown, RateFacts
from remora.core.reasons import GapReason
from remora.core.status.alarms import CLEAR_NS, Alarm, Alarms, Change, with_alarms
from remora.core.status.model import Status
from remora.core.status.readout import read_out
from remora.core.status.snapshot import (
    Beat,
    GapTally,
    LedgerFacts,
    LoopFacts,
    Role,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from tools.console_runbook import FILE as RUNBOOK
from tools.console_runbook import written

NOW_NS = 1_800_000_000 * SECOND_NS
NAME = "hackernews"
RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"


def status(*gaps: GapTally, facts: SourceFacts | None = None) -> Status:
    well = SourceFacts(
        rate=RateFacts(
            interval_ns=4 * MILLISECOND_NS,
            ceiling_interval_ns=4 * MILLISECOND_NS,
            limited_by=LimitedBy.PACE,
            circuit=CircuitState.CLOSED,
        ),
        stream=StreamFacts(connected=True, last_byte_at_ns=NOW_NS),
        loops={"live": LoopFacts(alive=True)},
        workers_alive=8,
    )
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={NAME: facts or well})
    return read_out([Beat(NOW_NS, snapshot)], {NAME: LedgerFacts(kind=NAME, gaps=gaps)}, now_ns=NOW_NS)


DEAD = GapTally(Kind.ITEM, GapState.DEAD, GapReason.GONE, 3, NOW_NS, NOW_NS)
WELL = status()
FAULTS = {
    Alarm.NOT_WORKING: status(facts=SourceFacts(loops={"live": LoopFacts(alive=False)})),
    Alarm.STREAM_DOWN: status(facts=SourceFacts(stream=StreamFacts(connected=False))),
    Alarm.STREAM_SILENT: status(
        facts=SourceFacts(stream=StreamFacts(connected=True, last_byte_at_ns=NOW_NS - 6 * MINUTE_NS))
    ),
    Alarm.NO_UPDATE_WORKERS: status(facts=SourceFacts(workers_alive=0)),
    Alarm.DEAD_LETTERS: status(DEAD),
    Alarm.NEWEST_ID_REFUSED: status(facts=SourceFacts(newest_refused=2**53)),
    Alarm.TOO_FAST: status(
        facts=SourceFacts(
            rate=RateFacts(
                interval_ns=1_000, ceiling_interval_ns=2_000, limited_by=LimitedBy.PACE, circuit=CircuitState.CLOSED
            )
        )
    ),
}


def play(*readings: tuple[int, Status]) -> list[Change]:
    """What is told over these readings: (seconds, status)."""
    alarms = Alarms()
    told: list[Change] = []
    for at_s, reading in readings:
        alarms, changes = alarms.after(reading, now_ns=at_s * SECOND_NS)
        told += changes
    return told


def test_the_alarms_are_the_alerts_that_page_but_for_the_one_that_nobody_is_left_to_tell() -> None:
    paging = RULES.read_text().partition("remora-ticket")[0]
    assert {*re.findall(r"- alert: (\w+)", paging)} - {"RemoraDown"} == {*Alarm}


@pytest.mark.parametrize("alarm", Alarm)
def test_an_alarm_is_told_once_it_has_lasted_and_again_when_it_is_over(alarm: Alarm) -> None:
    hold_s = alarm.hold_ns // SECOND_NS
    faulty = [(at_s, FAULTS[alarm]) for at_s in range(hold_s + 30)]
    over = [(hold_s + 30 + at_s, WELL) for at_s in range(CLEAR_NS // SECOND_NS + 2)]
    told = [change for change in play(*faulty, *over) if change.alarm is alarm]
    assert [change.firing for change in told] == [True, False]
    assert told[0].reason


def test_what_passes_before_it_has_lasted_wakes_nobody() -> None:
    assert play((0, FAULTS[Alarm.STREAM_DOWN]), (59, FAULTS[Alarm.STREAM_DOWN]), (60, WELL), (200, WELL)) == []


def test_what_flickers_is_told_once() -> None:
    flicker = [(at_s, FAULTS[Alarm.DEAD_LETTERS] if at_s % 20 else WELL) for at_s in range(1, 300)]
    assert [change.firing for change in play(*flicker)] == [True]


@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from([WELL, *FAULTS.values()])), max_size=60))
def test_every_alarm_is_told_to_begin_and_to_end_in_turn(steps: list[tuple[int, Status]]) -> None:
    at_s, readings = 0, []
    for wait_s, reading in steps:
        at_s += wait_s
        readings.append((at_s, reading))
    told: dict[Alarm, list[bool]] = {}
    for change in play(*readings):
        told.setdefault(change.alarm, []).append(change.firing)
    for states in told.values():
        assert states == [number % 2 == 0 for number in range(len(states))]


def test_a_status_names_the_alarms_of_every_source_and_the_runbook_has_a_section_for_each() -> None:
    dead = status(GapTally(Kind.ITEM, GapState.DEAD, GapReason.MALFORMED, 1, NOW_NS, NOW_NS))
    assert with_alarms(dead).sources[NAME].alarms == (Alarm.DEAD_LETTERS,)
    assert RUNBOOK.read_text() == written()
    assert all(f'id="{alarm.lower()}"' in written() for alarm in Alarm)


def test_an_unknown_rings_no_bell() -> None:
    nobody = read_out([], {NAME: LedgerFacts(kind=NAME)}, now_ns=NOW_NS)
    assert play(*[(at_s, nobody) for at_s in range(0, 600, 5)]) == []
    assert msgspec.json.encode(nobody)


@pytest.mark.parametrize("alarm", Alarm)
def test_an_alarm_is_not_over_because_nobody_knows(alarm: Alarm) -> None:
    gaps = (DEAD,) if alarm is Alarm.DEAD_LETTERS else ()
    silent = read_out([], {NAME: LedgerFacts(kind=NAME, gaps=gaps)}, now_ns=NOW_NS)
    faulty = [(at_s, FAULTS[alarm]) for at_s in range(130)]
    dark = [(130 + at_s, silent) for at_s in range(600)]
    over = [(730 + at_s, WELL) for at_s in range(70)]
    told = [change.firing for change in play(*faulty, *dark) if change.alarm is alarm]
    assert told == [True]
    assert [change.firing for change in play(*faulty, *dark, *over) if change.alarm is alarm] == [True, False]


def test_a_stream_that_is_lost_for_long_is_down_and_not_silent() -> None:
    lost = status(facts=SourceFacts(stream=StreamFacts(connected=False, last_byte_at_ns=NOW_NS - HOUR_NS)))
    assert [change.alarm for change in play((0, lost), (3_600, lost))] == [Alarm.STREAM_DOWN]


def test_a_clock_that_jumps_a_day_and_a_machine_that_slept_wake_nobody_before_the_stream_was_tried_again() -> None:
    jumped = status(facts=SourceFacts(stream=StreamFacts(connected=True, last_byte_at_ns=NOW_NS - DAY_NS)))
    noticed_s = SILENT_NS // SECOND_NS  # by then a stream without a byte was closed
    assert play(*[(at_s, jumped) for at_s in range(noticed_s + 10)], (noticed_s + 10, WELL)) == []


def test_while_only_the_provider_is_down_a_lost_stream_wakes_nobody() -> None:
    down = RateFacts(
        interval_ns=2_000,
        ceiling_interval_ns=2_000,
        limited_by=LimitedBy.CIRCUIT,
        circuit=CircuitState.OPEN,
        provider_down=ProviderDown(NOW_NS - HOUR_NS, "it answers HTTP 503"),
    )
    lost = StreamFacts(connected=False, last_byte_at_ns=NOW_NS - HOUR_NS)
    outage = status(facts=SourceFacts(rate=down, stream=lost))
    assert outage.sources[NAME].only_provider_is_down
    assert play((0, outage), (3_600, outage)) == []
