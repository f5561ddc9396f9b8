"""Is every announced key fetched, once at a time, with bounded memory, whatever happens to workers and store?"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import InboxEntry, Observation, Outcome, Permit
from remora.core.errors import StoreUnavailable
from remora.core.ledger.discovery import Kind
from remora.core.verdict import NoReply, Reply
from remora.loops.numbered import inbox as inboxes
from remora.loops.numbered.inbox import MEMORY_MAX, InboxWorkers, Line, WorkersDead
from remora.sim.clock import SimClock
from remora.sim.crash import Crashed, Generation
from remora.sim.transport import SimTransport
from remora.sim.world import WorldSettings
from remora.stores.memory import MemoryStore
from tests.gate.numbers import Numbers
from tests.gate.numbers import process as numbered
from tests.loops.rig import NAME, Process, Rig, in_virtual_time

Key = tuple[Kind, str]


def items(*item_ids: int) -> list[Key]:
    return [(Kind.ITEM, str(item_id)) for item_id in item_ids]


def make_inbox(process: Process, *, workers: int = inboxes.WORKERS) -> InboxWorkers:
    return InboxWorkers(NAME, process.collector, process.store, clock=process.clock, workers=workers)


class Held(SimTransport):
    """A provider that answers nobody until it is let go, and counts who asks at the same time."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.provider, rig.clock)
        self.go_on = asyncio.Event()
        self.asked: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.most_at_once = 0

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.asked[url] += 1
        self.at_once[url] += 1
        self.most_at_once = max(self.most_at_once, self.at_once[url])
        await self.go_on.wait()
        try:
            return await super().get(url, permit, headers=headers)
        finally:
            self.at_once[url] -= 1


# ── the line in memory ──────────────────────────────────────────────────────────────────────────────────────────────

steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "take", "done"]), st.sampled_from("abc"), st.sampled_from([Kind.ITEM, Kind.USER])
    ),
    max_size=60,
)


@given(steps=steps)
def test_no_key_is_handed_out_twice_at_the_same_time_and_none_is_forgotten(
    steps: Sequence[tuple[str, str, Kind]],
) -> None:
    line, ticket = Line(), 0
    under_way: list[InboxEntry] = []
    owed: dict[Key, int] = {}
    for step, key, kind in steps:
        if step == "offer":
            ticket += 1
            line.offer(InboxEntry(kind, key, ticket))
            owed[kind, key] = ticket
        elif step == "take" and (entry := line.take()) is not None:
            assert (entry.kind, entry.key) not in [(other.kind, other.key) for other in under_way]
            under_way.append(entry)
        elif step == "done" and under_way:
            entry = under_way.pop(0)
            line.done(entry)
            if owed.get((entry.kind, entry.key)) == entry.ticket:
                del owed[entry.kind, entry.key]
    for entry in under_way:
        line.done(entry)
    left = {(entry.kind, entry.key): entry.ticket for entry in iter(line.take, None)}
    served = {(entry.kind, entry.key): entry.ticket for entry in under_way}
    assert all(left.get(key) == owed_ticket or served.get(key) == owed_ticket for key, owed_ticket in owed.items())


def test_profiles_come_after_items_but_not_never() -> None:
    line = Line()
    for number in range(100):
        line.offer(InboxEntry(Kind.ITEM, str(number), 1 + number))
    line.offer(InboxEntry(Kind.USER, "ada", 500))
    kinds = [entry.kind for entry in iter(line.take, None)]
    assert kinds.index(Kind.USER) == inboxes.USER_EVERY_TURNS - 1


def test_a_sweep_does_not_offer_what_is_under_way() -> None:
    line = Line()
    entry = InboxEntry(Kind.ITEM, "1", 5)
    line.offer(entry)
    assert line.take() == entry
    line.offer(entry)
    assert line.take() is None
    assert len(line) == 0


# ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_for(seconds: float, inbox: InboxWorkers) -> None:
    running = asyncio.get_running_loop().create_task(inbox.run())
    await asyncio.sleep(seconds)
    assert not running.done(), running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
def test_everything_announced_is_fetched_and_leaves_the_inbox() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=1_000, absent_share=0))
        async with rig.process() as process:
            inbox = make_inbox(process)
            await inbox.announce([*items(*range(1, 301)), (Kind.USER, rig.world.author(7))])
            outcomes = await inbox.run_once()
            assert outcomes == {Outcome.NEW: 301}
            assert await rig.store.inbox_depth(NAME) == 0
            assert await rig.store.user(NAME, rig.world.author(7)) is not None

    in_virtual_time(main)


def test_a_profile_waits_while_the_source_is_declared_without_profiles() -> None:
    async def main(clock: SimClock) -> None:
        source, store = Numbers(clock, name=NAME), MemoryStore()
        async with numbered(clock, source, store) as one:
            inbox = InboxWorkers(NAME, one.collector, store, clock=clock)
            await inbox.announce([(Kind.USER, "ada"), *items(1, 2)])
            await run_for(600, inbox)
            assert inbox.restarts == 0
        assert source.ids == [1, 2]
        assert [entry.key for entry in await store.waiting(NAME, limit=9)] == ["ada"]

    in_virtual_time(main)


def test_a_key_announced_many_times_is_fetched_once_and_once_more_for_all_that_came_meanwhile() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        held = Held(rig)
        async with rig.process(transport=held) as process:
            inbox = make_inbox(process)
            running = asyncio.get_running_loop().create_task(inbox.run())
            await inbox.announce(items(5))
            await asyncio.sleep(5)
            for _ in range(50):
                await inbox.announce(items(5))
                await asyncio.sleep(0.1)
            held.go_on.set()
            await asyncio.sleep(30)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert list(held.asked.values()) == [2]
        assert held.most_at_once == 1
        assert await rig.store.inbox_depth(NAME) == 0

    in_virtual_time(main)


@pytest.mark.slow
def test_a_consumer_that_stalls_for_ten_minutes_loses_nothing_and_memory_stays_bounded() -> None:
    count = 12_000

    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=count, absent_share=0))
        held = Held(rig)
        most_in_memory = 0
        async with rig.process(transport=held) as process:
            inbox = make_inbox(process)
            running = asyncio.get_running_loop().create_task(inbox.run())
            for start in range(0, count, 1_000):
                await inbox.announce(items(*range(start + 1, start + 1_001)))
                await asyncio.sleep(50)
                most_in_memory = max(most_in_memory, inbox.in_memory)
            assert asyncio.get_running_loop().time() >= 600
            assert await rig.store.inbox_depth(NAME) == count
            held.go_on.set()
            while await rig.store.inbox_depth(NAME):
                await asyncio.sleep(10)
                most_in_memory = max(most_in_memory, inbox.in_memory)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert most_in_memory == MEMORY_MAX
        assert len([body async for body in rig.store.bodies(NAME)]) == count

    in_virtual_time(main)


@pytest.mark.slow
def test_a_full_inbox_makes_the_reader_wait_until_there_is_room() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=3_000))
        async with rig.process() as process:
            inbox = InboxWorkers(NAME, process.collector, rig.store, clock=process.clock, spill_max=2_000)
            announcing = asyncio.get_running_loop().create_task(inbox.announce(items(*range(1, 2_501))))
            await asyncio.sleep(60)
            assert not announcing.done()
            assert await rig.store.inbox_depth(NAME) == 2_500, "durable although the reader waits"
            running = asyncio.get_running_loop().create_task(inbox.run())
            await announcing
            assert await rig.store.inbox_depth(NAME) < 2_000
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)


@pytest.mark.slow
def test_what_was_announced_survives_a_kill() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=1_000, absent_share=0))
        life = Generation()

        async def first_life() -> None:
            async with rig.process(life=life) as process:
                inbox = make_inbox(process)
                await inbox.announce(items(*range(1, 501)))
                await inbox.run()

        asyncio.get_running_loop().call_later(1.5, life.crash)
        with pytest.raises(Crashed):
            await life.live(first_life())
        left = await rig.store.inbox_depth(NAME)
        assert 0 < left < 500
        async with rig.process() as process:
            await run_for(60, make_inbox(process))
        assert len([body async for body in rig.store.bodies(NAME)]) == 500

    in_virtual_time(main)


class Failing(MemoryStore):
    """A store that fails as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.down_for_announcements = 0
        self.poison: set[str] = set()
        self.is_full = False

    async def announce(self, source: str, keys: Sequence[Key], *, now_ns: int) -> int:
        if self.down_for_announcements:
            self.down_for_announcements -= 1
            raise StoreUnavailable("the store does not answer", hint="wait")
        return await super().announce(source, keys, now_ns=now_ns)

    async def record(self, source: str, observation: Observation) -> Outcome:
        if self.is_full:
            raise StoreUnavailable("the disk is full", hint="make room")
        if observation.discovery.key in self.poison:
            raise RuntimeError("a mistake of our own")
        return await super().record(source, observation)


def test_an_announcement_waits_for_a_store_that_is_down() -> None:
    async def main(clock: SimClock) -> None:
        store = Failing()
        store.down_for_announcements = 4
        rig = Rig.make(clock, store=store)
        async with rig.process() as process:
            await make_inbox(process).announce(items(1, 2, 3))
        assert await store.inbox_depth(NAME) == 3

    in_virtual_time(main)


def test_an_answer_that_cannot_be_stored_is_kept_and_not_asked_for_again() -> None:
    async def main(clock: SimClock) -> None:
        store = Failing()
        rig = Rig.make(clock, store=store, world=WorldSettings(items=1_000, absent_share=0))
        held = Held(rig)
        held.go_on.set()
        async with rig.process(transport=held) as process:
            inbox = make_inbox(process, workers=3)
            await inbox.announce(items(*range(1, 11)))
            store.is_full = True
            running = asyncio.get_running_loop().create_task(inbox.run())
            await asyncio.sleep(7_200)
            asked_while_full = held.asked.total()
            store.is_full = False
            await asyncio.sleep(75)  # a minute for the wait, and some seconds to fetch the rest
            assert (asked_while_full, held.asked.total()) == (3, 10)
            assert await store.inbox_depth(NAME) == 0
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    in_virtual_time(main)


def test_a_poison_key_stops_neither_its_worker_nor_its_neighbours() -> None:
    async def main(clock: SimClock) -> None:
        store = Failing()
        store.poison = {"13"}
        rig = Rig.make(clock, store=store, world=WorldSettings(items=1_000, absent_share=0))
        async with rig.process() as process:
            inbox = make_inbox(process)
            await inbox.announce(items(*range(1, 101)))
            await run_for(600, inbox)
        assert len([body async for body in store.bodies(NAME)]) == 99
        assert [entry.key for entry in await store.waiting(NAME, limit=9)] == ["13"]
        assert 0 < inbox.restarts < 600

    in_virtual_time(main)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_failed_once_works_on(workers: int) -> None:
    async def main(clock: SimClock) -> None:
        store = Failing()
        store.poison = {str(number) for number in range(10, 10 + workers)}  # one for each worker
        rig = Rig.make(clock, store=store, world=WorldSettings(items=1_000, absent_share=0))
        async with rig.process() as process:
            inbox = make_inbox(process, workers=workers)
            await inbox.announce(items(*range(1, 101)))
            running = asyncio.get_running_loop().create_task(inbox.run())
            await asyncio.sleep(600)
            store.poison.clear()
            await asyncio.sleep(600)
            assert inbox.alive == workers
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert len([body async for body in store.bodies(NAME)]) == 100

    in_virtual_time(main)


def test_when_all_workers_are_dead_the_loop_ends_for_good_and_says_why() -> None:
    async def main(clock: SimClock) -> None:
        store = Failing()
        store.poison = {str(number) for number in range(1, 101)}
        rig = Rig.make(clock, store=store)
        async with rig.process() as process:
            inbox = make_inbox(process)
            await inbox.announce(items(*range(1, 101)))
            await inbox.run()

    with pytest.raises(ExceptionGroup) as caught:
        in_virtual_time(main)
    (death,) = caught.value.exceptions
    assert isinstance(death, WorkersDead)
    assert not death.retryable
    assert "RuntimeError" in str(death)
