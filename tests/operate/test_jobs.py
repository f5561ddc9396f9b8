"""Do the fetching commands keep their promises as real processes? Against the simulated provider on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WAIT_S = 240.0  # only guards against a process that hangs
ITEMS = 300


class Jobs:
    """`remora` as processes of their own, in one folder, with a provider to talk to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        self.url = str(
            json.loads(self.first_line(self.start("simulate", "--items", str(ITEMS), "--port", "0", "--json")))["url"]
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("REMORA_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "remora", *words],
            cwd=self.folder,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.running.append(process)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=WAIT_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def lines(self, text: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in text.splitlines()]

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_catchup_reports_to_machines_and_a_second_one_has_nothing_to_do(jobs: Jobs) -> None:
    words = ("catchup", "--url", jobs.url, "--ceiling", "20/s", "--start-id", "1", "--limit", "4", "--json")
    first, second = jobs.run(*words), jobs.run(*words)
    done = jobs.lines(first.stdout)[-1]
    assert (first.returncode, done["event"], done["fetched"], done["stopped"]) == (0, "done", 4, False)
    assert jobs.lines(second.stdout)[-1]["fetched"] == 0
    exported = jobs.run("export").stdout.splitlines()
    assert len(exported) == int(
        str(json.loads(jobs.run("status", "--json").stdout)["sources"]["hackernews"]["coverage"]["settled"])
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_catchup_and_what_it_stored_stays(jobs: Jobs, number: signal.Signals) -> None:
    words = ("catchup", "--url", jobs.url, "--ceiling", "4/s", "--json")
    process = jobs.start(*words)
    assert process.stdout is not None
    while json.loads(process.stdout.readline()).get("done", 0) == 0:
        pass
    process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0  # 1 if the drain took longer than ten seconds
    status = json.loads(jobs.run("status", "--json").stdout)["sources"]["hackernews"]
    assert status["coverage"]["settled"] >= 1
    assert status["state"] == "stopped"


def test_the_service_shows_itself_and_ends_cleanly(jobs: Jobs) -> None:
    service = jobs.start("up", "--url", jobs.url, "--ceiling", "20/s", "--listen", "127.0.0.1:0")
    deadline = time.monotonic() + WAIT_S
    state = ""
    while state != "running" and time.monotonic() < deadline:
        told = jobs.run("status", "--json")
        state = json.loads(told.stdout)["sources"]["hackernews"]["state"] if told.returncode == 0 else ""
    assert state == "running"
    service.send_signal(signal.SIGTERM)
    service.communicate(timeout=WAIT_S)
    assert service.returncode == 0
    assert json.loads(jobs.run("status", "--json").stdout)["sources"]["hackernews"]["state"] == "stopped"


def test_a_simulated_archive_can_be_run_over(jobs: Jobs) -> None:
    provider = jobs.start("simulate", "--conversations", "3", "--items", "1", "--speed", "0", "--port", "0", "--json")
    archive = json.loads(jobs.first_line(provider))["archive"]
    (jobs.folder / "token").write_text(archive["token"])
    (jobs.folder / "token").chmod(0o600)
    (jobs.folder / "remora.toml").write_text(
        f'[sources.chats]\nkind = "listed"\nurl = "{archive["url"]}"\nceiling = "20/s"\ntoken_file = "token"\n'
    )
    budget, whole = jobs.run("run", "chats", "--max-fetches", "1"), jobs.run("run", "chats", "--json")
    assert (budget.returncode, budget.stdout.splitlines()[0]) == (75, "not done yet; run it again to continue")
    done = jobs.lines(whole.stdout)[-1]
    assert done["stopped_by"] == "complete", whole.stdout
    stats = json.loads(jobs.run("store", "stats", "--json").stdout)
    assert stats["chats.documents"] == len(jobs.run("export").stdout.splitlines()) > 0
