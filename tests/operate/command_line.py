"""How do tests speak to `remora`? Through click's own runner, in a folder of their own, with an empty environment."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from remora.operate.cli.main import main
from tests.prepared_sqlite import prepare
from tests.read.conftest import fill


class CommandLine:
    """`remora` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str) -> Result:
        return CliRunner(env={"REMORA_CONFIG": ""}).invoke(main, words, prog_name="remora")

    def refused(self, *words: str) -> str:
        """What it says when it refuses: on stderr, without a trace, with exit code 2 and nothing written."""
        before = self._files()
        result = self(*words)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert self._files() == before
        return result.stderr

    def _files(self) -> list[str]:
        """What is in the folder, without what Python keeps of plug-ins in it."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != "__pycache__")


def command_line_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line whose working folder is this one."""
    monkeypatch.chdir(folder)
    return CommandLine(folder)


def with_mirror(remora: CommandLine) -> CommandLine:
    """The same command line, beside a small mirror with every kind of break."""
    prepare(remora.folder / "remora.db", fill)
    return remora
