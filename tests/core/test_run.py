"""Do a run's own stops and the provider's stay apart?"""

import pytest

from remora.core.errors import Exit
from remora.core.reasons import GapFamily, GapReason
from remora.core.run import StoppedBy, stop_for_cap, stop_for_pressure


def test_a_cap_of_ours_and_pressure_never_share_a_reason() -> None:
    caps = {stop_for_cap(reason).reason for reason in GapReason if reason.family is GapFamily.RUN_CAP}
    assert stop_for_pressure(wait_ns=0).reason not in caps
    assert {reason.family for reason in caps} == {GapFamily.RUN_CAP}


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
