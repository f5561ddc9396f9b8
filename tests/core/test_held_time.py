"""Is every moment of the last seconds counted once, for the cause that held requests back then?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.held_time import LATE_NS, WINDOW_NS, HeldTime, limiting
from remora.core.units import MILLISECOND_NS, SECOND_NS

steps = st.lists(
    st.tuples(st.sampled_from(LimitedBy), st.integers(0, 4 * SECOND_NS), st.none() | st.integers(0, 40 * SECOND_NS)),
    max_size=40,
)


@given(steps, st.integers(0, 100 * SECOND_NS))
def test_the_shares_always_add_up_to_the_whole(steps: list[tuple[LimitedBy, int, int | None]], rest_ns: int) -> None:
    now_ns, held = 0, HeldTime(now_ns=0)
    for cause, for_ns, until_ns in steps:
        held.switch(cause, until_ns=until_ns, now_ns=now_ns)
        now_ns += for_ns
    now_ns += rest_ns
    shares = held.shares(now_ns=now_ns)
    assert sum(shares.values()) == pytest.approx(1 if now_ns else 0)
    assert all(share > 0 for share in shares.values())


def test_what_is_older_than_the_window_is_forgotten() -> None:
    held = HeldTime(now_ns=0)
    held.switch(LimitedBy.STORE, now_ns=0)
    held.switch(LimitedBy.CEILING, now_ns=3_600 * SECOND_NS)
    assert limiting(held.shares(now_ns=3_600 * SECOND_NS + 2 * SECOND_NS)) is LimitedBy.STORE
    assert set(held.shares(now_ns=3_600 * SECOND_NS + WINDOW_NS)) == {LimitedBy.CEILING}


def test_what_wakes_long_after_its_moment_was_kept_by_this_machine() -> None:
    held = HeldTime(now_ns=0)
    for turn in range(100):
        held.switch(LimitedBy.CEILING, until_ns=turn * 10**8 + 10 * MILLISECOND_NS, now_ns=turn * 10**8)
    shares = held.shares(now_ns=10**10)
    assert limiting(shares) is LimitedBy.CPU
    assert shares[LimitedBy.CEILING] == pytest.approx(0.1, abs=0.02)


def test_a_timer_that_is_a_little_late_is_still_the_wait_it_was_set_for() -> None:
    held = HeldTime(now_ns=0)
    held.switch(LimitedBy.PACE, until_ns=SECOND_NS, now_ns=0)
    assert set(held.shares(now_ns=SECOND_NS + LATE_NS)) == {LimitedBy.PACE}


def test_before_anything_was_asked_there_is_no_work() -> None:
    assert limiting({}) is LimitedBy.NO_WORK
