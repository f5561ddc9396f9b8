"""Does a command of the owner that takes too long leave anything behind? No program that it has started."""

from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.operate.config import credentials
from remora.operate.config.credentials import FromCommand
from remora.operate.observe import channels
from remora.operate.observe.channels import Notice, run_command
from tests.held_pipe import held_until_the_end

NOTICE = Notice(kind="test", source="remora", name="test", state="new", text="a test")


async def test_a_command_of_notify_that_hangs_ends_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "COMMAND_TIMEOUT_S", 1.0)
    async with held_until_the_end(tmp_path / "held") as held:
        assert await run_command(("sh", "-c", f"sleep 20 > {held}; true"), NOTICE) == "it took longer than 1 s"


@pytest.mark.parametrize("command", ["sleep 20 > {held}; true", "sleep 20 2> {held} & echo token"])
async def test_a_token_command_that_is_given_up_ends_with_what_it_has_started(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "COMMAND_MAX_S", 1.0)
    async with held_until_the_end(tmp_path / "held") as held:
        with pytest.raises(ConfigurationError, match="took longer"):
            await FromCommand("chats", f"sh -c '{command.format(held=held)}'").read()
