"""Does the jitter only keep mirrors out of step? It never slows a sender that waits for something else anyway."""

from functools import partial

import pytest

from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import GOOD, Answer, gate, one_by_one, simulated, warm

ALWAYS_LONGEST = 1.0 - 2**-53  # the largest number that chance gives


@pytest.mark.parametrize("interval_ns", [1, MILLISECOND_NS, 5 * MILLISECOND_NS, 20 * MILLISECOND_NS])
def test_the_jitter_is_never_longer_than_the_interval_of_the_ceiling(interval_ns: int) -> None:
    limits = Limits(ceiling_interval_ns=interval_ns, jitter_max_ns=20 * MILLISECOND_NS)
    assert limits.jitter_ns(ALWAYS_LONGEST) <= interval_ns


@pytest.mark.slow
def test_a_sender_that_asks_one_after_the_other_still_reaches_the_ceiling() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(ceiling_interval_ns=5 * MILLISECOND_NS, in_flight=1, jitter_max_ns=20 * MILLISECOND_NS)
        at_once = Answer(latency_ns=0)
        async with gate(clock, limits, says=lambda _: at_once, book=warm(clock, limits)) as serial:
            await serial.send_until(clock.monotonic_ns() + 10 * SECOND_NS, workers=1)
        assert len(serial.departures) >= 0.95 * 10 * 200

    simulated(main)


@pytest.mark.parametrize("answer", [GOOD, Answer(503, retry_after="30")], ids=["pace", "retry_after"])
def test_whoever_waits_for_the_pace_or_the_provider_does_not_also_wait_for_the_jitter(answer: Answer) -> None:
    async def left_ns(clock: SimClock, *, chance: float) -> int:
        limits = Limits(ceiling_interval_ns=SECOND_NS // 4, jitter_max_ns=SECOND_NS // 4)
        async with gate(clock, limits, says=one_by_one([answer]), chance=lambda: chance) as waiting:
            await waiting.send()
            first_ns = waiting.left_at_ns[-1]
            await waiting.send()
            return waiting.left_at_ns[-1] - first_ns

    waits_ns = {simulated(partial(left_ns, chance=chance)) for chance in (0.0, 0.5, ALWAYS_LONGEST)}
    assert len(waits_ns) == 1
