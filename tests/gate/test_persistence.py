"""Does what was learned outlive the process, and is a restart never faster than what the last process knew?"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.contracts import Json
from remora.core.rate.keeping import HOLD_FOR_STORE_NS
from remora.core.rate.pace_record import DEFAULT_STALE_AFTER_NS, LEAST_STALE_AFTER_NS, Restore
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.gate.governor import Limits
from remora.sim.clock import SimClock
from tests.gate.rig import GOOD, PRESSED, Answer, Book, always, crashing, gate, one_by_one, simulated, warm

FOUR_PER_S = Limits(ceiling_interval_ns=SECOND_NS // 4)


def test_a_change_of_pace_is_stored_within_a_second() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        async with gate(clock, FOUR_PER_S, book=book) as learning:
            changed_ns = []
            for _ in range(30):
                before = learning.governor.state().interval_ns
                await learning.send()
                if learning.governor.state().interval_ns != before:
                    changed_ns.append(clock.monotonic_ns())
            await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert len(changed_ns) >= 10
            for at_ns in changed_ns:
                assert any(at_ns <= saved_ns <= at_ns + SECOND_NS for saved_ns in book.saved_at_ns)
            # And not more often than once a second while the pace only rises.
            assert all(later - earlier >= SECOND_NS for earlier, later in pairwise(book.saved_at_ns))

    simulated(main)


def test_a_back_off_is_stored_at_once() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        async with gate(clock, FOUR_PER_S, book=book, says=one_by_one([GOOD] * 7 + [PRESSED])) as pressed:
            await pressed.send_many(8)
            heard_ns = clock.monotonic_ns()
            await asyncio.sleep(0)
            await clock.sleep_until(heard_ns + 1)
            assert book.saved_at_ns[-1] <= heard_ns + 1

    simulated(main)


def test_a_crash_right_after_a_throttle_never_lets_the_next_start_be_faster() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        first = await crashing(clock, book, says=one_by_one([GOOD] * 40, then=PRESSED), for_ns=MINUTE_NS)
        throttled_ns = first.governor.state().interval_ns
        async with gate(clock, FOUR_PER_S, book=book) as second:
            state = second.governor.state()
            assert state.restored is Restore.WARM
            assert state.interval_ns >= throttled_ns
            await second.send()
            assert second.left_at_ns[0] >= first.left_at_ns[-1] + throttled_ns

    simulated(main)


@settings(max_examples=15)
@given(st.integers(0, 1_000), st.lists(st.integers(1, 20_000), min_size=2, max_size=6))
def test_killing_it_over_and_over_never_presses_departures_together(seed: int, lives_ms: list[int]) -> None:
    async def main(clock: SimClock) -> None:
        answers = [GOOD, GOOD, GOOD, PRESSED, Answer(429, retry_after="2")]

        def says(_now_ns: int) -> Answer:
            return clock.random.choice(answers)

        book, left = warm(clock, FOUR_PER_S), list[int]()
        for life_ms in lives_ms:
            life = await crashing(clock, book, says=says, for_ns=life_ms * 1_000_000)
            left += life.left_at_ns
        assert all(later - earlier >= FOUR_PER_S.ceiling_interval_ns for earlier, later in pairwise(left))

    simulated(main, seed=seed)


@pytest.mark.slow
def test_a_run_that_ended_deep_in_a_throttle_does_not_poison_the_next_ten() -> None:
    async def main(clock: SimClock) -> None:
        book, limits = Book(clock), Limits(SECOND_NS)
        # A bad hour: everything is refused.
        async with gate(clock, limits, book=book, says=always(PRESSED)) as bad:
            await bad.send_until(clock.monotonic_ns() + HOUR_NS)
            assert bad.governor.state().interval_ns >= MINUTE_NS
        rates = []
        for _ in range(10):
            await clock.sleep_until(clock.monotonic_ns() + 10 * MINUTE_NS)
            async with gate(clock, limits, book=book) as run:
                before_ns = run.governor.state().interval_ns
                await run.send_until(clock.monotonic_ns() + 15 * MINUTE_NS)
                rates.append(len(run.departures))
                assert run.governor.state().interval_ns <= before_ns
        # Compounding: each run starts where the last one ended, and the pace is back within the first three.
        assert rates[2] >= 0.9 * 15 * 60
        assert all(later >= 0.95 * earlier for earlier, later in pairwise(rates))

    simulated(main)


async def resumed(clock: SimClock, *, pause_ns: int, limits: Limits = FOUR_PER_S) -> tuple[int, int, Restore]:
    """The interval at the end of one run, at the start of the next, and how that came by it."""
    book = Book(clock)
    async with gate(clock, limits, book=book) as first:
        await first.send_until(2 * MINUTE_NS)
        learned_ns = first.governor.state().interval_ns
    await clock.sleep_until(clock.monotonic_ns() + pause_ns)
    async with gate(clock, FOUR_PER_S, book=book) as second:
        return learned_ns, second.governor.state().interval_ns, second.governor.state().restored


@pytest.mark.slow
def test_a_fresh_resume_restores_the_prior_runs_learned_interval() -> None:
    """A fresh resume restores the prior run's learned interval."""

    async def main(clock: SimClock) -> None:
        learned_ns, resumed_ns, how = await resumed(clock, pause_ns=HOUR_NS)
        assert (resumed_ns, how) == (learned_ns, Restore.WARM)
        assert resumed_ns < SECOND_NS

    async def lowered_ceiling(clock: SimClock) -> None:
        learned_ns, resumed_ns, how = await resumed(clock, pause_ns=HOUR_NS, limits=Limits(SECOND_NS // 20))
        assert how is Restore.WARM
        assert learned_ns < resumed_ns == FOUR_PER_S.ceiling_interval_ns

    simulated(main)
    simulated(lowered_ceiling)


def test_a_stale_resume_falls_back_to_the_cold_discovery_interval() -> None:
    """A stale resume falls back to the cold discovery interval."""

    async def main(clock: SimClock) -> None:
        _, resumed_ns, how = await resumed(clock, pause_ns=DEFAULT_STALE_AFTER_NS + HOUR_NS)
        assert (resumed_ns, how) == (SECOND_NS, Restore.COLD_STALE)

    simulated(main)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_a_pace_in_use_is_restored_however_long_ago_it_last_changed(ends: str) -> None:
    async def main(clock: SimClock) -> None:
        limits = replace(FOUR_PER_S, stale_after_ns=LEAST_STALE_AFTER_NS)
        book, for_ns = warm(clock, limits), 2 * LEAST_STALE_AFTER_NS
        if ends == "killed":
            await crashing(clock, book, says=always(GOOD), for_ns=for_ns, limits=limits)
        else:
            async with gate(clock, limits, book=book) as watching:
                # Far fewer requests than the pace allows: none of them moves it.
                while clock.monotonic_ns() < for_ns:
                    await watching.send()
                    await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
        async with gate(clock, limits, book=book) as second:
            assert second.governor.state().restored is Restore.WARM
            assert second.governor.state().interval_ns == limits.ceiling_interval_ns

    simulated(main)


def test_a_pace_that_nobody_used_grows_stale_however_often_it_is_taken_up() -> None:
    async def main(clock: SimClock) -> None:
        book, how = Book(clock), list[Restore]()
        async with gate(clock, FOUR_PER_S, book=book) as first:
            await first.send_until(MINUTE_NS)
        for _ in range(4):
            await clock.sleep_until(clock.monotonic_ns() + DEFAULT_STALE_AFTER_NS // 6)
            async with gate(clock, FOUR_PER_S, book=book) as unused:
                how.append(unused.governor.state().restored)
                await clock.sleep_until(clock.monotonic_ns() + DEFAULT_STALE_AFTER_NS // 6)
        assert how == [Restore.WARM, Restore.WARM, Restore.WARM, Restore.COLD_STALE]

    simulated(main)


def test_the_wait_for_a_slow_slot_goes_on_through_processes_that_end_before_it_comes() -> None:
    async def main(clock: SimClock) -> None:
        book, left = warm(clock, Limits(15 * MINUTE_NS)), list[int]()
        for _ in range(3):
            async with gate(clock, FOUR_PER_S, book=book) as impatient:
                await impatient.send_until(clock.monotonic_ns() + 6 * MINUTE_NS)
            left += impatient.left_at_ns
        assert left[0] == 15 * MINUTE_NS

    simulated(main)


@pytest.mark.parametrize(
    "record",
    [
        "garbage",
        7,
        [],
        {"pace": "garbage"},
        {"pace": {"rate_per_s": "fast"}},
        {"pace": None, "not_before_in_ns": "soon", "saved_at_wall_ns": True},
        {"not_before_in_ns": float("nan"), "saved_at_wall_ns": 0},
    ],
)
def test_a_damaged_record_means_a_cold_start_and_never_an_error(record: Json) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S, book=Book(clock, record)) as cold:
            assert cold.governor.state().interval_ns == SECOND_NS
            assert cold.governor.state().not_before_in_ns == 0
            await cold.send()

    simulated(main)


def test_a_record_that_is_faster_than_the_ceiling_is_clamped_to_it() -> None:
    async def main(clock: SimClock) -> None:
        fast = warm(clock, replace(FOUR_PER_S, ceiling_interval_ns=SECOND_NS // 100))
        async with gate(clock, FOUR_PER_S, book=fast) as clamped:
            assert clamped.governor.state().interval_ns == FOUR_PER_S.ceiling_interval_ns

    simulated(main)


def test_a_store_that_is_down_holds_the_gate_after_a_back_off_for_a_bounded_time_only() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 100)
        book = warm(clock, limits)
        async with gate(clock, limits, book=book, says=one_by_one([GOOD] * 50 + [PRESSED])) as cut_off:
            await cut_off.send_many(50)
            book.is_down = True
            await cut_off.send()
            heard_ns = clock.monotonic_ns()
            await cut_off.send_many(20)
            assert heard_ns + HOLD_FOR_STORE_NS <= cut_off.left_at_ns[-20] <= heard_ns + HOLD_FOR_STORE_NS + SECOND_NS
            # The pace holds without the store.
            assert cut_off.governor.state().interval_ns > limits.ceiling_interval_ns
            book.is_down = False
            await clock.sleep_until(clock.monotonic_ns() + 2 * SECOND_NS)
            assert book.saved_at_ns[-1] >= heard_ns

    simulated(main)


def test_a_store_that_answers_releases_the_gate_at_once() -> None:
    async def main(clock: SimClock) -> None:
        limits = Limits(SECOND_NS // 100)
        async with gate(clock, limits, book=warm(clock, limits), says=one_by_one([GOOD] * 50 + [PRESSED])) as pressed:
            await pressed.send_many(51)
            heard_ns = clock.monotonic_ns()
            await pressed.send()
            assert pressed.left_at_ns[-1] - heard_ns < HOLD_FOR_STORE_NS // 2

    simulated(main)


@pytest.mark.parametrize("after_ns", [0, 1, SECOND_NS // 2, SECOND_NS, SECOND_NS + 1])
def test_the_gate_can_be_closed_at_any_moment_also_while_something_is_being_learned(after_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        async with gate(clock, FOUR_PER_S, says=always(Answer(429, retry_after="600"))) as pressed:
            await pressed.send()
            if after_ns:
                await clock.sleep_until(clock.monotonic_ns() + after_ns)
        assert pressed.governor.state().not_before_in_ns > 0

    simulated(main)


def test_what_was_learned_is_stored_at_the_end_of_a_run() -> None:
    async def main(clock: SimClock) -> None:
        book = Book(clock)
        async with gate(clock, FOUR_PER_S, book=book) as run:
            await run.send_many(20)
            learned = run.governor.state().interval_ns
        stored = cast("dict[str, dict[str, float]]", book.record)
        assert stored["pace"]["rate_per_s"] == pytest.approx(SECOND_NS / learned)

    simulated(main)


class Mistaken(Book):
    """A book whose author made a mistake."""

    async def save_pace(self, source: str, record: Mapping[str, Json]) -> None:
        raise RuntimeError("our own mistake")


def test_a_mistake_while_the_pace_is_kept_reaches_whoever_asks_next_instead_of_nobody() -> None:
    async def main(clock: SimClock) -> None:
        with pytest.raises(RuntimeError):
            async with gate(clock, FOUR_PER_S, book=Mistaken(clock)) as mistaken:
                await mistaken.send_many(100)
        assert len(mistaken.departures) < 100

    simulated(main)
