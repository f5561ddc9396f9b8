"""Does a restart repeat what was told, or forget its end? What the owner last heard outlives every process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from remora.contracts import Json
from remora.core.errors import StoreUnavailable
from remora.core.ledger.notes import ALARMS_TOLD_NOTE, OF_ALL_SOURCES
from remora.core.status.alarms import CLEAR_NS
from remora.core.status.model import Status
from remora.core.status.snapshot import Role, Snapshot, SourceFacts
from remora.core.units import SECOND_NS
from remora.operate.config.settings import NotifySettings
from remora.operate.observe.notify import AGAIN_NS, Notice, Notifier
from remora.operate.observe.told_alarms import TELLING_NS
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore
from tests.operate.test_notify import Owner, status

DEAD = status(dead=3)
WELL = status()


class Story:
    """A store and an owner that outlive the services of the story."""

    def __init__(self, clock: SimClock, store: MemoryStore | None = None) -> None:
        self.clock = clock
        self.store = store or MemoryStore()
        self.owner = Owner()
        self.minute_of_day = 12 * 60

    def service(
        self,
        *,
        tell: Callable[[Sequence[str], Notice], Awaitable[str | None]] | None = None,
        sources: tuple[str, ...] = (),
        quiet: str | None = None,
    ) -> Notifier:
        """A service that has just begun."""
        return Notifier(
            NotifySettings("tell-me", sources=sources, quiet=quiet),
            self.store,
            clock=self.clock,
            tell=tell or self.owner.tell,
            environ={},
            minute_of_day=lambda: self.minute_of_day,
        )

    async def look(self, telling: Notifier, reading: Status, *, for_ns: int = 2 * CLEAR_NS) -> None:
        """Look at this status as often as the service does, for a while."""
        ends_ns = self.clock.monotonic_ns() + for_ns
        while self.clock.monotonic_ns() <= ends_ns:
            await telling.run_once(reading)
            await self.clock.sleep_until(self.clock.monotonic_ns() + 2 * SECOND_NS)

    def heard(self) -> list[tuple[str, str]]:
        return [(notice.name, notice.state) for notice in self.owner.heard]


BEGAN = ("RemoraDeadLetters", "firing")
ENDED = ("RemoraDeadLetters", "cleared")


def test_an_alarm_that_lasts_is_told_once_however_often_the_service_starts() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        for _ in range(3):
            await story.look(story.service(), DEAD)
        assert story.heard() == [BEGAN]

    run(main)


def test_an_alarm_that_was_mended_while_the_service_was_down_ends_for_its_owner_once() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.look(story.service(), DEAD)
        for _ in range(3):
            await story.look(story.service(), WELL)
        assert story.heard() == [BEGAN, ENDED]
        assert story.owner.heard[-1].text == "3 given up on for now"
        await story.look(story.service(), DEAD)
        assert story.heard() == [BEGAN, ENDED, BEGAN]

    run(main)


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "not heard"])
@pytest.mark.parametrize("after", [DEAD, WELL], ids=["lasts", "mended"])
def test_a_kill_while_an_alarm_is_told_repeats_it_at_most_and_never_loses_its_end(
    after: Status, is_heard: bool
) -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await _killed_while_telling(story, DEAD, is_heard=is_heard)
        await story.look(story.service(), after, for_ns=TELLING_NS + 2 * CLEAR_NS)
        await story.look(story.service(), after)
        before = [BEGAN] if is_heard else []
        assert story.heard() == [*before, BEGAN if after is DEAD else ENDED]
        await story.look(story.service(), WELL)
        assert story.heard()[-1] == ENDED

    run(main)


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "not heard"])
@pytest.mark.parametrize("after", [DEAD, WELL], ids=["begins again", "mended"])
def test_a_kill_while_an_end_is_told_repeats_it_at_most(after: Status, is_heard: bool) -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.look(story.service(), DEAD)
        await _killed_while_telling(story, WELL, is_heard=is_heard)
        await story.look(story.service(), after, for_ns=TELLING_NS + 2 * CLEAR_NS)
        between = [ENDED] if is_heard else []
        assert story.heard() == [BEGAN, *between, BEGAN if after is DEAD else ENDED]

    run(main)


async def _killed_while_telling(story: Story, reading: Status, *, is_heard: bool) -> None:
    """A service that is gone while its command runs."""
    killed = asyncio.Event()

    async def tell(command: Sequence[str], notice: Notice) -> str | None:
        if is_heard:
            await story.owner.tell(command, notice)
        killed.set()
        await asyncio.Event().wait()
        return None

    async with asyncio.TaskGroup() as group:
        doomed = group.create_task(story.look(story.service(tell=tell), reading))
        await killed.wait()
        doomed.cancel()


def test_of_two_processes_one_tells_and_the_other_goes_on_where_it_ended() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)

        async def slowly(command: Sequence[str], notice: Notice) -> str | None:
            await clock.sleep_until(clock.monotonic_ns() + 5 * SECOND_NS)
            return await story.owner.tell(command, notice)

        first, second = story.service(tell=slowly), story.service(tell=slowly)
        async with asyncio.TaskGroup() as group:
            for process in (first, second):
                group.create_task(story.look(process, DEAD))
        assert story.heard() == [BEGAN]
        await story.look(second, WELL)  # the first one is gone
        assert story.heard() == [BEGAN, ENDED]

    run(main)


def test_an_alarm_that_only_a_killed_process_saw_is_ended_by_the_other() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        killed, other = story.service(), story.service()
        await story.look(other, WELL)
        await killed.run_once(DEAD)  # it lasts for less time than between two looks of the other
        await story.look(other, WELL)
        assert story.heard() == [BEGAN, ENDED]
        await story.look(other, WELL)
        assert story.heard() == [BEGAN, ENDED]

    run(main)


class Shut(MemoryStore):
    """A store that can be away."""

    is_away = False

    async def note(self, source: str, name: str) -> Json:
        self._check()
        return await super().note(source, name)

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        self._check()
        return await super().swap_note(source, name, old=old, new=new)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("the database is away", hint="wait")


def test_an_alarm_is_told_although_the_store_cannot_keep_it_and_is_kept_once_it_can() -> None:
    async def main(clock: SimClock) -> None:
        store = Shut()
        story = Story(clock, store)
        telling = story.service()
        await story.look(telling, WELL)
        store.is_away = True
        await story.look(telling, DEAD)
        assert story.heard() == [BEGAN]
        store.is_away = False
        await telling.run_once(DEAD)
        await story.look(story.service(), WELL)
        assert story.heard() == [BEGAN, ENDED]

    run(main)


def test_a_service_whose_store_is_away_at_first_tells_nothing_until_it_knows_what_was_told() -> None:
    async def main(clock: SimClock) -> None:
        store = Shut()
        story = Story(clock, store)
        await story.look(story.service(), DEAD)
        telling, store.is_away = story.service(), True
        with suppress(StoreUnavailable):
            await telling.run_once(DEAD)
        store.is_away = False
        await story.look(telling, DEAD)
        assert story.heard() == [BEGAN]

    run(main)


def test_the_alarms_of_a_source_that_was_removed_end_unless_another_process_watches_it() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.look(story.service(), DEAD)
        without = Status(as_of_ns=DEAD.as_of_ns, runtimes=(), sources={})
        other = Snapshot(role=Role.SERVICE, started_at_ns=0, sources={"one": SourceFacts()})
        telling = story.service()
        for _ in range(60):
            await story.store.beat("service:other:1", _plain(other), now_ns=clock.wall_ns())
            await story.look(telling, without, for_ns=SECOND_NS)
        assert story.heard() == [BEGAN]
        await clock.sleep_until(clock.monotonic_ns() + CLEAR_NS)
        await story.look(story.service(), without)
        assert story.heard() == [BEGAN, ENDED]
        assert story.owner.heard[-1].text == "the source is no longer configured"

    run(main)


def _plain(snapshot: Snapshot) -> dict[str, Json]:
    return {
        "role": snapshot.role.value,
        "started_at_ns": snapshot.started_at_ns,
        "sources": {name: {} for name in snapshot.sources},
    }


def test_an_alarm_that_this_version_does_not_know_ends() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        note: Json = [{"source": "one", "name": "RemoraOfOld", "text": "3 of old", "telling_at_ns": None}]
        await story.store.keep_note(OF_ALL_SOURCES, ALARMS_TOLD_NOTE, note)
        for _ in range(2):
            await story.look(story.service(), WELL)
        assert story.heard() == [("RemoraOfOld", "cleared")]
        assert story.owner.heard[-1].text == "this version of Remora does not watch for it"

    run(main)


@pytest.mark.parametrize("note", ["{", {"one": 1}, [{"source": 1}]])
def test_a_damaged_note_of_what_was_told_is_written_anew(note: Json) -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.store.keep_note(OF_ALL_SOURCES, ALARMS_TOLD_NOTE, note)
        for _ in range(2):
            await story.look(story.service(), DEAD)
        assert story.heard() == [BEGAN]

    run(main)


def test_an_alarm_that_ends_in_quiet_hours_ends_at_their_end_although_the_service_started_again() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.look(story.service(quiet="22:00-07:00"), DEAD)
        story.minute_of_day = 23 * 60
        await story.look(story.service(quiet="22:00-07:00"), WELL)
        telling = story.service(quiet="22:00-07:00")
        await story.look(telling, WELL)
        assert story.heard() == [BEGAN]
        story.minute_of_day = 8 * 60
        await telling.run_once(WELL)
        assert story.heard() == [BEGAN, ENDED]

    run(main)


def test_what_no_channel_could_deliver_is_told_by_the_next_service() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        story.owner.deaf = True
        await story.look(story.service(), DEAD, for_ns=AGAIN_NS + CLEAR_NS)
        await story.look(story.service(), WELL)  # it was never heard, so its end is not told
        story.owner.deaf = False
        await story.look(story.service(), WELL)
        assert story.heard() == []
        await story.look(story.service(), DEAD)
        story.owner.deaf = True
        await story.look(story.service(), WELL)
        story.owner.deaf = False
        await story.look(story.service(), WELL)
        assert story.heard() == [BEGAN, ENDED]

    run(main)


def test_a_source_that_nobody_wants_to_hear_of_any_more_is_left_alone() -> None:
    async def main(clock: SimClock) -> None:
        story = Story(clock)
        await story.look(story.service(), DEAD)
        await story.look(story.service(sources=("other",)), WELL)
        assert story.heard() == [BEGAN]
        await story.look(story.service(), WELL)
        assert story.heard() == [BEGAN, ENDED]

    run(main)
