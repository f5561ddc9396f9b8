"""Where another process has shut the gate, does this one say all the while that the provider is down, and since when?"""

import asyncio

import pytest

from remora.core.units import MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.sim.clock import SimClock, run
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate
from tests.gate.rig import GOOD, Gate, always

LIMITS = Limits(ceiling_interval_ns=SECOND_NS // 20, in_flight=4)


@pytest.mark.slow
def test_a_look_at_the_shared_pace_does_not_end_it_and_the_probe_keeps_its_beginning() -> None:
    async def story(clock: SimClock) -> None:
        store = SimGate(clock)
        home = SharedHome("chats", store, ceiling_interval_ns=LIMITS.ceiling_interval_ns, clock=clock)
        governor = Governor("chats", LIMITS, clock=clock, home=home, meter=CountingMeter(), chance=lambda: 0.0)
        await governor.open()
        gate = Gate(clock, governor, always(GOOD))
        sending = asyncio.ensure_future(gate.send_until(clock.monotonic_ns() + 5 * MINUTE_NS, workers=4))
        await clock.sleep_until(clock.monotonic_ns() + 20 * SECOND_NS)
        assert governor.state().provider_down is None
        await store.shut("chats", for_ns=MINUTE_NS, cool_down_ns=MINUTE_NS, was_prober=False)
        await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
        down, sent = governor.state().provider_down, len(gate.departures)
        assert down is not None
        governor.adopt(await home.look())
        assert governor.state().provider_down == down
        until_ns = clock.monotonic_ns() + 2 * MINUTE_NS
        while len(gate.departures) == sent and clock.monotonic_ns() < until_ns:
            assert governor.state().provider_down == down
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 100)
        await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
        assert governor.state().provider_down is None
        await sending
        assert len(gate.departures) > sent + 1_000
        await governor.close()

    run(story)
