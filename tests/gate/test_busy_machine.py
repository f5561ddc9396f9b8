"""What does the gate learn while our own machine is busy, and requests leave late?"""

import asyncio

import pytest

from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import GOOD, PRESSED, Answer, Says, gate, simulated

LIMITS = Limits(ceiling_interval_ns=SECOND_NS // 150, in_flight=50)


def once_limited(per_s: int) -> Says:
    """A provider that allows so many within any second, and from the second minute on as many as anybody likes."""
    left_at_ns: list[int] = []

    def says(now_ns: int) -> Answer:
        left_at_ns.append(now_ns)
        is_limited = now_ns < left_at_ns[0] + 60 * SECOND_NS
        return PRESSED if is_limited and sum(at_ns > now_ns - SECOND_NS for at_ns in left_at_ns) > per_s else GOOD

    return says


def learned(*, late_ns: int = 0, connect_ns: int = 0, says: Says | None = None) -> tuple[float, float]:
    """The pace after three minutes, and how much was sent in the last one, per second."""

    async def main(clock: SimClock) -> tuple[float, float]:
        async with gate(clock, LIMITS, says=says) as world:
            exact, until_ns = clock.sleep_until, clock.monotonic_ns() + 180 * SECOND_NS

            async def late(monotonic_ns: int) -> None:
                await exact(monotonic_ns + late_ns)

            async def work() -> None:
                while True:
                    await world.send(connect_ns=int(connect_ns * clock.random.random()))

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(clock, "sleep_until", late)
                working = [asyncio.ensure_future(work()) for _ in range(50)]
                await exact(until_ns)
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)
            sent = sum(at_ns > until_ns - 60 * SECOND_NS for at_ns in world.left_at_ns)
            return SECOND_NS / world.governor.state().interval_ns, sent / 60

    return simulated(main)


@pytest.mark.slow
def test_once_an_edge_is_known_the_pace_does_not_rise_above_what_a_busy_machine_really_sends() -> None:
    pace_per_s, sent_per_s = learned(late_ns=4 * MILLISECOND_NS, says=once_limited(40))
    assert 20 < sent_per_s <= pace_per_s <= 1.2 * sent_per_s


@pytest.mark.slow
def test_a_busy_machine_that_was_never_refused_climbs_on() -> None:
    """Below 200 requests a second it cannot make up for lost time, so it would stay slow for ever."""
    pace_per_s, _ = learned(late_ns=4 * MILLISECOND_NS)
    assert pace_per_s == pytest.approx(150)


@pytest.mark.slow
def test_a_machine_that_is_hardly_late_learns_as_usual() -> None:
    pace_per_s, _ = learned(late_ns=MILLISECOND_NS // 10)
    assert pace_per_s == pytest.approx(150)


@pytest.mark.slow
def test_connections_that_open_slowly_are_not_a_busy_machine() -> None:
    pace_per_s, _ = learned(connect_ns=100 * MILLISECOND_NS)
    assert pace_per_s == pytest.approx(150)
