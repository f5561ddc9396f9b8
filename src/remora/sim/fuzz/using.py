"""Who uses the mirror of a world while it is collected? Programs beside the service, each with a chance of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from remora.core.units import SECOND_NS
from remora.sim.fuzz.beside import Beside
from remora.sim.fuzz.dumping import import_dump
from remora.sim.fuzz.followers import Follower
from remora.sim.fuzz.lives import Home, Process
from remora.sim.fuzz.retention import Retention
from remora.sim.fuzz.searching import Searching
from remora.sim.fuzz.uses import Dump

# How often a program does something during the life of its world: about so many times.
TIMES: Final = 60
_FIRST_LOOK_S: Final = 5.0
_DOWN_NS: Final = 60 * SECOND_NS


class Using:
    """All programs beside the service of one world."""

    def __init__(self, home: Home) -> None:
        self._home = home
        uses, self._hours = home.scenario.uses, home.scenario.hours
        self._searching = [Searching(self._beside("search"))] if uses.searched else []
        self._followers = [Follower(self._beside(name), name) for name in map(str, range(uses.readers))]
        keeps = self._beside("retention", times=20)
        retention = Retention(keeps, keeps_s=uses.keeps_s, forgets_revisions=uses.forgets_revisions)
        self._retention = [retention] if uses.keeps_s else []

    def _beside(self, name: str, *, times: int = TIMES) -> Beside:
        home, chance = self._home, Random(f"{name}/{self._home.scenario.seed}")
        return Beside(home.path, home.clock, home.judge, chance, pause_s=self._hours * 3_600 / times)

    def begin(self, processes: Sequence[Process]) -> Sequence["asyncio.Task[None]"]:
        """Start all of them."""
        programs: list[Searching | Follower | Retention] = [*self._searching, *self._followers, *self._retention]
        works = [self._later(program.live_on) for program in programs]
        dump = self._home.scenario.uses.dump
        works += [self._import(dump, processes[0])] if dump is not None and dump.at_s else []
        return [asyncio.ensure_future(work) for work in works]

    async def _import(self, dump: Dump, service: Process) -> None:
        """The owner stops the service, imports, and starts it again."""
        await self._home.clock.sleep_until(round(dump.at_s * SECOND_NS))
        with self._judged():
            service.stop(down_for_ns=_DOWN_NS)
            async with service.alone:
                await import_dump(self._home, dump)

    async def _later(self, live_on: Callable[[], Awaitable[None]]) -> None:
        with self._judged():
            while await self._home.reader() is None:
                await self._home.clock.sleep_until(self._home.clock.monotonic_ns() + round(_FIRST_LOOK_S * SECOND_NS))
            await live_on()

    async def finish(self) -> None:
        """Once the faults have stopped: everybody reads to the end, and finds what the mirror holds."""
        with self._judged():
            for follower in self._followers:
                await follower.finish()
            for searching in self._searching:
                await searching.finish()
            for retention in self._retention:
                await retention.once(alone=True)

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Any error is a violation: nothing that happens to the service may disturb whoever reads its file."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._home.judge.fail(f"a program beside the service failed: {type(error).__name__}: {error}")
