"""Does a run keep its promises on PostgreSQL too? Budgets, gaps, the backlog and a kill, as real processes."""

import asyncio
import json
import time
from pathlib import Path

import psycopg
import pytest
from aiohttp import ClientSession

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.console.actions import OWN_HEADER
from remora.operate.jobs.app import serve
from remora.operate.jobs.progress import SilentView
from remora.stores.postgres import PostgresStore
from tests.integration.listed_server import TOKEN, ListedProcess, loopback_archive
from tests.warm_start import learned_pace

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


async def test_a_budget_a_kill_and_a_refused_detail_leave_a_complete_mirror_in_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    with loopback_archive(30) as archive:
        remora = ListedProcess(tmp_path, archive)
        words = ("run", "chats", "--store", postgres_url)
        store = PostgresStore(postgres_url)
        await store.open()
        await store.save_pace("chats", learned_pace(20))
        archive.spoiled = {archive.keys[20]: (404, b"{}")}

        capped = remora(*words, "--max-fetches", "16", "--json")
        assert capped.returncode == 75, capped.stderr
        assert json.loads(capped.stdout.splitlines()[-1])["stopped_by"] == "max_fetches"
        kinds = {gap.kind: gap.reason for gap in await store.gaps("chats", state=GapState.OWED)}
        assert kinds == {Kind.PAGE: "max_fetches", Kind.DOCUMENT: "not_found"}

        process = remora.start(*words, into=tmp_path / "out.txt")
        asked, until = len(archive.asked), time.monotonic() + 240
        while len(archive.asked) < asked + 3 and process.poll() is None:
            assert time.monotonic() < until, "no request came"
            await asyncio.sleep(0.01)
        process.kill()
        process.wait(timeout=240)
        let_the_right_end(postgres_url)

        done = remora(*words)
        assert done.returncode == 0, done.stderr
        held = {document.key: document.body async for document in store.documents("chats")}
        assert held == {key: archive.body(key) for key in archive.keys if key != archive.keys[20]}
        assert [gap.kind for gap in await store.gaps("chats")] == [Kind.DOCUMENT], "the backlog is settled"
        assert archive.requests("detail").total() <= 30 + 1
        await store.close()


def let_the_right_end(url: str) -> None:
    """As if the seconds had passed for which a dead process keeps the right to run alone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE singletons SET lease_until_ns = 0")


async def test_two_runs_of_one_source_never_overlap_and_the_second_says_why(tmp_path: Path, postgres_url: str) -> None:
    with loopback_archive(2_000) as archive:  # far more than the first run can fetch while the second one waits
        remora = ListedProcess(tmp_path, archive)
        words = ("run", "chats", "--store", postgres_url)
        first = remora.start(*words, into=tmp_path / "out.txt")
        try:
            until = time.monotonic() + 240
            while len(archive.asked) < 2 and first.poll() is None:
                assert time.monotonic() < until, "no request came"
                await asyncio.sleep(0.05)
            second = remora(*words)
            assert second.returncode == 1
            assert "another process runs chats" in second.stderr
        finally:
            first.terminate()
            first.wait(timeout=240)


class Console(SilentView):
    """Where the console of a service is, once it is open."""

    def __init__(self) -> None:
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def say(self, text: str) -> None:
        _, found, rest = text.partition("the console is at ")
        if found:
            self.url.set_result(rest.partition(";")[0])


async def test_a_run_is_begun_by_the_process_that_runs_the_source_and_refused_by_one_that_stands_by(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATS_TOKEN", TOKEN)
    with loopback_archive(2) as archive:
        ListedProcess(tmp_path, archive)
        settings = load(Flags(store=postgres_url, listen="127.0.0.1:0"), {}, directory=tmp_path)
        store = PostgresStore(postgres_url)
        await store.open()
        services, answers = [], []
        try:
            async with ClientSession(headers={OWN_HEADER: "1"}) as browser, asyncio.timeout(240):
                for _ in range(2):
                    console = Console()
                    serving = serve(settings, demo=False, catchup=False, view=console)
                    services.append(asyncio.ensure_future(serving))
                    url = await console.url
                    has_run = False
                    while not has_run:
                        await asyncio.sleep(0.05)
                        has_run = any(run.ended_ns for run in await store.runs("chats", limit=1))
                    async with browser.post(f"{url}/api/sources/chats/run") as answer:
                        answers.append(await answer.text())
        finally:
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            await store.close()
        assert "a run of chats begins now" in answers[0]
        assert "another process sends for chats" in answers[1]
