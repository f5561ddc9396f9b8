"""What if a provider begins to write its update marks in another way? No change stays hidden behind the old ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

import msgspec
import pytest

from remora.core.item import Order
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.sim.clock import START_WALL_NS, SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response, ok
from remora.sources.list_scope import SinceSettings
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings
from tests.loops.listed_rig import ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

BEGAN_S = START_WALL_NS // SECOND_NS - 86_400
Write = Callable[[int], object]


def seconds(at_s: int) -> object:
    return at_s


def milliseconds(at_s: int) -> object:
    return at_s * 1_000


def microseconds(at_s: int) -> object:
    return at_s * 10**6


def nanoseconds(at_s: int) -> object:
    return str(at_s * 10**9)


def date(at_s: int) -> object:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


class Rewritten(SmallArchive):
    """An archive whose list writes a time in the way that it is told."""

    write: Write = staticmethod(seconds)

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": key, "update_time": self.write(BEGAN_S + mark * 60)} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


OTHER_FORMS = pytest.mark.parametrize(
    "before, after",
    [
        (date, seconds),
        (milliseconds, seconds),
        (date, milliseconds),
        (seconds, date),
        (microseconds, milliseconds),
        (nanoseconds, date),
        (seconds, nanoseconds),
    ],
)


@pytest.mark.parametrize("order", [Order.UPDATED, Order.NONE])
@OTHER_FORMS
def test_changes_are_found_after_the_provider_began_to_write_its_marks_in_another_way(
    before: Write, after: Write, order: Order
) -> None:
    async def main(clock: SimClock) -> None:
        archive = Rewritten(30)
        rig = ListedRig(clock, archive, detail=DetailSettings(key="id"))
        rig.settings = msgspec.structs.replace(rig.settings, order=order)
        archive.write = before
        await rig.run()
        archive.write = after
        archive.add("c7", "c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        archive.add("c9")
        archive.asked.clear()
        await rig.run()
        assert await rig.is_complete()
        assert archive.requests("detail") == {"c9": 1}

    run(main)


def entity_tag(at_s: int) -> object:
    """A text that says nothing about which of two is newer."""
    return blake2b(str(at_s).encode(), digest_size=8).hexdigest() + "-"


def test_a_change_is_found_by_a_mark_that_differs_although_it_does_not_sort() -> None:
    async def main(clock: SimClock) -> None:
        archive = Rewritten(30)
        rig = ListedRig(clock, archive, detail=DetailSettings(key="id"))
        rig.settings = msgspec.structs.replace(rig.settings, order=Order.NONE)
        archive.write = entity_tag
        await rig.run()
        archive.add(*(f"c{number}" for number in range(1, 21)))
        archive.asked.clear()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert len(archive.requests("detail")) == 20
        archive.asked.clear()
        await rig.run()
        assert not archive.requests("detail"), "what did not change is not asked for"

    run(main)


class Following(Rewritten):
    """A list of what changed since a moment, which reads and writes moments in one way only."""

    refuses = False
    is_blind = False  # reads no moment at all

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        since = query.get("since")
        lines = sorted((mark, key) for key, mark in self._marks.items())
        if since is not None:
            if not self.reads(since):
                return Answer(400, b'{"error": "bad since"}') if self.refuses else ok(self._lines([]))
            lines = [line for line in lines if self.at_s(line[0]) >= self.reads(since)]
        start = int(query["offset"])
        return ok(self._lines([(key, mark) for mark, key in lines[start : start + int(query["limit"])]]))

    def at_s(self, mark: int) -> int:
        return BEGAN_S + mark * 60

    def reads(self, since: str) -> int:
        """The second that is meant; 0 if it is written in another way than the list writes its marks."""
        way = self.write(BEGAN_S)
        if self.is_blind:
            return 0
        if not str(way).isdigit():
            return 0 if since.isdigit() else int(datetime.fromisoformat(since).timestamp())
        if not since.isdigit() or len(since) != len(str(way)):
            return 0
        return int(since) // (int(str(way)) // BEGAN_S)


FOLLOWED = ListSettings(page_size=10, order=Order.OLDEST, since=SinceSettings())


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True], ids=["shows nothing", "refuses"])
@OTHER_FORMS
def test_a_watermark_that_the_provider_reads_no_more_hides_no_change(
    before: Write, after: Write, refuses: bool
) -> None:
    async def main(clock: SimClock) -> None:
        archive = Following(30)
        archive.refuses = refuses
        rig = ListedRig(clock, archive, settings=FOLLOWED, detail=DetailSettings(key="id"))
        archive.write = before
        await rig.run()
        await rig.wait(2 * DAY_NS)
        archive.write = after
        archive.add("c7", "new")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        archive.add("c9")
        archive.asked.clear()
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert "24" not in archive.requests("page"), "only what changed since the watermark is asked for"

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("way", [seconds, milliseconds, microseconds, nanoseconds])
@pytest.mark.parametrize("die_at", [None, 40, 120])
def test_only_what_changed_is_asked_for_whatever_the_unit_of_the_marks(way: Write, die_at: int | None) -> None:
    async def main(clock: SimClock) -> None:
        archive = Following(57)
        archive.write = way
        rig = ListedRig(clock, archive, settings=FOLLOWED, detail=DetailSettings(key="id"))
        if die_at is not None:
            assert await killed(rig, Generation(die_at_call=die_at))
            await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        archive.asked.clear()
        archive.add("new", "c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert archive.requests("page").total() <= 3

    run(main)


@pytest.mark.slow
def test_a_list_that_never_shows_its_newest_entry_again_is_walked_whole_once_a_day() -> None:
    async def main(clock: SimClock) -> None:
        archive = Following(30)
        rig = ListedRig(clock, archive, settings=FOLLOWED, detail=DetailSettings(key="id"))
        archive.is_blind = True
        await rig.run()
        archive.asked.clear()
        for _ in range(72):
            await rig.wait(HOUR_NS)
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert 2 <= archive.requests("page")["28"] <= 3

    run(main)
