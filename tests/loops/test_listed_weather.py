"""Does a mirror become complete after any weather? Random changes, faults, pressure and kills, then a rest."""

import asyncio
import random

import pytest

from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.sim.clock import SimClock, run
from remora.sim.crash import Crashed, Generation
from remora.sim.replies import GONE, NOT_FOUND, SERVER_ERROR, Hang, Reset, Response, ok, rate_limited
from remora.sources.paging import Paging
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive

FAULTS: tuple[Response, ...] = (
    SERVER_ERROR,
    rate_limited(None),
    rate_limited(5 * SECOND_NS),
    Reset(),
    Hang(),
    NOT_FOUND,
    GONE,
    ok(b"null"),
    ok(b'{"items":'),
    ok(b"[1,2]"),
)


class Weather:
    """What happens to an archive while somebody reads it, by a seeded chance."""

    def __init__(self, archive: SmallArchive, chance: random.Random, *, deletes: bool) -> None:
        self._archive = archive
        self._chance = chance
        self._deletes = deletes
        self._made = 0
        self.change_share, self.fault_share = 0.1, 0.02

    def __call__(self, _asked: str) -> Response | None:
        if self._chance.random() < self.change_share:
            self._change()
        return self._chance.choice(FAULTS) if self._chance.random() < self.fault_share else None

    def _change(self) -> None:
        keys = [key for key, _ in self._archive.listing()]
        match self._chance.randrange(3):
            case 0:
                self._made += 1
                self._archive.add(f"new{self._made}")
            case 1:
                self._archive.add(*self._chance.sample(keys, min(len(keys), self._chance.randint(1, 3))))
            case _:
                if self._deletes and len(keys) > 20:
                    self._archive.remove(*self._chance.sample(keys, self._chance.randint(1, 6)))


async def stormy_run(rig: ListedRig, chance: random.Random) -> None:
    """A run that is killed, or capped, or left alone."""
    life = Generation()
    options = RunOptions(
        max_fetches=chance.choice([None, 5, 40]), max_wall_ns=chance.choice([None, 2 * MINUTE_NS, 15 * MINUTE_NS])
    )

    async def process() -> None:
        async with rig.process(life) as started:
            await started.run(options).run_once()

    timer = asyncio.get_running_loop().call_later(chance.uniform(5, 600), life.crash)
    try:
        await life.live(process())
    except Crashed:
        await rig.wait(31 * MINUTE_NS)  # the lease of a gap that was being served
    timer.cancel()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("paging", PAGINGS)
@pytest.mark.slow
def test_after_any_weather_the_mirror_holds_everything_that_is_listed(paging: Paging, seed: int) -> None:
    """Without deletions no paging needs its backstop; with them, offsets and cursors do not either."""

    async def main(clock: SimClock) -> None:
        chance = random.Random(seed)
        rig = ListedRig(clock, SmallArchive(60), settings=PAGINGS[paging])
        rig.archive.hook = Weather(rig.archive, chance, deletes=paging is not Paging.PAGE or seed % 2 == 0)
        for _ in range(10):
            await stormy_run(rig, chance)
            await rig.wait(chance.randrange(4 * HOUR_NS))
        rig.archive.hook = lambda _asked: None
        needs_backstop = paging is Paging.PAGE and seed % 2 == 0
        ends: list[StoppedBy] = []
        for _ in range(5):
            await rig.wait(8 * DAY_NS if needs_backstop else 13 * HOUR_NS)
            ends.append((await rig.run(RunOptions(force=True))).stopped_by)
        assert ends[-1] is StoppedBy.COMPLETE
        mirror, truth = await rig.mirror(), rig.archive.truth()
        assert {key for key in truth if mirror.get(key) != truth[key]} == set()
        assert clock.monotonic_ns() < 6 * DAY_NS or needs_backstop, "no full walk came to help"
        assert (await rig.store.walk_state(NAME)).position is None

    run(main, seed=seed)
