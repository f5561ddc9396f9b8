"""Is a stored pace read back exactly, and anything else answered by a cold start and its reason?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import (
    DEFAULT_STALE_AFTER_NS,
    FASTEST_PER_S,
    LEAST_STALE_AFTER_NS,
    SLOWEST_PER_S,
    Damaged,
    PaceRecord,
    Restore,
    record_from_json,
    record_to_json,
    restore,
)
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

CEILING_NS = 100 * MILLISECOND_NS
WALL_NS = 1_800_000_000 * SECOND_NS
RECORD = PaceRecord(
    rate_per_s=2.0, edges_per_s=(2.1, 5.0), account=-3.5, stray_share=0.005, trouble_share=0.03, streak=0, wait_ns=0,
    quiet_until_wall_ns=0, learned_at_wall_ns=WALL_NS, outage_ns=7,
)  # fmt: skip

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(record_to_json(RECORD))), inner),
    max_leaves=20,
)


def how(record: PaceRecord | Damaged | None, *, now_wall_ns: int = WALL_NS) -> Restore:
    return restore(record, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=now_wall_ns).how


def test_a_record_survives_json_exactly() -> None:
    assert record_from_json(json.loads(json.dumps(record_to_json(RECORD)))) == RECORD


def test_a_record_of_an_older_version_is_still_read() -> None:
    older = {name: value for name, value in record_to_json(RECORD).items() if name != "outage_ns"}
    assert isinstance(record_from_json(older), PaceRecord)


@pytest.mark.slow
@given(anything)
def test_whatever_was_stored_is_read_as_a_record_as_none_or_as_damage_and_never_raises(data: object) -> None:
    record = record_from_json(data)
    assert how(record) in set(Restore)


@given(st.sampled_from(sorted(record_to_json(RECORD))), st.sampled_from([None, "x", float("nan"), float("inf"), -1e30]))
def test_one_field_of_nonsense_is_damage_and_starts_cold(name: str, nonsense: object) -> None:
    record = record_from_json({**record_to_json(RECORD), name: nonsense})
    assert isinstance(record, Damaged)
    assert how(record) is Restore.COLD_DAMAGED


def test_edges_that_do_not_ascend_are_damage() -> None:
    assert isinstance(record_from_json({**record_to_json(RECORD), "edges_per_s": [5.0, 2.0]}), Damaged)


def test_nothing_stored_is_a_cold_start_of_its_own_kind() -> None:
    restored = restore(None, ceiling_interval_ns=CEILING_NS, now_ns=3, now_wall_ns=WALL_NS)
    assert restored.how is Restore.COLD_NONE
    assert restored.pace == cold_start(ceiling_interval_ns=CEILING_NS, now_ns=3)


def test_a_record_from_the_future_is_discarded_but_never_for_something_faster() -> None:
    restored = restore(RECORD, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=WALL_NS - HOUR_NS)
    assert restored.how is Restore.COLD_FUTURE
    assert restored.pace.rate_per_s == 1.0
    throttled = PaceRecord(0.2, (1.6,), 0.0, 0.004, 0.02, 3, SECOND_NS, 0, WALL_NS)
    restored = restore(throttled, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=WALL_NS - HOUR_NS)
    assert restored.pace.rate_per_s == 0.2


def test_the_guard_is_six_hours_by_default_and_never_less_than_one() -> None:
    assert DEFAULT_STALE_AFTER_NS == 6 * HOUR_NS
    assert how(RECORD, now_wall_ns=WALL_NS + DEFAULT_STALE_AFTER_NS) is Restore.WARM
    at_ns = WALL_NS + LEAST_STALE_AFTER_NS
    short = restore(RECORD, ceiling_interval_ns=CEILING_NS, now_ns=0, now_wall_ns=at_ns, stale_after_ns=1)
    assert short.how is Restore.WARM


def test_a_record_without_a_list_of_edges_is_damaged() -> None:
    assert record_from_json({"edges_per_s": "8.2"}) == Damaged("edges_per_s is not a list")


def test_the_slowest_and_the_fastest_rate_are_possible_and_nothing_beyond() -> None:
    def is_read(rate_per_s: float) -> bool:
        told = {**record_to_json(RECORD), "rate_per_s": rate_per_s, "edges_per_s": []}
        return isinstance(record_from_json(told), PaceRecord)

    assert is_read(SLOWEST_PER_S)
    assert is_read(FASTEST_PER_S)
    assert not is_read(SLOWEST_PER_S * 0.99)
    assert not is_read(FASTEST_PER_S * 1.01)
