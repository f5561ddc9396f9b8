"""What is the last thing a dying process says? One line with the reason, and a documented exit code."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remora.stores.sqlite import SqliteStore
from tests.operate.small_mirror import fill
from tests.processes import Remora, simulated_provider

pytestmark = pytest.mark.slow

WAIT_S = 120  # only guards against a process that hangs
BUG = """
import asyncio, click
from remora.operate.cli.main import RemoraGroup
from remora.operate.jobs.stopping import run_job

@click.group(cls=RemoraGroup)
def main(): pass

async def breaks():
    raise ZeroDivisionError("https://ada:s3cret@host/?key=s3cret")

async def job():
    async with asyncio.TaskGroup() as group:
        group.create_task(breaks())

async def leaves_an_error_behind():
    async def unread():
        raise KeyError("nobody reads this")
    leftover = asyncio.get_running_loop().create_task(unread())
    await asyncio.sleep(0)
    raise ZeroDivisionError

@main.command()
def broken():
    run_job(job())

@main.command()
def untidy():
    run_job(leaves_an_error_behind())

main(prog_name="remora")
"""


def ended(*words: str, folder: Path, stdout: str = os.devnull) -> "subprocess.CompletedProcess[str]":
    with Path(stdout).open("w") as out:
        return subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
        )


def small_mirror(path: Path) -> None:
    async def filled() -> None:
        store = SqliteStore(path)
        await store.open()
        await fill(store, now_ns=time.time_ns())
        await store.close()

    asyncio.run(filled())


def last_line(stderr: str) -> str:
    return stderr.rstrip("\n").rpartition("\n")[2]


def last_message(stderr: str) -> str:
    """The sentence at the end of a service's log. Every line before it is JSON, too."""
    events = [json.loads(line) for line in stderr.splitlines()]
    message: str = events[-1]["message"]
    return message


@contextmanager
def running_service(folder: Path, *before: str) -> Iterator["subprocess.Popen[str]"]:
    """A `remora up` on a simulated provider whose console is open."""
    with simulated_provider(items=300, speed=60) as provider:
        Remora(folder, provider, ceiling="50/s")
        words = [*before, sys.executable, "-m", "remora", "up", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            while "the console is at" not in (line := process.stderr.readline()):
                assert line, "the service ended before its console opened"
            yield process
        finally:
            process.kill()
            process.communicate(timeout=WAIT_S)


def refuse_every_write(path: Path) -> None:
    """A fault of the store that does not pass: every insert and update is refused, except of heartbeats."""
    connection = sqlite3.connect(path, timeout=WAIT_S)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if table.startswith("sqlite_") or table == "heartbeat":
            continue
        for change in ("INSERT", "UPDATE"):
            connection.execute(
                f"CREATE TRIGGER planted_{table}_{change} BEFORE {change} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'the planted fault'); END"
            )
    connection.commit()
    connection.close()


def test_a_service_whose_loop_fails_for_good_ends_with_the_reason_in_its_last_line(tmp_path: Path) -> None:
    with running_service(tmp_path) as process:
        refuse_every_write(tmp_path / "remora.db")
        _, stderr = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert last_message(stderr) == "remora: this cannot be stored: the planted fault; it stays owed; please report it"
    assert '"event": "loop_failed"' in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_service_that_is_told_to_stop_drains_says_so_and_ends_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with running_service(tmp_path) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, stderr
    assert last_message(stderr) == "stopped on request; the next start resumes here"


def test_nohup_keeps_a_service_alive_through_a_hangup(tmp_path: Path) -> None:
    with running_service(tmp_path, "nohup") as process:
        facts = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        ignored = next(int(line.split()[1], 16) for line in facts if line.startswith("SigIgn:"))
    assert ignored & 1 << signal.SIGHUP - 1


def test_a_service_drains_when_its_terminal_is_closed(tmp_path: Path) -> None:
    with simulated_provider(items=300) as provider:
        Remora(tmp_path, provider, ceiling="50/s")
        ours, theirs = os.openpty()
        words = [sys.executable, "-m", "remora", "up", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            words, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        try:
            shown = b""
            while b"the console is at" not in shown:
                shown += os.read(ours, 4096)
            os.close(ours)
            process.send_signal(signal.SIGHUP)
            assert process.wait(timeout=WAIT_S) == 0
        finally:
            process.kill()
            process.wait(timeout=WAIT_S)
    status = ended("-m", "remora", "status", folder=tmp_path, stdout=str(tmp_path / "status.txt"))
    assert status.returncode == 0
    assert "stopped on request" in (tmp_path / "status.txt").read_text()


def test_a_bug_is_logged_and_named_in_the_last_line_without_its_text(tmp_path: Path) -> None:
    result = ended("-c", BUG, "broken", folder=tmp_path)
    assert result.returncode == 1
    assert last_line(result.stderr).startswith("remora: stopped by a bug (ZeroDivisionError at remora/operate/")
    assert "please report the traceback above" in last_line(result.stderr)
    assert "stopped by a bug  error=ZeroDivisionError" in result.stderr
    assert "in breaks" in result.stderr
    assert "s3cret" not in result.stderr


def test_nothing_is_printed_after_the_last_line(tmp_path: Path) -> None:
    result = ended("-c", BUG, "untidy", folder=tmp_path)
    assert "KeyError" in result.stderr
    assert last_line(result.stderr).startswith("remora: stopped by a bug")


@pytest.mark.parametrize(
    "words", [("export",), ("status",), ("status", "--json"), ("gaps", "--json"), ("show", "1"), ("--help",)]
)
def test_an_output_that_is_full_is_one_sentence_and_exit_code_1(tmp_path: Path, words: tuple[str, ...]) -> None:
    small_mirror(tmp_path / "remora.db")
    result = ended("-m", "remora", *words, folder=tmp_path, stdout="/dev/full")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "remora: the output cannot be written (No space left on device); free some space or write elsewhere"
    )


def without_stdout(words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    shell = f"{sys.executable} -m remora {words} >&-"
    return subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.parametrize(
    "words", ["export", "export --format csv", "show 1", "query 'SELECT 1'", "changes --reader ada"]
)
def test_a_closed_output_is_one_sentence_and_exit_code_1(tmp_path: Path, words: str) -> None:
    small_mirror(tmp_path / "remora.db")
    result = without_stdout(words, tmp_path)
    assert (result.returncode, result.stderr.strip()) == (
        1,
        "remora: the output cannot be written (Bad file descriptor); free some space or write elsewhere",
    )


def test_a_reader_whose_output_is_closed_has_read_nothing(tmp_path: Path) -> None:
    small_mirror(tmp_path / "remora.db")
    without_stdout("changes --reader ada", tmp_path)
    readers = tmp_path / "readers.txt"
    ended("-m", "remora", "changes", "--readers", folder=tmp_path, stdout=str(readers))
    assert readers.read_text() == "ada  0  never\n"


def test_a_refusal_without_an_output_is_still_two_lines(tmp_path: Path) -> None:
    refused = without_stdout("show 1", tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 2), refused.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    small_mirror(tmp_path / "remora.db")
    shell = f"{sys.executable} -m remora export | true"
    result = subprocess.run(
        ["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert result.stderr in {"", "8 written\n"}
