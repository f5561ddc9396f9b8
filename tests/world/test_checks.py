"""Do the checks find what they are there to find?"""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import Meter, Observation, Outcome
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.rate.pacing import burst_allowance, new_pacer
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, NotYet
from remora.sim.checks import Difference, compare, worst_window
from remora.sim.meter import CountingMeter

gaps = st.lists(st.integers(0, 50), min_size=1, max_size=30)


def brute_force_excess_ns(times: list[int], interval_ns: int, burst: int) -> int:
    """Every window that begins and ends with an arrival, one by one."""
    return max(
        (last - first + 1 - burst) * interval_ns - (times[last] - times[first])
        for first in range(len(times))
        for last in range(first, len(times))
    )


@given(gaps=gaps, interval_ns=st.integers(1, 40), burst=st.integers(1, 5))
def test_the_worst_window_is_the_one_that_trying_every_window_finds(
    gaps: list[int], interval_ns: int, burst: int
) -> None:
    times = list(accumulate(gaps))
    worst = worst_window(times, interval_ns, burst)
    assert worst.excess_ns == brute_force_excess_ns(times, interval_ns, burst)
    assert (worst.count - burst) * interval_ns - (worst.last_ns - worst.first_ns) == worst.excess_ns


@given(gaps=gaps, interval_ns=st.integers(1, 40))
def test_the_order_of_the_log_does_not_matter(gaps: list[int], interval_ns: int) -> None:
    times = list(accumulate(gaps))
    assert worst_window(times[::-1], interval_ns) == worst_window(times, interval_ns)


@given(waits=st.lists(st.integers(0, 30_000_000), min_size=1, max_size=60), rate=st.sampled_from([5, 100, 250, 1_000]))
def test_what_the_pacer_lets_leave_never_exceeds(waits: list[int], rate: int) -> None:
    interval_ns = 1_000_000_000 // rate
    pacer = new_pacer(ceiling_interval_ns=interval_ns, interval_ns=interval_ns, now_ns=0)
    now_ns, times = 0, []
    for wait in waits:
        now_ns = max(now_ns + wait, pacer.earliest_ns())
        pacer = pacer.departed(now_ns=now_ns)
        times.append(now_ns)
    assert worst_window(times, interval_ns, burst_allowance(interval_ns)).excess <= 0


def test_one_arrival_too_many_is_found_where_it_is() -> None:
    times = [0, 100, 200, 250, 300, 400]
    worst = worst_window(times, 100)
    assert (worst.excess, worst.first_ns, worst.last_ns) == (1.0, 200, 300)


def test_no_arrivals_are_no_crossing() -> None:
    assert worst_window([], 100).excess < 0


def test_equal_bodies_do_not_differ_even_when_written_differently() -> None:
    assert compare([(1, b'{"a":1,"b":[2]}')], [(1, b'{"b":[2], "a":1}')]) == []


@pytest.mark.parametrize(
    "mirror, world, expected",
    [
        ([], [(1, b"{}")], Difference(1, None, "(absent)", b"{}")),
        ([(1, b"{}")], [], Difference(1, None, b"{}", "(absent)")),
        ([(1, b'{"a":1}')], [(1, b'{"a":2}')], Difference(1, "a", 1, 2)),
        ([(1, b'{"a":1}')], [(1, b"{}")], Difference(1, "a", 1, "(absent)")),
        ([(1, b"{")], [(1, b"{}")], Difference(1, None, b"{", b"{}")),
        ([(1, b'{"a":"\\ud83d"}')], [(1, b'{"a":"x"}')], Difference(1, "a", "\ud83d", "x")),
    ],
)
def test_a_difference_is_named_by_item_and_key(
    mirror: list[tuple[int, bytes]], world: list[tuple[int, bytes]], expected: Difference
) -> None:
    same = (0, b'{"id":0}')
    assert compare([same, *mirror], [same, *world]) == [expected]


def test_a_counting_meter_keeps_what_it_is_told() -> None:
    counting = CountingMeter()
    meter: Meter = counting
    meter.departed("hn", Lane.LIVE)
    meter.wire_sent("hn")
    meter.judged("hn", Lane.LIVE, NotYet())
    seen = Observation(Discovery.item(7, via=Lane.UPDATE), Found(Item(7, b"{}", time=1)), 4 * SECOND_NS, 4 * SECOND_NS)
    meter.recorded("hn", [seen], [Outcome.OWED])
    meter.pace_changed("hn", interval_ns=5, backed_off_because="rate_limited")
    meter.circuit_changed("hn", "open")
    assert counting.total_departures("hn") == counting.wire_sends["hn"] == 1
    assert counting.verdicts["hn", Lane.LIVE, "NotYet"] == counting.total_outcomes(Outcome.OWED) == 1
    assert (counting.ages_s, counting.paces_ns) == ([3.0], [("hn", 5, "rate_limited")])
    assert counting.circuits == [("hn", "open")]
