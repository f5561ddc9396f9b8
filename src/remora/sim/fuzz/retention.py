"""Is the mirror kept small, and nobody left behind? Old changes are deleted while named readers and the index follow."""

from remora.contracts.keeping import Housekeeping
from remora.contracts.reader import Change, Reader
from remora.contracts.search import SearchIndex
from remora.core.errors import PositionLost
from remora.core.units import SECOND_NS
from remora.read.indexing import load_progress
from remora.read.retention import forget_old
from remora.sim.crash import Crashed, Generation
from remora.sim.fuzz.beside import Beside

CALLS_OF_A_LIFE_MAX = 6
_LINES_MAX = 1_000_000
_PAGE_ROWS = 100_000

Positions = dict[str, int]  # by reader
Kept = dict[tuple[str, str, int], int]  # source, key and number of an earlier content: when it was seen first


class Retention:
    """The owner deletes what is old, now and then. The command is killed sometimes."""

    def __init__(self, beside: Beside, *, keeps_s: float, forgets_revisions: bool) -> None:
        self._beside = beside
        self._keeps_ns = round(keeps_s * SECOND_NS)
        self._forgets_revisions = forgets_revisions
        self._newest = 0  # the highest number of a change so far

    async def live_on(self) -> None:
        """Delete again and again, until cancelled."""
        while True:
            await self._beside.rest()
            await self.once()

    async def once(self, *, alone: bool = False) -> None:
        """Delete what is old, and check what is left. Where nobody else does anything meanwhile, it is all that can go."""
        chance, reader, keeping = self._beside.chance, self._beside.reader(), self._beside.keeping()
        calls = None if alone else chance.choice([None, None, chance.randint(1, CALLS_OF_A_LIFE_MAX)])
        life, before_ns = Generation(die_at_call=calls), self._beside.wall_ns() - self._keeps_ns
        await reader.open()
        try:
            await keeping.open()
            began, kept = await self._positions(keeping), await earlier_contents(reader)
            oldest, young = await self._oldest(reader), await self._young(reader, before_ns)
            slow = life.guard(self._beside.slowly(keeping)), life.guard(self._beside.slowly(self._beside.index()))
            is_whole = await self._forget(life, *slow, before_ns)
            now = await self._positions(keeping)
            await self._check_deleted(reader, oldest, began, now)
            if young is not None and young < await self._oldest(reader):
                self._beside.judge.fail(f"change {young} was deleted, and is not old")
            await self._check_told(reader)
            await self._check_left(reader, min(now.values(), default=None), before_ns, alone=alone)
            await self._check_contents(reader, kept, before_ns, is_whole=is_whole)
        finally:
            await keeping.close()
            await reader.close()

    async def _forget(self, life: Generation, keeping: Housekeeping, index: SearchIndex, before_ns: int) -> bool:
        """Whether the command ran to its end."""
        try:
            await life.live(
                forget_old(
                    keeping,
                    index,
                    changes_before_ns=before_ns,
                    revisions_before_ns=before_ns if self._forgets_revisions else None,
                    settled_before_ns=before_ns,
                )
            )
        except Crashed:
            return False
        return True

    async def _positions(self, keeping: Housekeeping) -> dict[str, int]:
        """How far everybody is who is waited for."""
        positions = {one.name: int(one.position) for one in await keeping.named_readers()}
        index = self._beside.index()
        if await index.exists():
            await index.open(to_write=False)
            kept = await index.progress()
            await index.close()
            positions["the index"] = 0 if kept is None else int(load_progress(kept).position)
        return positions

    async def _oldest(self, reader: Reader) -> int:
        """The number of the oldest change; without any, of the next one."""
        first = await reader.changes("0", limit=1)
        self._newest = max(self._newest, int(await reader.newest_position()))
        return int(first[0].position) if first else self._newest + 1

    async def _young(self, reader: Reader, before_ns: int) -> int | None:
        """The first change that is not old."""
        changes = await reader.changes("0", limit=_LINES_MAX)
        return next((int(change.position) for change in changes if change.changed_ns >= before_ns), None)

    async def _check_deleted(self, reader: Reader, before: int, began: Positions, now: Positions) -> None:
        """Whoever was a reader all the time has read what was deleted. One that is at the beginning may be new."""
        oldest = await self._oldest(reader)
        read = [now[name] for name, position in began.items() if name in now and now[name] >= max(position, 1)]
        if read and oldest > max(before, min(read) + 1):
            self._beside.judge.fail(f"change {oldest - 1} was deleted, and a reader has come to {min(read)}")

    async def _check_told(self, reader: Reader) -> None:
        """A reader without a name is told if the next change after its position was deleted, and only then."""
        oldest = await self._oldest(reader)
        for position in {1, oldest - 2, oldest - 1, oldest, self._beside.chance.randint(1, oldest)} - {0, -1}:
            try:
                page = await reader.changes(str(position), limit=1)
            except PositionLost:
                if position + 1 >= oldest:
                    self._beside.judge.fail(f"changes after {position} are called deleted, and {oldest} is kept")
                continue
            if page and int(page[0].position) != position + 1:
                self._beside.judge.fail(f"after change {position} comes {page[0].position}, and nobody says why")

    async def _check_left(self, reader: Reader, read_by_all: int | None, before_ns: int, *, alone: bool) -> None:
        """What is left has no holes, and begins with a change that is young or that somebody has not read."""
        judge, left = self._beside.judge, await reader.changes("0", limit=_LINES_MAX)
        numbers = [int(change.position) for change in left]
        if numbers and numbers[-1] - numbers[0] + 1 != len(numbers):
            judge.fail(f"changes are missing between change {numbers[0]} and change {numbers[-1]}")
        if alone and left and _could_go(left[0], read_by_all, before_ns):
            judge.fail(f"change {numbers[0]} is old and read by all, and was not deleted")

    async def _check_contents(self, reader: Reader, before: Kept, before_ns: int, *, is_whole: bool) -> None:
        left = await earlier_contents(reader)
        for content, seen_ns in before.items():
            is_old = self._forgets_revisions and seen_ns < before_ns
            if content not in left and not is_old:
                self._beside.judge.fail("an earlier content was deleted that is not old")
            if content in left and is_old and is_whole and before_ns - seen_ns > SECOND_NS:
                self._beside.judge.fail("an earlier content is old and was not deleted")


def _could_go(change: Change, read_by_all: int | None, before_ns: int) -> bool:
    is_read = read_by_all is None or int(change.position) <= read_by_all
    return is_read and before_ns - change.changed_ns > SECOND_NS


async def earlier_contents(reader: Reader) -> Kept:
    """Every earlier content that the mirror keeps."""
    kept: Kept = {}
    for source in await reader.sources():
        name = source.name
        if source.is_listed:
            keys = await reader.revised_keys(name, after="", limit=_PAGE_ROWS)
            documents = await reader.earlier_documents(name, keys, changed_since_ns=0, after=("", 0))
            kept |= {(name, one.key, one.revision): one.changed_ns or 0 for one in documents}
        else:
            ids = await reader.revised_ids(name, after_id=-1, limit=_PAGE_ROWS)
            items = await reader.earlier_items(name, ids, changed_since_ns=0, after=(0, 0))
            kept |= {(name, str(item_id), one.number): one.changed_ns for item_id, one in items}
    return kept
