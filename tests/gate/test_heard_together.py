"""Are plain answers that nobody waits for heard a burst at a time, and all others at once?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from remora.contracts import Outcome
from remora.core.item import Decoded
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.rate.pacing import BURST_NS
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, Reply
from remora.gate.governor import Limits
from remora.sim.clock import SimClock, run
from tests.gate.numbers import PromptNumbers, collect, items, process
from tests.gate.rig import GOOD, LATENCY_NS, Answer

HURRIED = Limits(SECOND_NS // 2_000, in_flight=256)


async def heard_at(clock: SimClock, source: PromptNumbers, limits: Limits, via: Lane) -> dict[int, list[int]]:
    """Collect 200 of them together; the ids that were heard at each moment."""
    heard: dict[int, list[int]] = {}
    async with process(clock, source, limits=limits) as one:

        async def durable(collected: Sequence[tuple[Discovery, Outcome]]) -> None:
            ids = [discovery.item_id for discovery, _ in collected]
            heard.setdefault(clock.monotonic_ns(), []).extend(ids)

        await one.collector.collect_many(items(range(1, 201), via), durable)
    return heard


def waits_ns(source: PromptNumbers, heard: dict[int, list[int]]) -> dict[int, int]:
    """How long each answer waited until it was heard."""
    answered = answered_ns(source)
    return {item_id: at_ns - answered[item_id] for at_ns, ids in heard.items() for item_id in ids}


def answered_ns(source: PromptNumbers) -> dict[int, int]:
    """When each id was answered, the last time that it was asked for."""
    return {int(key): departed_ns + LATENCY_NS for departed_ns, key in source.asked}


def test_answers_that_nobody_waits_for_are_heard_a_burst_at_a_time_while_the_pace_holds_requests_back() -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock)
        heard = await heard_at(clock, source, HURRIED, Lane.BACKFILL)
        waits = waits_ns(source, heard)
        assert 0 < max(waits.values()) <= BURST_NS
        last_ns = max(source.asked)[0]
        assert not any(
            wait_ns for item_id, wait_ns in waits.items() if answered_ns(source)[item_id] > last_ns + BURST_NS
        )
        assert len(heard) <= 20

    run(scenario)


@pytest.mark.parametrize(
    "limits, via",
    [
        (HURRIED, Lane.LIVE),
        (Limits(SECOND_NS // 2_000, in_flight=8), Lane.BACKFILL),
        (Limits(SECOND_NS // 2_000, in_flight=256, refusal_limit=RefusalLimit(1_000, SECOND_NS)), Lane.BACKFILL),
        (Limits(SECOND_NS // 100, in_flight=256), Lane.BACKFILL),
    ],
    ids=["somebody waits", "the places are full", "refusals are limited", "no bursts are sent"],
)
def test_otherwise_each_answer_is_heard_at_once(limits: Limits, via: Lane) -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock)
        assert max(waits_ns(source, await heard_at(clock, source, limits, via)).values()) == 0

    run(scenario)


@pytest.mark.parametrize(
    "odd", [Answer(429), Answer(500), Answer(fault=Fault.CONNECTION)], ids=["429", "500", "broken off"]
)
def test_an_answer_that_is_not_plain_is_heard_at_once_with_those_that_wait(odd: Answer) -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock, says=lambda item_id, attempt: odd if (item_id, attempt) == (100, 1) else GOOD)
        heard = await heard_at(clock, source, HURRIED, Lane.BACKFILL)
        first_departed_ns = min(departed_ns for departed_ns, key in source.asked if key == "100")
        assert 99 in heard[first_departed_ns + LATENCY_NS]

    run(scenario)


def test_answers_that_wait_to_be_heard_when_their_batch_is_cancelled_are_learned() -> None:
    @dataclass
    class Decoding(PromptNumbers):
        decoded: int = 0

        def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
            self.decoded += 1
            return super().decode(discovery, reply)

    async def scenario(clock: SimClock) -> None:
        source = Decoding(clock)
        async with process(clock, source, limits=HURRIED) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 201)))
            while not source.asked:
                await clock.sleep_until(clock.monotonic_ns() + MILLISECOND_NS)
            await clock.sleep_until(source.asked[0][0] + LATENCY_NS + MILLISECOND_NS)
            assert source.decoded == 0
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
            assert source.decoded == sum(
                departed_ns + LATENCY_NS <= clock.monotonic_ns() for departed_ns, _ in source.asked
            )
            assert one.governor.state().in_flight == 0

    run(scenario)
