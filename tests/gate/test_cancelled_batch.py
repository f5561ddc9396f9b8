"""Does a batch that is cancelled at a bad moment leave nothing behind: no task, no request and no taken place?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from remora.contracts import OnReply, Permit, PromptPermit, Sent
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.gate.governor import Limits
from remora.sim.clock import SimClock, run
from tests.gate.numbers import Numbers, PromptNumbers, collect, process
from tests.gate.rig import Answer
from tests.gate.test_request_batch import _Nothing

LIMITS = Limits(SECOND_NS // 200, in_flight=8)


@dataclass
class Told(Numbers):
    """Sends at once, and answers with the status it is told."""

    answer: dict[int, Callable[[int], None]] = field(default_factory=dict)

    def fetch_now(self, discovery: Discovery, permit: PromptPermit, on_reply: OnReply) -> Sent | None:
        departed_ns = permit.depart_now()
        if departed_ns is None:
            return None
        self.asked.append((departed_ns, discovery.key))
        self.answer[discovery.item_id] = lambda status: on_reply(
            Reply(status, b"", departed_ns, self.clock.monotonic_ns())
        )
        return _Nothing()


@dataclass
class SlowToEnd(Numbers):
    """Its requests need another tick to end when they are cancelled."""

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        try:
            return await super().fetch(discovery, permit)
        finally:
            await asyncio.sleep(0)


def other_tasks() -> set["asyncio.Task[None]"]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_an_answer_in_the_tick_of_a_cancellation_starts_no_other_request() -> None:
    async def main(clock: SimClock) -> None:
        source = Told(clock)
        async with process(clock, source, limits=LIMITS) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 4)))
            await clock.sleep_until(clock.monotonic_ns() + 2 * SECOND_NS)
            source.answer[1](500)  # it is asked for again later, by a task
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 100)
            collecting.cancel()
            source.answer[2](500)
            await asyncio.gather(collecting, return_exceptions=True)
            assert one.governor.state().in_flight == 0
        assert other_tasks() == set()
        assert len(source.asked) == 3

    run(main, seed=1)


def test_a_second_cancellation_gives_back_every_place() -> None:
    async def main(clock: SimClock) -> None:
        source = SlowToEnd(clock, says=lambda _item_id, _attempt: Answer(latency_ns=60 * SECOND_NS))
        async with process(clock, source, limits=LIMITS) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 101)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert one.governor.state().in_flight > 0
            collecting.cancel()
            await asyncio.sleep(0)
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert one.governor.state().in_flight == 0

    run(main, seed=1)


def test_a_gate_that_was_closed_gives_no_turns() -> None:
    async def main(clock: SimClock) -> None:
        async with process(clock, Numbers(clock), limits=LIMITS) as one:
            pass
        with pytest.raises(asyncio.CancelledError):
            await one.governor.turn(Lane.LIVE)
        assert one.governor.many_turns(Lane.BACKFILL, 3, lambda _permits: None).turn.cancelled()
        assert other_tasks() == set()

    run(main, seed=1)


def test_a_gate_that_closes_ends_a_batch_whose_items_need_another_request() -> None:
    async def scenario(clock: SimClock) -> None:
        source = PromptNumbers(clock, says=lambda _item_id, attempt: Answer(500) if attempt == 1 else Answer())
        async with process(clock, source) as one:
            collecting = asyncio.ensure_future(collect(one, range(1, 3)))
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 16)
            assert len(source.asked) == 2
            await one.governor.close()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(collecting, 600)

    run(scenario)
