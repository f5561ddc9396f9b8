"""Is the wait that a provider asks for kept in full, by every request, through crashes, clock steps and other stores?"""

from dataclasses import replace

import pytest

from remora.contracts import Json, SharedPace
from remora.core.rate.gate_types import LimitedBy
from remora.core.units import DAY_NS, SECOND_NS
from remora.core.verdict import RETRY_AFTER_MAX_NS
from remora.gate.common_wait import CommonWait
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.sim.clock import SimClock
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate
from tests.gate.rig import SOURCE, Answer, Book, always, crashing, gate, one_by_one, simulated

FOUR_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 4)


@pytest.mark.parametrize(
    "header, wait_ns",
    [
        ("0", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("90", 90 * SECOND_NS),
        ("999999999", RETRY_AFTER_MAX_NS),
    ],
)
def test_retry_after_holds_the_whole_source_for_as_long_as_it_says(header: str, wait_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        limits = replace(FOUR_PER_S, in_flight=8)
        async with gate(clock, limits, says=one_by_one([Answer(429, retry_after=header)])) as told:
            await told.send()
            heard_ns = clock.monotonic_ns()
            assert told.governor.state().not_before_in_ns == wait_ns
            await told.send_many(8, workers=8)
            # Zero still waits the pace.
            assert told.left_at_ns[1] >= max(heard_ns + wait_ns, told.left_at_ns[0] + FOUR_PER_S.ceiling_interval_ns)
            assert told.left_at_ns[1] <= heard_ns + wait_ns + 5 * SECOND_NS

    simulated(main)


def test_a_shorter_retry_after_never_shortens_a_longer_one() -> None:
    async def main(clock: SimClock) -> None:
        limits = replace(FOUR_PER_S, in_flight=2)
        both = [Answer(429, retry_after="600", latency_ns=3 * SECOND_NS), Answer(429, retry_after="1")]
        async with gate(clock, limits, says=one_by_one(both)) as told:
            await told.send_many(2, workers=2)
            assert told.governor.state().not_before_in_ns > 590 * SECOND_NS

    simulated(main)


@pytest.mark.parametrize("step_ns", [0, -DAY_NS, -400 * DAY_NS], ids=["steady", "a day back", "a year back"])
def test_retry_after_survives_a_crash_and_a_clock_that_steps_back(step_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        await crashing(clock, book, says=always(Answer(429, retry_after="600")), for_ns=2 * SECOND_NS)
        clock.step_wall(step_ns)
        async with gate(clock.restarted(), FOUR_PER_S, book=book) as second:
            left_ns = second.governor.state().not_before_in_ns
            assert 590 * SECOND_NS <= left_ns <= 600 * SECOND_NS
            started_ns = clock.monotonic_ns()
            await second.send()
            assert second.left_at_ns[0] >= started_ns + left_ns

    simulated(main)


class CopiedGate(SimGate):
    """A database that a mirror was just copied into: it holds the record, and no process has shared anything yet."""

    def __init__(self, clock: SimClock, record: Json) -> None:
        super().__init__(clock)
        self._record = record

    async def look(self, source: str) -> SharedPace:
        return SharedPace(self._record, version=1)


def test_retry_after_survives_a_copy_of_the_mirror_into_a_store_that_processes_share() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        await crashing(clock, book, says=always(Answer(429, retry_after="600")), for_ns=2 * SECOND_NS)
        copied = CopiedGate(clock, book.record)
        home = SharedHome(SOURCE, copied, ceiling_interval_ns=FOUR_PER_S.ceiling_interval_ns, clock=clock)
        governor = Governor(
            SOURCE, FOUR_PER_S, clock=clock, home=home, meter=CountingMeter(), chance=clock.random.random
        )
        await governor.open()
        assert 590 * SECOND_NS <= governor.state().not_before_in_ns <= 600 * SECOND_NS
        await governor.close()

    simulated(main)


def test_what_is_left_of_a_retry_after_counts_down_while_no_process_runs() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        await crashing(clock, book, says=always(Answer(429, retry_after="600")), for_ns=2 * SECOND_NS)
        await clock.sleep_until(clock.monotonic_ns() + 400 * SECOND_NS)
        async with gate(clock.restarted(), FOUR_PER_S, book=book) as second:
            assert 190 * SECOND_NS <= second.governor.state().not_before_in_ns <= 200 * SECOND_NS

    simulated(main)


def sharing(clock: SimClock, store: SimGate) -> Governor:
    """The gate of one of many processes."""
    home = SharedHome(SOURCE, store, ceiling_interval_ns=FOUR_PER_S.ceiling_interval_ns, clock=clock)
    return Governor(SOURCE, FOUR_PER_S, clock=clock, home=home, meter=CountingMeter(), chance=clock.random.random)


@pytest.mark.parametrize(
    "asked_ns, law_ns, limited_by",
    [
        (0, 32 * SECOND_NS, LimitedBy.PACE),
        (10 * SECOND_NS, 32 * SECOND_NS, LimitedBy.PACE),
        (32 * SECOND_NS, 32 * SECOND_NS, LimitedBy.RETRY_AFTER),
    ],
    ids=["the law's", "the law's, longer than the provider's", "the provider's"],
)
def test_a_wait_that_processes_share_is_told_as_the_providers_only_if_it_is(
    asked_ns: int, law_ns: int, limited_by: LimitedBy
) -> None:
    async def main(clock: SimClock) -> None:
        store = SimGate(clock)
        fields: dict[str, Json] = {"not_before_in_ns": asked_ns, "shared_at_ns": clock.monotonic_ns()}
        await store.share(SOURCE, record=fields, interval_ns=SECOND_NS)
        # A process with an outdated version: its record is refused, its wait counts.
        was_taken, _ = await store.share(
            SOURCE, record={}, interval_ns=SECOND_NS, not_before_in_ns=law_ns, seen_version=0
        )
        assert not was_taken
        governor = sharing(clock, store)
        await governor.open()
        rate = governor.state()
        assert rate.next_held_by is limited_by
        assert 31 * SECOND_NS < rate.next_in_ns <= 32 * SECOND_NS, "whoever asked for it, it is kept"
        assert abs(rate.not_before_in_ns - asked_ns) < SECOND_NS
        await governor.close()

    simulated(main)


def test_a_shared_wait_becomes_the_providers_when_a_record_says_so() -> None:
    wait = CommonWait()
    assert wait.adopt(SharedPace({}, not_before_in_ns=DAY_NS), asked_until_ns=0, now_ns=SECOND_NS) <= SECOND_NS
    assert wait.until_ns == SECOND_NS + DAY_NS
    told = SharedPace({"not_before_in_ns": DAY_NS}, not_before_in_ns=DAY_NS)
    assert wait.adopt(told, asked_until_ns=0, now_ns=SECOND_NS) == SECOND_NS + DAY_NS
    assert wait.until_ns == 0


def test_a_process_knows_the_wait_that_it_was_told_itself_although_its_record_was_refused() -> None:
    wait = CommonWait()
    assert wait.adopt(SharedPace({}, not_before_in_ns=DAY_NS), asked_until_ns=DAY_NS, now_ns=0) == DAY_NS
    assert wait.until_ns == 0
