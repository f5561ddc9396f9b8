"""What if the machine stands still between a departure and the wire? The next request counts from the wire."""

from dataclasses import dataclass, field

from remora.contracts import OnReply, PromptPermit, Sent
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock, run
from tests.gate.numbers import Answering, Departed, Numbers, collect, process


@dataclass
class Stalling(Numbers):
    """Sends at once, but the machine stands still between the first departure and the wire."""

    stalls_ns: int = 0
    on_the_wire_ns: list[int] = field(default_factory=list)

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        departed_ns = permit.depart_now()
        if departed_ns is None:
            return None
        if not self.on_the_wire_ns:
            self.clock.stall(self.stalls_ns)
        self.on_the_wire_ns.append(self.clock.monotonic_ns())
        permit.sent()
        return Answering(self.fetch(discovery, Departed(departed_ns)), on_reply)


def test_a_request_that_reached_the_wire_late_counts_from_then_for_the_next_of_its_block() -> None:
    async def at_once(clock: SimClock, *, stalls_ns: int) -> int:
        """How many are on the wire at the moment of the first."""
        source = Stalling(clock, stalls_ns=stalls_ns)
        async with process(clock, source, limits=Limits(MILLISECOND_NS, in_flight=64, jitter_max_ns=0)) as one:
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            await collect(one, range(1, 61))
        return source.on_the_wire_ns.count(source.on_the_wire_ns[0])

    async def scenario(clock: SimClock) -> None:
        usual = await at_once(clock, stalls_ns=0)
        assert 1 < await at_once(clock, stalls_ns=20 * MILLISECOND_NS) <= usual

    run(scenario)


def test_a_request_that_reached_the_wire_late_counts_from_then_although_another_one_left_meanwhile() -> None:
    async def scenario(clock: SimClock) -> None:
        async with process(clock, Numbers(clock), limits=Limits(MILLISECOND_NS, in_flight=4, jitter_max_ns=0)) as one:
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            async with one.governor.admit(Lane.LIVE) as slow, one.governor.admit(Lane.LIVE) as quick:
                await slow.depart()
                clock.stall(5 * MILLISECOND_NS)
                await quick.depart()
                clock.stall(MILLISECOND_NS // 10)
                slow.sent()
                assert one.governor.pacer.ceiling_next_ns >= clock.monotonic_ns() + MILLISECOND_NS

    run(scenario)
