"""Does every alert fire under its fault, stay silent before it, and clear after it? Asked of Prometheus itself."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import ProviderDown
from remora.core.reasons import GapReason
from remora.core.status.alarms import Alarm
from remora.core.status.snapshot import GapTally, InboxFacts, LedgerFacts, LoopFacts, SourceFacts, StreamFacts
from remora.core.status.thresholds import (
    BACKFILL_MOVES_IDS_PER_HOUR,
    BEHIND_IDS,
    CEILING_TOLERANCE,
    INBOX_DEEP,
    RESCAN_LATE_NS,
    STREAM_SILENT_PAGE_NS,
)
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Pressure
from remora.operate.observe.metrics import Metrics
from tests.browser.scenes import NEWEST_ID, rate_facts, watching
from tests.docs_reader import page
from tests.operate.alert_rig import (
    RULES,
    SOURCE,
    Fault,
    firing,
    healthy_facts,
    healthy_ledger,
    play,
    traffic,
)

BEHIND = 60_000


def changed(now_ns: int, **changes: object) -> SourceFacts:
    return msgspec.structs.replace(watching(now_ns), **changes)


def a_stream(now_ns: int, *, connected: bool = True, silent_ns: int = 0, reconnects: int = 2) -> StreamFacts:
    heard_ns = now_ns - silent_ns
    return StreamFacts(connected=connected, last_byte_at_ns=heard_ns, last_event_at_ns=heard_ns, reconnects=reconnects)


def without_rescan(now_ns: int, *, done_ago_ns: int | None) -> SourceFacts:
    rescan = watching(now_ns).rescan
    assert rescan is not None
    done_ns = None if done_ago_ns is None else now_ns - done_ago_ns
    return changed(now_ns, rescan=msgspec.structs.replace(rescan, last_success_at_ns=done_ns))


def behind(now_ns: int) -> LedgerFacts:
    """The backfill does not move, while ten new ids a minute arrive and are collected at once."""
    newest_id = NEWEST_ID + now_ns // (6 * SECOND_NS)
    covered = Coverage((IdRange(1, NEWEST_ID - BEHIND), IdRange(NEWEST_ID, newest_id)))
    return msgspec.structs.replace(healthy_ledger(now_ns), coverage=covered, newest_id=newest_id)


def provider_down(now_ns: int) -> SourceFacts:
    """The circuit breaker is open; every third scrape meets it half open, while a probe is under way."""
    is_probing = now_ns // (30 * SECOND_NS) % 3 == 0
    down = ProviderDown(0, "it answers HTTP 503 (server error)")
    circuit = CircuitState.HALF_OPEN if is_probing else CircuitState.OPEN
    return changed(now_ns, rate=rate_facts(now_ns, circuit=circuit, provider_down=down))


def gaining(now_ns: int) -> LedgerFacts:
    """History is missing from the bottom up, and less of it every minute."""
    done = now_ns // SECOND_NS * 250
    return msgspec.structs.replace(
        healthy_ledger(now_ns), coverage=Coverage((IdRange(NEWEST_ID - done - 1, NEWEST_ID),))
    )


def dead_letter(now_ns: int) -> LedgerFacts:
    gap = GapTally(Kind.ITEM, GapState.DEAD, GapReason.UNAUTHORIZED, 1, now_ns, now_ns)
    return msgspec.structs.replace(healthy_ledger(now_ns), gaps=(gap,))


def refused(metrics: Metrics, step: int) -> None:
    traffic(metrics, step)
    for _ in range(3):
        metrics.departed(SOURCE, Lane.LIVE)
        metrics.wire_sent(SOURCE)
        metrics.judged(SOURCE, Lane.LIVE, Pressure(GapReason.RATE_LIMITED))


def sent_without_a_permit(metrics: Metrics, step: int) -> None:
    traffic(metrics, step)
    metrics.wire_sent(SOURCE)


def reconnecting(now_ns: int) -> SourceFacts:
    return changed(now_ns, stream=a_stream(now_ns, reconnects=2 + now_ns // (3 * MINUTE_NS)))


def failing_loop(now_ns: int) -> SourceFacts:
    return changed(now_ns, loops={"updates": LoopFacts(alive=True, restarts=now_ns // (5 * MINUTE_NS))})


FAULTS = (
    Fault("RemoraDown", scraped=False),
    Fault("RemoraNotWorking", facts=lambda now_ns: changed(now_ns, loops={"live": LoopFacts(alive=False)})),
    Fault("RemoraStreamDown", facts=lambda now_ns: changed(now_ns, stream=a_stream(now_ns, connected=False))),
    Fault("RemoraStreamSilent", facts=lambda now_ns: changed(now_ns, stream=a_stream(now_ns, silent_ns=6 * MINUTE_NS))),
    Fault("RemoraNoUpdateWorkers", facts=lambda now_ns: changed(now_ns, workers_alive=0)),
    Fault("RemoraDeadLetters", ledger=dead_letter),
    Fault(
        "RemoraTooFast",
        facts=lambda now_ns: changed(now_ns, rate=rate_facts(now_ns, per_s=400)),
    ),
    Fault("RemoraNewestIdRefused", facts=lambda now_ns: changed(now_ns, newest_refused=2**53)),
    Fault("RemoraFallingBehind", ledger=behind, step_s=60, faulty_steps=120, recovering_steps=60),
    Fault("RemoraInboxDeep", facts=lambda now_ns: changed(now_ns, inbox=InboxFacts(2_500, 4096))),
    Fault("RemoraStreamUnstable", facts=reconnecting, step_s=60, faulty_steps=60, recovering_steps=90),
    Fault("RemoraRescanLate", facts=lambda now_ns: without_rescan(now_ns, done_ago_ns=13 * HOUR_NS)),
    Fault(
        "RemoraRescanNeverDone",
        facts=lambda now_ns: without_rescan(now_ns, done_ago_ns=None),
        step_s=300,
        faulty_steps=150,
    ),
    Fault(
        "RemoraNotFresh", facts=lambda now_ns: changed(now_ns, newest_id_at_ns=now_ns - 5 * MINUTE_NS), faulty_steps=60
    ),
    Fault("RemoraRefused", act=refused, step_s=60, faulty_steps=60, recovering_steps=60),
    Fault(
        "RemoraCircuitOpen",
        facts=provider_down,
        faulty_steps=60,
    ),
    Fault("RemoraLoopRestarts", facts=failing_loop, step_s=60, faulty_steps=60, recovering_steps=90),
    Fault("RemoraUnknown", facts=lambda now_ns: None),
)


def test_the_rules_are_what_prometheus_accepts(promtool_path: Path) -> None:
    checked = subprocess.run(
        [promtool_path, "check", "rules", RULES], capture_output=True, text=True, timeout=30, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_alert_is_driven_to_fire_here() -> None:
    assert {fault.alert for fault in FAULTS} == set(alerts())


def test_every_alert_has_its_heading_in_the_runbook() -> None:
    runbook = page("docs/operating.md")
    assert runbook is not None
    links = re.findall(r"runbook_url: docs/operating\.md#(\S+)", RULES.read_text())
    assert links == [name.lower() for name in alerts()]
    assert set(links) <= runbook.anchors


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.alert for fault in FAULTS])
def test_an_alert_fires_under_its_fault_and_clears_after_it(fault: Fault, promtool_path: Path, tmp_path: Path) -> None:
    this = f',alertname="{fault.alert}"'
    tape = play(fault)
    expected = [
        ((fault.healthy_steps - 1) * fault.step_s, "", 0),
        (fault.ends_s, this, 1),
        ((tape.steps - 1) * fault.step_s, this, 0),
    ]
    assert firing(promtool_path, tape, expected, tmp_path) == ""


def test_a_request_without_a_permit_pages_although_every_gauge_looks_well(promtool_path: Path, tmp_path: Path) -> None:
    fault = Fault("RemoraTooFast", act=sent_without_a_permit)
    expected = [(fault.ends_s, ',alertname="RemoraTooFast"', 1)]
    assert firing(promtool_path, play(fault), expected, tmp_path) == ""


@pytest.mark.slow
def test_a_backfill_that_gains_on_the_source_is_no_ticket(promtool_path: Path, tmp_path: Path) -> None:
    fault = Fault("RemoraFallingBehind", ledger=gaining, step_s=60, healthy_steps=0, faulty_steps=120)
    expected = [(at_s, ',alertname="RemoraFallingBehind"', 0) for at_s in (1_800, 5_400, 7_000)]
    assert firing(promtool_path, play(fault), expected, tmp_path) == ""


@pytest.mark.slow
def test_a_backfill_that_is_switched_off_is_no_ticket(promtool_path: Path, tmp_path: Path) -> None:
    fault = Fault(
        "none", facts=lambda now_ns: changed(now_ns, backfill=False), ledger=behind, step_s=60, faulty_steps=120
    )
    expected = [(at_s, ',alertname="RemoraFallingBehind"', 0) for at_s in (1_800, 5_400, 7_000)]
    assert firing(promtool_path, play(fault), expected, tmp_path) == ""


def test_a_provider_that_is_down_pages_nobody(promtool_path: Path, tmp_path: Path) -> None:
    fault = Fault("none", facts=provider_down, faulty_steps=20)
    expected = [(fault.ends_s, ',severity="page"', 0)]
    assert firing(promtool_path, play(fault), expected, tmp_path) == ""


def test_the_rules_have_the_thresholds_of_the_core() -> None:
    expected = {
        "RemoraStreamSilent": f"> {STREAM_SILENT_PAGE_NS // SECOND_NS}",
        "RemoraTooFast": f"* {2 - CEILING_TOLERANCE:g}",
        "RemoraFallingBehind": f"> {BEHIND_IDS}",
        "RemoraInboxDeep": f"> {INBOX_DEEP}",
        "RemoraRescanLate": f"> {RESCAN_LATE_NS // SECOND_NS}",
    }
    text = RULES.read_text()
    rules = {rule.partition("\n")[0]: rule for rule in text.split("- alert: ")[1:]}
    assert [name for name, threshold in expected.items() if threshold not in rules[name]] == []
    assert f"[1h]) < -{BACKFILL_MOVES_IDS_PER_HOUR})" in rules["RemoraFallingBehind"]


@pytest.mark.parametrize("alarm", Alarm)
def test_an_alarm_and_the_rule_of_its_name_wait_equally_long(alarm: Alarm) -> None:
    rule = RULES.read_text().partition(f"- alert: {alarm}\n")[2].partition("- alert: ")[0]
    found = re.search(r"for: (\d+)(s|m)", rule)
    waits_ns = 0 if found is None else int(found[1]) * (SECOND_NS if found[2] == "s" else MINUTE_NS)
    assert waits_ns == alarm.hold_ns


@pytest.mark.slow
def test_a_service_that_is_well_wakes_nobody(promtool_path: Path, tmp_path: Path) -> None:
    well = Fault("none", facts=healthy_facts, step_s=300, faulty_steps=180)
    expected = [(step * well.step_s, "", 0) for step in range(1, 200, 9)]
    assert firing(promtool_path, play(well), expected, tmp_path) == ""


def test_the_judge_is_awake(promtool_path: Path, tmp_path: Path) -> None:
    well = Fault("none", faulty_steps=5, recovering_steps=0)
    assert "FAILED" in firing(promtool_path, play(well), [(300, "", 1)], tmp_path)


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text())
