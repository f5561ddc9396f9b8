"""Does the heart beat once a second, through a store that fails, and does it say good-bye?"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from remora.contracts import Json
from remora.core.errors import StoreUnavailable
from remora.core.status.snapshot import Role, Snapshot
from remora.core.units import SECOND_NS
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.resources import beating, open_resources
from remora.operate.observe.heartbeat import Heart
from remora.operate.observe.read_status import decode_beats
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore


class FailingNotes(MemoryStore):
    """A store that is down for its first beats."""

    failures = 2
    beats_at_ns: tuple[int, ...] = ()

    async def beat(self, runtime: str, snapshot: Mapping[str, Json], *, now_ns: int) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise StoreUnavailable("the store is down", hint="wait")
        self.beats_at_ns += (now_ns,)
        await super().beat(runtime, snapshot, now_ns=now_ns)


def a_snapshot() -> Snapshot:
    return Snapshot(role=Role.SERVICE, started_at_ns=1)


def test_it_beats_once_a_second_and_outlives_a_store_that_is_down() -> None:
    store = FailingNotes()

    async def live(clock: SimClock) -> None:
        heart = Heart("service", store, a_snapshot, clock=clock)
        task = asyncio.create_task(heart.run())
        await clock.sleep_until(clock.monotonic_ns() + 10_500_000_000)
        task.cancel()

    run(live)
    gaps = {later - earlier for earlier, later in zip(store.beats_at_ns, store.beats_at_ns[1:], strict=False)}
    assert len(store.beats_at_ns) == 9
    assert gaps == {1_000_000_000}


def test_missed_heartbeats_are_told_once_a_minute_and_so_is_their_end() -> None:
    store = FailingNotes()
    store.failures = 150  # seconds

    async def live(clock: SimClock) -> None:
        heart = Heart("service", store, a_snapshot, clock=clock)
        task = asyncio.create_task(heart.run())
        await clock.sleep_until(clock.monotonic_ns() + 200 * SECOND_NS)
        task.cancel()

    with capture_logs() as events:
        run(live)
    assert [(event["event"], event["missed"]) for event in events] == [
        ("heartbeat_missed", 1),
        ("heartbeat_missed", 61),
        ("heartbeat_missed", 121),
        ("heartbeat_stored_again", 150),
    ]


def test_a_good_bye_says_when_and_why() -> None:
    store = MemoryStore()

    async def live(clock: SimClock) -> None:
        await Heart("service", store, a_snapshot, clock=clock).say_goodbye("stopped on request")

    run(live)
    (beat,) = decode_beats(asyncio.run(store.heartbeats()))
    assert beat.snapshot.ended_because == "stopped on request"
    assert beat.snapshot.ended_at_ns == beat.at_ns


def test_a_heartbeat_of_another_version_says_nothing_rather_than_something_wrong() -> None:
    assert decode_beats([("service", 1, {"role": "queen"}), ("x", 2, None)]) == ()


@pytest.mark.parametrize(
    "error, because",
    [
        (StoreUnavailable("no free connection", hint="wait"), "no free connection"),
        (ExceptionGroup("", [StoreUnavailable("no free connection", hint="wait")]), "no free connection"),
        (ExceptionGroup("", [ZeroDivisionError("the text of an item")]), "ZeroDivisionError"),
    ],
    ids=["ours", "ours in a group of tasks", "a bug in a group of tasks"],
)
async def test_a_job_that_fails_leaves_its_reason_in_the_store(tmp_path: Path, error: Exception, because: str) -> None:
    settings = load(Flags(store=f"sqlite:///{tmp_path / 'remora.db'}"), {})
    async with open_resources(settings) as resources:
        with pytest.raises(type(error)):
            async with beating(resources, Role.BACKFILL, dict):
                raise error
        (beat,) = decode_beats(await resources.store.heartbeats())
    assert beat.snapshot.ended_because == because
