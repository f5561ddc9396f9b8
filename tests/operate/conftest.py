"""What do the tests of the operator's side share? A command line in an empty folder."""

from pathlib import Path

import pytest

from tests.operate.command_line import CommandLine, command_line_in


@pytest.fixture
def remora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """`remora`, run in an empty folder."""
    return command_line_in(tmp_path, monkeypatch)
