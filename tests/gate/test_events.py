"""Can an operator follow the gate? Events on every change of pace, few, whole, and without anybody's content."""

import re
from collections.abc import MutableMapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from remora.collect import Collector
from remora.contracts import Capabilities, Permit
from remora.core.item import Decoded, Document, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.rate.gate_types import LimitedBy
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.gate.shared import SharedHome
from remora.sim.clock import SimClock
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate
from remora.stores.memory import MemoryStore
from tests.gate.rig import (
    BROKEN,
    GOOD,
    PRESSED,
    SOURCE,
    Answer,
    Book,
    Gate,
    Says,
    always,
    gate,
    one_by_one,
    simulated,
    warm,
)

Events = list[MutableMapping[str, Any]]
FOUR_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 4)
SECRET_KEY = "conversation-4711-about-my-divorce"
SECRET_TOKEN = "sk-very-secret"
PACE_EVENTS = {"sped_up", "backed_off", "quieted"}
EVENTS_PER_S_AT_MOST = 3


class ChatArchive:
    """A source whose keys and bodies nobody should read in a log."""

    name = SOURCE
    capabilities = Capabilities(list=True)

    def __init__(self, clock: SimClock, statuses: list[int]) -> None:
        self._clock = clock
        self._statuses = statuses

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        departed_at_ns = await permit.depart()
        await self._clock.sleep_until(departed_at_ns + SECOND_NS // 50)
        status = self._statuses.pop(0) if self._statuses else 200
        body = f'{{"title": "{SECRET_KEY}", "token": "{SECRET_TOKEN}"}}'.encode()
        headers = {"retry-after": "2"} if status in {429, 503} else {}
        return Reply(status, body, departed_at_ns, self._clock.monotonic_ns(), headers)

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        if discovery.key.endswith("odd"):
            raise ValueError(reply.body)
        return Readable(Document(discovery.key, reply.body))


def test_controller_state_is_emitted_as_redacted_run_trace_progress(events: Events) -> None:
    """Controller state is emitted as redacted run-trace progress."""

    async def main(clock: SimClock) -> None:
        statuses = [200] * 12 + [429] + [200] * 12 + [503, 500, 401] + [200] * 5
        source, store, meter = ChatArchive(clock, statuses), MemoryStore(), CountingMeter()
        governor = Governor(
            SOURCE, FOUR_PER_S, clock=clock, home=LocalHome(SOURCE, store), meter=meter, chance=clock.random.random
        )
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        for number in range(30):
            await collector.collect(Discovery(Kind.DOCUMENT, f"{SECRET_KEY}-{number}", Lane.DETAIL))
        await collector.collect(Discovery(Kind.DOCUMENT, f"{SECRET_KEY}-odd", Lane.DETAIL))
        await governor.close()

    simulated(main)
    kinds = {event["event"] for event in events}
    assert {"sped_up", "backed_off", "decoder_failed"} <= kinds
    for event in events:
        if event["event"] in PACE_EVENTS:
            assert {"interval_s", "rate_per_s", "from_per_s", "ceiling_per_s", "source"} <= set(event)
            assert event["ceiling_per_s"] == 4.0
            assert event["interval_s"] == pytest.approx(1 / event["rate_per_s"], rel=0.01)
        if event["event"] in {"backed_off", "quieted"}:
            assert event["reason"] in {"rate_limited", "upstream_pressure"}
            assert event["rate_per_s"] < event["from_per_s"]
            assert event["backed_off_at_s"] > 1.7e9
            assert event["backed_off_to_per_s"] < event["backed_off_from_per_s"]
    told = repr(events)
    assert SECRET_KEY not in told
    assert SECRET_TOKEN not in told
    assert not re.search(r"https?://|title|4711", told)


@pytest.mark.slow
def test_events_come_a_few_per_second_at_most_whatever_happens(events: Events) -> None:
    at_s: list[float] = []

    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 1_000, in_flight=32)
        quick = Answer(latency_ns=SECOND_NS // 100)
        weather = [quick] * 30 + [replace(quick, status=429)] * 3 + [quick] * 300 + [replace(quick, status=500)] * 5
        async with gate(clock, limits, book=warm(clock, limits), says=one_by_one(weather * 20)) as stormy:
            while clock.monotonic_ns() < MINUTE_NS:
                before = len(events)
                await stormy.send_many(1)
                at_s.extend([clock.monotonic_ns() / SECOND_NS] * (len(events) - before))

    simulated(main)
    assert len(at_s) >= 10
    for first in range(len(at_s)):
        assert sum(at_s[first] <= moment < at_s[first] + 1 for moment in at_s) <= EVENTS_PER_S_AT_MOST


def test_a_back_off_that_came_too_soon_after_another_event_is_still_told(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 1_000)
        quick = Answer(latency_ns=1_000_000)
        refused = Answer(429, latency_ns=1_000_000)
        says = one_by_one([quick] * 20 + [refused, refused, refused], then=quick)
        async with gate(clock, limits, book=warm(clock, limits), says=says) as pressed:
            await pressed.send_many(23)
            before_per_s = SECOND_NS / limits.ceiling_interval_ns
            after_per_s = SECOND_NS / pressed.governor.state().interval_ns
            await clock.sleep_until(clock.monotonic_ns() + 3 * SECOND_NS)
        slower = [event for event in events if event["event"] in {"backed_off", "quieted"}]
        assert slower[0]["from_per_s"] == pytest.approx(before_per_s)
        assert slower[-1]["rate_per_s"] == pytest.approx(after_per_s, rel=0.01)
        # No change is missing between two events: each begins where the one before it ended.
        paces = [event for event in events if event["event"] in PACE_EVENTS]
        assert all(later["from_per_s"] == earlier["rate_per_s"] for earlier, later in pairwise(paces))

    simulated(main)


def test_a_back_off_is_told_with_its_own_rates_also_where_a_rise_is_told_with_it(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        # The pace rises for a third of a second before it falls: both are one event.
        limits, quick = Limits(SECOND_NS // 500, in_flight=16), Answer(latency_ns=SECOND_NS // 100)
        says = one_by_one([quick] * 160 + [replace(quick, status=429)], then=quick)
        async with gate(clock, limits, book=warm(clock, Limits(SECOND_NS // 100)), says=says) as busy:
            await busy.send_until(3 * SECOND_NS, workers=16)
            back_off = busy.governor.state().last_back_off
        assert back_off is not None
        (slower,) = [event for event in events if event["event"] == "backed_off"]
        assert slower["rate_per_s"] > slower["from_per_s"]
        told = (slower["backed_off_from_per_s"], slower["backed_off_to_per_s"], slower["reason"])
        assert told == (round(back_off.from_per_s, 4), round(back_off.to_per_s, 4), "rate_limited")
        assert back_off.to_per_s < back_off.from_per_s

    simulated(main)


def test_a_back_off_because_answers_became_slow_says_so(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        limits, quick = Limits(SECOND_NS // 50, in_flight=200), Answer(latency_ns=SECOND_NS // 50)
        says = one_by_one([quick] * 200, then=replace(quick, latency_ns=2 * SECOND_NS))
        async with gate(clock, limits, book=warm(clock, limits), says=says) as busy:
            await busy.send_until(20 * SECOND_NS, workers=200)
            back_off = busy.governor.state().last_back_off
        assert back_off is not None
        assert back_off.reason == "slow_answers"
        assert {event["reason"] for event in events if event["event"] == "backed_off"} == {"slow_answers"}

    simulated(main)


def test_answers_that_only_our_own_busy_loop_read_late_lower_nothing() -> None:
    async def main(clock: SimClock) -> None:
        limits, quick = Limits(SECOND_NS // 50, in_flight=200), Answer(latency_ns=SECOND_NS // 50)
        late = replace(quick, latency_ns=2 * SECOND_NS, late_ns=2 * SECOND_NS - SECOND_NS // 50)
        says = one_by_one([quick] * 200, then=late)
        async with gate(clock, limits, book=warm(clock, limits), says=says) as busy:
            await busy.send_until(20 * SECOND_NS, workers=200)
            assert busy.governor.state().last_back_off is None
            assert busy.governor.state().interval_ns == limits.ceiling_interval_ns

    simulated(main)


def test_a_back_off_in_another_process_is_told_as_such_also_when_that_one_has_gone_on_since(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        gate_store, limits = SimGate(clock), Limits(SECOND_NS // 20, in_flight=2)

        async def process(says: Says) -> Gate:
            home = SharedHome(SOURCE, gate_store, ceiling_interval_ns=limits.ceiling_interval_ns, clock=clock)
            governor = Governor(SOURCE, limits, clock=clock, home=home, meter=CountingMeter(), chance=lambda: 0.0)
            await governor.open()
            return Gate(clock, governor, says)

        busy, other = await process(one_by_one([GOOD] * 60 + [PRESSED])), await process(always(GOOD))
        await busy.send_many(60)
        await other.send()
        assert other.governor.state().last_back_off is None
        await busy.send_many(3)
        heard_ns = clock.wall_ns()
        await other.send()
        back_off = other.governor.state().last_back_off
        assert back_off is not None
        assert (back_off.reason, back_off.at_ns >= heard_ns) == ("another_process", True)
        for each in (busy, other):
            await each.governor.close()

    simulated(main)


def test_one_slow_down_per_pressured_request_however_often_it_is_retried() -> None:
    async def slow_downs(clock: SimClock, statuses: list[int]) -> int:
        source, store, meter = ChatArchive(clock, statuses), MemoryStore(), CountingMeter()
        governor = Governor(
            SOURCE, FOUR_PER_S, clock=clock, home=LocalHome(SOURCE, store), meter=meter, chance=clock.random.random
        )
        await governor.open()
        collector = Collector(source, store, governor, clock=clock, meter=meter)
        asked = await collector.ask(Discovery(Kind.DOCUMENT, "a", Lane.DETAIL))
        assert asked.requests == 4
        await governor.close()
        return sum(reason is not None for _, _, reason in meter.paces_ns)

    async def main(clock: SimClock) -> None:
        assert await slow_downs(clock, [429, 429, 429, 429]) == 1
        assert await slow_downs(clock, [500, 429, 500, 429]) == 1
        assert await slow_downs(clock, [500, 500, 500, 500]) == 0

    simulated(main)


def test_transitions_of_the_circuit_are_events(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S, says=one_by_one([BROKEN] * 6)) as broken:
            await broken.send_many(8)

    simulated(main)
    moves = [(event["was"], event["state"]) for event in events if event["event"] == "circuit_changed"]
    assert moves == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]


def test_a_distrusted_record_is_a_warning_and_a_trusted_one_is_not(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S, book=Book(clock, {"pace": "garbage"})):
            pass
        async with gate(clock, FOUR_PER_S):
            pass

    simulated(main)
    restored = [(event["log_level"], event["how"]) for event in events if event["event"] == "pace_restored"]
    assert restored == [("warning", "cold_damaged"), ("info", "cold_none")]


@pytest.mark.slow
def test_a_store_that_is_down_is_told_once_a_minute_and_that_it_is_over(events: Events) -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock, is_down=True)
        async with gate(clock, FOUR_PER_S, book=book) as cut_off:
            await cut_off.send_until(3 * MINUTE_NS)
            book.is_down = False
            await cut_off.send_until(4 * MINUTE_NS)

    simulated(main)
    said = [event for event in events if event["event"] == "pace_not_stored"]
    assert 2 <= len(said) <= 4
    assert [event["times"] > 10 for event in events if event["event"] == "pace_stored_again"] == [True]


def test_the_state_says_what_limits_the_rate() -> None:
    async def limited_by(clock: SimClock, answer: Answer, limits: Limits, *, workers: int) -> LimitedBy:
        async with gate(clock, limits, book=warm(clock, limits), says=always(answer)) as busy:
            seen: list[LimitedBy] = []

            def says(_now_ns: int) -> Answer:
                seen.append(busy.governor.state().limited_by)
                return answer

            busy.says = says
            await busy.send_until(clock.monotonic_ns() + 20 * SECOND_NS, workers=workers)
            return seen[-1]

    async def main(clock: SimClock) -> None:
        assert await limited_by(clock, GOOD, Limits(SECOND_NS // 4, in_flight=4), workers=8) is LimitedBy.CEILING
        slow = Answer(latency_ns=3 * SECOND_NS)
        assert await limited_by(clock, slow, Limits(SECOND_NS // 4), workers=8) is LimitedBy.IN_FLIGHT
        async with gate(clock, FOUR_PER_S) as idle:
            assert idle.governor.state().limited_by is LimitedBy.NO_WORK
        async with gate(clock, FOUR_PER_S, says=always(Answer(429, retry_after="7200"))) as told:
            await told.send()
            assert told.governor.state().next_in_ns > HOUR_NS

    simulated(main)
