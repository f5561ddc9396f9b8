"""What does one run leave to the next? What is owed, how long to leave it alone, and nobody forgotten."""

import pytest

from remora.core.ledger.discovery import Kind, fingerprint
from remora.core.ledger.gap import ATTEMPTS_BEFORE_DEAD, GapState
from remora.core.ledger.run import REFUSED_IN_A_ROW_MAX, StoppedBy
from remora.core.rate.pace_record import Restore
from remora.core.reasons import GapReason
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.backlog import BACKLOG_NOTE, COOL_DOWN_MAX_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.replies import GONE, NOT_FOUND, SERVER_ERROR, Answer, ok
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive, answer_429

SHORT = RunOptions(max_fetches=6)


async def pressed(rig: ListedRig) -> int:
    """A run that meets nothing but pressure; gives how long the walk must wait now."""
    rig.archive.hook = lambda _asked: answer_429()
    summary = await rig.run(RunOptions(force=True))
    assert summary.stopped_by is StoppedBy.UPSTREAM_PRESSURE
    assert summary.next_not_before_ns is not None
    return summary.next_not_before_ns - rig.clock.wall_ns()


def test_a_cool_down_after_pressure_delays_the_walk_and_grows_from_run_to_run_up_to_six_hours() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        waits_ns: list[int] = []
        for _ in range(14):
            waits_ns.append(await pressed(rig))
            rig.archive.asked.clear()
            early = await rig.run()
            assert (early.stopped_by, rig.archive.asked) == (StoppedBy.COOL_DOWN, [])
            assert "an earlier run met pressure (upstream_pressure); the walk may go on in" in early.because
            await rig.wait(waits_ns[-1] + SECOND_NS)
        assert waits_ns == sorted(waits_ns)
        assert waits_ns[0] <= 15 * MINUTE_NS
        assert waits_ns[-1] == COOL_DOWN_MAX_NS == 6 * HOUR_NS

    run(main)


def test_a_success_ends_the_cool_down_and_its_growth() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        for _ in range(3):
            await rig.wait(await pressed(rig))
        rig.archive.hook = lambda _asked: None
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.store.gaps(NAME) == ()
        assert await rig.store.note(NAME, BACKLOG_NOTE) is None
        rig.archive.add("new")
        await pressed(rig)
        (backlog,) = await rig.store.gaps(NAME)
        assert backlog.attempts == 1

    run(main)


def test_the_cool_down_never_delays_the_recovery_of_gaps_that_have_nothing_to_do_with_pressure() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c3": NOT_FOUND, "c4": NOT_FOUND}
        await rig.run()
        rig.archive.spoiled = {}
        for _ in range(9):
            await rig.wait(await pressed(rig) + HOUR_NS)
        wait_ns = await pressed(rig)
        assert wait_ns > 2 * HOUR_NS
        rig.archive.hook = lambda _asked: None
        rig.archive.add("new")
        rig.archive.asked.clear()
        await rig.wait(wait_ns // 2)
        reasons = {gap.key: gap.reason for gap in await rig.store.gaps(NAME) if gap.kind is Kind.DOCUMENT}
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.COOL_DOWN
        unrelated = {key for key, reason in reasons.items() if reason is GapReason.NOT_FOUND}
        asked = {fingerprint(NAME, key) for key in rig.archive.requests("detail")}
        assert asked == unrelated
        assert rig.archive.requests("page").total() == 0

    run(main)


def test_force_is_the_one_bypass_of_a_cool_down() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        for _ in range(8):
            await rig.wait(await pressed(rig))
        rig.archive.hook = lambda _asked: None
        await rig.wait(20 * MINUTE_NS)
        assert await pressed(rig) > 0
        rig.archive.hook = lambda _asked: None
        for options in (RunOptions(), RunOptions(recover_only=True), RunOptions(max_fetches=100)):
            assert (await rig.run(options)).stopped_by is StoppedBy.COOL_DOWN
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_stop_of_our_own_arms_nothing_and_does_not_end_a_cool_down_either() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(20))
        capped = await rig.run(SHORT)
        assert (capped.stopped_by, capped.next_not_before_ns) == (StoppedBy.MAX_FETCHES, None)
        assert (await rig.run(SHORT)).stopped_by is StoppedBy.MAX_FETCHES, "the next run begins at once"
        for _ in range(7):
            await rig.wait(await pressed(rig))
        wait_ns = await pressed(rig)
        rig.archive.hook = lambda _asked: None
        forced = await rig.run(RunOptions(max_fetches=1, force=True))
        assert forced.stopped_by is StoppedBy.MAX_FETCHES
        assert forced.next_not_before_ns is not None, "the pressure is still cooling down"
        assert (await rig.run()).stopped_by is StoppedBy.COOL_DOWN
        await rig.wait(wait_ns)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE

    run(main)


def test_a_cool_down_does_not_outlive_a_clock_that_steps_back() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(10))
        await pressed(rig)
        clock.step_wall(-30 * DAY_NS)
        rig.archive.hook = lambda _asked: None
        await rig.wait(20 * MINUTE_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE

    run(main)


def test_the_rest_is_one_gap_with_a_content_watermark_and_never_an_offset() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(500))
        await rig.run(RunOptions(max_fetches=5))
        assert [(gap.kind, gap.key) for gap in await rig.store.gaps(NAME)] == [(Kind.PAGE, "backlog")]
        note = await rig.store.note(NAME, BACKLOG_NOTE)
        assert isinstance(note, dict)
        assert (note["seen_down_to"], note["is_walk_under_way"]) == ("459", True)
        assert (note["reason"], note["owed"]) == ("max_fetches", 42)
        assert "offset" not in note
        assert "position" not in note

    run(main)


@pytest.mark.slow
def test_every_one_of_80_gaps_is_served_although_nothing_is_ever_recovered() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(80))
        rig.archive.spoiled = dict.fromkeys(rig.archive.truth(), NOT_FOUND)
        assert (await rig.run()).owed == 80
        rig.archive.asked.clear()
        rig.archive.spoiled = {}
        rig.archive.hook = lambda asked: (NOT_FOUND, SERVER_ERROR)[len(rig.archive.asked) % 2]
        for _ in range(40):
            await rig.wait(13 * HOUR_NS)
            await rig.run(RunOptions(max_fetches=20))
        served = rig.archive.requests("detail")
        assert len(served) == 80
        assert max(served.values()) - min(served.values()) <= 1, "nobody is served twice before all were served once"

    run(main)


@pytest.mark.slow
def test_a_run_that_always_stops_at_the_third_gap_serves_them_all_in_turn() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(80))
        rig.archive.spoiled = dict.fromkeys(rig.archive.truth(), NOT_FOUND)
        await rig.run()
        rig.archive.asked.clear()
        for _ in range(27):
            await rig.wait(HOUR_NS)
            await rig.run(RunOptions(max_fetches=3, recover_only=True))
        assert len(rig.archive.requests("detail")) == 80

    run(main)


def test_one_run_serves_each_gap_once_however_soon_it_is_due_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        rig.archive.spoiled = {f"c{number}": NOT_FOUND for number in range(0, 30, 3)}
        await rig.run()
        await rig.wait(HOUR_NS)
        rig.archive.spoiled = dict.fromkeys(rig.archive.spoiled, SERVER_ERROR)
        rig.archive.asked.clear()
        rig.archive.hook = lambda asked: None
        await rig.run(RunOptions(recover_only=True))
        assert max(rig.archive.requests("detail").values()) == 1

    run(main)


@pytest.mark.parametrize("answer", [NOT_FOUND, Answer(403, b"{}"), Answer(401, b"{}"), ok(b"17")])
def test_a_permanent_refusal_ends_as_dead_within_its_attempts_without_failing_a_run(answer: Answer) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c5": answer}
        for _ in range(ATTEMPTS_BEFORE_DEAD):
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
            await rig.wait(13 * HOUR_NS)
        (gap,) = await rig.store.gaps(NAME)
        assert gap.state is GapState.DEAD
        assert rig.archive.requests("detail")["c5"] == ATTEMPTS_BEFORE_DEAD
        summary = await rig.run()
        assert (summary.stopped_by, summary.owed, summary.dead) == (StoppedBy.COMPLETE, 0, 1)
        rig.archive.spoiled = {}
        await rig.wait(8 * DAY_NS)
        await rig.run()
        assert await rig.is_complete(), "a dead one is tried again on a slow schedule"

    run(main)


def test_a_dead_entry_that_is_listed_anew_is_tried_again_by_the_next_run_and_not_next_week() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c5": ok(b"17"), "c6": Answer(403, b"{}")}
        for _ in range(ATTEMPTS_BEFORE_DEAD):
            await rig.run()
            await rig.wait(13 * HOUR_NS)
        assert (await rig.run()).dead == 2
        rig.archive.spoiled = {"c6": Answer(403, b"{}")}
        rig.archive.add("c5")
        assert (await rig.run()).owed == 1
        assert (await rig.run()).owed == 0
        assert (await rig.mirror())["c5"] == rig.archive.body("c5")
        assert [gap.state for gap in await rig.store.gaps(NAME)] == [GapState.DEAD], "the other one waits its week"

    run(main)


@pytest.mark.parametrize("answer", [answer_429(), SERVER_ERROR])
def test_429_and_5xx_never_make_an_item_dead(answer: Answer) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c5": NOT_FOUND}
        await rig.run()
        rig.archive.spoiled = {"c5": answer}
        for _ in range(30):
            await rig.wait(13 * HOUR_NS)
            await rig.run()
        assert [gap.state for gap in await rig.store.gaps(NAME) if gap.kind is Kind.DOCUMENT] == [GapState.OWED]
        rig.archive.spoiled = {}
        await rig.wait(13 * HOUR_NS)
        await rig.run()
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("status", [401, 403])
def test_an_account_that_is_refused_stops_the_run_before_every_detail_has_been_asked_for(status: int) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        rig.archive.hook = lambda asked: Answer(status, b"{}") if asked.startswith("detail") else None
        summary = await rig.run()
        assert (summary.stopped_by, summary.owed) == (StoppedBy.REFUSED, 60)
        assert "is the token still good" in summary.because
        assert rig.archive.requests("detail").total() == REFUSED_IN_A_ROW_MAX
        for _ in range(3):
            await rig.wait(HOUR_NS)
            rig.archive.asked.clear()
            await rig.run()
            assert rig.archive.requests("detail").total() <= 2 * REFUSED_IN_A_ROW_MAX
        rig.archive.hook = lambda _asked: None
        await rig.wait(13 * HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_token_that_has_expired_costs_a_few_requests_and_no_gap_dies_of_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(60))
        await rig.run(RunOptions(max_fetches=5))
        rig.archive.asked.clear()
        rig.archive.hook = lambda _asked: Answer(401, b"{}")
        for _ in range(5):
            assert (await rig.run()).stopped_by is StoppedBy.LIST_REFUSED
            await rig.wait(HOUR_NS)
        assert len(rig.archive.asked) == 5, "one request for each run"
        rig.archive.hook = lambda _asked: None
        await rig.run()
        assert await rig.is_complete()

    run(main)


def test_a_gap_that_comes_back_opens_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        for _ in range(2):
            rig.archive.spoiled = {"c5": NOT_FOUND}
            rig.archive.add("c5")
            assert (await rig.run()).owed == 1
            rig.archive.spoiled = {}
            await rig.wait(HOUR_NS)
            assert (await rig.run()).owed == 0
            assert await rig.is_complete()

    run(main)


def test_a_gap_waits_for_its_not_before_across_runs() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(12))
        rig.archive.spoiled = {"c5": NOT_FOUND}
        await rig.run()
        (gap,) = await rig.store.gaps(NAME)
        rig.archive.asked.clear()
        await rig.run()
        assert "c5" not in rig.archive.requests("detail")
        await rig.wait(gap.not_before_ns - clock.wall_ns())
        await rig.run()
        assert rig.archive.requests("detail")["c5"] == 1

    run(main)


def test_one_detail_gone_one_too_large_one_malformed_and_the_rest_is_complete_in_every_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(40))
        rig.archive.spoiled = {
            "c5": GONE,
            "c6": Answer(413, b""),
            "c7": ok(b'{"id":"another"}'),
            "c8": ok(b'{"id": "oh'),
            "c9": ok(b"null"),
        }
        for round_number in range(3):
            rig.archive.add(f"new{round_number}")
            summary = await rig.run()
            assert summary.stopped_by is StoppedBy.COMPLETE
            assert set(await rig.mirror()) == set(rig.archive.truth()) - set(rig.archive.spoiled)
            assert summary.owed == 4, "what is gone is not owed"
            await rig.wait(2 * HOUR_NS)
        reasons = sorted(gap.reason for gap in await rig.store.gaps(NAME))
        assert reasons == sorted(
            [GapReason.GONE, GapReason.TOO_LARGE, GapReason.MALFORMED, GapReason.MALFORMED, GapReason.NOT_FOUND]
        )

    run(main)


def test_recover_only_fetches_what_is_owed_and_leaves_the_list_alone() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(30))
        await rig.run(RunOptions(max_fetches=8))
        rig.archive.asked.clear()
        rig.archive.add("new")
        summary = await rig.run(RunOptions(recover_only=True))
        assert (summary.stopped_by, summary.owed) == (StoppedBy.RECOVER_ONLY, 0)
        assert rig.archive.requests("page").total() == 0
        assert "new" not in await rig.mirror()

    run(main)


def test_a_fresh_resume_restores_the_prior_runs_learned_interval() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(200), ceiling_ns=SECOND_NS // 4)
        async with rig.process() as process:
            await process.run(RunOptions(max_fetches=120)).run_once()
            learned_ns = process.governor.state().interval_ns
        assert learned_ns < SECOND_NS // 2, "faster than the cold start"
        await rig.wait(HOUR_NS)
        async with rig.process() as process:
            state = process.governor.state()
        assert (state.restored, state.interval_ns) == (Restore.WARM, learned_ns)
        rig.ceiling_ns = SECOND_NS
        async with rig.process() as process:
            assert process.governor.state().interval_ns == SECOND_NS, "never faster than the ceiling"

    run(main)


def test_a_stale_resume_falls_back_to_the_cold_discovery_interval() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(200), ceiling_ns=SECOND_NS // 4)
        await rig.run(RunOptions(max_fetches=120))
        await rig.wait(7 * HOUR_NS)
        async with rig.process() as process:
            state = process.governor.state()
        assert (state.restored, state.interval_ns) == (Restore.COLD_STALE, SECOND_NS)

    run(main)
