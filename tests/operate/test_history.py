"""Is the chart's past true? Bounded, with holes where nothing was known, and taken up again after a restart."""

import itertools

import pytest

from remora.contracts import Json
from remora.core.ledger.notes import RATE_HISTORY_NOTE
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import BackOff, LimitedBy, RateFacts, Recent
from remora.core.status.model import Status
from remora.core.status.readout import iso, read_out
from remora.core.status.snapshot import Beat, LedgerFacts, Role, Snapshot, SourceFacts
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.operate.observe.rate_history import (
    BACK_OFFS_MAX,
    COARSE_POINTS,
    COARSE_S,
    FINE_POINTS,
    FINE_S,
    LONG_POINTS,
    BackOffMark,
    RateHistory,
    RatePoint,
)
from remora.stores.memory import MemoryStore

NOW_NS = 1_800_000_000 * SECOND_NS
SOURCE = "hackernews"


def a_rate(per_s: float = 100.0, *, recent: Recent | None = None, last_back_off: BackOff | None = None) -> RateFacts:
    return RateFacts(
        interval_ns=int(SECOND_NS / per_s),
        ceiling_interval_ns=SECOND_NS // 250,
        limited_by=LimitedBy.PACE,
        circuit=CircuitState.CLOSED,
        recent=recent,
        last_back_off=last_back_off,
    )


def reading(
    now_ns: int, *, per_s: float = 100.0, left_per_s: float | None = 90.0, back_off: BackOff | None = None
) -> Status:
    recent = None if left_per_s is None else Recent(round(left_per_s * 10), 0, 0, 0, 10 * SECOND_NS)
    rate = a_rate(per_s, recent=recent, last_back_off=back_off)
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=now_ns, sources={SOURCE: SourceFacts(rate=rate)})
    return read_out([Beat(now_ns, snapshot)], {SOURCE: LedgerFacts(kind=SOURCE)}, now_ns=now_ns)


def silence(now_ns: int) -> Status:
    return read_out([], {SOURCE: LedgerFacts(kind=SOURCE)}, now_ns=now_ns)


def test_a_span_shows_what_left_on_average() -> None:
    history = RateHistory()
    for second, left in enumerate((80.0, 100.0, None)):
        history.take(reading(NOW_NS + second * SECOND_NS, left_per_s=left))
    assert history.of(SOURCE).points == (RatePoint(NOW_NS // SECOND_NS, FINE_S, 100.0, 90.0),)


def test_what_was_not_known_is_a_hole_and_never_a_zero() -> None:
    history = RateHistory()
    history.take(reading(NOW_NS))
    for second in range(1, 20):
        history.take(silence(NOW_NS + second * SECOND_NS))
    history.take(reading(NOW_NS + 20 * SECOND_NS))
    points = history.of(SOURCE).points
    assert [point.at_s - NOW_NS // SECOND_NS for point in points] == [0, 20]
    assert all(point.allowed_per_s == 100 for point in points)


def test_a_source_that_was_never_read_has_no_past() -> None:
    assert RateHistory().of("nobody").points == ()


def test_a_back_off_is_marked_once_however_often_it_is_read() -> None:
    history = RateHistory()
    first = BackOff(NOW_NS, "rate_limited", 120.0, 60.0)
    second = BackOff(NOW_NS + 3 * SECOND_NS, "upstream_pressure", 60.0, 30.0)
    for step, back_off in enumerate((first, first, second, second)):
        history.take(reading(NOW_NS + (step + 3) * SECOND_NS, back_off=back_off))
    at_s = NOW_NS / SECOND_NS
    assert history.of(SOURCE).backoffs == (
        BackOffMark(at_s, "rate_limited", 120.0, 60.0),
        BackOffMark(at_s + 3, "upstream_pressure", 60.0, 30.0),
    )


@pytest.mark.slow
def test_a_day_of_readings_stays_within_its_bounds() -> None:
    history = RateHistory()
    for second in range(0, 24 * 3_600, 5):
        now_ns = NOW_NS + second * SECOND_NS
        history.take(reading(now_ns, back_off=BackOff(now_ns, "rate_limited", 2.0, 1.0)))
    shown = history.of(SOURCE)
    assert len(shown.points) <= FINE_POINTS + COARSE_POINTS + 2
    assert len(shown.backoffs) == BACK_OFFS_MAX
    times = [point.at_s for point in shown.points]
    assert times == sorted(set(times))
    assert 5 * 3_600 < times[-1] - times[0] <= COARSE_S * (COARSE_POINTS + 1)


def test_a_chart_begins_with_its_first_reading_and_not_at_a_round_time() -> None:
    history = RateHistory()
    history.take(reading(NOW_NS + 33 * SECOND_NS))
    [point] = history.of(SOURCE).points
    assert (point.at_s, point.span_s) == (NOW_NS // SECOND_NS + 33, 2)


def test_points_of_two_widths_meet_without_a_hole_or_an_overlap() -> None:
    history = RateHistory()
    for second in range(0, 3 * 3_600, 5):
        history.take(reading(NOW_NS + second * SECOND_NS))
    points = history.of(SOURCE).points
    assert {point.span_s for point in points} >= {FINE_S, COARSE_S}
    assert all(one.at_s + one.span_s == other.at_s for one, other in itertools.pairwise(points))


async def test_a_restart_takes_up_the_past_and_leaves_out_what_is_too_old_or_in_the_future() -> None:
    store = MemoryStore()
    history = RateHistory()
    for minute in range(300):
        history.take(reading(NOW_NS + minute * MINUTE_NS))
    history.take(reading(NOW_NS + 300 * MINUTE_NS, back_off=BackOff(NOW_NS + 299 * MINUTE_NS, "timeout", 2, 1)))
    await history.keep(store)

    later = RateHistory()
    await later.open(store, [SOURCE, "another"], now_ns=NOW_NS + 4 * HOUR_NS + 6 * HOUR_NS)
    kept = later.of(SOURCE)
    assert [mark.reason for mark in kept.backoffs] == ["timeout"]
    assert kept.points[0].at_s == (NOW_NS + 4 * HOUR_NS) // SECOND_NS

    before = RateHistory()  # the clock stepped back: what is stored seems to come from the future
    await before.open(store, [SOURCE], now_ns=NOW_NS + HOUR_NS)
    assert all(point.at_s <= (NOW_NS + HOUR_NS) // SECOND_NS for point in before.of(SOURCE).points)
    assert before.of(SOURCE).backoffs == ()


async def test_a_quick_restart_shows_the_last_minute_and_the_pause_as_a_hole() -> None:
    store, history = MemoryStore(), RateHistory()
    for second in range(24, 48):
        history.take(reading(NOW_NS + second * SECOND_NS))
    await history.keep(store)

    later = RateHistory()
    await later.open(store, [SOURCE], now_ns=NOW_NS + 55 * SECOND_NS)
    later.take(reading(NOW_NS + 56 * SECOND_NS))
    spans = [(point.at_s - NOW_NS // SECOND_NS, point.span_s) for point in later.of(SOURCE).points]
    assert spans == [(24, 24), (56, 4)]


@pytest.mark.parametrize("damaged", [{"points": "many"}, 7, [], {"points": [[1]]}])
async def test_a_past_that_cannot_be_read_begins_anew(damaged: Json) -> None:
    store = MemoryStore()
    await store.keep_note(SOURCE, RATE_HISTORY_NOTE, damaged)
    history = RateHistory()
    await history.open(store, [SOURCE], now_ns=NOW_NS)
    assert history.of(SOURCE).points == ()


def test_times_survive_the_way_through_a_status() -> None:
    assert iso(NOW_NS).startswith("2027-01-15")
    history = RateHistory()
    history.take(reading(NOW_NS))
    assert history.of(SOURCE).points[0].at_s == NOW_NS // SECOND_NS


async def test_thirty_days_are_kept_in_half_hours_and_survive_a_restart() -> None:
    history, store = RateHistory(), MemoryStore()
    for step in range(6):
        history.take(reading(NOW_NS + step * 10 * 60 * SECOND_NS))
    await history.keep(store, is_last=True)
    again = RateHistory()
    await again.open(store, [SOURCE], now_ns=NOW_NS + HOUR_NS)
    points = again.long()[SOURCE]
    assert [point.allowed_per_s for point in points] == [100.0] * len(points)
    assert len(points) == 2
    assert sum(point.span_s for point in points) <= 3_600


@pytest.mark.slow
async def test_what_comes_after_thirty_days_is_kept_while_the_process_runs() -> None:
    history, store = RateHistory(), MemoryStore()
    for half_hour in range(LONG_POINTS + 10):
        history.take(reading(NOW_NS + half_hour * HOUR_NS // 2))
        await history.keep(store)  # and then it is killed
    again, end_ns = RateHistory(), NOW_NS + LONG_POINTS * HOUR_NS
    await again.open(store, [SOURCE], now_ns=end_ns)
    assert again.long()[SOURCE][-1].at_s == history.long()[SOURCE][-1].at_s


def test_a_clock_that_is_set_back_takes_back_what_seems_to_come_from_the_future() -> None:
    history, back_ns = RateHistory(), NOW_NS + 20 * SECOND_NS
    for second in range(60):
        now_ns = NOW_NS + second * SECOND_NS
        history.take(reading(now_ns, back_off=BackOff(now_ns, "rate_limited", 2.0, 1.0)))
    for second in range(3):
        history.take(reading(back_ns + second * SECOND_NS, per_s=50.0))
    history.take(reading(back_ns + 3 * SECOND_NS, back_off=BackOff(back_ns + SECOND_NS, "timeout", 2.0, 1.0)))
    shown, at_s = history.of(SOURCE), back_ns // SECOND_NS
    assert (shown.points[-1].at_s, len(shown.points)) == (at_s, 5)
    assert all(one.at_s + one.span_s <= other.at_s for one, other in itertools.pairwise(shown.points))
    assert [mark.reason for mark in shown.backoffs if mark.at_s > at_s] == ["timeout"]


def test_the_chart_of_a_listed_source_shows_how_many_documents_it_held() -> None:
    history = RateHistory()
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={SOURCE: SourceFacts(rate=a_rate())}))
    ledger = LedgerFacts(kind="listed", documents=5_800, owed_details=4_548)
    history.take(read_out([beat], {SOURCE: ledger}, now_ns=NOW_NS))
    assert [point.items for point in history.of(SOURCE).points] == [1_252]
