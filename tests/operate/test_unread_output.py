"""Does a process whose log nobody reads go on, end when it is told to, and say later what it left out?"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from remora.operate.observe import unread_output
from remora.operate.observe.log_format import LogFormat
from remora.operate.observe.logs import set_up_logs, write_line
from tests.full_disk import files_limited_to
from tests.processes import Remora, simulated_provider

WAIT_S = 120  # only guards against a process that hangs


@pytest.fixture(autouse=True)
def _restore_logs() -> object:
    yield
    structlog.reset_defaults()


@contextmanager
def pipe_without_room() -> Iterator[tuple[int, int]]:
    """A pipe that is full, as its reading and its writing end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b" " * 1_024)
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def read_all(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    parts: list[bytes] = []
    try:
        while part := os.read(descriptor, 65_536):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts).decode()


def test_what_a_full_disk_does_not_take_is_left_out_and_counted_and_every_line_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "remora.log").open("w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        set_up_logs(log_format=LogFormat.JSON)
        with files_limited_to(10):
            for number in range(5):
                structlog.get_logger().info("told", number=number)
        structlog.get_logger().info("told", number=5)
    lines = [json.loads(line) for line in (tmp_path / "remora.log").read_text().splitlines()]
    assert [(each["event"], each.get("number"), each.get("count")) for each in lines] == [
        ("told", 0, None),  # it was begun
        ("log_lines_left_out", None, 4),
        ("told", 5, None),
    ]


def test_what_nobody_reads_is_left_out_and_counted_and_every_line_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_output, "READER_MAX_S", 0.0)
    with pipe_without_room() as (reading, writing), open(writing, "w", closefd=False) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        set_up_logs(log_format=LogFormat.JSON)
        for number in range(5):
            structlog.get_logger().info("told", number=number)
        read_all(reading)
        structlog.get_logger().info("told", number=5, long="x" * 1_900)
        lines = [json.loads(line) for line in read_all(reading).splitlines()]
        write_line("a sentence")
        assert read_all(reading) == "a sentence\n"
    assert [(each["event"], each.get("number"), each.get("count")) for each in lines] == [
        ("told", 0, None),  # it was begun
        ("log_lines_left_out", None, 4),
        ("told", 5, None),
    ]


@pytest.mark.slow
def test_a_service_whose_log_nobody_reads_drains_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with simulated_provider(items=300, speed=60) as provider, pipe_without_room() as (_, writing):
        Remora(tmp_path, provider, ceiling="50/s")
        words = [sys.executable, "-m", "remora", "up", "--listen", "127.0.0.1:0", "--log-level", "debug"]
        process = subprocess.Popen(words, cwd=tmp_path, stdout=writing, stderr=writing)
        try:
            while provider.arrived() < 5:
                assert process.poll() is None, "the service ended by itself"
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=WAIT_S) == 0
        finally:
            process.kill()
            process.wait(timeout=WAIT_S)
