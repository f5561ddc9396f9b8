"""Does a command start without what it does not need?"""

import subprocess
import sys
from importlib.metadata import version

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


def test_the_installed_package_has_the_version_that_is_written() -> None:
    assert version("remora") == __version__


def test_the_list_of_commands_says_each_in_a_whole_sentence() -> None:
    for words in (["--help"], ["store", "--help"]):
        assert "..." not in CliRunner().invoke(main, words, terminal_width=80).stdout.replace("[ARGS]...", "")
