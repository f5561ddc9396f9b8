"""Is the shared gate the same for all processes, in PostgreSQL as in simulation, and does a governor keep to it?"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from remora.contracts import GateStore
from remora.core.errors import StoreUnavailable
from remora.core.item import Newest
from remora.core.lanes import Lane
from remora.core.rate.gate_types import LimitedBy
from remora.core.rate.pacing import burst_allowance, interval_for
from remora.core.rate.stretches import AHEAD_NS, Grant, Question, reach_for
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Found, Pressure, Reply, Verdict
from remora.gate.governor import Governor, Limits
from remora.gate.shared import SharedHome
from remora.operate.jobs.clock import SystemClock
from remora.sim.checks import worst_window
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate
from remora.stores.postgres import migrate
from remora.stores.postgres.sharing import PostgresSharing
from tests.integration.gate_sender import Sender
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

SOURCE = "shared"
FAST_NS = interval_for(400)
SLOW_NS = 30 * MILLISECOND_NS
CLOCK = SystemClock()

# A gate store as one more process would open it.
Opens = Callable[[], GateStore]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
async def opens(request: pytest.FixtureRequest) -> AsyncIterator[Opens]:
    if request.param == "memory":
        gate_store = SimGate(CLOCK)
        yield lambda: gate_store
        return
    url: str = request.getfixturevalue("postgres_url")
    await migrate(url)
    opened: list[PostgresSharing] = []

    def one_more() -> GateStore:
        opened.append(PostgresSharing(url, owner=f"process-{len(opened)}", clock=CLOCK))
        return opened[-1].gate_store

    yield one_more
    for sharing in opened:
        await sharing.close()


def question(interval_ns: int, *, want: int = 1, mine_ns: int = 0, pace_ns: int = 0) -> Question:
    return Question(
        ceiling_interval_ns=interval_ns,
        interval_ns=max(interval_ns, pace_ns),
        want=want,
        lead_ns=0,
        spare_ns=0,
        mine_ns=mine_ns,
        block_ns=400 * MILLISECOND_NS,
        reach_ns=reach_for(interval_ns),
        was_set_forward=False,
    )


async def pause(for_ns: int = 0) -> None:
    await CLOCK.sleep_until(CLOCK.monotonic_ns() + max(MILLISECOND_NS, for_ns))


async def borrow(store: GateStore, asked: Question) -> Grant:
    """A stretch, however often it must be asked for."""
    async with asyncio.timeout(120):
        while not (grant := (await store.borrow(SOURCE, asked, seen_version=0))[0]).departures:
            await pause(min(SECOND_NS, grant.starts_ns - grant.now_ns))
    return grant


def home(store: GateStore, interval_ns: int) -> SharedHome:
    return SharedHome(SOURCE, store, ceiling_interval_ns=interval_ns, clock=CLOCK)


async def test_stretches_follow_one_another_and_nothing_is_carried_over_from_idle_time(opens: Opens) -> None:
    one, other = opens(), opens()
    first = await borrow(one, question(FAST_NS, want=10))
    second = await borrow(other, question(FAST_NS, want=10))
    assert first.ends_ns - first.starts_ns == 10 * FAST_NS
    assert second.starts_ns >= first.ends_ns
    await asyncio.sleep(0.1)
    third = await borrow(one, question(FAST_NS, want=10))
    assert third.ends_ns - third.starts_ns == 10 * FAST_NS
    assert third.starts_ns >= third.now_ns


async def test_a_stretch_goes_on_without_a_seam_unless_somebody_came_between(opens: Opens) -> None:
    one, other = opens(), opens()
    first = await borrow(one, question(FAST_NS, want=40))
    more = await borrow(one, question(FAST_NS, want=40, mine_ns=first.ends_ns))
    assert more.starts_ns == first.ends_ns
    between = await borrow(other, question(FAST_NS))
    last = await borrow(one, question(FAST_NS, mine_ns=more.ends_ns))
    assert last.starts_ns >= between.ends_ns > more.ends_ns


async def test_nothing_is_granted_further_ahead_than_a_second(opens: Opens) -> None:
    store = opens()
    grant = await borrow(store, question(FAST_NS))
    for _ in range(20):
        if grant.departures:
            assert grant.starts_ns <= grant.now_ns + AHEAD_NS
            grant, _ = await store.borrow(SOURCE, question(FAST_NS, want=100), seen_version=0)
    assert grant.departures == 0
    assert grant.now_ns < grant.starts_ns <= grant.now_ns + AHEAD_NS


async def test_a_slow_pace_spaces_the_stretches_of_all_and_a_faster_one_brings_the_next_closer(opens: Opens) -> None:
    one, other = opens(), opens()
    first = await borrow(one, question(FAST_NS, want=10, pace_ns=500 * MILLISECOND_NS))
    second = await borrow(other, question(FAST_NS, want=10, pace_ns=500 * MILLISECOND_NS))
    assert (first.departures, second.departures) == (1, 1)
    assert second.starts_ns - first.starts_ns >= 500 * MILLISECOND_NS
    third = await borrow(one, question(FAST_NS))
    assert third.starts_ns <= second.ends_ns + 100 * MILLISECOND_NS


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_what_leaves_through_several_processes_keeps_one_ceiling(opens: Opens, interval_ns: int) -> None:
    async def leave(store: GateStore) -> list[int]:
        at_home = home(store, interval_ns)
        sender = Sender(at_home, interval_ns=interval_ns, clock=CLOCK)
        left = [(await sender.send())[0] for _ in range(24)]
        await at_home.close()
        return left

    async with asyncio.timeout(120):
        left = await asyncio.gather(*(leave(opens()) for _ in range(3)))
    times_ns = sorted(at_ns for one in left for at_ns in one)
    assert worst_window(times_ns, interval_ns, burst_allowance(interval_ns)).excess_ns <= 0


@pytest.mark.parametrize("rate", [0.5, 20, 1_000, 5_000])
async def test_a_lone_request_leaves_at_any_ceiling(opens: Opens, rate: float) -> None:
    interval_ns = interval_for(rate)
    at_home = home(opens(), interval_ns)
    sender = Sender(at_home, interval_ns=interval_ns, clock=CLOCK, ready=1)
    async with asyncio.timeout(120):
        first_ns, _ = await sender.send()
        second_ns, _ = await sender.send()
    assert second_ns - first_ns >= interval_ns - (burst_allowance(interval_ns) - 1) * interval_ns
    await at_home.close()


async def test_what_was_learned_on_top_of_an_old_version_is_refused_and_counts_only_if_it_is_slower(
    opens: Opens,
) -> None:
    one, other = home(opens(), FAST_NS), home(opens(), FAST_NS)
    taken, first = await one.share({"by": "one"}, interval_ns=40, not_before_in_ns=0, seen_version=0)
    refused, kept = await other.share({"by": "two"}, interval_ns=60, not_before_in_ns=0, seen_version=0)
    assert (taken, refused) == (True, False)
    assert isinstance(kept.record, dict)
    assert (kept.record["by"], kept.interval_ns, kept.version) == ("one", 60, first.version)
    taken, _ = await other.share({"by": "two"}, interval_ns=50, not_before_in_ns=0, seen_version=kept.version)
    assert taken
    known = await one.look()
    assert (known.interval_ns, known.version) == (50, first.version + 1)
    assert known.age_ns < 600 * SECOND_NS


async def test_a_wait_that_one_was_told_is_told_to_all_who_ask(opens: Opens) -> None:
    one, other = opens(), opens()
    await borrow(other, question(FAST_NS))
    await one.share(SOURCE, record={"by": "one"}, interval_ns=0, not_before_in_ns=60 * SECOND_NS, seen_version=0)
    grant, pace = await other.borrow(SOURCE, question(FAST_NS), seen_version=0)
    assert grant.departures == 0
    assert 0 < grant.starts_ns - grant.now_ns <= 60 * SECOND_NS
    assert 0 < pace.not_before_in_ns <= 60 * SECOND_NS
    assert pace.record == {"by": "one"}
    _, seen = await other.borrow(SOURCE, question(FAST_NS), seen_version=pace.version)
    assert seen.record is None


async def test_a_wait_that_one_was_told_ends_the_time_that_others_hold(opens: Opens) -> None:
    one, other = home(opens(), SLOW_NS), home(opens(), SLOW_NS)
    sender = Sender(other, interval_ns=SLOW_NS, clock=CLOCK)
    async with asyncio.timeout(120):
        await sender.send()
        while sender.time(CLOCK.monotonic_ns()) is None:
            await sender.send()
        await one.share({}, interval_ns=SLOW_NS, not_before_in_ns=600 * SECOND_NS, seen_version=0)
        while sender.time(CLOCK.monotonic_ns()) is not None:
            await pause()
        while not any(pace.not_before_in_ns for pace in sender.heard):
            await pause()
    assert sender.heard[-1].not_before_in_ns > SECOND_NS
    await other.close()
    await one.close()


@pytest.mark.parametrize("interval_ns", [FAST_NS, SLOW_NS])
async def test_a_gate_that_one_shut_lets_one_probe_through_and_nobody_else_until_its_answer_is_told(
    opens: Opens, interval_ns: int
) -> None:
    homes = [home(opens(), interval_ns) for _ in range(3)]
    senders = [Sender(one, interval_ns=interval_ns, clock=CLOCK) for one in homes]
    async with asyncio.timeout(120):
        await senders[0].send()
        shut_at_ns = CLOCK.monotonic_ns()
        await homes[0].shut(for_ns=200 * MILLISECOND_NS, cool_down_ns=7, was_prober=False)
        asking = [asyncio.ensure_future(sender.send()) for sender in senders]
        done, others = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        ((left_at_ns, stretch),) = (one.result() for one in done)
        assert left_at_ns >= shut_at_ns + 200 * MILLISECOND_NS
        assert stretch.is_probe
        assert any(pace.cool_down_ns == 7 for sender in senders for pace in sender.heard)
        _, waiting = await asyncio.wait(others, timeout=0.5)
        assert waiting == others
        await homes[1].open_again()
        assert not any(stretch.is_probe for _, stretch in await asyncio.gather(*others))
    for one in homes:
        await one.close()


async def test_a_probe_that_did_not_leave_is_anybodys_and_a_probers_word_shortens_the_wait(opens: Opens) -> None:
    one, other = opens(), opens()
    await borrow(one, question(FAST_NS))
    await one.shut(SOURCE, for_ns=0, cool_down_ns=1, was_prober=False)
    assert (await borrow(one, question(FAST_NS))).is_probe
    refused, _ = await other.borrow(SOURCE, question(FAST_NS), seen_version=0)
    assert refused.departures == 0
    await one.return_probe(SOURCE)
    assert (await borrow(other, question(FAST_NS))).is_probe
    await one.shut(SOURCE, for_ns=0, cool_down_ns=1, was_prober=False)  # says nothing about the probe under way
    _, told = await one.borrow(SOURCE, question(FAST_NS), seen_version=0)
    assert told.shut_in_ns is not None
    assert told.shut_in_ns > SECOND_NS
    await other.shut(SOURCE, for_ns=0, cool_down_ns=1, was_prober=True)
    assert (await borrow(one, question(FAST_NS))).is_probe


async def test_a_probe_that_nobody_uses_is_given_back_by_the_home_itself(opens: Opens) -> None:
    one, other = opens(), opens()
    at_home = home(one, FAST_NS)
    sender = Sender(at_home, interval_ns=FAST_NS, clock=CLOCK)
    async with asyncio.timeout(120):
        await sender.send()
        await at_home.shut(for_ns=0, cool_down_ns=1, was_prober=False)
        while (stretch := sender.time(CLOCK.monotonic_ns())) is None or not stretch.is_probe:
            await pause()
        sender.ready = 0  # whoever waited went away
        assert (await borrow(other, question(FAST_NS))).is_probe
    await at_home.close()


# ── governors of two processes ──────────────────────────────────────────────────────────────────────────────────────


def governor(store: GateStore, *, ceiling_ns: int) -> Governor:
    limits = Limits(ceiling_interval_ns=ceiling_ns, in_flight=8)
    return Governor(
        SOURCE, limits, clock=CLOCK, home=home(store, ceiling_ns), meter=CountingMeter(), chance=random.random
    )


async def ask(one: Governor, verdict: Verdict) -> int:
    """One request and its answer; returns when it left."""
    async with one.admit(Lane.LIVE) as permit:
        departed_at_ns = await permit.depart()
        permit.sent()
        one.learn(permit, Reply(200, b"", departed_at_ns, CLOCK.monotonic_ns()), verdict)
        return departed_at_ns


@pytest.mark.slow
async def test_a_429_that_one_process_sees_holds_and_slows_the_other(opens: Opens) -> None:
    one, other = (governor(opens(), ceiling_ns=SLOW_NS) for _ in range(2))
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
    sharing = PostgresSharing(postgres_url, owner="one", clock=CLOCK)
    one = governor(sharing.gate_store, ceiling_ns=SLOW_NS)
    await one.open()
    await ask(one, Found(Newest(1)))
    postgres_server.kill()
    try:
        with pytest.raises(StoreUnavailable):
            await sharing.gate_store.look(SOURCE)
        await asyncio.sleep(1)  # what was granted before is over
        asking = asyncio.ensure_future(ask(one, Found(Newest(1))))
        await asyncio.sleep(2.5)
        assert not asking.done()
        assert one.state().departures == 1
        assert one.state().limited_by is LimitedBy.STORE
    finally:
        postgres_server.start()
    async with asyncio.timeout(240):
        await asking
        assert one.state().departures == 2
        while one.state().limited_by is LimitedBy.STORE:  # what limited most of the last seconds
            await ask(one, Found(Newest(1)))
    assert one.state().next_held_by is not LimitedBy.STORE
    await one.close()
    await sharing.close()
