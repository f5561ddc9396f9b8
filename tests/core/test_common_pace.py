"""Is what all processes know read back as it was told, whoever reads it and whenever, and never faster than the ceiling?"""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.law import Answer, Answered, Pace, after, cold_start
from remora.core.rate.shared_pace import COMMON, OWN, Common, UnsharedAnswers, from_common, heard_on_top, to_common
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

CEILING_NS = 10 * MILLISECOND_NS
START_NS = 1_000 * SECOND_NS
answers = st.lists(st.sampled_from([Answer.GOOD] * 6 + [Answer.REFUSED, Answer.TROUBLED]), max_size=120)


def heard(
    kinds: list[Answer], pace: Pace | None = None, *, start_ns: int = START_NS
) -> tuple[Pace, list[Answered], int]:
    """The pace after some answers, the answers, and the moment after the last."""
    pace = pace or cold_start(ceiling_interval_ns=CEILING_NS, now_ns=START_NS)
    now_ns, events = start_ns, []
    for kind in kinds:
        now_ns += pace.interval_ns
        events.append(Answered(kind, now_ns, now_ns + 20 * MILLISECOND_NS, pace_bound=True))
        pace = after(pace, events[-1])
    return pace, events, now_ns + SECOND_NS


def read(record: object, *, now_ns: int, age_ns: int = 0, quiet_in_ns: int = 0) -> Common | None:
    return from_common(record, age_ns=age_ns, quiet_in_ns=quiet_in_ns, ceiling_interval_ns=CEILING_NS, now_ns=now_ns)


@given(answers, st.integers(0, HOUR_NS), st.integers(-500 * SECOND_NS, HOUR_NS))
def test_another_machine_reads_the_same_pace_later_on_its_own_clock(
    kinds: list[Answer], later_ns: int, clock_off_by_ns: int
) -> None:
    pace, _, now_ns = heard(kinds)
    record = {COMMON: to_common(Common(pace, cuts=3), now_ns=now_ns)}
    there_ns = now_ns + later_ns + clock_off_by_ns
    common = read(record, now_ns=there_ns, age_ns=later_ns, quiet_in_ns=max(0, pace.quiet_until_ns - now_ns - later_ns))
    assert common is not None
    assert common.cuts == 3
    # The same moments, on a clock that is off: requests sent before the cut are told from those sent after it.
    assert common.pace.last_cut_at_ns - clock_off_by_ns == pace.last_cut_at_ns or pace.last_cut_at_ns == -1
    assert (common.pace.rate_per_s, common.pace.edges_per_s) == (pace.rate_per_s, pace.edges_per_s)
    assert (common.pace.streak, common.pace.account) == (pace.streak, pace.account)
    quiet_left_ns = max(0, pace.quiet_until_ns - now_ns - later_ns)
    assert max(0, common.pace.quiet_until_ns - there_ns) == quiet_left_ns


@given(answers, answers)
def test_own_answers_on_top_of_the_common_pace_are_as_if_one_process_had_heard_all(
    first: list[Answer], own: list[Answer]
) -> None:
    told, _, start_ns = heard(first)
    together, events, now_ns = heard(own, told, start_ns=start_ns)
    record = {COMMON: to_common(Common(told), now_ns=now_ns)}
    common = read(record, now_ns=now_ns, quiet_in_ns=max(0, told.quiet_until_ns - now_ns))
    assert common is not None
    on_top = heard_on_top(common.pace, told, events)
    assert on_top.rate_per_s == pytest.approx(together.rate_per_s)
    assert on_top.edges_per_s == pytest.approx(together.edges_per_s)


@given(st.floats(0.01, 1e6))
def test_a_faster_pace_than_our_ceiling_is_never_taken_over(rate_per_s: float) -> None:
    pace = replace(cold_start(ceiling_interval_ns=1, now_ns=START_NS), rate_per_s=rate_per_s, octave_per_s=rate_per_s)
    common = read({COMMON: to_common(Common(pace), now_ns=START_NS)}, now_ns=START_NS)
    assert common is not None
    assert common.pace.interval_ns >= CEILING_NS


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(anything)
def test_what_cannot_be_read_is_none_and_no_exception(record: object) -> None:
    assert read(record, now_ns=START_NS) is None
    assert read({COMMON: record}, now_ns=START_NS) is None


@given(st.sampled_from([field.name for field in fields(Pace) if field.name not in OWN]), anything)
def test_one_damaged_field_is_read_safely_or_not_at_all(name: str, value: object) -> None:
    pace, _, now_ns = heard([Answer.GOOD] * 40 + [Answer.REFUSED])
    told = {**to_common(Common(pace), now_ns=now_ns), name: value}
    common = read({COMMON: told}, now_ns=now_ns)
    assert common is None or common.pace.interval_ns >= CEILING_NS


def test_troubled_answers_that_bad_items_caused_are_not_shared() -> None:
    _, events, _ = heard([Answer.GOOD, Answer.TROUBLED, Answer.REFUSED, Answer.TROUBLED, Answer.GOOD])
    unshared = UnsharedAnswers()
    unshared.add(*events)
    unshared.excuse()
    assert [event.answer for event in unshared] == [Answer.GOOD, Answer.REFUSED, Answer.GOOD]


@pytest.mark.parametrize("impossible", [{"streak": 3}, {"below_per_s": 5.0}])
def test_a_pace_that_the_law_cannot_produce_is_not_read(impossible: dict[str, float]) -> None:
    """Without an edge there is neither a row of refusals nor a rate below an edge."""
    pace, _, now_ns = heard([Answer.GOOD] * 3)
    told = to_common(Common(pace), now_ns=now_ns)
    assert read({COMMON: told}, now_ns=now_ns) is not None
    assert read({COMMON: {**told, **impossible}}, now_ns=now_ns) is None
