"""Does the gate's circuit open on systemic trouble, let exactly one probe through, and say so without side effects?"""

import asyncio
from itertools import pairwise

import pytest

from remora.core.lanes import Lane
from remora.core.rate.circuit_breaker import COOL_DOWN_NS, RECENT_ANSWERS, CircuitState
from remora.core.rate.gate_types import LimitedBy
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import BROKEN, GOOD, PRESSED, REFUSED, Answer, Gate, always, gate, one_by_one, simulated, warm

TEN_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 10, in_flight=50)


async def opened(broken: Gate) -> None:
    """Drive the gate until its circuit opens."""
    while broken.governor.state().circuit is CircuitState.CLOSED:
        await broken.send()


@pytest.mark.parametrize(
    "answer", [BROKEN, PRESSED, Answer(fault=Fault.TIMEOUT)], ids=["server error", "pressure", "timeout"]
)
def test_systemic_trouble_opens_it_and_the_first_good_answer_closes_it(answer: Answer) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(answer)) as broken:
            await opened(broken)
            opened_ns = clock.monotonic_ns()
            assert broken.governor.state().circuit is CircuitState.OPEN
            broken.says = always(GOOD)
            await broken.send()
            assert broken.left_at_ns[-1] >= opened_ns + COOL_DOWN_NS
            assert broken.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


def test_single_item_refusals_never_open_it() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(REFUSED), book=warm(clock, TEN_PER_S)) as picky:
            await picky.send_many(100, workers=5)
            assert picky.governor.state().circuit is CircuitState.CLOSED
            assert picky.governor.state().last_back_off is None

    simulated(main)


def test_one_item_that_always_fails_does_not_open_it_with_its_retries() -> None:
    async def main(clock: SimClock) -> None:
        answers = [GOOD, GOOD, BROKEN, BROKEN, BROKEN, BROKEN, GOOD]
        async with gate(clock, TEN_PER_S, says=one_by_one(answers)) as poisoned:
            for attempt in range(len(answers)):
                await poisoned.send(already_counted=3 <= attempt <= 5)
            assert poisoned.governor.state().circuit is CircuitState.CLOSED
            assert poisoned.governor.state().last_back_off is None

    simulated(main)


HANGS = Answer(fault=Fault.TIMEOUT, latency_ns=20 * SECOND_NS)


def test_requests_that_hang_while_those_that_left_later_are_answered_do_not_open_it() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(HANGS), book=warm(clock, TEN_PER_S)) as one:
            hanging = [asyncio.ensure_future(one.send()) for _ in range(30)]
            await clock.sleep_until(clock.monotonic_ns() + 4 * SECOND_NS)
            one.says = always(GOOD)
            await one.send_many(RECENT_ANSWERS)
            await asyncio.gather(*hanging)
            assert one.governor.state().circuit is CircuitState.CLOSED
            assert one.governor.state().last_back_off is None

    simulated(main)


def test_a_source_that_answers_nothing_any_more_opens_it_within_seconds_of_the_first_timeouts() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, book=warm(clock, TEN_PER_S)) as dying:
            await dying.send_many(100, workers=10)
            dying.says = always(HANGS)
            died_ns = clock.monotonic_ns()
            sending = asyncio.ensure_future(dying.send_until(died_ns + MINUTE_NS, workers=50))
            while dying.governor.state().circuit is CircuitState.CLOSED:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 10)
            assert clock.monotonic_ns() <= died_ns + HANGS.latency_ns + 2 * SECOND_NS
            await sending

    simulated(main)


def test_a_source_that_lets_most_requests_hang_opens_it_although_it_answers_some() -> None:
    async def main(clock: SimClock) -> None:
        def mostly(_now_ns: int) -> Answer:
            return HANGS if clock.random.random() < 0.9 else GOOD

        async with gate(clock, TEN_PER_S, says=mostly, book=warm(clock, TEN_PER_S)) as torn:
            sending = asyncio.ensure_future(torn.send_until(clock.monotonic_ns() + MINUTE_NS, workers=50))
            await clock.sleep_until(clock.monotonic_ns() + 30 * SECOND_NS)
            assert torn.governor.state().circuit is CircuitState.OPEN
            await sending

    simulated(main)


def test_the_probe_is_not_an_owed_item_while_anything_else_waits() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            broken.says = always(GOOD)
            before = len(broken.departures)
            await asyncio.gather(*(broken.send(lane) for lane in (Lane.RECOVER, Lane.BACKFILL, Lane.RECOVER)))
            assert [lane for _, lane in broken.departures[before:]] == [Lane.BACKFILL, Lane.RECOVER, Lane.RECOVER]
            broken.says = always(BROKEN)
            await opened(broken)
            broken.says = always(GOOD)
            await broken.send(Lane.RECOVER)  # if nothing else waits, it will do
            assert broken.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


@pytest.mark.parametrize("workers", [1, 2, 7, 50])
def test_exactly_one_probe_leaves_in_half_open_with_any_number_of_workers(workers: int) -> None:
    async def main(clock: SimClock) -> None:
        slow = Answer(500, latency_ns=2 * SECOND_NS)
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            broken.says = always(slow)
            before = len(broken.departures)
            await broken.send_until(clock.monotonic_ns() + 5 * MINUTE_NS, workers=workers)
            probes = broken.left_at_ns[before:]
            assert len(probes) >= 3
            # Each probe's answer is awaited and followed by a whole cool-down before the next one leaves.
            assert all(later - earlier >= 2 * SECOND_NS + COOL_DOWN_NS for earlier, later in pairwise(probes))
            assert broken.in_flight_most <= 1 or workers > 1

    simulated(main)


def test_requests_that_were_still_connecting_when_it_opened_wait_and_one_of_them_is_the_probe() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN), book=warm(clock, TEN_PER_S)) as broken:
            connecting = [asyncio.ensure_future(broken.send(connect_ns=5 * SECOND_NS)) for _ in range(10)]
            await clock.sleep_until(2 * SECOND_NS)
            await opened(broken)
            opened_ns, before = clock.monotonic_ns(), len(broken.departures)
            await clock.sleep_until(opened_ns + COOL_DOWN_NS - SECOND_NS)
            assert len(broken.departures) == before
            broken.says = always(GOOD)
            await asyncio.gather(*connecting)
            assert broken.left_at_ns[before] >= opened_ns + COOL_DOWN_NS
            # The others left only after the probe's answer.
            assert broken.left_at_ns[before + 1] >= broken.left_at_ns[before] + GOOD.latency_ns

    simulated(main)


@pytest.mark.parametrize("cancel_after_ns", [0, 1, SECOND_NS, 12 * SECOND_NS, 14 * SECOND_NS])
def test_a_lost_probe_is_replaced_at_once_and_nobody_waits_for_ever(cancel_after_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            broken.says = always(Answer(latency_ns=30 * SECOND_NS))
            first = asyncio.ensure_future(broken.send())
            others = [asyncio.ensure_future(broken.send()) for _ in range(5)]
            await clock.sleep_until(clock.monotonic_ns() + cancel_after_ns)
            first.cancel()
            await asyncio.gather(*others)
            assert broken.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


def test_a_probe_that_is_cancelled_between_its_turn_and_its_departure_is_replaced() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            broken.says = always(GOOD)
            async with broken.governor.admit(Lane.LIVE) as probe:
                assert probe.is_probe
                assert broken.governor.state().circuit is CircuitState.HALF_OPEN
                assert broken.governor.state().circuit_wait_ns is None
            assert broken.governor.state().circuit is CircuitState.OPEN
            await broken.send()
            assert broken.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


def test_an_answer_about_one_item_is_all_a_probe_asks() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            broken.says = always(REFUSED)
            await broken.send()
            assert broken.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


def test_the_cool_down_is_readable_without_side_effects() -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, TEN_PER_S, says=always(BROKEN)) as broken:
            await opened(broken)
            waits = []
            for _ in range(5):
                assert broken.governor.state() == broken.governor.state()
                assert broken.governor.state().next_in_ns == broken.governor.state().next_in_ns
                waits.append(broken.governor.state().circuit_wait_ns)
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert waits == [COOL_DOWN_NS - seconds * SECOND_NS for seconds in range(5)]
            waiting = asyncio.ensure_future(broken.send())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert broken.governor.state().limited_by is LimitedBy.CIRCUIT
            await waiting

    simulated(main)
