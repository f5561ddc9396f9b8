"""Are a site of links and notes on a map mirrored by declaration alone, through a kill and to their last item?"""

from pathlib import Path

import pytest

from remora.core.ledger.gap import GapState
from remora.core.units import DAY_NS, HOUR_NS
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
