"""Does the life of one item end durable, whatever the provider does? Every verdict, retries, and what nobody thought of."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from remora.contracts import Capabilities, Observation, Outcome
from remora.core.errors import StoreUnavailable
from remora.core.lanes import Lane
from remora.core.ledger.asking import RETRY_DELAYS_NS
from remora.core.ledger.discovery import Discovery, FromGap
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.reasons import GapReason
from remora.core.units import HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault, Pressure, Trouble
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from remora.stores.memory import MemoryStore
from tests.gate.numbers import NAME, NULL, POISON, Numbers, process
from tests.gate.rig import BROKEN, GOOD, PRESSED, REFUSED, Answer, one_by_one, simulated

SEVEN = Discovery.item(7, via=Lane.LIVE)
ATTEMPTS = 1 + len(RETRY_DELAYS_NS)


def test_a_found_item_is_new_then_unchanged_then_changed() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock)
        async with process(clock, source) as one:
            assert await one.collector.collect(SEVEN) is Outcome.NEW
            assert await one.collector.collect(SEVEN) is Outcome.UNCHANGED
            source.bodies[7] = b'{"id":7,"text":"edited"}'
            assert await one.collector.collect(SEVEN) is Outcome.CHANGED
            stored = await one.store.item(NAME, 7)
            assert stored is not None
            assert stored.body == source.bodies[7]
            assert one.meter.total_departures(NAME) == len(source.asked) == 3

    simulated(main)


@pytest.mark.parametrize(
    "answer, reason",
    [
        (PRESSED, GapReason.RATE_LIMITED),
        (BROKEN, GapReason.SERVER_ERROR),
        (Answer(fault=Fault.TIMEOUT), GapReason.TIMEOUT),
        (Answer(fault=Fault.CONNECTION), GapReason.CONNECTION),
    ],
)
def test_what_still_fails_after_its_retries_is_owed(answer: Answer, reason: GapReason) -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: answer)
        async with process(clock, source) as one:
            assert await one.collector.collect(SEVEN) is Outcome.OWED
            (gap,) = await one.store.gaps(NAME)
            assert (gap.state, gap.reason, gap.attempts) == (GapState.OWED, reason, 1)
            # Every attempt passed the gate, none sooner than its delay.
            assert len(source.asked) == ATTEMPTS == one.meter.total_departures(NAME)
            for index, delay_ns in enumerate(RETRY_DELAYS_NS):
                gap_ns = source.asked[index + 1][0] - source.asked[index][0]
                assert gap_ns >= delay_ns + answer.latency_ns

    simulated(main)


def test_a_status_means_absent_where_the_source_says_so() -> None:
    async def main(clock: SimClock) -> None:
        for statuses, reason in ((frozenset({403}), GapReason.NOT_FOUND), (frozenset({404}), GapReason.FORBIDDEN)):
            can = Capabilities(newest_id=True, absent_statuses=statuses)
            source = Numbers(clock, says=lambda _id, _attempt: Answer(403), capabilities=can)
            async with process(clock, source) as one:
                one.collector.newest_id = 1_000
                assert await one.collector.collect(SEVEN) is Outcome.OWED
                (gap,) = await one.store.gaps(NAME)
                assert gap.reason is reason

    simulated(main)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_retry_that_succeeds_settles_the_item(failures: int) -> None:
    async def main(clock: SimClock) -> None:
        said = one_by_one([BROKEN] * failures)
        source = Numbers(clock, says=lambda _id, _attempt: said(0))
        async with process(clock, source) as one:
            assert await one.collector.collect(SEVEN) is Outcome.NEW
            assert list(await one.store.gaps(NAME)) == []
            assert len(source.asked) == failures + 1

    simulated(main)


def test_our_own_exhaustion_is_waited_out_and_never_told_as_the_providers() -> None:
    async def main(clock: SimClock) -> None:
        exhausted = Answer(fault=Fault.EXHAUSTED, latency_ns=MILLISECOND_NS)
        said = one_by_one([exhausted] * 200)
        source = Numbers(clock, says=lambda _id, _attempt: said(0))
        async with process(clock, source) as one:
            before = one.governor.state()
            with capture_logs() as logs:
                assert await one.collector.collect(SEVEN) is Outcome.NEW
            after = one.governor.state()
            assert list(await one.store.gaps(NAME)) == []
            assert (after.interval_ns, after.circuit) == (before.interval_ns, CircuitState.CLOSED)
            assert after.last_back_off is None
            told = [event for event in logs if event["event"] == "machine_exhausted"]
            assert 3 <= len(told) <= 4  # 200 seconds, once a minute
            assert "no free file descriptors" in told[0]["why"]
            # Each attempt had its turn in the gate, with a rest in between.
            assert all(later[0] - sooner[0] >= SECOND_NS for sooner, later in pairwise(source.asked))

    simulated(main)


@pytest.mark.parametrize("latency_s, requests", [(20, 1), (5, 1), (3, 2), (2, 3), (1, 4)])
def test_an_item_whose_requests_took_long_is_owed_without_another_attempt(latency_s: int, requests: int) -> None:
    async def main(clock: SimClock) -> None:
        hangs = Answer(fault=Fault.TIMEOUT, latency_ns=latency_s * SECOND_NS)
        source = Numbers(clock, says=lambda _id, _attempt: hangs)
        async with process(clock, source) as one:
            assert await one.collector.collect(SEVEN) is Outcome.OWED
            (gap,) = await one.store.gaps(NAME)
            assert (gap.reason, gap.attempts) == (GapReason.TIMEOUT, 1)
            assert len(source.asked) == requests

    simulated(main)


def test_a_request_is_given_up_only_when_it_hangs_and_its_item_is_owed_at_once() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=HOUR_NS))
        async with process(clock, source, limits=Limits(MINUTE_NS, in_flight=2)) as one:
            eight = Discovery.item(8, via=Lane.LIVE)
            asking = [asyncio.ensure_future(one.collector.collect(each)) for each in (SEVEN, eight)]
            while not source.asked:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            for _ in range(12):
                # The second one waits in the gate all the time, and the first one has not hung for long enough at first.
                one.collector.give_up_what_hangs([SEVEN, eight])
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 2)
            assert [each.done() for each in asking] == [True, False]
            assert await asking[0] is Outcome.OWED
            (gap,) = await one.store.gaps(NAME)
            assert (gap.key, gap.reason) == ("7", GapReason.TIMEOUT)
            assert len(source.asked) == 1
            asking[1].cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            assert one.governor.state().in_flight == 0

    simulated(main)


def test_a_request_that_is_given_up_while_its_task_is_cancelled_ends_with_the_task() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=HOUR_NS))
        async with process(clock, source) as one:
            asking = asyncio.ensure_future(one.collector.collect(SEVEN))
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            one.collector.give_up_what_hangs([SEVEN])
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert asking.cancelled()
            assert one.governor.state().in_flight == 0
            assert not await one.store.gaps(NAME)

    simulated(main)


def test_a_long_wait_in_the_gate_takes_no_attempt_from_an_item() -> None:
    async def main(clock: SimClock) -> None:
        said = one_by_one([Answer(429, retry_after="30"), BROKEN, BROKEN])
        source = Numbers(clock, says=lambda _id, _attempt: said(0))
        async with process(clock, source, limits=Limits(MINUTE_NS)) as one:
            assert await one.collector.collect(SEVEN) is Outcome.NEW
            assert len(source.asked) == ATTEMPTS

    simulated(main)


@pytest.mark.parametrize(
    "body, status, reason",
    [
        (NULL, 200, GapReason.NOT_FOUND),
        (POISON, 200, GapReason.MALFORMED),
        (b'{"id":8}', 200, GapReason.MALFORMED),
        (b"", 403, GapReason.FORBIDDEN),
        (b"", 401, GapReason.UNAUTHORIZED),
        (b"", 410, GapReason.GONE),
    ],
)
def test_an_answer_that_would_be_the_same_in_a_moment_is_not_asked_for_again_at_once(
    body: bytes, status: int, reason: GapReason
) -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, bodies={7: body}, says=lambda _id, _attempt: Answer(status))
        async with process(clock, source) as one:
            assert await one.collector.collect(SEVEN) is Outcome.OWED
            (gap,) = await one.store.gaps(NAME)
            assert gap.reason is reason
            assert len(source.asked) == 1

    simulated(main)


@pytest.mark.parametrize(
    "newest_id, reason", [(None, GapReason.NOT_YET), (10, GapReason.NOT_YET), (57, GapReason.NOT_FOUND)]
)
def test_a_null_is_not_yet_while_the_newest_id_is_near_or_unknown(newest_id: int | None, reason: GapReason) -> None:
    async def main(clock: SimClock) -> None:
        async with process(clock, Numbers(clock, bodies={7: NULL})) as one:
            one.collector.newest_id = newest_id
            await one.collector.collect(SEVEN)
            (gap,) = await one.store.gaps(NAME)
            assert gap.reason is reason

    simulated(main)


def test_a_gap_is_told_when_it_opens_and_when_it_settles_without_saying_which_item() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: REFUSED)
        async with process(clock, source) as one:
            with capture_logs() as told:
                await one.collector.collect(SEVEN)
                source.says = lambda _id, _attempt: GOOD
                await one.collector.collect(Discovery.item(7, via=Lane.RECOVER, origin=FromGap("me")))
            gaps = [event for event in told if event["event"].startswith("gap_")]
            assert [event["event"] for event in gaps] == ["gap_opened", "gap_settled"]
            assert gaps[0]["reason"] == GapReason.FORBIDDEN
            assert not any("7" in str(value) for event in gaps for value in event.values())

    simulated(main)


def test_the_newest_id_is_remembered_and_never_goes_down() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=500)
        async with process(clock, source) as one:
            one.collector.newest_id = None
            assert await one.collector.newest() == 500
            source.newest = 400
            assert await one.collector.newest() == 500
            source.says = lambda _id, _attempt: BROKEN
            assert await one.collector.newest() is None
            assert one.collector.newest_id == 500

    simulated(main)


class BrokenStore(MemoryStore):
    """A store whose writes fail."""

    async def record(self, source: str, observation: Observation) -> Outcome:
        raise StoreUnavailable("the store does not answer", hint="wait")


def test_the_governor_hears_of_pressure_even_when_the_store_is_down() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: PRESSED)
        async with process(clock, source, BrokenStore()) as one:
            with pytest.raises(StoreUnavailable):
                await one.collector.collect(SEVEN)
            back_off = one.governor.state().last_back_off
            assert back_off is not None
            assert back_off.reason == "rate_limited"

    simulated(main)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(-7_200, 7_200), min_size=1, max_size=5), st.integers(0, 100))
def test_a_later_departure_never_looks_earlier_whatever_the_wall_clock_does(steps_s: list[int], seed: int) -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=clock.random.randrange(3 * SECOND_NS)))
        async with process(clock, source) as one:

            async def ask(number: int) -> tuple[int, int]:
                asked = await one.collector.ask(Discovery.item(number, via=Lane.LIVE))
                (departed_ns,) = [at_ns for at_ns, key in source.asked if key == str(number)]
                return departed_ns, asked.started_at_ns

            asking = [asyncio.ensure_future(ask(number)) for number in range(40)]
            for step_s in steps_s:
                await clock.sleep_until(clock.monotonic_ns() + 300 * MILLISECOND_NS)
                clock.step_wall(step_s * SECOND_NS)
            in_order = sorted(await asyncio.gather(*asking))
            started = [started_ns for _, started_ns in in_order]
            assert started == sorted(started)

    simulated(main, seed=seed)


def test_a_cancelled_item_gives_its_place_back_and_leaves_nothing_half_done() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: Answer(latency_ns=HOUR_NS))
        async with process(clock, source) as one:
            tasks = [
                asyncio.ensure_future(one.collector.collect(Discovery.item(number, via=Lane.LIVE)))
                for number in range(20)
            ]
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert one.governor.state().in_flight == 20
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert one.governor.state().in_flight == 0
            assert await one.store.item(NAME, 3) is None
            assert list(await one.store.gaps(NAME)) == []

    simulated(main)


@pytest.mark.parametrize("time, is_known", [(None, False), (0, False), (10**12, False), (1_700_000_000, True)])
def test_the_age_of_an_item_with_an_absurd_time_is_unknown(time: int | None, is_known: bool) -> None:
    async def main(clock: SimClock) -> None:
        body = b'{"id":7}' if time is None else b'{"id":7,"time":%d}' % time
        async with process(clock, Numbers(clock, bodies={7: body})) as one:
            await one.collector.collect(Discovery.item(7, via=Lane.UPDATE))
            assert bool(one.meter.ages_s) is is_known
            assert all(age_s > 0 for age_s in one.meter.ages_s)

    simulated(main)


def test_what_was_asked_tells_how_often_and_when_it_left() -> None:
    async def main(clock: SimClock) -> None:
        said = one_by_one([PRESSED, BROKEN, GOOD])
        source = Numbers(clock, says=lambda _id, _attempt: said(0))
        async with process(clock, source) as one:
            asked = await one.collector.ask(SEVEN)
            assert asked.requests == 3
            assert asked.started_at_ns == clock.wall_ns() - clock.monotonic_ns() + source.asked[-1][0]
            assert not isinstance(asked.verdict, cast("type[object]", Pressure | Trouble))

    simulated(main)


def test_a_refused_item_neither_slows_anything_down_nor_is_retried() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, says=lambda _id, _attempt: REFUSED)
        async with process(clock, source) as one:
            before_ns = one.governor.state().interval_ns
            for number in range(30):
                await one.collector.collect(Discovery.item(number, via=Lane.LIVE))
            assert len(source.asked) == 30
            assert one.governor.state().interval_ns == before_ns

    simulated(main)
