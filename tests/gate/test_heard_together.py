"""Are plain answers that nobody waits for heard a burst at a time, and all others at once?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from remora.contracts import Outcome
from remora.core.item import Decoded
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.rate.pacing import BURST_NS
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, Reply, Verdict
from remora.gate.governor import GovernedPermit, Limits
from remora.gate.unheard import Came, Unheard
from remora.sim.clock import SimClock, run
from remora.sources.dialects import Dialects
from tests.gate.numbers import Numbers, PromptNumbers, collect, items, process
from tests.gate.rig import BROKEN, GOOD, LATENCY_NS, Answer

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


def answered_count(source: PromptNumbers) -> int:
    """How many answers have come by now."""
    return sum(departed_ns + LATENCY_NS <= source.clock.monotonic_ns() for departed_ns, _ in source.asked)


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


def test_the_first_good_answer_after_a_failure_is_heard_at_once() -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock, says=lambda item_id, attempt: BROKEN if (item_id, attempt) == (100, 1) else GOOD)
        waits = waits_ns(source, await heard_at(clock, source, HURRIED, Lane.BACKFILL))
        failed_ns = min(departed_ns for departed_ns, key in source.asked if key == "100") + LATENCY_NS
        after = {item_id: at_ns for item_id, at_ns in answered_ns(source).items() if at_ns > failed_ns}
        assert waits[min(after, key=after.__getitem__)] == 0

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


def test_a_refusal_takes_along_the_answers_of_other_batches_that_came_before_it() -> None:
    async def scenario(clock: SimClock) -> None:
        def says(item_id: int, attempt: int) -> Answer:
            status = 429 if (item_id, attempt) == (300, 1) else 200
            return Answer(status, latency_ns=LATENCY_NS + item_id % 7 * 3 * MILLISECOND_NS)

        told = PromptNumbers(clock, says=says)
        learned: list[int] = []
        async with process(clock, told, limits=HURRIED) as one:
            hear = one.governor.learn_found

            def learn_found(answers: Sequence[tuple[GovernedPermit, Reply, Verdict]]) -> None:
                learned.extend(reply.answered_at_ns for _, reply, _ in answers)
                hear(answers)

            one.governor.learn_found = learn_found  # type: ignore[method-assign]
            await asyncio.gather(collect(one, range(1, 281)), collect(one, range(281, 401)))
        assert learned == sorted(learned)
        assert len(learned) > 390

    run(scenario)


def test_a_live_answer_is_learned_after_those_that_came_before_it() -> None:
    async def scenario(clock: SimClock) -> None:
        source, learned = PromptNumbers(clock), list[int]()
        async with process(clock, source, limits=HURRIED) as one:
            hear, hear_one = one.governor.learn_found, one.governor.learn

            def learn_found(answers: Sequence[tuple[GovernedPermit, Reply, Verdict]]) -> None:
                learned.extend(reply.answered_at_ns for _, reply, _ in answers)
                hear(answers)

            def learn(permit: GovernedPermit, reply: Reply, verdict: Verdict, **more: Any) -> None:
                hear_one(permit, reply, verdict, **more)
                learned.append(reply.answered_at_ns)

            one.governor.learn_found, one.governor.learn = learn_found, learn  # type: ignore[method-assign,assignment]
            collecting = asyncio.ensure_future(collect(one, range(1, 401)))
            for item_id in range(1_000, 1_010):
                await one.collector.collect(Discovery.item(item_id, via=Lane.LIVE))
            await collecting
        assert learned == sorted(learned)
        assert len(learned) >= 410

    run(scenario)


def test_an_answer_whose_body_asks_for_a_wait_is_heard_at_once() -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock)
        source.bodies = {100: b'{"id": 100, "backoff": 30, "quota_max": 1000, "quota_remaining": 900}'}
        async with process(clock, source, limits=HURRIED, dialect=Dialects()) as one:
            await collect(one, range(1, 201))
        asked_ns = next(departed_ns for departed_ns, key in source.asked if key == "100") + LATENCY_NS
        after = [departed_ns for departed_ns, _ in source.asked if departed_ns > asked_ns]
        assert after
        assert min(after) >= asked_ns + 30 * SECOND_NS

    run(scenario)


@pytest.mark.parametrize("kind", [Numbers, PromptNumbers])
def test_a_mistake_in_reading_an_answer_ends_its_batch(kind: type[Numbers]) -> None:
    class Mistaken(Dialects):
        def is_silent(self, reply: Reply) -> bool:
            raise ZeroDivisionError(f"{reply.status}")

    async def scenario(clock: SimClock) -> None:
        async with process(clock, kind(clock), limits=HURRIED, dialect=Mistaken()) as one:
            with pytest.raises(ZeroDivisionError):
                await asyncio.wait_for(collect(one, range(1, 201)), 60)
            assert one.governor.state().in_flight == 0

    run(scenario)


def test_a_mistake_with_the_answers_of_one_batch_does_not_keep_others_from_theirs() -> None:
    async def main() -> tuple[list[int], list[str]]:
        heard: list[int] = []
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, about: told.append(str(about["exception"])))
        unheard = Unheard(lambda: 0)

        def hear_wrongly(came: Sequence[Came]) -> None:
            raise ZeroDivisionError(f"{len(came)} answers")

        permit = cast("GovernedPermit", None)
        for number, hear in enumerate([hear_wrongly, lambda came: heard.append(len(came))]):
            unheard.add(hear, permit, Reply(200, b"", 0, number), can_wait=False)
        await asyncio.sleep(0.01)
        return heard, told

    assert asyncio.run(main()) == ([1], ["1 answers"])


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
            await clock.sleep_until(clock.monotonic_ns() + 3 * LATENCY_NS)
            while source.decoded == answered_count(source):  # all that came were heard
                await clock.sleep_until(clock.monotonic_ns() + MILLISECOND_NS // 2)
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
            assert source.decoded == answered_count(source)
            assert one.governor.state().in_flight == 0

    run(scenario)
