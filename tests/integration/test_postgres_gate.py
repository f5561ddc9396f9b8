"""Does the ceiling hold over all processes, whatever happens to any of them, to the database and to its clock?"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from remora.core.rate.pacing import interval_for
from remora.core.rate.stretches import AHEAD_NS, Grant, reach_for
from remora.core.units import MILLISECOND_NS
from remora.gate.shared import SharedHome
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import PostgresGate, migrate
from tests.integration.gate_sender import Sender
from tests.integration.postgres_processes import Fleet, earliest_by_ns
from tests.integration.test_shared_gate import SOURCE, borrow, question

pytestmark = pytest.mark.postgres

FAST_NS = interval_for(400)
SLOW_NS = 50 * MILLISECOND_NS


@pytest.fixture
async def url(postgres_url: str) -> str:
    await migrate(postgres_url)
    return postgres_url


@pytest.fixture
async def gate(url: str) -> AsyncIterator[PostgresGate]:
    shared = PostgresGate(url, clock=SystemClock())
    yield shared
    await shared.close()


async def asked_once(gate: PostgresGate, interval_ns: int) -> Grant:
    return (await gate.borrow(SOURCE, question(interval_ns), seen_version=0))[0]


async def test_an_outdated_process_can_make_the_pace_slower_but_not_faster(gate: PostgresGate) -> None:
    _, seen = await gate.share(SOURCE, record={"by": "one"}, interval_ns=40, seen_version=0)
    was_taken, second = await gate.share(SOURCE, record={"by": "two"}, interval_ns=60, seen_version=seen.version)
    assert (was_taken, second.interval_ns) == (True, 60)
    for offered_ns, kept_ns in ((30, 60), (90, 90)):
        was_taken, kept = await gate.share(
            SOURCE, record={"by": "outdated"}, interval_ns=offered_ns, seen_version=seen.version
        )
        assert not was_taken
        assert (kept.record, kept.interval_ns) == ({"by": "two"}, kept_ns)


async def test_a_database_clock_that_was_set_back_closes_the_gate_for_no_longer_than_a_grant_can_reach(
    gate: PostgresGate, url: str
) -> None:
    await borrow(gate, question(FAST_NS))
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(
            "UPDATE gates SET next_ns = next_ns + 864000000000000, pace_next_ns = pace_next_ns + 864000000000000"
        )
    refused = await asked_once(gate, FAST_NS)
    assert refused.departures == 0
    assert refused.starts_ns <= refused.now_ns + reach_for(FAST_NS)


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_a_row_that_was_lost_begins_behind_all_that_it_may_have_granted(
    gate: PostgresGate, url: str, interval_ns: int
) -> None:
    granted = await borrow(gate, question(interval_ns, want=100))
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("DELETE FROM gates")
        lost = operator.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint").fetchone()
    assert lost is not None
    assert (await asked_once(gate, interval_ns)).departures == 0
    after = await borrow(gate, question(interval_ns))
    assert after.starts_ns >= lost[0] + reach_for(interval_ns)
    assert after.starts_ns >= granted.ends_ns


def test_a_crash_of_the_server_loses_the_row_instead_of_keeping_an_old_one(postgres_url: str) -> None:
    asyncio.run(migrate(postgres_url))
    with psycopg.connect(postgres_url) as operator:
        kept = operator.execute("SELECT relpersistence FROM pg_class WHERE relname = 'gates'").fetchone()
    assert kept == ("u",)


class SetBack(SystemClock):
    """Our clock, set back now and then: as good as a database whose clock is set forward."""

    set_back_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() - self.set_back_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        await super().sleep_until(monotonic_ns + self.set_back_ns)

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await super().sleep_exactly_until(monotonic_ns + self.set_back_ns)


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_a_database_clock_that_is_set_forward_makes_all_wait_until_nothing_granted_before_can_leave(
    gate: PostgresGate, interval_ns: int
) -> None:
    clock = SetBack()
    home = SharedHome(SOURCE, gate, ceiling_interval_ns=interval_ns, clock=clock)
    sender = Sender(home, interval_ns=interval_ns, clock=clock, ready=1)
    async with asyncio.timeout(120):
        await sender.send()
        await asyncio.sleep(1)  # nothing is held any more
        clock.set_back_ns = 500 * MILLISECOND_NS
        set_at_ns = clock.monotonic_ns()
        left_at_ns, _ = await sender.send()
        assert left_at_ns - set_at_ns >= reach_for(interval_ns) - AHEAD_NS // 100
    await home.close()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20, 400, 5_000])
def test_four_stalling_processes_one_of_them_killed_never_break_the_ceiling(
    url: str, tmp_path: Path, rate: int
) -> None:
    options = ("--rate", str(rate), "--stall-share", "0.2" if rate < 100 else "0.02")
    with Fleet(url, tmp_path) as fleet:
        workers = [fleet.start("send", *options, "--clock-off-by-s", str(off)) for off in (0, 300, -300, 0.5)]
        time.sleep(2)
        fleet.kill(workers[0])
        fleet.start("send", *options)
        time.sleep(2)
    sent = [event.at_ns for event in fleet.events("sent")]
    assert earliest_by_ns(sent, interval_for(rate)) == 0
    assert len(sent) > 4


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20, 1_000])
def test_a_frozen_process_holds_nobody_back_and_breaks_no_ceiling_when_it_wakes(
    url: str, tmp_path: Path, rate: int
) -> None:
    with Fleet(url, tmp_path) as fleet:
        frozen = fleet.start("send", "--rate", str(rate))
        time.sleep(1)
        fleet.freeze(frozen)
        frozen_at_ns = time.monotonic_ns()
        fleet.start("send", "--rate", str(rate))
        resumed = fleet.wait_for("sent", after_ns=frozen_at_ns + 100 * MILLISECOND_NS, timeout_s=120)
        assert resumed.worker != frozen
        fleet.wake(frozen)
        woken_at_ns = time.monotonic_ns()
        fleet.wait_for("sent", after_ns=woken_at_ns, timeout_s=120)
        time.sleep(1)
    sent = [event.at_ns for event in fleet.events("sent")]
    assert earliest_by_ns(sent, interval_for(rate)) == 0
    assert any(event.worker == frozen for event in fleet.events("sent") if event.at_ns > woken_at_ns)
