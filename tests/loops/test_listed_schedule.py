"""Does a listed source run on its schedule, whatever happens to a run, the store or the process?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from remora.contracts import RunRecord, Store
from remora.core.errors import StoreUnavailable
from remora.core.ledger.run import RUNS_APART_LEAST_NS, StoppedBy
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.loops.listed.schedule import ListedSchedule
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.replies import Answer
from remora.stores.memory import MemoryStore
from tests.loops.listed_rig import NAME, ListedRig, Process, SmallArchive, answer_429


def scheduled(process: Process, *, every_ns: int = HOUR_NS, options: RunOptions | None = None) -> ListedSchedule:
    return ListedSchedule(
        NAME,
        process.collector,
        process.store,
        process.governor,
        clock=process.clock,
        owner="one",
        every_ns=every_ns,
        options=options,
    )


@asynccontextmanager
async def running(rig: ListedRig, *, every_ns: int = HOUR_NS) -> AsyncIterator[ListedSchedule]:
    """The schedule at work in a process of its own."""
    async with rig.process() as process:
        schedule = scheduled(process, every_ns=every_ns)
        task = asyncio.get_running_loop().create_task(schedule.run())
        try:
            yield schedule
            assert not task.done(), "the schedule ended by itself"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def starts_ns(store: Store) -> list[int]:
    return [record.started_ns for record in await store_runs(store)]


async def store_runs(store: Store) -> list[RunRecord]:
    """Every run, the first one first."""
    return list(reversed(await store.runs(NAME, limit=100)))


def test_a_run_begins_at_once_and_then_every_hour_from_its_start() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        async with running(rig):
            await rig.wait(5 * HOUR_NS - MINUTE_NS)
        starts = await starts_ns(rig.store)
        assert len(starts) == 5
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert all(HOUR_NS <= gap < HOUR_NS + SECOND_NS for gap in gaps)
        assert await rig.is_complete()

    run(main)


def test_a_run_that_somebody_asks_for_begins_at_once_and_only_once() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        async with running(rig) as schedule:
            await rig.wait(10 * MINUTE_NS)
            assert schedule.run_now()
            await rig.wait(SECOND_NS // 10)
            assert not schedule.run_now()
            await rig.wait(10 * MINUTE_NS)
        assert len(await starts_ns(rig.store)) == 2

    run(main)


def test_a_run_that_is_asked_for_before_the_first_one_could_begin_is_that_one() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        async with rig.process() as process:
            schedule = scheduled(process)
            assert schedule.run_now()
            task = asyncio.get_running_loop().create_task(schedule.run())
            await rig.wait(10 * MINUTE_NS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(await starts_ns(rig.store)) == 1

    run(main)


def test_what_is_new_in_the_list_is_collected_by_the_next_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        async with running(rig):
            await rig.wait(30 * MINUTE_NS)
            rig.archive.add("new", "c3")
            assert not await rig.is_complete()
            await rig.wait(HOUR_NS)
            assert await rig.is_complete()

    run(main)


def test_the_state_says_what_it_does_when_the_next_run_is_and_why_not_now() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(100))
        async with running(rig) as schedule:
            await rig.wait(5 * SECOND_NS)
            state = schedule.state()
            assert (state.doing, state.next_run_at_ns, state.last_run) == ("walk", None, None)
            await rig.wait(40 * SECOND_NS)
            state = schedule.state()
            assert state.doing == "details"
            assert state.run is not None
            assert state.run.phase == "details"
            assert state.run.counts["entries"] >= 100
            assert 0 < state.run.counts["new"] < 100
            await rig.wait(30 * MINUTE_NS)
            state = schedule.state()
            assert state.doing == "waiting"
            assert state.last_run is not None
            assert state.last_run.stopped_by is StoppedBy.COMPLETE
            assert state.last_started_ns is not None
            assert state.next_run_at_ns is not None
            assert abs(state.next_run_at_ns - state.last_started_ns - HOUR_NS) < SECOND_NS
            assert state.why_not_now is not None
            assert "a run begins every 1 h 00 min" in state.why_not_now
            assert "everything that is listed was asked for" in state.why_not_now

    run(main)


def test_a_restart_does_not_repeat_a_run_that_is_not_due() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        for _ in range(6):
            async with running(rig):
                await rig.wait(5 * MINUTE_NS)
        assert len(await starts_ns(rig.store)) == 1

    run(main)


@pytest.mark.parametrize("is_of_details", [False, True])
def test_a_restart_after_a_failed_run_runs_at_once_so_that_a_new_token_counts(is_of_details: bool) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = lambda asked: Answer(403, b"") if asked.startswith("detail") is is_of_details else None
        async with running(rig):
            await rig.wait(5 * MINUTE_NS)
        rig.archive.hook = lambda _asked: None
        async with running(rig):
            await rig.wait(5 * MINUTE_NS)
        first, second = await store_runs(rig.store)
        assert first.stopped_by == (StoppedBy.REFUSED if is_of_details else StoppedBy.LIST_REFUSED)
        assert second.stopped_by == StoppedBy.COMPLETE

    run(main)


@pytest.mark.slow
def test_a_service_that_is_restarted_every_second_tries_a_refused_list_once_a_minute() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = lambda _asked: Answer(401, b"")
        told = set()
        for _ in range(300):
            async with running(rig) as schedule:
                await rig.wait(SECOND_NS)
                told.add(schedule.state().why_not_now)
        assert all(later - earlier >= RUNS_APART_LEAST_NS for earlier, later in pairwise(await starts_ns(rig.store)))
        assert len(rig.archive.asked) <= 6
        assert "the last run was cut off or failed, and two runs begin at least 60 s apart" in told

    run(main)


def test_a_service_that_goes_on_after_a_failed_run_keeps_its_interval() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = lambda _asked: Answer(401, b"")
        async with running(rig):
            await rig.wait(3 * HOUR_NS - MINUTE_NS)
        assert len(await starts_ns(rig.store)) == 3

    run(main)


def test_a_restart_after_pressure_does_not_hurry() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = lambda _asked: answer_429()
        async with running(rig) as schedule:
            while schedule.state().last_run is None:
                await rig.wait(MINUTE_NS)
        sent = len(rig.archive.asked)
        starts = await starts_ns(rig.store)
        async with running(rig):
            await rig.wait(starts[-1] + HOUR_NS - MINUTE_NS - clock.wall_ns())
        assert len(rig.archive.asked) == sent

    run(main)


@pytest.mark.slow
def test_a_run_that_a_kill_cut_off_goes_on_soon_after_the_restart() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(300))
        life = Generation()

        async def doomed() -> None:
            async with rig.process(life) as process:
                await scheduled(process).run()

        asyncio.get_running_loop().call_later(90, life.crash)
        with pytest.raises(Crashed):
            await life.live(doomed())
        killed_at_ns = clock.wall_ns()
        async with running(rig):
            await rig.wait(20 * MINUTE_NS)
        starts = await starts_ns(rig.store)
        assert len(starts) == 2
        assert starts[1] - killed_at_ns <= RUNS_APART_LEAST_NS
        assert await rig.is_complete()

    run(main)


def test_whatever_the_provider_does_the_schedule_goes_on() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        rig.archive.hook = lambda _asked: answer_429()
        async with running(rig, every_ns=2 * HOUR_NS) as schedule:
            await rig.wait(9 * HOUR_NS)
            assert schedule.state().last_run is not None
            rig.archive.hook = lambda _asked: None
            await rig.wait(12 * HOUR_NS)
            state = schedule.state()
            assert state.last_run is not None
            assert state.last_run.stopped_by is StoppedBy.COMPLETE
            assert await rig.is_complete()

    run(main)


class AwayStore(MemoryStore):
    """A store that is sometimes away."""

    is_away = False

    async def start_run(self, source: str, *, now_ns: int) -> int:
        if self.is_away:
            raise StoreUnavailable("the store is away", hint="wait")
        return await super().start_run(source, now_ns=now_ns)


def test_a_store_that_is_away_is_waited_for_and_said_so() -> None:
    async def main(clock: SimClock) -> None:
        store = AwayStore()
        store.is_away = True
        rig = ListedRig(clock, SmallArchive(10), store)
        async with running(rig) as schedule:
            await rig.wait(10 * MINUTE_NS)
            state = schedule.state()
            assert (state.last_run, state.last_error) == (None, "the store is away")
            assert 5 < state.failures < 30, "with growing pauses"
            assert state.why_not_now == "the store does not answer (the store is away)"
            store.is_away = False
            await rig.wait(5 * MINUTE_NS)
            assert schedule.state().failures == 0
            assert await rig.is_complete()

    run(main)


def test_after_the_machine_was_suspended_a_run_that_became_due_begins_at_once() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(5))
        async with running(rig, every_ns=6 * HOUR_NS):
            await rig.wait(HOUR_NS)
            clock.step_wall(4 * HOUR_NS)  # the monotonic clock stood still meanwhile
            await rig.wait(10 * MINUTE_NS)
            assert len(await starts_ns(rig.store)) == 1
            clock.step_wall(4 * HOUR_NS)
            await rig.wait(2 * MINUTE_NS)
            assert len(await starts_ns(rig.store)) == 2

    run(main)


def test_a_clock_that_steps_back_delays_the_next_run_by_one_interval_at_most() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        async with running(rig):
            await rig.wait(10 * MINUTE_NS)
        clock.step_wall(-400 * HOUR_NS)
        async with running(rig):
            await rig.wait(HOUR_NS + MINUTE_NS)
        assert len(await starts_ns(rig.store)) == 2

    run(main)
