"""Does a named reader get every change while old ones are deleted? It keeps a copy by the feed alone, and compares."""

from collections.abc import Sequence
from typing import Final

from remora.contracts.keeping import Housekeeping
from remora.contracts.reader import Change, Reader
from remora.sim.crash import Crashed, Generation
from remora.sim.fuzz.beside import Beside, Thing, body_of, everything

CALLS_OF_A_LIFE_MAX: Final = 40
PAGES: Final = (1, 7, 100)
_LEAVES_SHARE: Final = 0.1


class Follower:
    """A named reader. It is killed now and then, also between a page and the word that it was worked on."""

    def __init__(self, beside: Beside, name: str) -> None:
        self._beside = beside
        self.name = name
        self._copy: dict[Thing, bytes | None] | None = None  # what the feed told of; None: it is no reader now
        self._next: int | None = None  # the change that must come next; None: there was none yet

    async def live_on(self) -> None:
        """Live one life after another, until cancelled."""
        chance = self._beside.chance
        while True:
            calls = chance.choice([None, chance.randint(1, CALLS_OF_A_LIFE_MAX)])
            await self._one_life(Generation(die_at_call=calls, after_effect=chance.random() < 0.5))
            await self._beside.rest()

    async def finish(self) -> None:
        """Read what is left; then the copy is the mirror."""
        await self._one_life(Generation(), to_the_end=True)

    async def _one_life(self, life: Generation, *, to_the_end: bool = False) -> None:
        reader, keeping = self._beside.reader(), self._beside.keeping()
        await reader.open()
        try:
            await keeping.open()
            slow = (reader, keeping) if to_the_end else (self._beside.slowly(reader), self._beside.slowly(keeping))
            await life.live(self._follow(life.guard(slow[0]), life.guard(slow[1]), to_the_end=to_the_end))
            if to_the_end:
                await self._compare(reader)
        except Crashed:
            pass
        finally:
            await keeping.close()
            await reader.close()

    async def _follow(self, reader: Reader, keeping: Housekeeping, *, to_the_end: bool) -> None:
        position = await self._begin(reader, keeping)
        while page := await reader.changes(position, limit=self._beside.chance.choice(PAGES)):
            self._hear(page, after=position)
            for thing in dict.fromkeys((change.source, change.kind, change.key) for change in page):
                await self._take(reader, thing)
            position = page[-1].position
            await keeping.keep_position(self.name, position, now_ns=self._beside.wall_ns())
        if not to_the_end and self._beside.chance.random() < _LEAVES_SHARE:
            await keeping.forget_reader(self.name)
            self._copy = None
            await self._beside.rest()

    async def _begin(self, reader: Reader, keeping: Housekeeping) -> str:
        known = {one.name: one.position for one in await keeping.named_readers()}
        if self._copy is not None and self.name in known:
            return known[self.name]
        await keeping.keep_position(self.name, "0", now_ns=0)
        # Nothing happens between the next reads: from now on it is waited for.
        self._copy, self._next = await self._look()
        return "0"

    async def _look(self) -> tuple[dict[Thing, bytes | None], int | None]:
        """All that is held now, and the oldest change."""
        reader = self._beside.reader()
        await reader.open()
        try:
            oldest = await reader.changes("0", limit=1)
            return await everything(reader), int(oldest[0].position) if oldest else None
        finally:
            await reader.close()

    def _hear(self, page: Sequence[Change], *, after: str) -> None:
        """The first change is the one after the last that was worked on, and none is left out."""
        numbers = [int(change.position) for change in page]
        expected = int(after) + 1 if after != "0" else self._next
        if expected is not None and numbers != list(range(expected, expected + len(numbers))):
            self._beside.judge.fail(
                f"a named reader must get change {expected}, and gets {numbers[0]} of {len(numbers)}"
            )

    async def _take(self, reader: Reader, thing: Thing) -> None:
        assert self._copy is not None
        self._copy[thing] = await body_of(reader, thing)

    async def _compare(self, reader: Reader) -> None:
        assert self._copy is not None
        held = await everything(reader)
        differs = [thing for thing, body in held.items() if self._copy.get(thing) != body]
        if differs:
            self._beside.judge.fail(
                f"a reader that followed every change has {len(differs)} of {len(held)} things wrong"
            )
