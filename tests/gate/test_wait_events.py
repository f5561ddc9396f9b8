"""Is every long wait told when it begins, with its end and its reason? And why the circuit breaker moved?"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from remora.core.rate.circuit_breaker import COOL_DOWN_NS
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import BROKEN, PRESSED, SOURCE, Answer, Book, gate, one_by_one, simulated

Events = list[MutableMapping[str, Any]]
FOUR_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 4)
AN_HOUR = Answer(429, retry_after="3600")


def told(events: Events, name: str) -> Events:
    return [event for event in events if event["event"] == name]


def test_a_restart_under_a_long_retry_after_says_at_once_until_when_it_waits_and_why(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        async with gate(clock, FOUR_PER_S, says=one_by_one([AN_HOUR]), book=book) as first:
            await first.send()
        events.clear()
        async with gate(clock, FOUR_PER_S, book=book) as second:
            waiting = asyncio.ensure_future(second.send())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            (event,) = told(events, "gate_waits")
            assert (event["source"], event["reason"]) == (SOURCE, "retry_after")
            assert 3_590 <= event["for_s"] <= 3_600
            assert event["until_s"] == pytest.approx(clock.wall_ns() / SECOND_NS - 1 + event["for_s"], abs=1)
            await clock.sleep_until(clock.monotonic_ns() + 30 * MINUTE_NS)
            assert len(told(events, "gate_waits")) == 1, "once, when it begins"
            waiting.cancel()

    simulated(main)


def test_the_usual_spacing_of_requests_is_no_wait(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, Limits(ceiling_interval_ns=MINUTE_NS)) as slow:
            await slow.send_many(5)

    simulated(main)
    assert told(events, "gate_waits") == []


@pytest.mark.parametrize(
    "answer, reason",
    [
        (BROKEN, "it answers HTTP 500 (server error)"),
        (PRESSED, "it answers HTTP 429 (rate limited)"),
        (Answer(fault=Fault.TIMEOUT), "it does not answer in time"),
        (Answer(fault=Fault.CONNECTION), "no connection can be opened, or it breaks"),
    ],
)
def test_a_circuit_breaker_that_moves_says_why(events: Events, answer: Answer, reason: str) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S, says=one_by_one([answer] * 6)) as broken:
            await broken.send()
            first_ns = clock.wall_ns()
            await broken.send_many(5)
            down = broken.governor.state().provider_down
            assert down is not None
            assert (down.answers, down.since_ns) == (reason, first_ns)
            await broken.send_many(2)
            assert broken.governor.state().provider_down is None

    simulated(main)
    moves = told(events, "circuit_changed")
    assert [event["state"] for event in moves] == ["open", "half_open", "closed"]
    assert moves[0]["reason"] == reason
    assert moves[0]["next_probe_in_s"] == COOL_DOWN_NS / SECOND_NS
    assert all(event["reason"] for event in moves)


def test_a_probe_that_fails_changes_what_is_told_but_not_since_when() -> None:
    async def main(clock: SimClock) -> None:
        says = one_by_one([BROKEN] * 6 + [Answer(fault=Fault.TIMEOUT)])
        async with gate(clock, FOUR_PER_S, says=says) as broken:
            await broken.send_many(6)
            before = broken.governor.state().provider_down
            await broken.send()
            after = broken.governor.state().provider_down
            assert before is not None
            assert after is not None
            assert after.since_ns == before.since_ns
            assert after.answers == "it does not answer in time"

    simulated(main)
