"""Can a provider ever count more refusals within a span than the owner allows? Whatever is sent, answered and when."""

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.errors import ConfigurationError
from remora.core.rate.refusal_limit import RefusalLimit, Refusals, parse_refusal_limit
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS

# Whole numbers as small as these make many events fall on the same moment.
WITHIN_NS = 10
moves = st.lists(
    st.tuples(
        st.sampled_from(["send", "refuse", "answer", "lose"]),
        st.integers(0, 12),  # how long after the move before
        st.integers(0, 100),  # which request in flight
        st.floats(0, 1),  # when the provider counted it, between its departure and its answer
    ),
    max_size=60,
)


@given(most=st.integers(1, 4), moves=moves)
def test_no_span_of_the_provider_holds_more_refusals_than_the_limit(
    most: int, moves: list[tuple[str, int, int, float]]
) -> None:
    refusals, now_ns = Refusals(RefusalLimit(most, WITHIN_NS)), 0
    in_flight: list[int] = []
    counted_at_ns: list[float] = []
    for move, later_ns, which, share in moves:
        now_ns += later_ns
        if move == "send":
            if refusals.free_at_ns(len(in_flight) + 1, now_ns=now_ns) == now_ns:
                in_flight.append(now_ns)
        elif in_flight:
            departed_at_ns = in_flight.pop(which % len(in_flight))
            if move != "answer":  # what is lost may have been refused
                counted_at_ns.append(departed_at_ns + share * (now_ns - departed_at_ns))
                refusals = refusals.refused(at_ns=now_ns)
    counted_at_ns += [*map(float, in_flight)]  # all that is still in flight may have been refused, too
    counted_at_ns.sort()
    for first, at_ns in enumerate(counted_at_ns):
        assert bisect_right(counted_at_ns, at_ns + WITHIN_NS) - first <= most


@given(most=st.integers(1, 4), at_ns=st.lists(st.integers(0, 40), max_size=12), in_flight=st.integers(1, 6))
def test_the_moment_that_is_told_is_the_first_at_which_it_may_be_sent(
    most: int, at_ns: list[int], in_flight: int
) -> None:
    refusals = Refusals(RefusalLimit(most, WITHIN_NS))
    for moment_ns in sorted(at_ns):
        refusals = refusals.refused(at_ns=moment_ns)
    now_ns = max(at_ns, default=0)
    free_at_ns = refusals.free_at_ns(in_flight, now_ns=now_ns)
    if free_at_ns is None:
        assert in_flight > most
        return
    assert refusals.allows(in_flight, now_ns=free_at_ns)
    assert free_at_ns == now_ns or not refusals.allows(in_flight, now_ns=free_at_ns - 1)


@pytest.mark.parametrize(
    "written, limit",
    [
        ("4/min", RefusalLimit(4, MINUTE_NS)),
        ("4/1m", RefusalLimit(4, MINUTE_NS)),
        (" 20 / h ", RefusalLimit(20, HOUR_NS)),
        ("4/10m", RefusalLimit(4, 10 * MINUTE_NS)),
        ("1/s", RefusalLimit(1, SECOND_NS)),
        ("100/day", RefusalLimit(100, DAY_NS)),
    ],
)
def test_a_limit_is_a_count_and_a_time(written: str, limit: RefusalLimit) -> None:
    assert parse_refusal_limit(written, "here") == limit


@pytest.mark.parametrize(
    "written", ["0/min", "4", 4, "-1/min", "4.5/min", "4/", "/min", "4/0s", "4/2d", "4/week", None]
)
def test_anything_else_is_refused_with_what_to_write(written: object) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_refusal_limit(written, "sources.x.refusal_limit")
    assert "sources.x.refusal_limit" in refused.value.message
    assert refused.value.hint
