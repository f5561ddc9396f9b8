"""Does `remora init` ask what matters, and does `remora up` wait until somebody has asked for something?"""

import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from remora.core.errors import ConfigurationError, Exit
from remora.operate.cli.asking import ask, told_cost
from tests.full_disk import files_limited_to
from tests.operate.command_line import CommandLine, command_line_in


@pytest.fixture
def remora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line_in(tmp_path, monkeypatch)


@click.command()
def asked() -> None:
    choice = ask(ceiling=None, store=None)
    click.echo(f"{choice.source} {choice.ceiling} {choice.store} {told_cost(choice)}")


@pytest.mark.parametrize("command", ["up", "catchup"])
def test_an_empty_folder_reads_no_real_source(remora: CommandLine, command: str) -> None:
    told = remora.refused(command)
    assert "nobody has said what to mirror" in told
    assert "`remora init`" in told


@pytest.mark.parametrize("words", [("verify",), ("store", "repair")])
def test_what_works_on_a_mirror_neither_makes_one_nor_asks_a_source(
    remora: CommandLine, words: tuple[str, ...]
) -> None:
    assert "there is no store at remora.db" in remora.refused(*words)
    assert list(remora.folder.iterdir()) == []


def test_three_answers_and_the_cost_before_anything_is_sent() -> None:
    said = CliRunner().invoke(asked, input="\n100/s\n\n").output
    assert "hackernews 100/s sqlite:///remora.db" in said
    assert "about 48,000,000 requests once, at least 5d 13h at 100/s, and about 30 GB of disk; nothing was sent" in said


def test_an_answer_that_makes_no_sense_is_asked_for_again() -> None:
    said = CliRunner().invoke(asked, input="My Source\nchats\nfast\n60/min\nremora.db\n\n").output
    assert "cannot be the name of a source" in said
    assert "chats 60/min sqlite:///remora.db it costs at most 1/s" in said


@pytest.mark.parametrize("options", [{"ceiling": "fast", "store": None}, {"ceiling": None, "store": "remora.db"}])
def test_an_option_that_makes_no_sense_is_refused_before_the_first_question(options: dict[str, str | None]) -> None:
    with pytest.raises(ConfigurationError):
        ask(**options)


def test_scripts_answer_with_options(remora: CommandLine) -> None:
    told = remora("init", "chats", "--ceiling", "30/min", "--store", "sqlite:///chats.db").stdout
    assert "43,200 requests a day" in told
    written = tomllib.loads((remora.folder / "remora.toml").read_text())
    assert written["store"]["url"] == "sqlite:///chats.db"
    assert written["sources"]["chats"]["ceiling"] == "30/min"


@pytest.mark.parametrize("name", ["hackernews", "chats", "github-issues"])
def test_what_is_written_says_what_was_chosen_whatever_signs_are_in_it(remora: CommandLine, name: str) -> None:
    store = r'sqlite:///the "old" C:\mirror {now}/ä.db'
    assert remora("init", name, "--ceiling", " 30/min\n", "--store", store).exit_code == 0
    written = tomllib.loads((remora.folder / "remora.toml").read_text("utf-8"))
    assert written["store"]["url"] == store
    assert "'ceiling': '30/min'" in str(written)


def test_a_store_that_is_no_single_line_writes_nothing(remora: CommandLine) -> None:
    assert "contains a line break" in remora.refused("init", "--store", "sqlite:///a\nb.db")


@pytest.mark.parametrize("words", [("--ceiling", "fast"), ("--store", "remora.db")])
def test_an_option_that_makes_no_sense_writes_nothing(remora: CommandLine, words: tuple[str, str]) -> None:
    assert words[1] in remora.refused("init", *words)


def test_a_configuration_that_meets_a_full_disk_is_not_there_and_the_same_command_writes_it(
    remora: CommandLine,
) -> None:
    with files_limited_to(100):
        failed = remora("init", "hackernews")
    assert failed.exit_code == Exit.FAILED
    assert "remora.toml cannot be written (File too large); free some space" in failed.stderr
    assert list(remora.folder.iterdir()) == [], "with an empty file `remora up` would read the real Hacker News"
    assert remora("init", "hackernews").exit_code == 0
