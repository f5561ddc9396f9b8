"""Are a site of links and notes on a map mirrored by declaration alone, through a kill and to their last item?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from remora.core.errors import ConfigurationError
from remora.core.ledger.gap import GapState
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from remora.loops.numbered.inbox import InboxWorkers
from remora.loops.numbered.updates_list import UpdatesList
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.sim.checks import compare, worst_window
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sources.json_path import as_time
from tests.loops.rig import in_virtual_time
from tests.loops.test_numbered_by_declaration import CEILING_NS, World
from tests.world.numbered_worlds import LINKS, NOTES, Links, Notes, NumberedWorld

WORLDS: dict[str, tuple[str, type[NumberedWorld], int]] = {"links": (LINKS, Links, 11), "notes": (NOTES, Notes, 13)}


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.slow
def test_a_declared_world_is_mirrored_whole_and_what_it_does_not_have_is_absent_or_gone(
    name: str, after_effect: bool, tmp_path: Path
) -> None:
    declared, make, every = WORLDS[name]
    (tmp_path / "remora.toml").write_text(declared)
    settings = load(Flags(ceiling="20/s"), {}, directory=tmp_path).sources[name]

    async def main(clock: SimClock) -> None:
        provider = make(clock.true_ns, clock.monotonic_ns)
        world = World(clock, settings, name=name, provider=provider)
        life = Generation(die_at_call=311, after_effect=after_effect)
        with pytest.raises(Crashed):
            await life.live(world.catchup(life))
        for _ in range(5):
            await clock.sleep_until(clock.monotonic_ns() + DAY_NS)
            await world.catchup()
        mirror = [pair async for pair in world.store.bodies(name)]
        assert [*compare(mirror, provider.truth())] == []
        states = {int(gap.key): gap.state for gap in await world.store.gaps(name)}
        settled = [states.get(number) for number in range(every, 100, every)]
        assert settled, "some numbers have nothing behind them"
        assert set(settled) <= {GapState.ABSENT, GapState.GONE}
        assert await world.store.item_times(name, [150]) == {150: int(provider.created(150).timestamp())}
        assert worst_window(provider.arrivals_ns, CEILING_NS).excess <= 0
        assert provider.newest_id() > 200 + 4 * DAY_NS // HOUR_NS

    in_virtual_time(main)


def notes_of(clock: SimClock, folder: Path) -> tuple[World, Notes]:
    (folder / "remora.toml").write_text(NOTES)
    settings = load(Flags(ceiling="20/s"), {}, directory=folder).sources["notes"]
    provider = Notes(clock.true_ns, clock.monotonic_ns, every_ns=DAY_NS)
    return World(clock, settings, name="notes", provider=provider), provider


@asynccontextmanager
async def list_of_changes(world: World, clock: SimClock) -> AsyncIterator[tuple[UpdatesList, list[int]]]:
    """The polled list of a process, and when it asked for a rescan."""
    wanted: list[int] = []

    async def want_rescan() -> None:
        wanted.append(clock.monotonic_ns())

    async with world.process() as runtime:
        inbox = InboxWorkers("notes", runtime.collector, world.store, clock=clock)
        yield (
            UpdatesList(
                "notes", runtime.collector, world.store, inbox, clock=clock, want_rescan=want_rescan, every_ns=MINUTE_NS
            ),
            wanted,
        )


async def held(world: World) -> list[tuple[int, bytes]]:
    return [pair async for pair in world.store.bodies("notes")]


@pytest.mark.slow
def test_a_list_of_changes_brings_every_change_however_old_its_item(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        world, notes = notes_of(clock, tmp_path)
        await world.catchup()
        await world.up(HOUR_NS)
        for numbers in ((1, 2, 3), (50, 1), (199,)):
            notes.comment(*numbers)
            await world.up(5 * MINUTE_NS)
            assert [*compare(await held(world), notes.truth())] == []

    in_virtual_time(main)


@pytest.mark.slow
def test_a_kill_between_the_announcement_and_its_note_loses_no_change(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        world, notes = notes_of(clock, tmp_path)
        await world.catchup()
        await world.up(HOUR_NS)
        for die_at in range(10, 90, 16):
            notes.comment(die_at, die_at + 1)
            life = Generation(die_at_call=die_at)
            with pytest.raises(Crashed):
                await life.live(world.up(HOUR_NS, life))
        await world.up(10 * MINUTE_NS)
        assert [*compare(await held(world), notes.truth())] == []

    in_virtual_time(main)


def test_only_more_changes_than_the_list_shows_make_the_rescan_due(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        world, notes = notes_of(clock, tmp_path)
        async with list_of_changes(world, clock) as (updates, wanted):
            assert (await updates.run_once(), len(wanted)) == (notes.listed, 0)
            assert (await updates.run_once(), len(wanted)) == (0, 0), "what it showed before is no news"
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            notes.comment(*range(1, notes.listed))
            assert (await updates.run_once(), len(wanted)) == (notes.listed - 1, 0)
            await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            notes.comment(*range(100, 100 + notes.listed))
            assert (await updates.run_once(), len(wanted)) == (notes.listed, 1)

    in_virtual_time(main)


def test_an_item_that_is_on_the_list_twice_is_asked_for_whenever_one_of_its_changes_is_new(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        world, notes = notes_of(clock, tmp_path)
        async with list_of_changes(world, clock) as (updates, wanted):
            for log, news in (
                (((5, 3), (7, 2), (5, 1)), 2),
                (((7, 4), (5, 3), (7, 2), (5, 1)), 1),
                (((5, 5), (7, 4), (5, 3)), 1),
                (((5, 5), (7, 4)), 0),
            ):
                notes.log = log
                assert (await updates.run_once(), len(wanted)) == (news, 0), log

    in_virtual_time(main)


def test_a_list_of_changes_that_cannot_be_read_is_told_once_and_known_until_it_can_be_read(tmp_path: Path) -> None:
    async def main(clock: SimClock) -> None:
        world, notes = notes_of(clock, tmp_path)
        async with list_of_changes(world, clock) as (updates, wanted):
            notes.log = ((0, 1),)  # no such id: nothing on the list can be read
            began_ns = clock.wall_ns()
            structlog.reset_defaults()  # the tests of this folder are silent otherwise
            with capture_logs() as logs:
                for _ in range(3):
                    assert await updates.run_once() == 0
                    assert updates.unread_since_ns is not None
                    assert updates.unread_since_ns - began_ns < MINUTE_NS
                    await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)
            told = [entry for entry in logs if entry["event"] == "updates_list_unread"]
            assert [(entry["source"], entry["reason"]) for entry in told] == [("notes", "malformed")]
            notes.log = ()
            assert await updates.run_once() == notes.listed
            assert updates.unread_since_ns is None
            assert wanted == [], "nothing was overrun"

    in_virtual_time(main)


@pytest.mark.parametrize(
    "updates, said",
    [
        ('{ path = "/u", entries = "notes" }', "updates.entries is given, but not updates.updated"),
        ('{ path = "/u", updated = "at" }', "updates.updated is given, but not updates.entries"),
        ('{ path = "/u", entries = "n", updated = "at", users = "by" }', "updates is a list and has users"),
    ],
)
def test_a_wrong_list_of_changes_is_refused(updates: str, said: str, tmp_path: Path) -> None:
    text = NOTES.partition("updates")[0] + f"updates = {updates}\n" + 'user = { path = "/{name}" }\n'
    (tmp_path / "remora.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        load(Flags(), {}, directory=tmp_path)


@pytest.mark.parametrize(
    "written, seconds",
    [
        ("2026-01-02 03:04:05 UTC", 1_767_323_045),
        ("2026-01-02T03:04:05 GMT", 1_767_323_045),
        ("Fri, 02 Jan 2026 03:04:05 GMT", 1_767_323_045),
        ("Fri, 02 Jan 2026 05:04:05 +0200", 1_767_323_045),
        ("2026-01-02 UTC of sorts", None),
    ],
)
def test_dates_with_a_zone_in_letters_are_times(written: str, seconds: int | None) -> None:
    assert as_time(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        1_767_323_045,
        1_767_323_045_999,
        1_767_323_045_999_999,
        "1767323045999999",
        "2026-01-02T03:04:05.999999999Z",
    ],
)
def test_a_time_is_read_whether_it_counts_seconds_or_their_thousandth_or_millionth_part(written: int | str) -> None:
    assert as_time(written) == 1_767_323_045


@pytest.mark.parametrize(
    "written",
    ["2016-12-31T23:59:60Z", "2016-12-31 23:59:60.5 UTC", "2017-01-01T08:59:60+09:00", "Sat, 31 Dec 2016 23:59:60 GMT"],
)
def test_a_leap_second_is_the_first_second_of_the_next_minute(written: str) -> None:
    assert as_time(written) == as_time("2017-01-01T00:00:00Z")
