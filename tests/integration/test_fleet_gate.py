"""Is the common gate the same for all who share it, in PostgreSQL as in simulation, and does a governor keep to it?"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from remora.contracts import CommonGate, PaceBook, Slot
from remora.core.errors import StoreUnavailable
from remora.core.item import Newest
from remora.core.lanes import Lane
from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.pacing import burst_allowance, interval_for
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Found, Pressure, Reply, Verdict
from remora.gate.governor import Governor, Limits
from remora.operate.jobs.clock import SystemClock
from remora.sim.checks import worst_window
from remora.sim.fleet import SimPlans
from remora.sim.meter import CountingMeter
from remora.stores.memory import MemoryStore
from remora.stores.postgres import migrate
from remora.stores.postgres.fleet import PostgresFleet
from remora.stores.slots import Slots
from tests.postgres_server import PostgresServer

SOURCE = "shared"
FAST_NS = interval_for(400)
SLOW_NS = 30 * MILLISECOND_NS
CLOCK = SystemClock()

# A gate as one more process would open it.
Opens = Callable[[int], CommonGate]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
async def opens(request: pytest.FixtureRequest) -> AsyncIterator[Opens]:
    if request.param == "memory":
        plans = SimPlans(CLOCK)
        yield lambda ceiling_ns: Slots(plans, SOURCE, ceiling_interval_ns=ceiling_ns, clock=CLOCK)
        return
    url: str = request.getfixturevalue("postgres_url")
    await migrate(url)
    fleets: list[PostgresFleet] = []

    def opened(ceiling_ns: int) -> CommonGate:
        fleets.append(PostgresFleet(url, owner=f"process-{len(fleets)}", clock=CLOCK))
        return fleets[-1].common_gate(SOURCE, ceiling_interval_ns=ceiling_ns)

    yield opened
    for fleet in fleets:
        await fleet.close()


async def fresh_slot(gate: CommonGate, interval_ns: int) -> Slot:
    while True:
        slot = await gate.slot(interval_ns=interval_ns)
        if slot.is_fresh(now_ns=CLOCK.monotonic_ns()):
            return slot
        slot.end()


async def leave(gate: CommonGate, interval_ns: int, count: int) -> list[int]:
    """What one process does: requests that leave one after another, two of them standing ready at any time."""
    left_at_ns: list[int] = []

    async def send() -> None:
        while len(left_at_ns) < count:
            slot = await gate.slot(interval_ns=interval_ns)
            now_ns = CLOCK.monotonic_ns()
            if slot.is_fresh(now_ns=now_ns):
                slot.departed(now_ns=now_ns)
                left_at_ns.append(now_ns)
            slot.end()

    await asyncio.gather(send(), send())
    return left_at_ns


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_what_leaves_through_the_gates_of_several_processes_keeps_one_ceiling(
    opens: Opens, interval_ns: int
) -> None:
    left = await asyncio.gather(*(leave(opens(interval_ns), interval_ns, 12) for _ in range(3)))
    times_ns = sorted(at_ns for one in left for at_ns in one)
    assert len(times_ns) >= 36
    assert worst_window(times_ns, interval_ns, burst_allowance(interval_ns)).excess_ns <= 0


async def test_a_turn_that_nobody_used_is_given_back_and_one_that_was_used_is_not(opens: Opens) -> None:
    interval_ns = 400 * MILLISECOND_NS
    gate, other = opens(interval_ns), opens(interval_ns)
    (await fresh_slot(gate, interval_ns)).end()
    started_ns = CLOCK.monotonic_ns()
    slot = await fresh_slot(other, interval_ns)
    assert CLOCK.monotonic_ns() - started_ns < interval_ns
    slot.departed(now_ns=CLOCK.monotonic_ns())
    left_at_ns = CLOCK.monotonic_ns()
    slot.end()
    (await fresh_slot(gate, interval_ns)).end()
    assert CLOCK.monotonic_ns() - left_at_ns >= interval_ns - MILLISECOND_NS


async def test_a_slot_is_good_for_one_request_and_not_after_its_end(opens: Opens) -> None:
    slot = await fresh_slot(opens(SLOW_NS), SLOW_NS)
    slot.end()
    assert not slot.is_fresh(now_ns=CLOCK.monotonic_ns())
    with pytest.raises(AssertionError):
        slot.departed(now_ns=CLOCK.monotonic_ns())


async def test_who_stops_waiting_takes_nothing_from_who_waits_on(opens: Opens) -> None:
    gate = opens(SLOW_NS)
    waiting = [asyncio.ensure_future(gate.slot(interval_ns=SLOW_NS)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    for waiter in waiting[1:]:
        (await asyncio.wait_for(waiter, 120)).end()
    assert waiting[0].cancelled()


async def test_what_was_learned_on_top_of_an_old_version_is_refused_and_counts_only_if_it_is_slower(
    opens: Opens,
) -> None:
    gate, other = opens(FAST_NS), opens(FAST_NS)
    taken, first = await gate.share({"by": "one"}, interval_ns=40, not_before_in_ns=0, seen_version=0)
    refused, stands = await other.share({"by": "two"}, interval_ns=60, not_before_in_ns=0, seen_version=0)
    assert (taken, refused) == (True, False)
    assert isinstance(stands.record, dict)
    assert (stands.record["by"], stands.interval_ns, stands.version) == ("one", 60, first.version)
    taken, _ = await other.share({"by": "two"}, interval_ns=50, not_before_in_ns=0, seen_version=stands.version)
    assert taken
    known = await gate.look()
    assert (known.interval_ns, known.version) == (50, first.version + 1)
    assert known.age_ns < 600 * SECOND_NS


async def test_a_wait_that_one_was_told_is_told_to_all_who_ask(opens: Opens) -> None:
    gate, other = opens(FAST_NS), opens(FAST_NS)
    (await fresh_slot(other, FAST_NS)).end()
    await gate.share({}, interval_ns=0, not_before_in_ns=60 * SECOND_NS, seen_version=0)
    slot = await asyncio.wait_for(other.slot(interval_ns=FAST_NS), 120)
    assert not slot.is_fresh(now_ns=CLOCK.monotonic_ns())
    assert 0 < slot.pace.not_before_in_ns <= 60 * SECOND_NS


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_a_gate_that_one_shut_lets_one_probe_through_and_nobody_else_until_its_answer_is_told(
    opens: Opens, interval_ns: int
) -> None:
    gates = [opens(interval_ns) for _ in range(3)]
    (await fresh_slot(gates[0], interval_ns)).end()
    shut_at_ns = CLOCK.monotonic_ns()
    await gates[0].shut(for_ns=200 * MILLISECOND_NS, cool_down_ns=7, was_prober=False)
    asking = [asyncio.ensure_future(fresh_slot(gate, interval_ns)) for gate in gates]
    done, others = await asyncio.wait(asking, timeout=120, return_when=asyncio.FIRST_COMPLETED)
    (probe,) = (one.result() for one in done)
    assert CLOCK.monotonic_ns() >= shut_at_ns + 200 * MILLISECOND_NS
    assert probe.is_probe
    assert probe.pace.cool_down_ns == 7
    probe.departed(now_ns=CLOCK.monotonic_ns())
    probe.end()
    _, waiting = await asyncio.wait(others, timeout=0.5)
    assert waiting == others
    await gates[1].open_again()
    slots = await asyncio.wait_for(asyncio.gather(*others), 120)
    assert not any(slot.is_probe for slot in slots)
    for slot in slots:
        slot.end()


async def test_a_probe_that_did_not_leave_is_anybodys_and_a_probers_word_shortens_the_wait(opens: Opens) -> None:
    gate, other = opens(FAST_NS), opens(FAST_NS)
    (await fresh_slot(gate, FAST_NS)).end()
    await gate.shut(for_ns=0, cool_down_ns=1, was_prober=False)
    (await asyncio.wait_for(fresh_slot(gate, FAST_NS), 120)).end()
    probe = await asyncio.wait_for(fresh_slot(other, FAST_NS), 120)
    assert probe.is_probe
    probe.departed(now_ns=CLOCK.monotonic_ns())
    probe.end()
    await gate.shut(for_ns=0, cool_down_ns=1, was_prober=False)  # says nothing about the probe that is under way
    told = await gate.slot(interval_ns=FAST_NS)
    assert told.pace.shut_in_ns is not None
    assert told.pace.shut_in_ns > SECOND_NS
    await other.shut(for_ns=0, cool_down_ns=1, was_prober=True)
    again = await asyncio.wait_for(fresh_slot(gate, FAST_NS), 120)
    assert again.is_probe
    again.end()


# ── governors of two processes ──────────────────────────────────────────────────────────────────────────────────────


def governor(common: CommonGate, *, book: PaceBook, ceiling_ns: int) -> Governor:
    limits = Limits(ceiling_interval_ns=ceiling_ns, in_flight=8)
    return Governor(SOURCE, limits, clock=CLOCK, book=book, meter=CountingMeter(), chance=random.random, common=common)


async def ask(one: Governor, verdict: Verdict) -> int:
    """One request and its answer; returns when it left."""
    async with one.admit(Lane.LIVE) as permit:
        departed_at_ns = await permit.depart()
        permit.sent()
        one.learn(permit, Reply(200, b"", departed_at_ns, CLOCK.monotonic_ns()), verdict)
        return departed_at_ns


@pytest.mark.slow
async def test_a_429_that_one_process_sees_holds_and_slows_the_other(opens: Opens) -> None:
    book = MemoryStore()
    one, other = (governor(opens(SLOW_NS), book=book, ceiling_ns=SLOW_NS) for _ in range(2))
    await one.open()
    await other.open()
    for _ in range(3):
        await ask(one, Found(Newest(1)))
        await ask(other, Found(Newest(1)))
    before_ns = other.state().interval_ns
    wait_ns = SECOND_NS
    await ask(one, Pressure(GapReason.RATE_LIMITED, wait_ns))
    pressed_at_ns = CLOCK.monotonic_ns()
    await asyncio.sleep(0.1)  # one answer of the store
    departed_at_ns = await ask(other, Found(Newest(1)))
    assert departed_at_ns - pressed_at_ns >= wait_ns - 20 * MILLISECOND_NS
    assert other.state().interval_ns > before_ns
    assert other.state().last_back_off is not None
    await one.close()
    await other.close()


@pytest.mark.postgres
@pytest.mark.slow
async def test_while_postgresql_is_away_nothing_leaves_and_all_goes_on_when_it_is_back(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    await migrate(postgres_url)
    fleet = PostgresFleet(postgres_url, owner="one", clock=CLOCK)
    common = fleet.common_gate(SOURCE, ceiling_interval_ns=SLOW_NS)
    one = governor(common, book=MemoryStore(), ceiling_ns=SLOW_NS)
    await one.open()
    await ask(one, Found(Newest(1)))
    postgres_server.kill()
    try:
        with pytest.raises(StoreUnavailable):
            await common.look()
        asking = asyncio.ensure_future(ask(one, Found(Newest(1))))
        await asyncio.sleep(2.5)
        assert not asking.done()
        assert one.state().departures == 1
        assert one.state().limited_by is LimitedBy.STORE
    finally:
        postgres_server.start()
    await asyncio.wait_for(asking, 240)
    assert one.state().departures == 2
    assert one.state().limited_by is LimitedBy.NO_WORK
    await one.close()
    await fleet.close()
