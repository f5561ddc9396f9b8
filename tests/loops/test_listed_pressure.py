"""Does a run slow down and continue when the provider asks for less, and stop only when its own budget is used up?

The first tests carry the names of the scenarios they show.
"""

import asyncio
from collections.abc import Callable

import pytest

from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import GapState
from remora.core.ledger.run import PRESSURE, WAITS_IN_A_ROW_MAX, StoppedBy
from remora.core.rate.circuit_breaker import COOL_DOWN_NS
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import NOT_FOUND, SERVER_ERROR, Response, rate_limited
from remora.sources.paging import ListSettings
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive, answer_429

FIFTEEN_MINUTES = RunOptions(max_wall_ns=15 * MINUTE_NS)


async def with_gaps(clock: SimClock, gaps: int, entries: int = 30) -> ListedRig:
    """An archive that is collected but for some details, which failed and are due again."""
    rig = ListedRig(clock, SmallArchive(entries))
    rig.archive.spoiled = {f"c{number}": NOT_FOUND for number in range(gaps)}
    await rig.run()
    rig.archive.spoiled.clear()
    await rig.wait(HOUR_NS)
    assert len(await rig.store.gaps(NAME, state=GapState.OWED)) == gaps
    rig.archive.asked.clear()
    return rig


def pressing(times: int, matching: str = "") -> Callable[[str], Response | None]:
    """A hook that answers 429 to so many requests, bare."""
    left = times

    def hook(asked: str) -> Response | None:
        nonlocal left
        if left and asked.startswith(matching):
            left -= 1
            return answer_429()
        return None

    return hook


def states(rig: ListedRig) -> list[str]:
    """What the circuit went through."""
    return [str(state) for _, state in rig.meter.circuits]


async def families(rig: ListedRig, kind: Kind) -> set[GapFamily]:
    return {gap.reason.family for gap in await rig.store.gaps(NAME) if gap.kind is kind}


@pytest.mark.parametrize("opens_circuit", [False, True], ids=["refusals", "circuit"])
def test_source_pressure_recovery_stop_with_budget_continues_to_forward_walk(opens_circuit: bool) -> None:
    async def main(clock: SimClock) -> None:
        rig = await with_gaps(clock, 20)
        rig.archive.add("new")
        old_gaps = {f"c{number}" for number in range(20)}

        def hook(asked: str) -> Response | None:
            if asked.removeprefix("detail ") not in old_gaps:
                return None
            return SERVER_ERROR if opens_circuit else answer_429()

        rig.archive.hook = hook
        before = await rig.store.walk_state(NAME)
        summary = await rig.run(FIFTEEN_MINUTES)
        after = await rig.store.walk_state(NAME)
        assert after.watermark != before.watermark, "the forward walk advanced the cursor"
        assert "new" in await rig.mirror()
        assert 0 < rig.archive.requests("detail").total() - 1 < 20, "the recovery stopped short"
        assert states(rig) == (["open", "half_open", "closed"] if opens_circuit else [])
        owed = {gap.key for gap in await rig.store.gaps(NAME, state=GapState.OWED) if gap.kind is Kind.DOCUMENT}
        assert len(owed) == 20, "every item that was not recovered is owed still"
        assert summary.stopped_by is StoppedBy.COMPLETE
        rig.archive.hook = lambda _asked: None
        await rig.wait(6 * HOUR_NS)
        await rig.run()
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize(
    "options, cap",
    [
        (RunOptions(max_fetches=5), StoppedBy.MAX_FETCHES),
        (RunOptions(max_wall_ns=5 * SECOND_NS), StoppedBy.MAX_WALL_CLOCK),
    ],
)
def test_genuine_budget_exhaustion_still_defers(options: RunOptions, cap: StoppedBy) -> None:
    async def main(clock: SimClock) -> None:
        rig = await with_gaps(clock, 20)
        rig.archive.add("new")
        summary = await rig.run(options)
        assert summary.stopped_by is cap
        assert rig.archive.requests("page").total() == 0, "the forward walk did not start"
        (backlog,) = [gap for gap in await rig.store.gaps(NAME) if gap.kind is Kind.PAGE]
        assert backlog.reason == cap.value
        assert backlog.reason not in PRESSURE
        assert summary.next_not_before_ns is None, "a stop of our own arms nothing"
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_an_open_circuit_with_budget_remaining_waits_out_the_cool_down_and_resumes() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = pressing(3, "detail")
        summary = await rig.run(FIFTEEN_MINUTES)
        assert states(rig) == ["open", "half_open", "closed"]
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert summary.counts.waits == 3
        assert rig.archive.requests("detail")["c9"] == 2, "the same detail was asked for again, after the others"
        assert await rig.is_complete()
        assert await rig.store.gaps(NAME) == (), "nothing was deferred"

    run(main)


def test_a_circuit_opened_by_faults_is_waited_out_and_the_same_detail_is_tried_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        # The canary, which is sent after the third fault, fails as well.
        rig.archive.hook = lambda asked: SERVER_ERROR if 3 < len(rig.archive.asked) <= 7 else None
        summary = await rig.run(FIFTEEN_MINUTES)
        assert states(rig) == ["open", "half_open", "closed"]
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert rig.archive.requests("detail")["c9"] == 4
        waited_ns = rig.archive.departures_ns[7] - rig.archive.departures_ns[6]
        assert COOL_DOWN_NS <= waited_ns < 2 * COOL_DOWN_NS, "one cool-down, no more"
        assert await rig.is_complete()

    run(main)


def test_a_circuit_that_an_earlier_phase_opened_is_waited_out_in_the_next() -> None:
    async def main(clock: SimClock) -> None:
        rig = await with_gaps(clock, 20)
        rig.archive.hook = pressing(3)
        summary = await rig.run(FIFTEEN_MINUTES)
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert rig.archive.asked[0].startswith("detail"), "the recovery met the pressure"
        assert summary.counts.requests == len(rig.archive.asked) < 40

    run(main)


def test_genuine_budget_exhaustion_while_an_open_circuit_is_waited_out_defers_the_tail() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.hook = lambda asked: SERVER_ERROR if asked.startswith("detail") else None
        summary = await rig.run(RunOptions(max_wall_ns=3 * MINUTE_NS))
        assert states(rig)[-1] == "open"
        assert (summary.stopped_by, summary.owed) == (StoppedBy.MAX_WALL_CLOCK, 40)
        # Each of the details that were asked for failed by itself; the others are owed for the budget's sake.
        reasons = [gap.reason for gap in await rig.store.gaps(NAME)]
        assert set(reasons) == {GapReason.SERVER_ERROR, GapReason.MAX_WALL_CLOCK}
        assert reasons.count(GapReason.MAX_WALL_CLOCK) == 1

    run(main)


def test_genuine_budget_exhaustion_during_the_wait_defers_the_tail() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.hook = pressing(1_000, "detail")
        started_ns = clock.monotonic_ns()
        summary = await rig.run(RunOptions(max_wall_ns=3 * MINUTE_NS))
        assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
        assert clock.monotonic_ns() - started_ns <= 3 * MINUTE_NS
        assert summary.owed == 40, "the whole tail is owed"
        gaps = await rig.store.gaps(NAME)
        assert {gap.kind for gap in gaps} == {Kind.PAGE, Kind.DOCUMENT}
        assert len(gaps) == 2, "the detail that was refused first, and one gap for all the others"
        assert {gap.reason for gap in gaps} == {GapReason.RATE_LIMITED, GapReason.MAX_WALL_CLOCK}
        assert GapReason.MAX_WALL_CLOCK not in PRESSURE

    run(main)


def test_a_circuit_that_keeps_re_opening_converges_to_a_bounded_defer() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.hook = pressing(1_000_000, "detail")
        started_ns = clock.monotonic_ns()
        summary = await rig.run(RunOptions(max_wall_ns=100 * HOUR_NS))
        assert summary.stopped_by is StoppedBy.UPSTREAM_PRESSURE
        assert rig.archive.requests("detail") == {f"c{39 - nth}": 1 for nth in range(WAITS_IN_A_ROW_MAX)}
        assert states(rig) == ["open", "half_open", "open"], "it opened again when it was asked"
        assert SECOND_NS < clock.monotonic_ns() - started_ns < 3 * HOUR_NS
        assert summary.owed == 40
        reasons = [gap.reason for gap in await rig.store.gaps(NAME)]
        assert reasons == [GapReason.RATE_LIMITED, GapReason.UPSTREAM_PRESSURE]
        gaps_ns = [
            later - earlier
            for earlier, later in zip(rig.archive.departures_ns, rig.archive.departures_ns[1:], strict=False)
        ]
        assert all(gap_ns >= rig.ceiling_ns for gap_ns in gaps_ns), "every cycle advanced the clock"
        assert "8 times in a row" in summary.because

    run(main)


@pytest.mark.slow
def test_the_run_that_quit_after_136_of_900_seconds_uses_its_budget() -> None:
    """The circuit opens 136 s into a run of 900 s. It used to end the run; it is waited out, and the run goes on."""

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(2_000), settings=ListSettings(page_size=100))
        started_ns = clock.monotonic_ns()

        def hook(_asked: str) -> Response | None:
            is_hot = 136 * SECOND_NS <= clock.monotonic_ns() - started_ns < 260 * SECOND_NS
            return answer_429() if is_hot else None

        rig.archive.hook = hook
        summary = await rig.run(FIFTEEN_MINUTES)
        used_ns = clock.monotonic_ns() - started_ns
        assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
        assert 890 * SECOND_NS < used_ns <= 900 * SECOND_NS
        collected_late = sum(at_ns - started_ns > 300 * SECOND_NS for at_ns in rig.archive.departures_ns)
        assert collected_late > 100, "the time after the cool-down was worked in"
        assert summary.counts.waits <= WAITS_IN_A_ROW_MAX
        assert "of the run's 15 min 00 s" in summary.because or "15 min 00 s are used up" in summary.because

    run(main)


def test_a_wait_that_cannot_end_inside_the_budget_defers_at_once_with_a_not_before() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.hook = lambda asked: rate_limited(HOUR_NS) if asked.startswith("detail") else None
        started_ns = clock.monotonic_ns()
        summary = await rig.run(FIFTEEN_MINUTES)
        used_ns = clock.monotonic_ns() - started_ns
        assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
        assert used_ns < MINUTE_NS, "it does not sit out a budget in which nothing can happen"
        assert summary.next_not_before_ns is not None
        assert 58 * MINUTE_NS < summary.next_not_before_ns - clock.wall_ns() <= HOUR_NS
        assert "asks to wait 1 h 00 min, longer than the 14 min" in summary.because
        assert "left of the run's 15 min" in summary.because
        rig.archive.asked.clear()
        again = await rig.run(FIFTEEN_MINUTES)
        assert rig.archive.asked == [], "the next run keeps the wait as well"
        assert again.stopped_by in {StoppedBy.COOL_DOWN, StoppedBy.MAX_WALL_CLOCK}
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE

    run(main)


@pytest.mark.slow
def test_an_outage_is_waited_out_and_does_not_turn_the_tail_into_gaps() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(200))
        rig.archive.hook = lambda asked: SERVER_ERROR if asked.startswith("detail") else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.UPSTREAM_PRESSURE
        assert states(rig) == ["open", *["half_open", "open"] * (len(states(rig)) // 2)], "it opened after every wait"
        documents = [gap for gap in await rig.store.gaps(NAME) if gap.kind is Kind.DOCUMENT]
        assert len(documents) <= 5
        assert summary.owed == 200
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        await rig.run()
        assert await rig.is_complete()

    run(main)


def test_a_poison_detail_at_the_top_of_the_list_never_keeps_its_neighbours_from_being_collected() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(20))
        rig.archive.spoiled = {"c19": SERVER_ERROR, "c18": SERVER_ERROR}
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COMPLETE
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c18", "c19"}
        assert summary.owed == 2

    run(main)


def test_a_detail_that_is_always_refused_does_not_keep_its_neighbours_waiting_for_ever() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(20))
        rig.archive.spoiled = {"c19": answer_429(), "c7": answer_429()}
        for _ in range(24):
            await rig.run(FIFTEEN_MINUTES)
            await rig.wait(HOUR_NS)
        assert set(await rig.mirror()) == set(rig.archive.truth()) - {"c7", "c19"}

    run(main)


def test_a_list_that_is_always_refused_does_not_keep_what_is_owed_from_being_collected() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(20))
        await rig.run(RunOptions(max_fetches=6))
        rig.archive.hook = lambda asked: answer_429() if asked.startswith("page") else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.UPSTREAM_PRESSURE
        assert (summary.owed, len(await rig.mirror())) == (0, 20)

    run(main)


@pytest.mark.slow
def test_faults_by_the_dozen_end_the_run_by_its_retry_budget() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(400))
        rig.archive.hook = lambda asked: SERVER_ERROR if len(rig.archive.asked) % 3 == 0 else None
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.RETRY_BUDGET
        assert "repeats after faults" in summary.because
        assert summary.next_not_before_ns is None
        assert await families(rig, Kind.PAGE) == {GapFamily.RUN_CAP}

    run(main)


def test_a_fetch_cap_is_kept_to_the_request() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.hook = pressing(3, "detail")
        for wanted in (1, 2, 7, 13):
            rig.archive.asked.clear()
            summary = await rig.run(RunOptions(max_fetches=wanted))
            assert (len(rig.archive.asked), summary.counts.requests) == (wanted, wanted)
            assert f"all {wanted} requests" in summary.because

    run(main)


def test_a_gate_that_shuts_while_a_request_waits_in_it_holds_the_run_no_longer_than_its_budget() -> None:
    """Another process that shares the gate may hear of a wait first."""

    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40), ceiling_ns=5 * SECOND_NS)
        rig.archive.hook = lambda asked: rate_limited(HOUR_NS) if asked == "detail other" else None
        started_ns = clock.monotonic_ns()
        async with rig.process() as process, asyncio.TaskGroup() as group:
            running = group.create_task(process.run(RunOptions(max_wall_ns=MINUTE_NS)).run_once())
            await rig.wait(21 * SECOND_NS)
            # Next in line, before the request of the run that waits already.
            await process.collector.ask(Discovery(Kind.DOCUMENT, "other", Lane.LIVE))
            summary = await running
        assert clock.monotonic_ns() - started_ns == MINUTE_NS
        assert summary.stopped_by is StoppedBy.MAX_WALL_CLOCK
        assert rig.archive.asked[-1] == "detail other", "nothing left after that"
        assert summary.next_not_before_ns is not None

    run(main)
