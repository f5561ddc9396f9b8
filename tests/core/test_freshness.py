"""Are the decisions about freshness right at their edges?"""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger import freshness
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.freshness import (
    AGE_BOUNDS_S,
    AGES_LEAST,
    AGES_MAX,
    BACK_OFF_MAX_NS,
    DEAF_NEW_IDS,
    DEAF_NS,
    INBOX_REPAIR_MAX_IDS,
    LONG_BLIND_NS,
    WINDOW_DEFAULT_NS,
    WINDOW_MAX_NS,
    WINDOW_MIN_NS,
    LastEvent,
    Repair,
    RescanPass,
    UpdateAges,
    back_off_ns,
    blind_window,
)
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS

T0 = 1_700_000_000 * SECOND_NS
moments = st.integers(1, 2**62)
ids = st.integers(1, 2**40)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def event(newest_id: int | None = 100, *, heard_at_ns: int = T0) -> LastEvent:
    return LastEvent(T0, newest_id, heard_at_ns)


# ── the stream ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_reconnect_waits_half_a_second_and_each_next_one_twice_as_long_up_to_half_a_minute() -> None:
    waits = [back_off_ns(failures) // MILLISECOND_NS for failures in range(10)]
    assert waits == [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]


@given(failures=st.integers(0, 10**9))
def test_the_wait_never_shrinks_and_never_exceeds_its_cap(failures: int) -> None:
    assert back_off_ns(failures) <= back_off_ns(failures + 1) <= BACK_OFF_MAX_NS


@pytest.mark.parametrize(
    "quiet_ns, new_ids, expected",
    [
        (DEAF_NS, DEAF_NEW_IDS, True),
        (DEAF_NS - 1, DEAF_NEW_IDS, False),
        (DEAF_NS, DEAF_NEW_IDS - 1, False),
        (10 * DEAF_NS, 0, False),
    ],
)
def test_a_stream_is_deaf_only_if_ids_are_handed_out_while_it_tells_nothing(
    quiet_ns: int, new_ids: int, expected: bool
) -> None:
    assert freshness.is_deaf(event(100), newest_id=100 + new_ids, now_ns=T0 + quiet_ns) is expected


@pytest.mark.parametrize("known, newest", [(None, 200), (100, None), (None, None)])
def test_nobody_is_called_deaf_without_knowing_the_newest_id(known: int | None, newest: int | None) -> None:
    assert freshness.is_deaf(event(known), newest_id=newest, now_ns=T0 + 10 * DEAF_NS) is False


@given(at_ns=moments, newest_id=st.none() | ids, heard_at_ns=moments)
def test_the_last_event_survives_being_kept(at_ns: int, newest_id: int | None, heard_at_ns: int) -> None:
    last = LastEvent(at_ns, newest_id, heard_at_ns)
    assert freshness.last_event_from_json(freshness.last_event_to_json(last)) == last


@given(note=anything)
def test_a_damaged_note_is_no_note(note: object) -> None:
    assert freshness.last_event_from_json(note) is None
    assert freshness.pass_from_json(note) is None
    assert freshness.ages_from_json(note) == UpdateAges()


# ── blind windows ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(known=ids, new=st.integers(0, 5_000))
def test_exactly_the_ids_created_since_the_last_event_are_repaired(known: int, new: int) -> None:
    window = blind_window(event(known), newest_id=known + new, now_ns=T0 + 1)
    assert window.ids == (IdRange(known + 1, known + new) if new else None)
    expected = Repair.NOTHING if new == 0 else Repair.INBOX if new <= INBOX_REPAIR_MAX_IDS else Repair.SEGMENTS
    assert window.repair is expected


def test_a_newest_id_that_went_back_calls_for_nothing() -> None:
    assert blind_window(event(100), newest_id=90, now_ns=T0).repair is Repair.NOTHING


def test_without_a_known_id_only_the_time_counts() -> None:
    window = blind_window(event(None), newest_id=90, now_ns=T0 + LONG_BLIND_NS + 1)
    assert (window.repair, window.rescan) == (Repair.NOTHING, True)


@pytest.mark.parametrize(
    "wall_ns, monotonic_ns, expected",
    [
        (LONG_BLIND_NS, 0, False),
        (LONG_BLIND_NS + 1, 0, True),
        (0, LONG_BLIND_NS + 1, True),  # the wall clock was stepped back meanwhile
        (-1, 0, True),  # the note is from the future: nobody knows how long
    ],
)
def test_more_than_five_minutes_blind_wants_a_rescan(wall_ns: int, monotonic_ns: int, expected: bool) -> None:
    assert blind_window(event(), newest_id=100, now_ns=T0 + wall_ns, blind_for_ns=monotonic_ns).rescan is expected


def test_quiet_hours_that_ended_with_a_keep_alive_want_no_rescan() -> None:
    quiet = event(heard_at_ns=T0 + HOUR_NS)
    assert blind_window(quiet, newest_id=100, now_ns=T0 + HOUR_NS + SECOND_NS).rescan is False


# ── update ages ─────────────────────────────────────────────────────────────────────────────────────────────────────


def ages_of(*seconds: float) -> UpdateAges:
    ages = UpdateAges()
    for age_s in seconds:
        ages = ages.seen(age_s)
    return ages


def test_bounds_grow_from_a_minute_to_beyond_two_weeks() -> None:
    assert all(before < after for before, after in pairwise(AGE_BOUNDS_S))
    assert AGE_BOUNDS_S[0] == 60
    assert AGE_BOUNDS_S[-1] > WINDOW_MAX_NS // SECOND_NS


@given(seconds=st.lists(st.floats(0, 10**7), min_size=1, max_size=50), percent=st.integers(1, 100))
def test_a_percentile_is_an_age_that_this_share_did_not_exceed(seconds: list[float], percent: int) -> None:
    bound_s = ages_of(*seconds).percentile_s(percent)
    assert bound_s is not None
    assert sum(age_s <= bound_s for age_s in seconds) * 100 >= percent * len(seconds)


def test_nothing_seen_has_no_percentile_and_suggests_nothing() -> None:
    assert UpdateAges().percentile_s(99) is None
    assert freshness.suggested_window_ns(UpdateAges()) is None


def test_a_negative_age_counts_as_none() -> None:
    assert ages_of(-5.0) == ages_of(0.0)


@given(seconds=st.lists(st.floats(0, 10**9), max_size=30))
def test_a_histogram_survives_being_kept(seconds: list[float]) -> None:
    ages = ages_of(*seconds)
    assert freshness.ages_from_json(freshness.ages_to_json(ages)) == ages


def test_the_histogram_stays_small_by_halving() -> None:
    full = replace(UpdateAges(), counts=(AGES_MAX - 1, *UpdateAges().counts[1:]))
    assert full.seen(0).total == AGES_MAX // 2


def test_a_few_changes_are_no_evidence() -> None:
    few = ages_of(*[10 * 86_400.0] * (AGES_LEAST - 1))
    assert freshness.suggested_window_ns(few) is None
    assert freshness.window_ns(None, few) == WINDOW_DEFAULT_NS


@given(age_s=st.floats(0, 10**9))
def test_the_suggested_window_lies_between_a_day_and_two_weeks(age_s: float) -> None:
    counts = list(ages_of(age_s).counts)
    many = UpdateAges(tuple(count * AGES_LEAST for count in counts))
    suggested_ns = freshness.suggested_window_ns(many)
    assert suggested_ns is not None
    assert WINDOW_MIN_NS <= suggested_ns <= WINDOW_MAX_NS
    assert suggested_ns >= min(age_s * SECOND_NS, WINDOW_MAX_NS)


def test_the_suggested_window_finds_99_of_100_changes() -> None:
    ages = UpdateAges()
    for number in range(1_000):
        ages = ages.seen((10 * DAY_NS if number % 50 == 0 else HOUR_NS) / SECOND_NS)  # 2 % are ten days old
    suggested_ns = freshness.suggested_window_ns(ages)
    assert suggested_ns is not None
    assert suggested_ns >= 10 * DAY_NS


def test_auto_follows_the_suggestion_and_a_number_does_not() -> None:
    week_old = ages_of(*[7 * 86_400.0] * AGES_LEAST)
    assert freshness.window_ns(None, week_old) == freshness.suggested_window_ns(week_old) != WINDOW_DEFAULT_NS
    assert freshness.window_ns(5 * DAY_NS, week_old) == 5 * DAY_NS


# ── the rescan ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    previous_s=st.none() | st.integers(0, 2**33),
    time_s=st.integers(0, 2**33),
    horizon_s=st.integers(0, 10**7),
    changed_s=st.integers(0, 2**33),
    age_s=st.integers(0, 10**7),
)
def test_whatever_was_young_when_it_changed_after_the_last_pass_is_in_the_next_one(
    previous_s: int | None, time_s: int, horizon_s: int, changed_s: int, age_s: int
) -> None:
    previous = None if previous_s is None else RescanPass(T0, previous_s)
    since_s = freshness.rescan_since_s(time_s=time_s, previous=previous, horizon_ns=horizon_s * SECOND_NS)
    after_last_pass = changed_s >= (time_s if previous_s is None else previous_s)
    if after_last_pass and age_s <= horizon_s:
        assert since_s <= max(0, changed_s - age_s)


def test_the_first_pass_and_a_clock_that_stepped_back_are_due_at_once() -> None:
    assert freshness.rescan_is_due(None, every_ns=HOUR_NS, now_ns=T0)
    assert freshness.rescan_is_due(RescanPass(T0 + 1, 1), every_ns=HOUR_NS, now_ns=T0)


@given(passed_ns=st.integers(0, 10 * HOUR_NS))
def test_a_pass_is_due_when_its_interval_has_passed(passed_ns: int) -> None:
    due = freshness.rescan_is_due(RescanPass(T0, 1), every_ns=6 * HOUR_NS, now_ns=T0 + passed_ns)
    assert due is (passed_ns >= 6 * HOUR_NS)


@given(
    time_s=st.none() | st.integers(0, 2**33),
    counts=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    ended_at_ns=st.none() | moments,
)
def test_a_pass_survives_being_kept(time_s: int | None, counts: tuple[int, int], ended_at_ns: int | None) -> None:
    done = RescanPass(T0, time_s, *counts, ended_at_ns)
    assert freshness.pass_from_json(freshness.pass_to_json(done)) == done
