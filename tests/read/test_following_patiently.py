"""Does whoever follows until Ctrl-C go on after a store that did not answer for a while, without losing or repeating?"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from remora.contracts import Store
from remora.contracts.reader import Change
from remora.core.errors import StoreForeign, StoreUnavailable
from remora.operate.jobs.following import NamedFeed, Patience
from remora.operate.jobs.keeping import housekeeping
from remora.operate.jobs.lake_following import follow_into
from remora.read.export import Wanted
from remora.read.mirror import MirrorReader
from remora.stores.sqlite import database
from tests.contract.answers import SOURCE, at
from tests.read.conftest import item, keep


class Interrupted(MirrorReader):
    """A mirror whose store does not answer at the beginning, or after a page, as often as it is said."""

    def __init__(self, url: str, *away: str) -> None:
        super().__init__(url)
        self.away = list(away)

    async def change_pages(self, *, since: str = "0", follow: bool = False) -> AsyncGenerator[Sequence[Change]]:
        self._fail("at the beginning")
        async for page in super().change_pages(since=since, follow=follow):
            yield page
            self._fail("after a page")

    def _fail(self, place: str) -> None:
        if self.away[:1] == [""]:  # it answers once
            del self.away[0]
        elif self.away[:1] == [place]:
            del self.away[0]
            raise StoreUnavailable("the server starts again", hint="wait")


class Waits:
    """Notes what is told, and does something instead of waiting."""

    def __init__(self, *meanwhile: object) -> None:
        self.told: list[str] = []
        self.waits = 0
        self._meanwhile = list(meanwhile)

    async def wait(self, _seconds: float) -> None:
        self.waits += 1
        if self._meanwhile and callable(act := self._meanwhile.pop(0)):
            act()

    def patience(self) -> Patience:
        return Patience(self.told.append, wait=self.wait)


async def test_a_follower_gets_every_change_once_although_the_store_is_away_between_them(
    store: Store, mirror: MirrorReader, url: str
) -> None:
    every, waits = [change async for change in mirror.changes()], Waits()
    read: list[Change] = []
    async with (
        Interrupted(url, "at the beginning", "after a page") as interrupted,
        aclosing(waits.patience().pages(interrupted, since="0")) as pages,
    ):
        async for page in pages:
            read += page
            if page[-1].key == "50":
                break
            await keep(store, item(50), at_s=8)
    assert [change.key for change in read] == [*(change.key for change in every), "50"]
    assert (waits.waits, len(waits.told)) == (2, 2)


async def test_every_outage_is_told_also_if_nothing_changed_between_them(mirror: MirrorReader, url: str) -> None:
    newest, third = await mirror.newest_position(), asyncio.Event()
    waits = Waits(None, None, third.set)
    away = ["at the beginning", "at the beginning", "", "at the beginning"]
    async with (
        Interrupted(url, *away) as interrupted,
        aclosing(waits.patience().pages(interrupted, since=newest)) as pages,
    ):
        reading = asyncio.ensure_future(anext(pages))
        async with asyncio.timeout(30):
            await third.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert (waits.waits, len(waits.told)) == (3, 2)


async def test_what_waiting_does_not_mend_ends_a_follower(url: str) -> None:
    async def refused() -> None:
        raise StoreForeign("not ours", hint="name another")

    with pytest.raises(StoreForeign):
        await Waits().patience().with_answer(refused)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_named_reader_remembers_its_position_when_another_program_lets_the_file_go(
    store: Store, mirror: MirrorReader, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 1)
    newest = await mirror.newest_position()
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waits = Waits(None, lambda: other.execute("ROLLBACK"))
        async with NamedFeed(url, "lake", patience=waits.patience()) as feed:
            await feed.done(newest, now_ns=at(9))
    assert len(waits.told) == 1
    async with housekeeping(url) as keeping:
        assert [reader.position for reader in await keeping.named_readers()] == [newest]


async def test_a_followed_folder_goes_on_after_the_store_was_away(store: Store, url: str, tmp_path: Path) -> None:
    wanted, waits = Wanted(SOURCE, is_listed=False), Waits()

    async def follow(mirror: MirrorReader) -> int:
        folder, patience = tmp_path / "lake", waits.patience()
        return await follow_into(mirror, url, wanted, folder, tell=lambda _: None, patience=patience, once=True)

    async with Interrupted(url) as interrupted:
        await follow(interrupted)
        await keep(store, item(60), at_s=20)
        interrupted.away = ["at the beginning", "after a page"]
        assert await follow(interrupted) == 1
    assert waits.waits == 2
