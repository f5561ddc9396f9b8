"""Is a stream connect a request like any other? It passes the gate, is counted, and teaches it; where it is dear, ids are polled."""

import asyncio
from itertools import pairwise
from typing import Literal

import pytest

from remora.contracts import StreamBroken
from remora.core.lanes import Lane
from remora.core.ledger.freshness import is_stream_too_dear, poll_interval_ns, reconnect_every_ns
from remora.core.rate.circuit_breaker import CircuitState
from remora.loops.numbered.service import ServiceSettings
from remora.sim.clock import SimClock
from remora.sim.faults import Faults, Outage, StreamFaults
from remora.sim.limits import Limit
from remora.sim.transport import SimTransport
from remora.sim.world import WorldSettings
from tests.loops.rig import HOUR_NS, MINUTE_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time

pytestmark = pytest.mark.slow

BREAKING = Faults(stream=StreamFaults(drops_per_hour=3_600))
QUIET = ServiceSettings(rescan=None, backfill=False)
AT_RATE = {"1/s": SECOND_NS, "6/min": 10 * SECOND_NS, "50/s": SECOND_NS // 50}


async def run_for(process: Process, clock: SimClock, for_ns: int) -> None:
    running = asyncio.get_running_loop().create_task(process.service.run())
    await clock.sleep_until(clock.monotonic_ns() + for_ns)
    assert not running.done(), "the service ended by itself"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("ceiling", list(AT_RATE))
def test_no_two_arrivals_are_closer_than_the_ceiling_however_often_streams_break(ceiling: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, faults=BREAKING, ceiling_ns=AT_RATE[ceiling])
        wire = SimTransport(rig.provider, clock)
        async with rig.process(settings=QUIET, transport=wire) as process:
            await run_for(process, clock, 10 * MINUTE_NS)
        times = rig.provider.arrivals.times_ns
        assert len(times) > 5
        assert all(later - earlier >= rig.ceiling_ns for earlier, later in pairwise(times))
        assert rig.meter.total_departures(NAME) == wire.wire_sends == len(times)

    in_virtual_time(main)


def test_connects_use_at_most_a_tenth_of_the_ceiling() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, faults=BREAKING, ceiling_ns=SECOND_NS)
        async with rig.process(settings=QUIET) as process:
            await run_for(process, clock, HOUR_NS)
        assert 60 < rig.provider.streams_opened <= HOUR_NS // (10 * SECOND_NS) + 2

    in_virtual_time(main)


def test_where_a_stream_is_too_dear_none_is_opened_and_ids_are_polled_for_a_tenth_of_the_ceiling() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, ceiling_ns=AT_RATE["6/min"])
        async with rig.process(settings=QUIET) as process:
            await run_for(process, clock, HOUR_NS)
            assert process.service.state().stream is None
            assert (process.collector.newest_id or 0) > 1_000
        assert rig.provider.streams_opened == 0
        assert 2 <= rig.provider.arrivals.counts()["/v0/maxitem.json"] <= 37

    in_virtual_time(main)


@pytest.mark.parametrize(
    "per_minute, streams, dear",
    [(6, 1, True), (19, 1, True), (20, 1, False), (39, 2, True), (40, 2, False), (1, 0, False)],
)
def test_a_stream_is_too_dear_where_a_connect_each_half_minute_is_more_than_a_tenth(
    per_minute: int, streams: int, dear: bool
) -> None:
    interval_ns = MINUTE_NS // per_minute
    assert is_stream_too_dear(ceiling_interval_ns=interval_ns, streams=streams) is dear
    assert reconnect_every_ns(ceiling_interval_ns=interval_ns, streams=streams) == 10 * streams * interval_ns
    assert poll_interval_ns(15 * SECOND_NS, ceiling_interval_ns=interval_ns) >= 10 * interval_ns


def test_a_connect_that_is_refused_teaches_the_gate_and_its_retry_after_holds_everything() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(
            clock, faults=Faults(limit=Limit(kind="token_bucket", per_second=0.001, burst=1, retry_after=True))
        )
        async with rig.process(settings=QUIET) as process:
            await process.collector.newest()  # uses the only token
            stream = aiter(process.source.changes(process.collector.stream_gate(Lane.UPDATE)))
            with pytest.raises(StreamBroken, match="status_429"):
                await anext(stream)
            state = process.governor.state()
            assert state.not_before_in_ns > 0
            assert state.departures == 2

    in_virtual_time(main)


@pytest.mark.parametrize("what, opens", [("all", True), ("stream", False)])
def test_a_stream_that_stays_broken_asks_whether_anything_is_answered_where_nothing_else_is_asked(
    what: Literal["all", "stream"], opens: bool
) -> None:
    """A quiet mirror: no item is new for half an hour, and the newest id is polled every quarter of an hour."""

    async def main(clock: SimClock) -> None:
        out = Outage(what=what, from_s=600, to_s=2_400)
        rig = Rig.make(clock, world=WorldSettings(items=50, new_per_day=1.0), faults=Faults(outages=(out,)))
        settings = ServiceSettings(rescan=None, backfill=False, poll_every_ns=15 * MINUTE_NS)
        async with rig.process(settings=settings) as process:
            running = asyncio.get_running_loop().create_task(process.service.run())
            await clock.sleep_until(clock.monotonic_ns() + 599 * SECOND_NS)
            before = rig.provider.arrivals.counts()
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            assert (process.governor.state().circuit != CircuitState.CLOSED) is opens
            await clock.sleep_until(clock.monotonic_ns() + 25 * MINUTE_NS)
            if not opens:  # a broken stream costs few canaries
                asked = rig.provider.arrivals.counts() - before
                connects = asked["/v0/updates.json"] + asked["/v0/maxitem.json"]
                assert sum(asked.values()) - connects <= connects / 10
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)


def test_a_connect_waits_until_the_circuit_is_closed_and_is_never_its_probe() -> None:
    async def main(clock: SimClock) -> None:
        out = Outage(what="all", from_s=0, to_s=600)
        rig = Rig.make(clock, faults=Faults(outages=(out,)))
        async with rig.process(settings=QUIET) as process:
            opened_while_shut = 0
            running = asyncio.get_running_loop().create_task(process.service.run())
            for _ in range(590):
                before = rig.provider.arrivals.counts()["/v0/updates.json"]
                was_shut = process.governor.state().circuit != CircuitState.CLOSED
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
                is_shut = process.governor.state().circuit != CircuitState.CLOSED
                if was_shut and is_shut:
                    opened_while_shut += rig.provider.arrivals.counts()["/v0/updates.json"] - before
            assert opened_while_shut <= 1  # one may have had its turn when the circuit opened
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)
