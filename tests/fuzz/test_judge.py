"""Does the judge see what must never happen? Each promise is broken once, without a world around it."""

import asyncio

import msgspec
import pytest

from remora.contracts import Observation, Outcome
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.ledger.notes import ENTRY_MARK_NOTE
from remora.core.verdict import Found
from remora.sim.clock import SimClock, run
from remora.sim.fanned import Channels, Fanned
from remora.sim.fuzz.__main__ import fits
from remora.sim.fuzz.counted import LOOKS_BEFORE_LOST, CountedWire
from remora.sim.fuzz.forms import ListForm
from remora.sim.fuzz.judge import NAME, Judge
from remora.sim.fuzz.scenario import draw
from remora.sim.fuzz.stage import Stage
from remora.sim.limits import Limit
from remora.sim.listed import ArchiveSettings
from remora.sim.provider import Provider
from remora.sim.transport import FreePermit
from remora.sim.world import World, WorldSettings
from remora.stores.memory import MemoryStore


def judge() -> Judge:
    return Judge(lambda _id, body: body)


def observed(item_id: int) -> Observation:
    found = Found(Item(item_id=item_id, body=b"{}", content=b"{}"))
    return Observation(Discovery.item(item_id, via=Lane.LIVE), found, started_at_ns=1, now_ns=2)


def test_an_id_that_is_covered_before_its_outcome_is_recorded_is_seen() -> None:
    one = judge()
    one.seen("record", (NAME, observed(1)), {}, Outcome.NEW)
    one.seen("record_many", (NAME, [observed(2), observed(3)]), {}, [Outcome.NEW, Outcome.NEW])
    one.seen("cover", (NAME, IdRange(1, 3)), {}, None)
    assert one.violations == []
    one.seen("cover", (NAME, IdRange(3, 4)), {}, None)
    assert one.violations == ["item 4 is covered, and no outcome of it was recorded"]


async def test_a_hole_that_is_closed_with_its_neighbours_is_seen() -> None:
    one, store = judge(), MemoryStore()
    for item_id in (1, 3):
        one.seen("record", (NAME, observed(item_id)), {}, Outcome.NEW)
        await store.cover(NAME, IdRange(item_id, item_id))
        await one.compare("cover", (NAME, IdRange(item_id, item_id)), store)
    assert one.violations == []
    await store.cover(NAME, IdRange(2, 2))  # as if the store had merged 1 and 3
    await one.compare("cover", (NAME, IdRange(3, 3)), store)
    assert one.violations == ["item 2 is covered, and no outcome of it was recorded"]


def test_only_a_request_sent_since_an_announcement_counts_as_its_fetch() -> None:
    one = judge()
    one.seen("record", (NAME, observed(1)), {}, Outcome.NEW)  # sent at 1, recorded at 2
    assert one.was_fetched((Kind.ITEM, "1"), since_ns=1)
    assert not one.was_fetched((Kind.ITEM, "1"), since_ns=2)
    assert not one.was_fetched((Kind.ITEM, "2"), since_ns=1)


def wire(clock: SimClock, told: list[str], *, in_flight: int) -> CountedWire:
    provider = Provider(World(WorldSettings(items=10)), now=clock.true_ns, ticks=clock.monotonic_ns)
    return CountedWire(provider, clock, in_flight=in_flight, fail=told.append)


def test_one_request_too_many_in_flight_is_seen() -> None:
    async def main(clock: SimClock) -> list[str]:
        told: list[str] = []
        counted = wire(clock, told, in_flight=2)
        await asyncio.gather(*(counted.get(f"http://sim/v0/item/{n}.json", FreePermit(clock)) for n in (1, 2)))
        assert told == []
        await asyncio.gather(*(counted.get(f"http://sim/v0/item/{n}.json", FreePermit(clock)) for n in (1, 2, 3)))
        return told

    assert run(main) == ["3 requests are in flight, 2 are allowed"]


def test_a_place_that_the_gate_never_gets_back_is_seen() -> None:
    async def main(clock: SimClock) -> list[str]:
        told: list[str] = []
        counted = wire(clock, told, in_flight=2)
        for believed in (1, 1, 0, *[1] * LOOKS_BEFORE_LOST):
            assert told == []
            counted.look(believed)
        return told

    assert run(main) == ["the gate counts 1 requests in flight, and 0 are"]


@pytest.mark.parametrize(
    "wanted, is_there",
    [
        ({"incident": "ban,step"}, True),
        ({"incident": "nothing"}, False),
        ({"limit": "heat"}, True),
        ({"items": "3"}, False),
    ],
)
def test_worlds_can_be_chosen_by_incident_and_limit(wanted: dict[str, str], is_there: bool) -> None:
    worlds = [msgspec.structs.replace(draw(seed), limit=Limit(kind="heat")) for seed in range(30)]
    assert any(fits(world, wanted) for world in worlds) is is_there


def test_a_watermark_of_one_channel_beyond_an_entry_that_was_never_seen_is_seen() -> None:
    async def main(clock: SimClock) -> list[str]:
        fanned, one, store = Fanned(ArchiveSettings(conversations=9), Channels(2, 0.0, 0.0)), judge(), MemoryStore()
        world = World(WorldSettings(items=10))
        provider = Provider(world, now=clock.true_ns, ticks=clock.monotonic_ns, archive=fanned)
        one.stage = Stage(provider, ceiling_interval_ns=1, is_sparse=False, fail=one.fail)
        one.stage.form = ListForm(channels=2)
        line = min(fanned.listing(clock.true_ns()), key=lambda line: line.mark)
        channel = line.key.partition("/")[0]
        note = f"{ENTRY_MARK_NOTE} {fingerprint(NAME, channel)}"
        await store.keep_note(NAME, note, line.mark)
        await one.look(store, is_numbered=False)
        assert one.violations == []
        await store.keep_note(NAME, note, line.mark + "0")
        await one.look(store, is_numbered=False)
        return one.violations

    told = run(main)
    assert told
    assert all("the watermark is beyond" in violation for violation in told)
