"""Does the ceiling hold over all processes, on the wire, whatever happens to any of them?"""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from remora.core.rate.pacing import interval_for
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import SharedGate, migrate
from remora.stores.postgres.gate import is_strict
from remora.stores.slots import AHEAD_AT_MOST_NS, Slots
from tests.integration.postgres_fleet import Fleet, earliest_by_ns

pytestmark = pytest.mark.postgres

SOURCE = "shared"
FAST_NS = interval_for(400)
SLOW_NS = 50 * MILLISECOND_NS


@pytest.fixture
async def url(postgres_url: str) -> str:
    await migrate(postgres_url)
    return postgres_url


@pytest.fixture
async def gate(url: str) -> AsyncIterator[SharedGate]:
    shared = SharedGate(url, clock=SystemClock())
    yield shared
    await shared.close()


def test_turns_below_two_hundred_a_second_and_windows_from_there_on() -> None:
    assert is_strict(interval_for(199))
    assert not is_strict(interval_for(200))


async def test_windows_follow_one_another_and_nothing_is_carried_over_from_idle_time(gate: SharedGate) -> None:
    first = await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=100)
    second = await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=100)
    assert (first.count, second.count) == (2, 2)
    assert second.next_ns - first.next_ns >= 2 * FAST_NS
    assert first.expires_at_ns <= second.starts_at_ns
    await asyncio.sleep(0.1)
    third = await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=100)
    assert third.count == 2
    assert third.next_ns - second.next_ns >= 90 * MILLISECOND_NS


async def test_what_one_process_learned_slows_all_within_one_reservation(gate: SharedGate, url: str) -> None:
    other = SharedGate(url, clock=SystemClock())
    await other.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=2)
    was_taken, _ = await gate.share(SOURCE, record={"rate_per_s": 100.0}, interval_ns=10 * MILLISECOND_NS)
    slower = await other.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=2)
    await other.close()
    assert was_taken
    assert (slower.count, slower.interval_ns) == (1, 10 * MILLISECOND_NS)
    assert slower.pace.record == {"rate_per_s": 100.0}


async def test_a_not_before_holds_all_until_its_end(gate: SharedGate, url: str) -> None:
    wait_ns = 300 * MILLISECOND_NS
    await gate.share(SOURCE, record={}, interval_ns=0, not_before_in_ns=wait_ns)
    other = SharedGate(url, clock=SystemClock())
    held = await other.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=2)
    async with other.hold(SOURCE, ceiling_interval_ns=SLOW_NS) as turn:
        assert not turn.is_fresh(now_ns=turn.plan.starts_at_ns)
    await other.close()
    left_ns = held.starts_at_ns - time.monotonic_ns()
    assert held.count == 0
    assert 0 < left_ns <= wait_ns
    assert 0 < held.pace.not_before_in_ns <= wait_ns
    await SystemClock().sleep_until(held.starts_at_ns)
    assert (await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=2)).count == 2


async def test_an_outdated_process_can_make_the_pace_slower_but_not_faster(gate: SharedGate) -> None:
    _, seen = await gate.share(SOURCE, record={"by": "one"}, interval_ns=40, seen_version=0)
    was_taken, second = await gate.share(SOURCE, record={"by": "two"}, interval_ns=60, seen_version=seen.version)
    assert (was_taken, second.interval_ns) == (True, 60)
    for offered_ns, kept_ns in ((30, 60), (90, 90)):
        was_taken, stands = await gate.share(
            SOURCE, record={"by": "outdated"}, interval_ns=offered_ns, seen_version=seen.version
        )
        assert not was_taken
        assert (stands.record, stands.interval_ns) == ({"by": "two"}, kept_ns)


async def test_a_turn_in_which_nothing_left_is_given_back(gate: SharedGate) -> None:
    for _ in range(2):
        async with gate.hold(SOURCE, ceiling_interval_ns=2 * SECOND_NS) as turn:
            assert turn.plan.count == 1
    started_ns = time.monotonic_ns()
    for _ in range(5):
        async with gate.hold(SOURCE, ceiling_interval_ns=2 * SECOND_NS):
            pass
    # Five turns of two seconds each, had they not been given back.
    assert time.monotonic_ns() - started_ns < 8 * SECOND_NS


@pytest.mark.slow
async def test_long_intervals_are_slept_off_without_holding_the_row(gate: SharedGate, url: str) -> None:
    interval_ns = 3 * SECOND_NS
    async with asyncio.timeout(120):
        while True:
            async with gate.hold(SOURCE, ceiling_interval_ns=interval_ns) as turn:
                if turn.is_fresh(now_ns=time.monotonic_ns()):
                    turn.departed(now_ns=time.monotonic_ns())
                    break
    waiting = asyncio.ensure_future(_wait_for_turn(gate, interval_ns))
    await asyncio.sleep(0.5)
    with psycopg.connect(url, autocommit=True) as operator:
        locked = operator.execute(COUNT_FREE_ROWS)
        assert locked.fetchone() == (1,)
    departed_at_ns = await asyncio.wait_for(waiting, timeout=120)
    assert turn.departed_at_ns is not None
    assert departed_at_ns - turn.departed_at_ns >= interval_ns


COUNT_FREE_ROWS = "SELECT count(*) FROM (SELECT name FROM locks FOR UPDATE SKIP LOCKED) AS free"


async def _wait_for_turn(gate: SharedGate, interval_ns: int) -> int:
    while True:
        async with gate.hold(SOURCE, ceiling_interval_ns=interval_ns) as turn:
            now_ns = time.monotonic_ns()
            if turn.is_fresh(now_ns=now_ns):
                turn.departed(now_ns=now_ns)
                return now_ns


async def test_a_database_clock_that_stepped_back_does_not_close_the_gate_for_days(gate: SharedGate, url: str) -> None:
    await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=1)
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("UPDATE gates SET next_ns = next_ns + 864000000000000")
    window = await gate.reserve(SOURCE, ceiling_interval_ns=FAST_NS, want=1)
    assert window.starts_at_ns - time.monotonic_ns() < 62 * SECOND_NS


class SetBack(SystemClock):
    """Our clock, set back now and then: as good as a database whose clock is set forward."""

    set_back_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() - self.set_back_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        await super().sleep_until(monotonic_ns + self.set_back_ns)


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_a_database_clock_that_is_set_forward_makes_all_wait_until_nothing_planned_before_can_leave(
    url: str, interval_ns: int
) -> None:
    clock = SetBack()
    gate = SharedGate(url, clock=clock)
    common = Slots(gate, SOURCE, ceiling_interval_ns=interval_ns, clock=clock)

    async def free_at_ns() -> int:
        while True:
            slot = await common.slot(interval_ns=interval_ns)
            now_ns, is_fresh = clock.monotonic_ns(), slot.is_fresh(now_ns=clock.monotonic_ns())
            slot.end()
            if is_fresh:
                return now_ns

    async with asyncio.timeout(120):
        await free_at_ns()
        clock.set_back_ns = 500 * MILLISECOND_NS
        set_at_ns = clock.monotonic_ns()
        assert await free_at_ns() - set_at_ns >= AHEAD_AT_MOST_NS + interval_ns
        await free_at_ns()
    await gate.close()


@pytest.mark.slow
def test_four_stalling_processes_keep_every_gap_at_twenty_a_second(url: str, tmp_path: Path) -> None:
    options = ("--rate", "20", "--stall-share", "0.2")
    with Fleet(url, tmp_path) as fleet:
        workers = [fleet.start("turns", *options, "--clock-off-by-s", str(off)) for off in (0, 300, -300, 0.5)]
        time.sleep(2)
        fleet.kill(workers[0])
        fleet.start("turns", *options)
        time.sleep(2)
    sent = [event.at_ns for event in fleet.events("sent")]
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert min(gaps) >= SLOW_NS
    assert len({event.worker for event in fleet.events("sent")}) == 5


@pytest.mark.slow
def test_a_frozen_process_holds_the_gate_for_seconds_at_most_and_breaks_no_gap_when_it_wakes(
    url: str, tmp_path: Path
) -> None:
    with Fleet(url, tmp_path) as fleet:
        frozen = fleet.start("turns", "--rate", "20")
        # Alone it is in a turn nearly all the time: the freeze hits one.
        time.sleep(1)
        fleet.freeze(frozen)
        frozen_at_ns = time.monotonic_ns()
        fleet.start("turns", "--rate", "20")
        resumed = fleet.wait_for("sent", after_ns=frozen_at_ns + 100 * MILLISECOND_NS, timeout_s=120)
        assert resumed.worker != frozen
        fleet.wake(frozen)
        woken_at_ns = time.monotonic_ns()
        fleet.wait_for("sent", after_ns=woken_at_ns, timeout_s=120)
        time.sleep(1)
    sent = [event.at_ns for event in fleet.events("sent")]
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert min(gaps) >= SLOW_NS
    assert any(event.worker == frozen for event in fleet.events("sent") if event.at_ns > woken_at_ns)


@pytest.mark.slow
def test_four_stalling_processes_never_break_a_ceiling_of_four_hundred_a_second(url: str, tmp_path: Path) -> None:
    options = ("--rate", "400", "--stall-share", "0.02")
    with Fleet(url, tmp_path) as fleet:
        workers = [fleet.start("windows", *options, "--clock-off-by-s", str(off)) for off in (0, 300, -300, 0.5)]
        time.sleep(1.5)
        fleet.kill(workers[0])
        fleet.start("windows", *options)
        time.sleep(1.5)
    sent = [event.at_ns for event in fleet.events("sent")]
    assert earliest_by_ns(sent, FAST_NS) == 0
    assert len({event.worker for event in fleet.events("sent")}) == 5
    assert len(sent) >= 0.3 * (sent[-1] - sent[0]) / FAST_NS


async def test_whoever_waits_too_long_for_a_turn_is_told_to_come_again(gate: SharedGate, url: str) -> None:
    impatient = SharedGate(url, clock=SystemClock(), lock_timeout_ms=50)
    async with (
        gate.hold(SOURCE, ceiling_interval_ns=SLOW_NS),
        impatient.hold(SOURCE, ceiling_interval_ns=SLOW_NS) as turn,
    ):
        assert turn.plan.count == 0
        assert not turn.is_fresh(now_ns=time.monotonic_ns())
    await impatient.close()
