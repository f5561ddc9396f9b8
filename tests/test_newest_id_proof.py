"""Is a newest id believed only as far as an item proves it, with few requests, also where many ids are empty?"""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.newest_id import BACK_FOR_NS, PLAUSIBLE_IDS, PROBES_MAX, is_far_below
from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock
from tests.gate.numbers import Numbers, process
from tests.gate.rig import BROKEN, GOOD, simulated

ABSURD = 2**53


class Liar(Numbers):
    """Tells an absurd newest id so many times. Items exist up to the truth."""

    def __init__(self, clock: SimClock, *, newest: int, lies: int, exists: Callable[[int], bool] = bool) -> None:
        super().__init__(clock, newest=newest)
        self.lies, self.exists = lies, exists

    def body(self, discovery: Discovery) -> bytes:
        if discovery.kind is Kind.NEWEST and self.lies:
            self.lies -= 1
            return b"%d" % ABSURD
        if discovery.kind is Kind.ITEM and not (discovery.item_id <= self.newest and self.exists(discovery.item_id)):
            return b"null"
        return super().body(discovery)


@pytest.mark.parametrize("lies", [1, 2, 5])
@pytest.mark.parametrize("known", [None, 500_000])
def test_an_absurd_newest_id_is_never_believed_however_often_it_is_told(lies: int, known: int | None) -> None:
    async def main(clock: SimClock) -> None:
        source = Liar(clock, newest=500_001, lies=lies)
        async with process(clock, source) as one:
            one.collector.newest_id, one.collector.proven_id = known, known or 0
            for _ in range(lies):
                assert await one.collector.newest() is None
            assert one.collector.newest_id == known
            assert one.collector.doubt is not None
            assert one.collector.doubt.told == ABSURD
            assert await one.collector.newest() == 500_001
            assert vars(one.collector)["doubt"] is None
            assert len(source.asked) <= lies + 1 + 2 * PROBES_MAX

    simulated(main)


def test_a_claim_that_stays_absurd_costs_ever_fewer_requests() -> None:
    async def main(clock: SimClock) -> None:
        source = Liar(clock, newest=500, lies=10_000)
        async with process(clock, source) as one:
            for _ in range(240):  # an hour of polls
                await one.collector.newest()
                await clock.sleep_until(clock.monotonic_ns() + 15 * SECOND_NS)
            assert len(source.asked) <= 240 + 9 * PROBES_MAX

    simulated(main)


@pytest.mark.parametrize("one_in, polls", [(1, 1), (2, 3), (10, 20)])
def test_a_leap_is_believed_on_the_evidence_of_an_item_also_where_many_ids_are_empty(one_in: int, polls: int) -> None:
    async def main(clock: SimClock) -> None:
        source = Liar(clock, newest=7_000_001, lies=0, exists=lambda item_id: item_id * 2_654_435_761 % one_in == 0)
        async with process(clock, source) as one:
            one.collector.newest_id = one.collector.proven_id = 1_000
            for _ in range(polls):
                await one.collector.newest()
                await clock.sleep_until(clock.monotonic_ns() + 3_600 * SECOND_NS)
            assert one.collector.newest_id == 7_000_001

    simulated(main)


def test_small_steps_do_not_add_up_to_an_absurd_number() -> None:
    async def main(clock: SimClock) -> None:
        source = Liar(clock, newest=900, lies=0, exists=lambda _id: False)
        async with process(clock, source) as one:
            one.collector.newest_id = 0
            for _ in range(100):
                await one.collector.newest()
                source.newest += 900
            assert one.collector.newest_id <= PLAUSIBLE_IDS

    simulated(main)


def test_a_provider_in_trouble_neither_proves_nor_refutes_a_leap() -> None:
    async def main(clock: SimClock) -> None:
        source = Liar(clock, newest=7_000_001, lies=0)
        async with process(clock, source) as one:
            source.says = lambda item_id, _attempt: BROKEN if item_id else GOOD
            assert await one.collector.newest() is None
            assert one.collector.doubt is None
            source.says = lambda _id, _attempt: GOOD
            assert await one.collector.newest() == 7_000_001

    simulated(main)


@pytest.mark.parametrize(
    "proven_id, lowest_silent",
    [(2_499, 2_399), (1_000_000, 999_900), (200, 180), (50, 40), (9, 1)],
)
def test_deleted_newest_items_are_no_step_back(proven_id: int, lowest_silent: int) -> None:
    assert not is_far_below(lowest_silent, proven_id=proven_id)
    assert is_far_below(lowest_silent - 1, proven_id=proven_id) or lowest_silent == 1


def test_a_source_that_goes_far_back_is_told_once_and_nothing_changes() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=2_499)
        async with process(clock, source) as one:
            one.collector.newest_id = one.collector.proven_id = 2_499
            with capture_logs() as logs:
                source.newest = 10
                for _ in range(4 * BACK_FOR_NS // (15 * SECOND_NS)):
                    assert await one.collector.newest() == 2_499
                    await clock.sleep_until(clock.monotonic_ns() + 15 * SECOND_NS)
                told = [log for log in logs if log["event"] == "newest_id_went_back"]
                assert [(log["told"], log["read"], log["log_level"]) for log in told] == [(10, 2_499, "warning")]
            assert one.collector.went_back is not None
            assert one.collector.went_back.is_lasting
            source.newest = 2_500
            assert await one.collector.newest() == 2_500
            assert vars(one.collector)["went_back"] is None

    simulated(main)


def test_a_replica_that_lags_for_a_moment_now_and_then_is_not_told() -> None:
    async def main(clock: SimClock) -> None:
        source = Numbers(clock, newest=2_499)
        async with process(clock, source) as one:
            one.collector.newest_id = one.collector.proven_id = 2_499
            with capture_logs() as logs:
                for number in range(200):
                    source.newest = 2_499 if number % 10 == 0 else 2_000
                    await one.collector.newest()
                    await clock.sleep_until(clock.monotonic_ns() + 15 * SECOND_NS)
                assert logs == []

    simulated(main)
