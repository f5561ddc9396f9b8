"""How does a command end on a signal that comes before it has begun? As later: with its exit code and no traceback."""

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from remora.__main__ import FETCHING
from remora.operate.cli.commands import Commands
from tests.processes import WAIT_S

pytestmark = pytest.mark.slow

# Sends itself the signal when it begins to load a module. Signals are as a fresh login shell leaves them.
EARLY = """
import os, signal, sys
number, place, *words = sys.argv[1:]
for each in (signal.SIGTERM, signal.SIGHUP): signal.signal(each, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == place:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Finder())
sys.argv = ["remora", *words]
from remora.__main__ import main
main()
"""
# From the first module of the program to one that is loaded by the event loop.
PLACES = (
    "click",
    "remora.operate.cli.collecting",
    "remora.operate.config.reader",
    "asyncio",
    "remora.operate.jobs.app",
)
CONFIG = '[sources.hackernews]\nurl = "http://127.0.0.1:1"\nceiling = "1/s"\n'


def signalled(number: signal.Signals, place: str, *words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "remora.toml").write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-c", EARLY, str(int(number)), place, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_before_it_fetches_ends_a_command_with_0(number: signal.Signals, place: str, tmp_path: Path) -> None:
    ended = signalled(number, place, "catchup", folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not (tmp_path / "remora.db").exists()


@pytest.mark.parametrize("command", sorted(FETCHING - {"catchup"}))
def test_every_command_that_fetches_ends_so(command: str, tmp_path: Path) -> None:
    ended = signalled(signal.SIGTERM, "click", command, folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_fetches_is_what_takes_the_options_of_a_log() -> None:
    def logs(command: click.Command) -> bool:
        return any("--log-level" in parameter.opts for parameter in command.params)

    assert {name for name, command in Commands().items() if logs(command)} == FETCHING


def test_a_hangup_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    code = "import signal, sys; sys.argv = ['remora', 'up', '--help']; from remora.__main__ import main\n"
    code += "try: main()\nfinally: print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    words = ["nohup", sys.executable, "-c", code]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert ended.stdout.endswith("True\n")


@pytest.mark.parametrize("place", ["click", "remora.operate.cli.export"])
def test_ctrl_c_before_a_command_that_only_reads_is_one_word_and_no_success(place: str, tmp_path: Path) -> None:
    ended = signalled(signal.SIGINT, place, "export", folder=tmp_path)
    assert (ended.returncode, ended.stderr.strip()) == (1, "Aborted!")


def test_an_export_that_is_terminated_early_has_not_succeeded(tmp_path: Path) -> None:
    assert signalled(signal.SIGTERM, "click", "export", folder=tmp_path).returncode == -signal.SIGTERM
