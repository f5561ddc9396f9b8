"""What if a provider begins to write its update marks in another way? No change stays hidden behind the old ones."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from remora.core.item import Order
from remora.core.ledger.run import StoppedBy
from remora.sim.clock import SimClock, run
from remora.sources.listed import DetailSettings
from tests.loops.listed_rig import ListedRig, SmallArchive

BEGAN_S = 1_790_000_000
Write = Callable[[int], object]


def seconds(at_s: int) -> object:
    return at_s


def milliseconds(at_s: int) -> object:
    return at_s * 1_000


def date(at_s: int) -> object:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


class Rewritten(SmallArchive):
    """An archive whose list writes a time in the way that it is told."""

    write: Write = staticmethod(seconds)

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": key, "update_time": self.write(BEGAN_S + mark * 60)} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


@pytest.mark.parametrize("order", [Order.UPDATED, Order.NONE])
@pytest.mark.parametrize(
    "before, after", [(date, seconds), (milliseconds, seconds), (date, milliseconds), (seconds, date)]
)
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
