"""How are the commands of a page run? From a folder of its own, in order, against a simulated provider."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from remora.operate.cli.main import main
from tests.docs_reader import Page
from tests.operate.command_line import CommandLine

WAIT_S = 240  # only guards against a process that hangs
SIZE = re.compile(r"[\d.]+ [kMG]B")
# The same command on a smaller scale.
SMALLER = {"--sample 10000": "--sample 5"}


@dataclass(frozen=True)
class Shown:
    """A command of a page, and what the page prints below it."""

    line: str
    output: tuple[str, ...]


def shown_commands(page: Page) -> list[Shown]:
    """The commands of the page's blocks for a shell. A line that continues another one is part of its output."""
    found: list[Shown] = []
    for block in page.blocks("console", "sh", "bash", "shell"):
        is_prompted = any(line.startswith(("$ ", "# ")) for line in block.splitlines())
        for line in block.splitlines():
            if line.startswith(("$ ", "# ")) or not is_prompted:
                found.append(Shown(line.removeprefix("$ "), ()))
            elif line.strip():
                found[-1] = Shown(found[-1].line, (*found[-1].output, line))
    return found


@dataclass(frozen=True)
class Provider:
    """`remora simulate` in a process of its own."""

    origin: str


@contextmanager
def simulated(*words: str) -> Iterator[Provider]:
    process = subprocess.Popen(
        [sys.executable, "-m", "remora", "simulate", "--port", "0", "--speed", "0", "--json", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url: str = json.loads(process.stdout.readline())["url"]
        yield Provider(url.removesuffix("/v0"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)


class DocsSession:
    """A person who types what a page shows."""

    def __init__(self, folder: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
        self._provider = provider
        self._monkeypatch = monkeypatch
        self._remora = CommandLine(folder)
        monkeypatch.chdir(folder)

    def type(self, shown: Shown) -> None:
        """Run one command and compare what it prints with what the page shows."""
        line = shown.line.replace("http://127.0.0.1:8612", self._provider.origin)
        for large, small in SMALLER.items():
            line = line.replace(large, small)
        first, *words = shlex.split(line)
        if first == "export":
            self._monkeypatch.setenv(*words[0].split("=", 1))
            return
        assert first == "remora", f"{shown.line}: say in NOT_RUN why no test runs it"
        if words[0] == "simulate":  # the provider runs already, at a port of its own
            main.commands["simulate"].make_context("simulate", words[1:])
        elif words[0] == "up":
            self._start_and_stop(words)
        else:
            self._run(shown, words)

    def _run(self, shown: Shown, words: list[str]) -> None:
        expanded = [
            name for word in words for name in (sorted(map(str, Path().glob(word))) if "*.p" in word else [word])
        ]
        result = self._remora(*expanded)
        refuses = any(line.startswith("remora: ") for line in shown.output)
        assert result.exit_code == (2 if refuses else 0), (shown.line, result.output)
        if words[0] in {"search", "show", "export"} or refuses:
            printed = SIZE.sub("SIZE", result.output)
            for line in shown.output:
                assert SIZE.sub("SIZE", line.strip(" …")) in printed, (shown.line, result.output)
        if words[0] == "init" and "--list" not in words:
            self._fill_in_the_address()

    def _start_and_stop(self, words: list[str]) -> None:
        """A service, until its console is open."""
        command = [sys.executable, "-m", "remora", *words, "--listen", "127.0.0.1:0"]
        told: list[str] = []
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
            assert service.stderr is not None
            for line in service.stderr:
                told.append(line)
                if "the console is at" in line:
                    service.send_signal(signal.SIGINT)
        assert service.returncode == 0, told
        assert "stopped on request" in told[-1]

    def _fill_in_the_address(self) -> None:
        """As a person does who has an account at the simulated provider."""
        path = Path("remora.toml")
        text = path.read_text("utf-8").replace("https://archive.example/api", f"{self._provider.origin}/archive")
        numbered = "[sources.hackernews]\n"
        path.write_text(text.replace(numbered, f'{numbered}url = "{self._provider.origin}/v0"\n'), "utf-8")
