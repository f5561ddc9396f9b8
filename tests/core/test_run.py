"""Do a run's own stops and the provider's stay apart?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.errors import Exit
from remora.core.ledger.budget import Budget
from remora.core.ledger.run import PRESSURE, RunCounts, Stop, StoppedBy, in_words, span, stop_for_cap, stop_for_pressure
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS


def test_a_cap_of_ours_and_pressure_never_share_a_reason() -> None:
    caps = {stop_for_cap(reason).reason for reason in GapReason if reason.family is GapFamily.RUN_CAP}
    assert stop_for_pressure(wait_ns=0).reason not in caps
    assert {reason.family for reason in caps if reason is not None} == {GapFamily.RUN_CAP}


def test_every_cap_has_a_stop_of_its_own_name() -> None:
    for reason in GapReason:
        if reason.family is GapFamily.RUN_CAP:
            assert stop_for_cap(reason).by.value == reason.value


def test_pressure_is_never_a_cap() -> None:
    with pytest.raises(AssertionError, match="not a cap"):
        stop_for_cap(GapReason.RATE_LIMITED)


def test_a_run_that_can_go_on_later_says_so_with_its_exit_code() -> None:
    resumable = {stopped for stopped in StoppedBy if stopped.exit_code is Exit.BUDGET_USED}
    assert resumable == {
        StoppedBy.MAX_WALL_CLOCK,
        StoppedBy.MAX_FETCHES,
        StoppedBy.RETRY_BUDGET,
        StoppedBy.UPSTREAM_PRESSURE,
    }


def test_a_run_that_did_all_it_should_is_done() -> None:
    done = (StoppedBy.COMPLETE, StoppedBy.RECOVER_ONLY, StoppedBy.COOL_DOWN)
    assert {stop.exit_code for stop in done} == {Exit.DONE}


def words(stop: Stop | None, *, spent_ns: int = 0, fetches: int = 0) -> str:
    budget = Budget(0, 15 * MINUTE_NS, 500, fetches)
    return in_words(stop, budget, RunCounts(requests=fetches, retries=7), now_ns=spent_ns)


def test_the_two_sets_of_reasons_are_disjoint() -> None:
    caps = {reason for reason in GapReason if reason.family is GapFamily.RUN_CAP}
    assert caps.isdisjoint(PRESSURE)
    assert {str(reason) for reason in caps} == {"max_wall_clock", "max_fetches", "retry_budget"}
    assert {str(reason) for reason in PRESSURE} == {"rate_limited", "upstream_pressure"}


def test_a_stop_is_ours_or_the_providers_and_never_both() -> None:
    for reason in GapReason:
        stop = Stop(StoppedBy.LIST_TROUBLE, reason)
        assert not (stop.is_ours and stop.is_pressure)
    assert stop_for_cap(GapReason.MAX_FETCHES).is_ours
    assert stop_for_pressure(wait_ns=0).is_pressure
    assert not Stop(StoppedBy.RECOVER_ONLY).is_ours


def test_every_message_shows_the_bound_that_really_governs() -> None:
    assert "all 500 requests" in words(stop_for_cap(GapReason.MAX_FETCHES), fetches=500)
    assert "15 min 00 s are used up" in words(stop_for_cap(GapReason.MAX_WALL_CLOCK), spent_ns=15 * MINUTE_NS)
    shut = stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=HOUR_NS, held_ns=HOUR_NS)
    said = words(shut, spent_ns=5 * MINUTE_NS)
    assert (
        "the provider asks to wait 1 h 00 min, longer than the 10 min 00 s that are left of the run's 15 min 00 s"
        in said
    )
    spaced = stop_for_cap(GapReason.MAX_WALL_CLOCK, wait_ns=2 * SECOND_NS)
    said = words(spaced, spent_ns=15 * MINUTE_NS - SECOND_NS)
    assert "could leave in 2 s, longer than the 1 s that are left of the run's 15 min 00 s" in said
    assert "7 of 70 requests" in words(stop_for_cap(GapReason.RETRY_BUDGET), fetches=70)
    said = words(stop_for_pressure(wait_ns=0), spent_ns=136 * SECOND_NS, fetches=90)
    assert "8 times in a row" in said
    assert "used 2 min 16 s of 15 min 00 s and 90 of 500 requests" in said
    assert "may go on in 30 s" in words(Stop(StoppedBy.COOL_DOWN, GapReason.RATE_LIMITED, 30 * SECOND_NS))


def test_every_way_to_stop_has_its_words() -> None:
    said = {words(Stop(stopped_by, GapReason.MALFORMED)) for stopped_by in StoppedBy}
    assert len(said) == len(StoppedBy)
    assert words(None) == words(Stop(StoppedBy.COMPLETE))


@given(st.integers(-DAY_NS, 40 * DAY_NS))
def test_a_span_of_time_is_short_and_has_a_unit(length_ns: int) -> None:
    said = span(length_ns)
    assert len(said) <= 14
    assert said.endswith((" s", " min"))
    assert "-" not in said or "e-" in said


@pytest.mark.parametrize(
    "length_ns, said",
    [(2 * MINUTE_NS - 1, "120 s"), (2 * MINUTE_NS, "2 min 00 s"), (HOUR_NS, "1 h 00 min"), (-1, "0 s")],
)
def test_a_span_is_told_in_seconds_below_two_minutes(length_ns: int, said: str) -> None:
    assert span(length_ns) == said
