"""Does a run stop at its own caps, and only there?"""

from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.budget import Budget
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import MINUTE_NS, SECOND_NS

times = st.integers(0, 10**15)
limits = st.one_of(st.none(), st.integers(0, 10**13))


@given(times, limits, st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 60), st.integers(0, 10**14))
def test_a_cap_is_always_our_own_stop_and_never_pressure(
    start_ns: int, wall_ns: int | None, fetches_max: int | None, fetches: int, later_ns: int
) -> None:
    budget = Budget(start_ns, max_wall_ns=wall_ns, max_fetches=fetches_max)
    for _ in range(fetches):
        budget = budget.after_fetch()
    now_ns = start_ns + later_ns
    cap = budget.cap(now_ns=now_ns)
    spent = fetches_max is not None and fetches >= fetches_max
    late = wall_ns is not None and later_ns >= wall_ns
    assert (cap is not None) == (spent or late)
    assert cap is None or cap.family is GapFamily.RUN_CAP


@given(times, st.integers(0, 10**13), st.integers(0, 10**13), st.integers(0, 10**13))
def test_a_wait_is_covered_only_if_the_budget_outlives_it(
    start_ns: int, wall_ns: int, later_ns: int, wait_ns: int
) -> None:
    budget = Budget(start_ns, max_wall_ns=wall_ns)
    now_ns = start_ns + later_ns
    if budget.covers(wait_ns, now_ns=now_ns):
        assert budget.cap(now_ns=now_ns + wait_ns) is None
    else:
        assert budget.cap(now_ns=now_ns + wait_ns) is GapReason.MAX_WALL_CLOCK


def test_without_caps_a_run_goes_on_for_ever() -> None:
    budget = Budget(0)
    assert budget.cap(now_ns=10**18) is None
    assert budget.left_ns(now_ns=10**18) is None
    assert budget.covers(10**18, now_ns=10**18)


def test_the_fetch_cap_is_named_before_the_clock() -> None:
    budget = Budget(0, max_wall_ns=MINUTE_NS, max_fetches=0)
    assert budget.cap(now_ns=MINUTE_NS) is GapReason.MAX_FETCHES


def test_what_is_left_of_the_clock_is_never_negative() -> None:
    assert Budget(0, max_wall_ns=SECOND_NS).left_ns(now_ns=MINUTE_NS) == 0


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 10**12), st.integers(0, 10**12))
def test_half_a_budget_ends_when_half_of_what_is_left_is_spent(most: int, sent: int, wall_ns: int, now_ns: int) -> None:
    budget = Budget(0, max_wall_ns=wall_ns, max_fetches=most, fetches=sent)
    half = budget.half(now_ns=now_ns)
    assert half.max_fetches is not None
    assert max(0, half.max_fetches - sent) == max(0, most - sent) // 2
    assert half.left_ns(now_ns=now_ns) == -(-(budget.left_ns(now_ns=now_ns) or 0) // 2)
    assert Budget(0).half(now_ns=now_ns) == Budget(0)
