"""Is REMORA_SOURCE the same as --source, wherever that is an option?"""

import json

import pytest

from tests.operate.command_line import CommandLine, with_mirror
from tests.operate.test_mirror_commands import CHATS

READING = (("show", "chat-1"), ("export",), ("changes",), ("gaps",), ("status",), ("search", "penguin"))


@pytest.fixture
def mirror(remora: CommandLine) -> CommandLine:
    with_mirror(remora)
    (remora.folder / "remora.toml").write_text(
        CHATS.replace("[sources.hackernews]", '[sources.hackernews]\nurl = "http://127.0.0.1:9"')
    )
    remora("search", "--build")
    return remora


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_the_variable_says_the_same_as_the_option(
    mirror: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    named = mirror(*words, "--source", "chats")
    assert named.exit_code == 0, named.stderr
    monkeypatch.setenv("REMORA_SOURCE", "chats")
    by_variable = mirror(*words)
    assert by_variable.exit_code == 0, by_variable.stderr
    assert [line for line in by_variable.stdout.splitlines() if "hackernews" in line] == []
    if words[0] != "status":  # it tells how old things are
        assert by_variable.stdout == named.stdout


@pytest.mark.parametrize("words", [*READING, ("up",), ("import", "remora.toml")], ids=lambda words: words[0])
def test_an_unknown_source_in_the_variable_is_refused(
    mirror: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("REMORA_SOURCE", "nobody")
    refused = mirror(*words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "there is no source nobody" in refused.stderr


def test_what_the_command_line_names_wins_over_the_variable(
    mirror: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMORA_SOURCE", "chats")
    assert json.loads(mirror("show", "1", "--body", "--source", "hackernews").stdout)["id"] == 1
    told = json.loads(mirror("status", "hackernews", "--json").stdout)
    assert list(told["sources"]) == ["hackernews"]
    assert "both hackernews and --source chats are named" in mirror("status", "hackernews", "--source", "chats").stderr


def test_an_empty_variable_names_nothing(mirror: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mirror("changes").stdout
    monkeypatch.setenv("REMORA_SOURCE", "")
    assert mirror("changes").stdout == whole
