"""Do the metrics tell the truth? Unknown is NaN, counters start at zero, labels are bounded."""

import math
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from remora.contracts import Observation, Outcome
from remora.core.item import Item, Newest
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapReason
from remora.core.status.readout import read_out
from remora.core.status.snapshot import (
    Beat,
    GapTally,
    LedgerFacts,
    LoopFacts,
    RescanFacts,
    Role,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Pressure
from remora.operate.observe.metrics import Metrics

NOW_NS = 1_800_000_000_000_000_000


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.watch("hackernews", ceiling_interval_ns=4_000_000)
    return made


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    found: float | None = metrics.registry.get_sample_value(name, {"source": "hackernews", **labels})
    return found


def samples(metrics: Metrics) -> list[Any]:
    body, _ = metrics.scrape("text/plain")
    return [sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples]


def test_every_gauge_is_nan_until_somebody_knows(metrics: Metrics) -> None:
    known = {"remora_ceiling_interval_seconds"}
    gauges = [
        sample
        for sample in samples(metrics)
        if not sample.name.endswith(("_total", "_bucket", "_sum", "_count", "_created")) and sample.name not in known
    ]
    assert len(gauges) >= 12
    assert [sample.name for sample in gauges if not math.isnan(sample.value)] == []


def test_counters_start_at_zero_so_that_a_rate_can_be_taken(metrics: Metrics) -> None:
    assert value(metrics, "remora_wire_sends_total") == 0
    assert value(metrics, "remora_stream_reconnects_total") == 0


def test_requests_are_counted_by_lane_and_verdict(metrics: Metrics) -> None:
    metrics.departed("hackernews", Lane.LIVE)
    metrics.wire_sent("hackernews")
    metrics.judged("hackernews", Lane.LIVE, Found(Newest(3)))
    metrics.judged("hackernews", Lane.LIVE, Pressure(GapReason.RATE_LIMITED))
    assert value(metrics, "remora_departures_total", lane="live") == 1
    assert value(metrics, "remora_wire_sends_total") == 1
    assert value(metrics, "remora_requests_total", lane="live", verdict="found") == 1
    assert value(metrics, "remora_requests_total", lane="live", verdict="pressure") == 1


def test_a_back_off_is_counted_with_its_reason(metrics: Metrics) -> None:
    metrics.pace_changed("hackernews", interval_ns=8_000_000, backed_off_because="rate_limited")
    metrics.pace_changed("hackernews", interval_ns=7_000_000, backed_off_because=None)
    assert value(metrics, "remora_pace_interval_seconds") == 0.007
    assert value(metrics, "remora_backoffs_total", reason="rate_limited") == 1


def observation(lane: Lane, time: int | None) -> Observation:
    return Observation(Discovery.item(7, via=lane), Found(Item(7, b"{}", time=time)), NOW_NS, NOW_NS)


def test_an_update_is_counted_once_with_its_age(metrics: Metrics) -> None:
    dated, undated = (observation(Lane.UPDATE, time) for time in (NOW_NS // SECOND_NS - 7_200, None))
    metrics.recorded("hackernews", [dated, undated], [Outcome.CHANGED, Outcome.UNCHANGED])
    assert value(metrics, "remora_items_updated_total") == 1
    assert value(metrics, "remora_update_age_seconds_count") == 1


def test_a_rescan_counts_what_it_read_and_what_had_changed(metrics: Metrics) -> None:
    outcomes = [Outcome.CHANGED, Outcome.UNCHANGED, Outcome.UNCHANGED]
    metrics.recorded("hackernews", [observation(Lane.RESCAN, 1)] * 3, outcomes)
    assert value(metrics, "remora_rescan_items_processed_total") == 3
    assert value(metrics, "remora_rescan_items_changed_total") == 1


def test_the_circuit_is_in_one_state(metrics: Metrics) -> None:
    metrics.circuit_changed("hackernews", "open")
    states = [value(metrics, "remora_circuit_state", state=state) for state in ("closed", "open", "half_open")]
    assert states == [0, 1, 0]


def test_a_readout_sets_what_the_ledger_knows_and_leaves_the_rest_unknown(metrics: Metrics) -> None:
    gap = GapTally(Kind.ITEM, GapState.DEAD, GapReason.GONE, 2, NOW_NS, NOW_NS)
    ledger = LedgerFacts(kind="numbered", coverage=Coverage((IdRange(1, 50),)), newest_id=100, gaps=(gap,))
    take(metrics, ledger)
    assert value(metrics, "remora_frontier_id") == 50
    assert value(metrics, "remora_source_max_id") == 100
    assert value(metrics, "remora_dead_letters") == 2
    assert value(metrics, "remora_gaps", state="dead", reason="gone") == 2
    assert value(metrics, "remora_backfill_progress_ratio") == 0.5
    assert math.isnan(value(metrics, "remora_stream_connected") or 0)


def test_gaps_that_are_gone_go_to_zero(metrics: Metrics) -> None:
    gap = GapTally(Kind.ITEM, GapState.OWED, GapReason.TIMEOUT, 2, NOW_NS, NOW_NS)
    take(metrics, LedgerFacts(kind="numbered", gaps=(gap,)))
    take(metrics, LedgerFacts(kind="numbered"))
    assert value(metrics, "remora_gaps", state="owed", reason="timeout") == 0


def test_what_a_runtime_counts_itself_is_caught_up_with(metrics: Metrics) -> None:
    for reconnects in (2, 2, 5, 1):  # the last one after a restart
        facts = SourceFacts(
            stream=StreamFacts(connected=True, reconnects=reconnects),
            loops={"live": LoopFacts(alive=True, restarts=reconnects)},
            workers_alive=8,
        )
        beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={"hackernews": facts}))
        take(metrics, LedgerFacts(kind="numbered"), beat)
    assert value(metrics, "remora_stream_reconnects_total") == 6
    assert value(metrics, "remora_loop_restarts_total", loop="live") == 6
    assert value(metrics, "remora_update_workers_alive") == 8


def take(metrics: Metrics, ledger: LedgerFacts, *beats: Beat) -> None:
    status = read_out(beats, {"hackernews": ledger}, now_ns=NOW_NS)
    metrics.take("hackernews", status.sources["hackernews"])


def test_two_runtimes_in_one_process_do_not_share_a_registry() -> None:
    first, second = Metrics(), Metrics()
    first.wire_sent("hackernews")
    assert value(second, "remora_wire_sends_total") is None


def test_the_scraper_gets_the_format_it_asks_for(metrics: Metrics) -> None:
    body, content_type = metrics.scrape("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert metrics.scrape("")[1].startswith("text/plain")


def test_the_four_answers_are_metrics_and_unknown_is_nan(metrics: Metrics) -> None:
    assert math.isnan(value(metrics, "remora_answer", question="working") or 0)
    facts = SourceFacts(loops={"live": LoopFacts(alive=False)})
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={"hackernews": facts}))
    ledger = LedgerFacts(kind="numbered", coverage=Coverage((IdRange(1, 9),)), newest_id=9)
    take(metrics, ledger, beat)
    assert value(metrics, "remora_answer", question="complete") == 1
    assert value(metrics, "remora_answer", question="working") == 0
    assert math.isnan(value(metrics, "remora_answer", question="polite") or 0)


def test_a_listed_source_has_no_series_about_streams_and_ids(metrics: Metrics) -> None:
    take(metrics, LedgerFacts(kind="listed", owed_details=3))
    take(metrics, LedgerFacts(kind="listed", owed_details=3))
    assert value(metrics, "remora_stream_connected") is None
    assert value(metrics, "remora_frontier_id") is None
    assert value(metrics, "remora_dead_letters") == 0


def test_a_runtime_that_falls_silent_turns_its_gauges_unknown(metrics: Metrics) -> None:
    rescan = RescanFacts(last_success_at_ns=NOW_NS)
    facts = SourceFacts(stream=StreamFacts(connected=True, last_byte_at_ns=NOW_NS), rescan=rescan, workers_alive=8)
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={"hackernews": facts})
    names = (
        "remora_stream_connected",
        "remora_stream_last_byte_timestamp_seconds",
        "remora_update_workers_alive",
        "remora_rescan_last_success_timestamp_seconds",
    )
    take(metrics, LedgerFacts(kind="numbered"), Beat(NOW_NS, snapshot))
    assert not [name for name in names if math.isnan(value(metrics, name) or math.nan)]
    take(metrics, LedgerFacts(kind="numbered"), Beat(NOW_NS - 60 * SECOND_NS, snapshot))
    assert [name for name in names if math.isnan(value(metrics, name) or 0)] == list(names)
