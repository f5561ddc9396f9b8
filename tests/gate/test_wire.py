"""Does what really leaves the wire keep the ceiling? The gate and the transport against a counting server on loopback."""

import pytest

from bench.wire import excess, measure

# What the server notes is late by its own scheduling; requests that left well apart may be read together.
SERVER_LATENESS_S = 0.05


def test_the_measure_itself_finds_a_window_that_is_too_full() -> None:
    steady = [number * 10_000_000 for number in range(100)]
    assert excess(steady, 10_000_000) == 0
    assert excess([*steady, steady[50] + 1], 10_000_000) == pytest.approx(1, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("fast_loop", [False, True], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("rate_per_s", [100.0, 1_000.0])
def test_no_window_on_the_wire_is_fuller_than_the_ceiling_allows(rate_per_s: float, fast_loop: bool) -> None:
    measured = measure(rate_per_s, 1.5, fast_loop=fast_loop)
    assert measured.sent > 1
    assert measured.arrived == measured.sent
    assert measured.excess <= 0
    assert measured.excess_at_server <= (SERVER_LATENESS_S + measured.silence_at_server_s) * rate_per_s
