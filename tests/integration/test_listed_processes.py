"""Does `remora run` keep its promises as a real process: exit codes, kills, and the learned pace across restarts?"""

import asyncio
import json
import random
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from remora.core.units import HOUR_NS
from tests.integration.listed_server import ListedProcess, LoopbackArchive, loopback_archive

pytestmark = pytest.mark.slow


async def test_one_run_collects_the_whole_archive_and_says_so(tmp_path: Path) -> None:
    with loopback_archive(35) as archive:
        remora = ListedProcess(tmp_path, archive)
        await remora.warm_up(20)
        done = remora("run", "chats", "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout.splitlines()[-1])
        assert (report["stopped_by"], report["owed"], report["counts"]["new"]) == ("complete", 0, 35)
        assert remora.documents() == {key: archive.body(key) for key in archive.keys}


async def test_a_used_up_budget_ends_with_75_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with loopback_archive(35) as archive:
        remora = ListedProcess(tmp_path, archive)
        await remora.warm_up(20)
        capped = remora("run", "chats", "--max-fetches", "20")
        assert capped.returncode == 75, capped.stderr
        assert "all 20 requests that the run may send are sent" in capped.stdout
        assert len(archive.asked) == 20
        assert remora("run", "chats").returncode == 0
        assert len(remora.documents()) == 35
        assert set(archive.requests("detail").values()) == {1}


def test_a_refused_list_ends_with_1_and_says_why(tmp_path: Path) -> None:
    with loopback_archive(5) as archive:
        remora = ListedProcess(tmp_path, archive)
        refused = remora("run", "chats", token="another")
        assert refused.returncode == 1
        assert "the provider refuses the list (unauthorized)" in refused.stdout


async def test_a_verification_that_is_refused_or_not_answered_ends_with_1_and_says_why(tmp_path: Path) -> None:
    with loopback_archive(8) as archive:
        remora = ListedProcess(tmp_path, archive)
        await remora.warm_up(20)
        assert remora("run", "chats").returncode == 0
        refused = remora("verify", "--source", "chats", token="another")
        assert refused.returncode == 1
        assert "5 requests in a row were refused" in refused.stderr.splitlines()[-1]
        archive.spoiled = dict.fromkeys(archive.keys[1:], (404, b"")) | {archive.keys[0]: (200, b"[]")}
        assert remora("verify", "--source", "chats").returncode == 0
        archive.spoiled = dict.fromkeys(archive.keys, (200, b"[]"))
        unread = remora("verify", "--source", "chats")
        assert unread.returncode == 1
        assert "no request was answered" in unread.stderr.splitlines()[-1]


async def test_processes_that_are_killed_again_and_again_repeat_one_page_and_one_detail_each(tmp_path: Path) -> None:
    with loopback_archive(120) as archive:
        remora = ListedProcess(tmp_path, archive, ceiling="50/s")
        await remora.warm_up(50)
        chance, kills = random.Random(5), 0
        while kills < 4:
            process = remora.start("run", "chats", into=tmp_path / "out.txt")
            wait_for_a_request(archive, process, after=len(archive.asked))
            await asyncio.sleep(chance.uniform(0.05, 1.0))
            if process.poll() is not None:
                break
            process.kill()
            process.wait(timeout=240)
            kills += 1
        assert kills >= 3
        done = remora("run", "chats")
        assert done.returncode == 0, done.stderr
        assert remora.documents() == {key: archive.body(key) for key in archive.keys}
        assert archive.requests("detail").total() <= 120 + kills


def test_a_fresh_resume_restores_the_prior_runs_learned_interval(tmp_path: Path) -> None:
    with loopback_archive(9) as archive:
        remora = ListedProcess(tmp_path, archive)
        assert remora("run", "chats", "--max-fetches", "6").returncode == 75
        learned = stored_pace(remora)
        assert learned["rate_per_s"] > 1.0, "faster than the cold start of one per second"
        again = remora("run", "chats", "--log-format", "json")
        assert again.returncode == 0
        restored = event(again.stderr, "pace_restored")
        assert restored["how"] == "warm"
        assert restored["rate_per_s"] == pytest.approx(learned["rate_per_s"], rel=0.01)
        slower = remora("run", "chats", "--ceiling", "1/s", "--max-fetches", "1", "--log-format", "json")
        assert event(slower.stderr, "pace_restored")["rate_per_s"] == 1.0, "never faster than the ceiling"


def test_a_stale_resume_falls_back_to_the_cold_discovery_interval(tmp_path: Path) -> None:
    with loopback_archive(9) as archive:
        remora = ListedProcess(tmp_path, archive)
        remora("run", "chats", "--max-fetches", "6")
        assert stored_pace(remora)["rate_per_s"] > 1.0
        age_the_pace(remora, 7 * HOUR_NS)
        again = remora("run", "chats", "--max-fetches", "1", "--log-format", "json")
        restored = event(again.stderr, "pace_restored")
        assert (restored["how"], restored["rate_per_s"]) == ("cold_stale", 1.0)


def wait_for_a_request(archive: LoopbackArchive, process: "subprocess.Popen[bytes]", *, after: int) -> None:
    until = time.monotonic() + 240
    while len(archive.asked) <= after and process.poll() is None:
        assert time.monotonic() < until, "no request came"
        time.sleep(0.01)


def event(log: str, name: str) -> dict[str, Any]:
    """The first event of this name in a log of one JSON object per line."""
    for line in log.splitlines():
        if line.startswith("{"):
            fields: dict[str, Any] = json.loads(line)
            if fields.get("event") == name:
                return fields
    raise AssertionError(f"no {name} in:\n{log}")


def stored_pace(remora: ListedProcess) -> dict[str, Any]:
    ((_, record, *_),) = remora.rows("pace")
    pace: dict[str, Any] = json.loads(record)["pace"]
    return pace


def age_the_pace(remora: ListedProcess, by_ns: int) -> None:
    """As if the machine had stood still for a while since the last run."""
    ((_, record, *_),) = remora.rows("pace")
    fields = json.loads(record)
    fields["pace"]["learned_at_wall_ns"] -= by_ns
    fields["saved_at_wall_ns"] -= by_ns
    with closing(sqlite3.connect(remora.store)) as connection, connection:
        connection.execute("UPDATE pace SET record = ?", (json.dumps(fields),))
