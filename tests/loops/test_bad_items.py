"""Does a run of bad items stop nobody, and does a provider that is really down still stop us?"""

import asyncio
from collections.abc import Callable

import pytest

from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.limits import Limits
from remora.core.reasons import GapReason
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault
from remora.loops.listed.run import RunOptions
from remora.loops.numbered.backfill import side_by_side, walkers
from remora.sim.clock import SimClock
from remora.sim.replies import SERVER_ERROR, ok
from remora.sim.replies import Answer as Response
from remora.sim.replies import Response as Anything
from tests.gate.numbers import NAME, Numbers, Process, process
from tests.gate.rig import BROKEN, GOOD, Answer, simulated
from tests.loops.listed_rig import NAME as ARCHIVE
from tests.loops.listed_rig import ListedRig, SmallArchive

pytestmark = pytest.mark.slow

IDS = 2_000
BAD = range(900, 1_100)
ALLOWED = Limits(ceiling_interval_ns=SECOND_NS // 100, in_flight=64)
RETRIES = 3
HANGS = Answer(fault=Fault.TIMEOUT, latency_ns=10 * SECOND_NS)
Says = Callable[[int, int], Answer]


def bad(answer: Answer, ids: range = BAD) -> Says:
    return lambda item_id, _attempt: answer if item_id in ids else GOOD


async def catch_up(one: Process, ids: int = IDS) -> None:
    """Ask for all ids, as `remora catchup` does."""
    await one.store.plan(NAME, SegmentKind.BACKFILL, (IdRange(1, ids),), now_ns=one.clock.wall_ns())
    workers = walkers(
        NAME, one.collector, one.store, clock=one.clock, owner="one", kinds=(SegmentKind.BACKFILL,), width=8
    )
    await side_by_side(worker.run_until_done() for worker in workers)


async def stored(one: Process, ids: int = IDS) -> int:
    return sum([await one.store.item(NAME, item_id) is not None for item_id in range(1, ids + 1)])


async def catching_up_took_ns(clock: SimClock, says: Says) -> tuple[int, Process]:
    source = Numbers(clock, newest=IDS, says=says)
    async with process(clock, source, limits=ALLOWED) as one:
        began_ns = clock.monotonic_ns()
        await catch_up(one)
        return clock.monotonic_ns() - began_ns, one


NONSENSE = {
    "server error": BROKEN,
    "no content": Answer(204),
    "not modified": Answer(304),
    "redirect": Answer(302),
    "wrong encoding": Answer(fault=Fault.BAD_ENCODING),
}


REASONS = {"server error": GapReason.SERVER_ERROR, "redirect": GapReason.MOVED}


@pytest.mark.parametrize("kind", NONSENSE)
def test_two_hundred_bad_neighbours_cost_the_good_ones_nothing_but_their_own_requests(kind: str) -> None:
    answer = NONSENSE[kind]

    async def main(clock: SimClock) -> None:
        usual_ns, _ = await catching_up_took_ns(clock, lambda _item_id, _attempt: GOOD)
        took_ns, one = await catching_up_took_ns(clock, bad(answer))
        assert await stored(one) == IDS - len(BAD)
        own_ns = len(BAD) * RETRIES * ALLOWED.ceiling_interval_ns
        assert took_ns <= 1.1 * (usual_ns + own_ns)
        assert one.meter.circuits == []
        assert one.governor.state().last_back_off is None, "and taught the law nothing"
        gaps = await one.store.gaps(NAME, limit=IDS)
        assert {gap.reason for gap in gaps} == {REASONS.get(kind, GapReason.MALFORMED)}, "each is owed with its reason"
        assert len(gaps) == len(BAD)

    simulated(main)


def test_canaries_for_a_long_run_of_bad_items_cost_a_few_per_cent() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS, says=lambda item_id, _attempt: BROKEN if item_id <= 1_000 else GOOD)
        async with process(clock, source, limits=ALLOWED) as one:
            await catch_up(one)
            canaries = sum(source.counts[str(item_id)] - 1 for item_id in range(1_001, IDS + 1))
            assert 0 < canaries <= 0.06 * 1_000
            assert one.meter.circuits == []

    simulated(main)


def test_a_body_that_arrived_whole_but_is_nonsense_is_owed_at_once_and_asked_for_once() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS, says=bad(Answer(304)))
        async with process(clock, source, limits=ALLOWED) as one:
            await one.collector.collect(Discovery.item(BAD[0], via=Lane.BACKFILL))
            assert source.times(BAD[0]) == 1
            (gap,) = await one.store.gaps(NAME)
            assert gap.reason is GapReason.MALFORMED
            assert gap.not_before_ns - clock.wall_ns() > 30 * SECOND_NS, "it has a schedule of its own"

    simulated(main)


def test_new_items_are_not_delayed_by_bad_ones() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS, says=bad(BROKEN))
        async with process(clock, source, limits=ALLOWED) as one:
            behind = asyncio.ensure_future(catch_up(one))
            waits_ns: list[int] = []
            while not behind.done():
                began_ns = clock.monotonic_ns()
                await one.collector.collect(Discovery.item(IDS + len(waits_ns) + 1, via=Lane.LIVE))
                waits_ns.append(clock.monotonic_ns() - began_ns)
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 5)
            assert max(waits_ns) < SECOND_NS

    simulated(main)


def test_a_provider_that_is_down_opens_the_circuit_within_a_dozen_answers_and_closes_it_soon_after_it_is_back() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS)
        async with process(clock, source, limits=ALLOWED) as one:
            for item_id in range(1, 101):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            source.says = lambda _item_id, _attempt: BROKEN
            before, asking = len(source.asked), asyncio.ensure_future(catch_up(one))
            while one.governor.state().circuit is CircuitState.CLOSED:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 1_000)
            # What was in flight when the canary failed is answered, too.
            assert len(source.asked) - before <= 12
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            assert len(source.asked) - before <= 12 + 4, "only probes leave"
            source.says = bad(BROKEN, range(101, 1_000))  # back, but all that waits is bad
            back_ns = clock.monotonic_ns()
            while one.governor.state().circuit is not CircuitState.CLOSED:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
            assert clock.monotonic_ns() - back_ns <= 5 * MINUTE_NS
            await asking
            assert await stored(one) == 1_101

    simulated(main)


@pytest.mark.parametrize(
    "down", [HANGS, Answer(200, fault=Fault.CONNECTION), Answer(302)], ids=["hangs", "resets", "portal"]
)
def test_whatever_a_provider_that_is_down_does_it_is_noticed(down: Answer) -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS)
        async with process(clock, source, limits=ALLOWED) as one:
            for item_id in range(1, 101):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            source.says = lambda _item_id, _attempt: down
            died_ns, asking = clock.monotonic_ns(), asyncio.ensure_future(catch_up(one))
            while one.governor.state().circuit is CircuitState.CLOSED:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS // 100)
                assert clock.monotonic_ns() - died_ns <= down.latency_ns + 4 * SECOND_NS
            source.says = lambda _item_id, _attempt: GOOD
            await asking
            assert one.governor.state().circuit is CircuitState.CLOSED

    simulated(main)


def test_an_outage_in_the_middle_of_bad_items_is_noticed() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS, says=bad(BROKEN, range(1_001, IDS + 1)))
        async with process(clock, source, limits=ALLOWED) as one:
            for item_id in [*range(1, 21), *range(1_001, 1_101)]:
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            assert one.meter.circuits == []
            source.says = lambda _item_id, _attempt: BROKEN
            before, item_id = len(source.asked), 1_101
            while one.governor.state().circuit is CircuitState.CLOSED:
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
                item_id += 1
            assert len(source.asked) - before <= 36

    simulated(main)


def test_a_start_in_the_middle_of_bad_items_finds_something_good() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS, says=bad(BROKEN, range(1_001, IDS + 1)))
        async with process(clock, source, limits=ALLOWED) as one:
            began_ns = clock.monotonic_ns()
            await catch_up(one)
            assert await stored(one) == 1_000
            assert clock.monotonic_ns() - began_ns <= 15 * MINUTE_NS

    simulated(main)


def test_a_known_good_key_that_turned_bad_opens_nothing_while_others_are_answered() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS)
        async with process(clock, source, limits=ALLOWED) as one:
            for item_id in range(1, 21):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            source.says = bad(BROKEN, range(1, 41))
            for item_id in range(21, 41):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            await asyncio.wait_for(catch_up(one), timeout=10 * 60)
            assert await stored(one) == IDS - 20

    simulated(main)


SPOILED: dict[str, Anything] = {
    "server error": SERVER_ERROR,
    "bad UTF-8": ok(b'{"id": "\xff\xfe"}'),
    "NaN": ok(b'{"id": NaN}'),
    "no content": Response(204, b""),
    "not modified": Response(304, b""),
    "redirect": Response(302, b""),
}


@pytest.mark.parametrize("first", [0, 20, 32], ids=["oldest", "middle", "newest"])
@pytest.mark.parametrize("kind", SPOILED)
def test_eight_bad_documents_of_forty_do_not_keep_the_others_from_the_first_run(kind: str, first: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.spoiled = {f"c{number}": SPOILED[kind] for number in range(first, first + 8)}
        await rig.run(RunOptions(max_wall_ns=15 * MINUTE_NS))
        assert set(await rig.mirror()) == set(rig.archive.truth()) - set(rig.archive.spoiled)
        assert {gap.reason for gap in await rig.store.gaps(ARCHIVE)} == {REASONS.get(kind, GapReason.MALFORMED)}
        assert rig.meter.circuits == []

    simulated(main)


def test_a_quiet_mirror_notices_within_a_minute_that_the_provider_is_down_and_since_when() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=IDS)
        async with process(clock, source, limits=ALLOWED) as one:
            await one.collector.newest()
            for item_id in range(1, 101):
                await one.collector.collect(Discovery.item(item_id, via=Lane.BACKFILL))
            source.says = lambda _item_id, _attempt: Answer(200, fault=Fault.CONNECTION)
            died_ns, polling = clock.wall_ns(), asyncio.ensure_future(_poll_newest(one))
            while one.governor.state().circuit is CircuitState.CLOSED:
                await clock.sleep_until(clock.monotonic_ns() + SECOND_NS)
                assert clock.wall_ns() - died_ns <= MINUTE_NS
            down = one.governor.state().provider_down
            assert down is not None
            assert down.since_ns - died_ns <= SECOND_NS, "it is down since the first request that failed"
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    simulated(main)


async def _poll_newest(one: Process) -> None:
    """All that a mirror sends that is complete and has lost its stream."""
    while True:
        await one.collector.newest()
        await one.clock.sleep_until(one.clock.monotonic_ns() + 15 * SECOND_NS)
