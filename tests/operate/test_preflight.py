"""Does `remora check` find what would only fail later? Each finding says what to write instead."""

import pytest

from tests.operate.command_line import CommandLine
from tests.unwritable import open_folder, unwritable


def notify(remora: CommandLine, line: str) -> None:
    (remora.folder / "remora.toml").write_text(f"[sources.hackernews]\n[notify]\n{line}\n")


def test_a_command_to_be_told_by_is_looked_for_where_it_will_be(remora: CommandLine) -> None:
    notify(remora, 'command = "sh -c true"')
    result = remora("check", "--offline")
    assert result.exit_code == 0, result.output
    assert "its command can be run" in result.stdout


@pytest.mark.parametrize("command", ["tell-me-if-you-can https://hooks.example/secret", "~/tell-me", "./tell-me"])
def test_a_command_that_is_not_there_is_bad_and_not_repeated(remora: CommandLine, command: str) -> None:
    notify(remora, f'command = "{command}"')
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "its command was not found" in result.stdout
    assert "write a whole path" in result.stdout
    assert "secret" not in result.stdout


def test_a_command_that_may_not_be_run_is_bad(remora: CommandLine) -> None:
    script = remora.folder / "tell-me"
    script.write_text("#!/bin/sh\n")
    notify(remora, f'command = "{script}"')
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "chmod +x" in result.stdout
    script.chmod(0o755)
    assert remora("check", "--offline").exit_code == 0


def test_words_to_look_for_without_a_command_tell_nobody(remora: CommandLine) -> None:
    notify(remora, 'search = "remora"')
    result = remora("check", "--offline")
    assert result.exit_code == 0
    assert "nobody is told" in result.stdout


def test_a_command_with_an_open_quote_is_refused_by_every_command(remora: CommandLine) -> None:
    notify(remora, """command = "tell 'me" """)
    for words in (("check", "--offline"), ("up", "--listen", "127.0.0.1:0")):
        assert "a quote that does not end" in remora.refused(*words)


def test_a_store_that_this_user_may_only_read_is_bad_to_start_with_and_good_to_look_at(
    remora: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_folder() as folder:
        monkeypatch.chdir(folder)
        assert remora("store", "migrate").exit_code == 0
        with unwritable(folder):
            result, status = remora("check", "--offline"), remora("status")
        monkeypatch.undo()
    assert result.exit_code == 1
    assert "can be read, but not written by this user" in result.stdout
    assert status.exit_code == 0, status.output
    assert "never started" in status.stdout


def test_a_folder_that_this_user_may_not_enter_is_no_bug(remora: CommandLine) -> None:
    with unwritable(remora.folder):
        result = remora("status")
    # Its owner may look into it, and finds that nothing is there; nobody else may.
    assert result.exit_code == 2
    assert result.stderr.startswith("remora: ")
