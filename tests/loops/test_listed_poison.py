"""Does one key that the provider always refuses stop its neighbours? With runs every 15 minutes and every 6 hours."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from remora.core.ledger.discovery import Kind
from remora.core.ledger.run import WAITS_IN_A_ROW_MAX, RunSummary, StoppedBy
from remora.core.reasons import GapReason
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import NOT_FOUND, Answer, Response, rate_limited
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive, answer_429

BUDGET_NS = 900 * SECOND_NS
ENTRIES = 60
REFUSALS = {"bare": rate_limited(None), "in_a_second": rate_limited(SECOND_NS), "in_a_minute": rate_limited(MINUTE_NS)}

refusals = pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
schedules = pytest.mark.parametrize("every_ns", [15 * MINUTE_NS, 6 * HOUR_NS], ids=["15 min", "6 h"])


async def bounded(rig: ListedRig) -> RunSummary:
    return await rig.run(RunOptions(max_wall_ns=BUDGET_NS))


async def regularly(rig: ListedRig, every_ns: int, times: int, before: Callable[[int], None]) -> list[RunSummary]:
    """Bounded runs that begin so far apart."""
    summaries = []
    for nth in range(times):
        began_ns = rig.clock.monotonic_ns()
        before(nth)
        summaries.append(await bounded(rig))
        await rig.wait(max(0, every_ns - (rig.clock.monotonic_ns() - began_ns)))
    return summaries


async def owed(rig: ListedRig) -> Counter[GapReason]:
    return Counter(gap.reason for gap in await rig.store.gaps(NAME) if gap.kind is Kind.DOCUMENT)


def back_offs(rig: ListedRig) -> int:
    return sum(because is not None for _, _, because in rig.meter.paces_ns)


@pytest.mark.slow
@refusals
@pytest.mark.parametrize("poison", ["c59", "c30", "c0"], ids=["first", "middle", "last"])
def test_all_59_neighbours_of_a_poison_detail_are_collected_by_the_first_run(poison: str, refusal: Answer) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.spoiled = {poison: refusal}
        summary = await bounded(rig)
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {poison}
        assert clock.monotonic_ns() < BUDGET_NS
        assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 1)
        assert await owed(rig) == {GapReason.RATE_LIMITED: 1}
        assert rig.archive.requests("detail")[poison] == 2, "asked for once more, after the others"

    run(main)


@refusals
@schedules
@pytest.mark.slow
def test_a_poison_detail_slows_the_pace_once_and_every_later_run_collects_what_is_new(
    refusal: Answer, every_ns: int
) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.spoiled = {"c59": refusal}
        summaries = await regularly(rig, every_ns, 16, before=lambda nth: rig.archive.add(f"new{nth}"))
        assert [summary.stopped_by for summary in summaries] == [StoppedBy.COMPLETE] * 16
        assert [summary.owed for summary in summaries] == [1] * 16
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c59"}
        assert back_offs(rig) == 1, "its first refusal, and no other"
        rig.archive.spoiled = {}
        await rig.wait(DAY_NS)
        await bounded(rig)
        assert await rig.is_complete(), "the poison, too, once it is answered"

    run(main)


def test_another_detail_is_asked_for_before_a_refused_one_is_asked_for_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.spoiled = {f"c{number}": answer_429() for number in (59, 58, 30)}
        await bounded(rig)
        details = [asked for asked in rig.archive.asked if asked.startswith("detail")]
        assert details[:3] == ["detail c59", "detail c58", "detail c57"]
        assert all(one != following for one, following in itertools.pairwise(details))
        assert len(await rig.mirror()) == ENTRIES - 3

    run(main)


def test_a_poison_detail_that_asks_for_an_hour_each_time_delays_its_neighbours_by_that_hour_and_no_more() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.spoiled = {"c59": rate_limited(HOUR_NS)}
        first = await bounded(rig)
        assert "the provider asks to wait 1 h 00 min" in first.because
        assert await owed(rig) == {GapReason.RATE_LIMITED: 1}
        await rig.wait(HOUR_NS)
        await bounded(rig)
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c59"}

    run(main)


@pytest.mark.parametrize("max_fetches", [3, 4, 5])
@pytest.mark.slow
def test_runs_of_a_few_requests_do_not_spend_them_all_on_a_poison_detail(max_fetches: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(6))
        rig.archive.spoiled = {"c5": answer_429(), "c4": answer_429()}
        for _ in range(40):
            await rig.run(RunOptions(max_fetches=max_fetches))
            await rig.wait(HOUR_NS)
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c5", "c4"}

    run(main)


@pytest.mark.slow
@schedules
def test_a_page_that_is_always_refused_does_not_keep_details_from_being_collected(every_ns: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        await rig.run(RunOptions(max_fetches=4))
        rig.archive.hook = lambda asked: answer_429() if asked.startswith("page") else None
        began_ns = clock.monotonic_ns()
        await bounded(rig)
        listed = ENTRIES - 28
        assert len(await rig.mirror()) >= listed, "all that was listed"
        late = [
            at_ns for at_ns, asked in zip(rig.archive.departures_ns, rig.archive.asked, strict=True) if asked[0] == "d"
        ]
        assert late[-1] - began_ns < BUDGET_NS
        rig.archive.hook = lambda _asked: None
        await regularly(rig, every_ns, 30, before=lambda _nth: None)
        assert await rig.is_complete()

    run(main)


def test_what_we_wait_by_ourselves_is_never_told_as_the_providers_wish_and_ends_no_run_at_once() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.hook = lambda asked: answer_429() if asked.startswith("detail") else None
        for _ in range(4):
            began_ns = clock.monotonic_ns()
            summary = await bounded(rig)
            assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
            assert summary.because == "the run's 15 min 00 s are used up"
            assert clock.monotonic_ns() - began_ns == BUDGET_NS, "it used its time"
            assert summary.next_not_before_ns is None, "the provider named no time"

    run(main)


def test_a_provider_that_refuses_everything_is_asked_ever_more_rarely() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(ENTRIES))
        rig.archive.hook = lambda _asked: answer_429()
        await regularly(rig, 15 * MINUTE_NS, 24, before=lambda _nth: None)
        hours = Counter(at_ns // HOUR_NS for at_ns in rig.archive.departures_ns)
        assert hours[0] <= 12
        assert all(hours[hour] <= 4 for hour in range(1, 6))
        rig.archive.hook = lambda _asked: None
        await rig.wait(6 * HOUR_NS)
        await bounded(rig)
        assert await rig.is_complete()

    run(main)


def test_a_run_that_has_asked_for_everything_is_complete_although_its_budget_is_used_up() -> None:
    async def main(clock: SimClock) -> None:
        needed: int | None = None
        for _ in range(2):
            rig = ListedRig(clock, SmallArchive(6))
            rig.archive.spoiled = {"c4": answer_429()}
            summary = await rig.run(RunOptions(max_fetches=needed))
            assert (summary.stopped_by, summary.owed) == (StoppedBy.COMPLETE, 1)
            assert needed in {None, len(rig.archive.asked)}
            needed = len(rig.archive.asked)

    run(main)


def test_an_answer_ends_a_row_of_waits_so_that_only_eight_in_a_row_end_a_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        details = 0

        def hook(asked: str) -> Response | None:
            nonlocal details
            details += asked.startswith("detail")
            is_refused = (
                asked.startswith("detail") and details % WAITS_IN_A_ROW_MAX and details < 4 * WAITS_IN_A_ROW_MAX
            )
            return answer_429() if is_refused else None

        rig.archive.hook = hook
        summary = await rig.run()
        assert summary.counts.waits == 4 * (WAITS_IN_A_ROW_MAX - 1)
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_detail_that_was_refused_is_asked_for_last_so_that_gaps_of_other_kinds_do_not_wait_for_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c5": rate_limited(HOUR_NS), "c3": NOT_FOUND}
        for _ in range(3):
            await bounded(rig)
            await rig.wait(2 * HOUR_NS)
        rig.archive.spoiled = {"c5": rate_limited(HOUR_NS)}
        rig.archive.add("new")
        rig.archive.asked.clear()
        await bounded(rig)
        assert list(rig.archive.requests("detail")) == ["c3", "new", "c5"]
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c5"}

    run(main)
