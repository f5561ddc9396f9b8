"""Is the owner told, and only the owner? Alarms and wanted items reach the command; secrets and private things never do."""

import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from remora.contracts import Json, Observation
from remora.core.errors import StoreUnavailable
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.gap import GapState
from remora.core.reasons import GapReason
from remora.core.status.alarms import CLEAR_NS
from remora.core.status.model import Status
from remora.core.status.readout import read_out
from remora.core.status.snapshot import Beat, GapTally, LedgerFacts, Role, Snapshot, SourceFacts
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Found
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, NotifySettings
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.notify import AGAIN_NS, PER_HOUR_MAX, SILENCE_TOLD_AFTER_NS, Notice, Notifier, run_command
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import SqliteStore

NOW_NS = 1_800_000_000 * SECOND_NS
NOTICE = Notice(
    kind="alarm", source="hackernews", name="RemoraDeadLetters", state="firing", text="3 given up on for now"
)
WRITE_DOWN = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + '\\n' + repr(dict(os.environ)))"


class Owner:
    """Somebody who is told."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.heard: list[Notice] = []
        self.deaf = deaf

    async def tell(self, command: Sequence[str], notice: Notice) -> str | None:
        if self.deaf:
            raise FileNotFoundError(command[0])
        self.heard.append(notice)
        return None


def notifier(store: MemoryStore, owner: Owner, *, search: str | None = None) -> Notifier:
    return Notifier(NotifySettings("tell-me", search), store, clock=SystemClock(), tell=owner.tell)


def status(*, newest_id: int = 10, dead: int = 0, kind: str = "numbered", beat_at_ns: int | None = None) -> Status:
    gaps = (GapTally(Kind.ITEM, GapState.DEAD, GapReason.GONE, dead, NOW_NS, NOW_NS),) if dead else ()
    owed = None if kind == "numbered" else 0
    ledger = LedgerFacts(
        kind=kind,
        coverage=Coverage((IdRange(1, newest_id),)),
        newest_id=newest_id,
        gaps=gaps,
        owed_details=owed,
        is_public=owed is None,
    )
    snapshot = Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS, sources={"one": SourceFacts()})
    beats = [] if beat_at_ns is None else [Beat(beat_at_ns, snapshot)]
    return read_out(beats, {"one": ledger}, now_ns=NOW_NS)


async def arrive(store: MemoryStore, item_id: int, title: str) -> None:
    body = json.dumps({"id": item_id, "title": title, "type": "story"}).encode()
    seen = Observation(Discovery.item(item_id, via=Lane.LIVE), Found(Item(item_id, body)), NOW_NS, NOW_NS)
    await store.record("one", seen)


async def test_an_alarm_reaches_the_command_with_its_runbook() -> None:
    owner = Owner()
    assert await notifier(MemoryStore(), owner).run_once(status(dead=3)) == 1
    [heard] = owner.heard
    assert (heard.name, heard.state, heard.text) == ("RemoraDeadLetters", "firing", "3 given up on for now")
    assert heard.runbook == "docs/operating.md#remoradeadletters"


async def test_a_new_item_that_holds_every_word_is_told_once_and_old_ones_never() -> None:
    store, owner = MemoryStore(), Owner()
    await arrive(store, 10, "A Tide Clock of old")
    telling = notifier(store, owner, search="tide clock")
    await telling.run_once(status(newest_id=10))
    await arrive(store, 12, "My tide CLOCK &amp; yours")
    await arrive(store, 13, "A clock without water")
    for _ in range(3):
        await telling.run_once(status(newest_id=13))
    await arrive(store, 11, "Late tide clock")  # ids become items out of order
    await telling.run_once(status(newest_id=13))
    assert [(heard.kind, heard.name) for heard in owner.heard] == [("item", "12"), ("item", "11")]


async def test_a_character_that_does_not_exist_ends_no_search_for_words() -> None:
    store, owner = MemoryStore(), Owner()
    telling = notifier(store, owner, search="tide")
    await telling.run_once(status(newest_id=10))
    await arrive(store, 11, f"&#{'1' * 5_000}; tide")
    await telling.run_once(status(newest_id=11))
    assert [heard.name for heard in owner.heard] == ["11"]


async def test_items_of_a_listed_source_are_never_looked_through() -> None:
    store, owner = MemoryStore(), Owner()
    telling = notifier(store, owner, search="secret")
    await telling.run_once(status(kind="listed"))
    await arrive(store, 11, "secret")
    await telling.run_once(status(newest_id=11, kind="listed"))
    assert owner.heard == []


async def test_a_flood_is_cut_off_and_a_missing_command_harms_nobody() -> None:
    store, owner = MemoryStore(), Owner()
    telling = notifier(store, owner, search="flood")
    await telling.run_once(status(newest_id=10))
    for item_id in range(11, 11 + 2 * PER_HOUR_MAX):
        await arrive(store, item_id, "flood")
    await telling.run_once(status(newest_id=10 + 2 * PER_HOUR_MAX))
    assert len(owner.heard) == PER_HOUR_MAX
    await telling.run_once(status(newest_id=10 + 2 * PER_HOUR_MAX, dead=1))
    assert owner.heard[-1].name == "RemoraDeadLetters"  # a flood of items silences no alarm
    assert await notifier(store, Owner(deaf=True)).run_once(status(dead=1)) == 0


class SometimesAway(MemoryStore):
    """A store whose bodies cannot always be read to the end."""

    is_away = False

    async def bodies(
        self, source: str, *, first_id: int = 1, last_id: int | None = None
    ) -> AsyncIterator[tuple[int, bytes]]:
        async for each in super().bodies(source, first_id=first_id, last_id=last_id):
            yield each
        if self.is_away:
            raise StoreUnavailable("the database is away", hint="wait")


async def test_an_alarm_and_an_item_are_told_although_the_store_fails_while_items_are_looked_for() -> None:
    store, owner = SometimesAway(), Owner()
    telling = notifier(store, owner, search="tide")
    await telling.run_once(status(newest_id=10))
    await arrive(store, 11, "tide")
    store.is_away = True
    await telling.run_once(status(newest_id=11, dead=3))
    assert [heard.name for heard in owner.heard] == ["RemoraDeadLetters"]
    store.is_away = False
    await telling.run_once(status(newest_id=11, dead=3))
    assert [heard.name for heard in owner.heard] == ["RemoraDeadLetters", "11"]


def test_a_store_that_does_not_answer_for_long_is_told_and_that_it_answers_again() -> None:
    async def main(clock: SimClock) -> None:
        owner = Owner()
        telling = Notifier(
            NotifySettings("tell-me", sources=("one",)), MemoryStore(), clock=clock, tell=owner.tell, environ={}
        )
        assert await telling.unanswered("PostgreSQL cannot be reached") == 0
        await clock.sleep_until(clock.monotonic_ns() + SILENCE_TOLD_AFTER_NS - 1)
        assert await telling.unanswered("PostgreSQL cannot be reached") == 0
        await clock.sleep_until(clock.monotonic_ns() + 1)
        assert await telling.unanswered("PostgreSQL cannot be reached") == 1
        assert await telling.unanswered("PostgreSQL cannot be reached") == 0
        assert await telling.run_once(status()) == 1
        assert await telling.run_once(status()) == 0
        assert await telling.unanswered("PostgreSQL cannot be reached") == 0  # it counts from the beginning again
        assert [(notice.name, notice.state) for notice in owner.heard] == [
            ("RemoraUnknown", "firing"),
            ("RemoraUnknown", "cleared"),
        ]
        assert owner.heard[0].text == "nothing is known of any source: PostgreSQL cannot be reached"

    run(main)


class KeepsNothing(MemoryStore):
    """A store that can be read and not written, as a database that became read-only or whose disk is full."""

    is_full = False

    async def swap_note(self, source: str, name: str, *, old: Json, new: Json) -> bool:
        if self.is_full:
            raise StoreUnavailable("PostgreSQL's disk is full", hint="make room")
        return await super().swap_note(source, name, old=old, new=new)


def test_a_store_that_answers_and_keeps_no_heartbeat_for_long_is_told_once_and_that_it_keeps_them_again() -> None:
    async def main(clock: SimClock) -> None:
        store, owner = KeepsNothing(), Owner()
        telling = Notifier(NotifySettings("tell-me"), store, clock=clock, tell=owner.tell, environ={})
        assert await telling.run_once(status()) == 0
        store.is_full = True
        silent = status(beat_at_ns=NOW_NS - MINUTE_NS)
        assert await telling.run_once(silent) == 0
        await clock.sleep_until(clock.monotonic_ns() + SILENCE_TOLD_AFTER_NS)
        assert await telling.run_once(silent) == 1
        assert await telling.run_once(silent) == 0
        store.is_full = False
        assert await telling.run_once(status()) == 1
        assert [(notice.name, notice.state) for notice in owner.heard] == [
            ("RemoraUnknown", "firing"),
            ("RemoraUnknown", "cleared"),
        ]
        assert owner.heard[0].text.startswith("nothing is known of any source: no heartbeat from the service since")

    run(main)


def test_an_alarm_that_no_channel_could_deliver_is_told_later_if_it_still_lasts() -> None:
    async def main(clock: SimClock) -> None:
        owner = Owner(deaf=True)
        telling = Notifier(NotifySettings("tell-me"), MemoryStore(), clock=clock, tell=owner.tell, environ={})
        assert await telling.run_once(status(dead=3)) == 0
        owner.deaf = False
        assert await telling.run_once(status(dead=3)) == 0  # not every two seconds
        await clock.sleep_until(clock.monotonic_ns() + AGAIN_NS)
        assert await telling.run_once(status(dead=3)) == 1
        assert await telling.run_once(status(dead=3)) == 0
        owner.deaf = True
        await clock.sleep_until(clock.monotonic_ns() + CLEAR_NS)
        assert await telling.run_once(status()) == 0
        owner.deaf = False
        await clock.sleep_until(clock.monotonic_ns() + AGAIN_NS)
        assert await telling.run_once(status()) == 1
        assert [notice.state for notice in owner.heard] == ["firing", "cleared"]

    run(main)


def test_an_alarm_that_began_and_ended_while_no_channel_worked_is_never_told() -> None:
    async def main(clock: SimClock) -> None:
        owner = Owner(deaf=True)
        telling = Notifier(NotifySettings("tell-me"), MemoryStore(), clock=clock, tell=owner.tell, environ={})
        await telling.run_once(status(dead=3))
        await clock.sleep_until(clock.monotonic_ns() + CLEAR_NS)
        owner.deaf = False
        for _ in range(3):
            assert await telling.run_once(status()) == 0
            await clock.sleep_until(clock.monotonic_ns() + AGAIN_NS)
        assert owner.heard == []

    run(main)


async def test_the_command_hears_the_notice_and_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATS_TOKEN", "s3cr3t-token")
    heard = tmp_path / "heard.txt"
    assert await run_command((sys.executable, "-c", WRITE_DOWN, str(heard)), NOTICE) is None
    text = heard.read_text()
    assert json.loads(text.splitlines()[0])["name"] == "RemoraDeadLetters"
    assert "'REMORA_STATE': 'firing'" in text
    assert "s3cr3t-token" not in text
    assert "CHATS_TOKEN" in os.environ


async def test_the_command_may_call_remora(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.db"
    store = SqliteStore(mirror)
    await store.open()
    await store.close()
    assert await run_command((sys.executable, "-m", "remora", "gaps", "--store", f"sqlite:///{mirror}"), NOTICE) is None


async def test_words_that_no_variable_can_hold_reach_the_command_too(tmp_path: Path) -> None:
    heard = tmp_path / "heard.txt"
    notice = msgspec.structs.replace(NOTICE, text="tide\0clock")
    assert await run_command((sys.executable, "-c", WRITE_DOWN, str(heard)), notice) is None
    assert "'REMORA_TEXT': 'tide\N{REPLACEMENT CHARACTER}clock'" in heard.read_text()


async def test_a_command_that_fails_is_told_apart_from_one_that_works() -> None:
    assert await run_command((sys.executable, "-c", "raise SystemExit(3)"), NOTICE) == "it ended with code 3"


def test_the_owner_writes_one_line_and_nobody_is_told_by_default(tmp_path: Path) -> None:
    assert load(Flags(), {}, directory=tmp_path).notify.command is None
    (tmp_path / "remora.toml").write_text('[notify]\ncommand = "curl https://hook.example/s3cr3t"\n')
    settings = load(Flags(), {}, directory=tmp_path)
    assert settings.notify.command == "curl https://hook.example/s3cr3t"
    assert "s3cr3t" not in repr(settings)
