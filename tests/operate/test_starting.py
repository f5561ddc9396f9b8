"""Does a command start without what it does not need?"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from remora import __version__
from remora.operate.cli.main import main

# Each of these costs tens of milliseconds; none is needed to print a page of help.
HEAVY = ("aiohttp", "asyncio", "importlib.metadata", "msgspec", "prometheus_client", "rich", "sqlite3", "structlog")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['remora', '--help']; from remora.operate.cli.main import main\n"
        "try: main()\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr.strip() == "[]"
    assert "Usage: remora" in finished.stdout


# What only `up`, PostgreSQL, a plug-in, a listed source, an export or a search needs.
FOR_OTHERS = (
    "aiohttp",
    "difflib",
    "email.utils",
    "importlib.metadata",
    "importlib.resources",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "remora.contracts.browsing",
    "remora.contracts.search",
    "remora.loops.listed.run",
    "remora.operate.cli.setup",
    "remora.operate.cli.store",
    "remora.sources.listed",
    "statistics",
)
# Each module costs about a millisecond.
MODULES_MAX = {"--version": 120, "status": 386, "catchup": 448}


@pytest.mark.parametrize("command", MODULES_MAX)
@pytest.mark.slow
def test_a_command_imports_what_it_needs_and_not_much_else(command: str, tmp_path: Path) -> None:
    words = [command] if command.startswith("-") else [command, "--store", f"sqlite:///{tmp_path / 'mirror.db'}"]
    if command == "catchup":
        words += ["--url", "http://127.0.0.1:1", "--ceiling", "10/s", "--limit", "0"]
    code = f"import sys; sys.argv = {['remora', *words]}; sys.modules['rich'] = None\n"  # rich is here for tools only
    if command == "catchup":
        code += "import remora.operate.jobs.app, remora.operate.observe.logs\n"
    code += (
        "from remora.operate.cli.main import main\n"
        "try: main()\n"
        f"finally: print(len(sys.modules), [name for name in {FOR_OTHERS} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    count, _, names = finished.stderr.splitlines()[-1].partition(" ")
    assert names == "[]"
    assert int(count) <= MODULES_MAX[command]


@pytest.mark.parametrize("command", ["status", "catchup"])
@pytest.mark.slow
def test_garbage_is_collected_once_a_command_runs(command: str, tmp_path: Path) -> None:
    words = ["remora", command, "--store", f"sqlite:///{tmp_path / 'mirror.db'}"]
    if command == "catchup":
        words += ["--url", "http://127.0.0.1:1", "--ceiling", "10/s", "--limit", "1"]
    code = (
        f"import gc, signal, sys; sys.argv = {words}\n"
        "from remora.__main__ import main\n"
        "runs = lambda: gc.isenabled() and gc.get_freeze_count() > 0\n"
        "signal.signal(signal.SIGALRM, lambda *_: runs() and sys.exit())\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)\n"
        "try: main()\n"
        "finally: print(runs(), file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240)
    assert finished.stderr.splitlines()[-1] == "True"


def test_the_installed_package_has_the_version_that_is_written() -> None:
    assert version("remora") == __version__


def test_the_list_of_commands_says_each_in_a_whole_sentence() -> None:
    for words in (["--help"], ["store", "--help"]):
        assert "..." not in CliRunner().invoke(main, words, terminal_width=80).stdout.replace("[ARGS]...", "")


def test_work_that_is_run_again_and_again_leaves_no_garbage_behind_for_good() -> None:
    code = (
        "import gc; gc.disable(); from remora.operate.cli.common import run\n"
        "async def work():\n    loop = []; loop.append(loop)\n"
        "run(work()); kept = gc.get_freeze_count()\n"
        "for _ in range(20): run(work())\n"
        "print(gc.isenabled(), kept > 0, gc.get_freeze_count() <= kept)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["True", "True", "True"]
